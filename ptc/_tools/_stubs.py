"""What a model is told: the signatures of the tools and the rules of a script.

Pure text from data: JSON Schema in, Python stubs out. It knows neither sessions nor workers. A
schema it cannot read becomes ``Any``, never an error: a tool with an odd schema is still a tool.
"""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .._records._limits import Limits
from ._tool import Tool

__all__ = ["describe_program", "render_stubs"]

Schema: TypeAlias = Any
"""A JSON Schema: an object or a boolean. Raw schemas come from others: nothing is assumed of it."""

_DESCRIPTION_CHARS = 600
"""Characters of a tool's description; whole paragraphs, the first one in any case."""
_PARAMETER_CHARS = 300
"""Characters of what is said of one parameter."""
_FIELD_CHARS = 100
"""Characters of what is said of one field of an object."""
_STUBS_CHARS = 16_000
"""Stubs over this, about 4,000 tokens, are left out of what a model is told: it asks for those it
needs with `ctx.search_tools` and `ctx.describe`."""
_CATALOGUE_ROWS = 200
_MOST_LITERALS = 30
"""Values of an enum that are written out; with more of them the type is given."""
_MOST_CLASSES = 40
"""Classes of one tool; objects beyond are ``dict[str, Any]``. Some published schemas are huge."""
_MOST_DEPTH = 12
"""Nesting of types; deeper is ``Any``."""


def render_stubs(tools: Iterable[Tool]) -> str:
    """Typed Python stubs of `tools`, as a model reads them: classes of objects, then functions.

    The text is valid Python whatever the schemas and descriptions say.
    """
    classes = _Classes()
    functions: list[str] = []
    namespaces: dict[str, list[str]] = {}
    for tool in tools:
        namespace = tool.name.rpartition(".")[0] if _can_be_written(tool.name) else ""
        group = namespaces.setdefault(namespace, []) if namespace else functions
        group.append(_function(tool, classes))
    for namespace, group in namespaces.items():
        body = "\n\n".join(textwrap.indent(text, "    ") for text in group)
        functions.append(f"class {namespace}:  # ctx.{namespace}\n{body}")
    return "\n\n".join([*classes.blocks, *functions])


def describe_program(tools: Iterable[Tool], limits: Limits, modules: Sequence[str]) -> str:
    """The rules of a script for a model, then the stubs of the tools it may call.

    Args:
        tools: The tools of the run's allow-list.
        limits: Limits in force.
        modules: Names of the modules a script may import.
    """
    chosen = list(tools)
    stubs = render_stubs(chosen)
    if len(stubs) > _STUBS_CHARS:
        stubs = _catalogue(chosen)
    rules = "\n".join(f"- {rule}" for rule in _rules(chosen, limits, modules))
    text = (
        "A script is Python with one function, `async def run(ctx, inputs)`. `inputs` is the dict "
        "given with the script; what `run` returns is the result.\n\n"
        f"```python\n{_example(chosen)}\n```\n\n{rules}"
    )
    return f"{text}\n\nTools on ctx:\n\n```python\n{stubs}\n```" if chosen else text


def _catalogue(tools: Sequence[Tool]) -> str:
    """Names and first lines of many tools, as comments, and how to learn more of one."""
    rows = [
        f"# {_way_to(tool.name)}: {_one_line(tool.description.splitlines()[0], 100)}"
        for tool in tools[:_CATALOGUE_ROWS]
    ]
    if len(tools) > _CATALOGUE_ROWS:
        rows.append(f"# ... and {len(tools) - _CATALOGUE_ROWS:,} more")
    return "\n".join(
        [
            "# Too many tools to show their parameters. In a script:",
            "#   found = await ctx.search_tools('words of what it should do')  # [{name, summary}]",
            "#   print(await ctx.describe(found[0].name))  # its parameters and result",
            *rows,
        ]
    )


# --- rules --------------------------------------------------------------------------------------


def _rules(tools: Sequence[Tool], limits: Limits, modules: Sequence[str]) -> list[str]:
    calls = ["No tool is allowed: a script can only compute."]
    if tools:
        shown = next((tool.name for tool in tools if _can_be_written(tool.name)), "name")
        calls = [
            f"Tools are methods of ctx: `await ctx.{shown}(...)`. They give data (text, "
            "numbers, lists, objects), not JSON text: no json.loads. Objects of a result: "
            'row.field or row["field"]; an object as an argument is a dict.',
            "Independent calls overlap: await asyncio.gather(*calls). At most "
            f"{limits.max_in_flight} run at once, the others wait.",
            "A tool that fails raises ToolError (known without import), with code, message and "
            "retryable. Catch it where the rest is still of use.",
        ]
        if odd := [tool.name for tool in tools if not _can_be_written(tool.name)]:
            calls.insert(
                1,
                "A tool whose name is no Python name is called by its name, with one dict of "
                f"arguments: `await {_way_to(odd[0])}`.",
            )
    imports = "No module can be imported."
    if modules:
        listed = ", ".join(sorted(modules))
        imports = f"Only these standard modules can be imported, some in part: {listed}."
    return [
        *calls,
        "Return JSON-able data, and only what is needed: filter, count and join in the script.",
        "print(...) is for notes: the text is reported beside the result. ctx.emit(value) keeps "
        "a partial value that is reported even if the run fails later.",
        f"Limits: {_limits(limits, {tool.name for tool in tools})}. ctx.budget tells what is left: "
        ".tool_calls, .calls_by_tool, .time_ms, .stdout_bytes, .messages, .emits, .emit_bytes.",
        imports,
        "No files, network, processes, environment or other packages except through ctx. Nothing "
        "is kept between runs.",
    ]


def _limits(limits: Limits, tools: Set[str]) -> str:
    calls = "1 tool call" if limits.max_tool_calls == 1 else f"{limits.max_tool_calls:,} tool calls"
    by_tool = "".join(
        f"{name} at most {'once' if most == 1 else f'{most:,} times'}; "
        for name, most in limits.max_calls_by_tool.items()
        if name in tools
    )
    shorter = limits.max_cpu_ms < limits.timeout_ms
    cpu = f"{_seconds(limits.max_cpu_ms)} of CPU time; " if shorter else ""
    return (
        f"{_seconds(limits.timeout_ms)} for the run, tools included; {cpu}{calls} (the next one "
        f"raises ToolError with code limit_exceeded); {by_tool}"
        f"{_bytes(limits.max_output_bytes)} of JSON returned (more is cut); "
        f"{_bytes(limits.max_tool_result_bytes)} for one tool's result; "
        f"{_bytes(limits.max_stdout_bytes)} printed; {_bytes(limits.max_memory_bytes)} of memory"
    )


def _seconds(ms: int) -> str:
    return f"{ms // 1000:,} s" if ms % 1000 == 0 else f"{ms:,} ms"


def _bytes(number: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number % size == 0:
            return f"{number // size:,} {unit}"
    return f"{number:,} bytes"


def _example(tools: Sequence[Tool]) -> str:
    """A script that calls the first tool a single text can be given to: never one not allowed."""
    for tool in tools:
        properties, required = _properties(tool.parameters), _required(tool.parameters)
        texts = [n for n in required if _list_of_kinds(properties.get(n)) == ["string"]]
        usable = _can_be_written(tool.name) and all(map(_plain_name, texts))
        if len(required) == 1 and texts and usable:
            call = f"ctx.{tool.name}({texts[0]}=item)"
            return (
                "import asyncio\n\n"
                "async def run(ctx, inputs):\n"
                f'    results = await asyncio.gather(*({call} for item in inputs["items"]))\n'
                '    return {"found": sum(1 for result in results if result)}'
            )
    return 'async def run(ctx, inputs):\n    return {"total": sum(inputs["numbers"])}'


# --- stubs --------------------------------------------------------------------------------------


def _function(tool: Tool, classes: _Classes) -> str:
    types = _Types(tool.parameters, _camel(tool.name), classes)
    properties = _properties(tool.parameters)
    lines = _paragraphs(tool.description)
    if tool.side_effect:
        lines = [*lines, "", "It has side effects."]
    described = [_argument(name, schema, types) for name, schema in properties.items()]
    if all(_plain_name(name) for name in properties):
        signature = _signature(properties, _required(tool.parameters), types)
        rows = [row for row, told in described if told]
    else:
        # A name such as "user-id" is no keyword of Python: the arguments go in one dict.
        signature = "arguments: dict[str, Any]"
        lines = [*lines, "", "Takes one dict of arguments."]
        rows = [row for row, _ in described]
    name = tool.name.rpartition(".")[2]
    if not _can_be_written(tool.name):
        lines = [*lines, "", f"Called as {_way_to(tool.name)}."]
        name = re.sub(r"\W|^(?=\d)", "_", tool.name, flags=re.ASCII) + "_"
    if rows:
        lines = [*lines, "", "Args:", *(f"    {row}" for row in rows)]
    returns = "Any"
    if tool.result_schema is not None:
        results = _Types(tool.result_schema, f"{_camel(tool.name)}Result", classes)
        returns = results.of(tool.result_schema)
    docstring = "\n".join(f"    {line}" if line else "" for line in _quoted(lines))
    return f"async def {name}({signature}) -> {returns}:\n{docstring}"


def _signature(properties: Mapping[str, Schema], required: Sequence[str], types: _Types) -> str:
    parts: list[str] = []
    starred = False
    names = list(properties)
    for index, (name, schema) in enumerate(properties.items()):
        hint = f"{name}: {types.of(schema, name)}"
        if name in required:
            parts.append(hint)
            continue
        if not starred and any(later in required for later in names[index:]):
            # Python wants parameters without a default first, unless they are keyword-only.
            parts.append("*")
            starred = True
        default = _python(schema["default"]) if _has_default(schema) else "..."
        parts.append(f"{hint} = {default}")
    return ", ".join(parts)


def _argument(name: str, schema: Schema, types: _Types) -> tuple[str, bool]:
    """A row of ``Args:`` and whether it says anything that the signature does not."""
    text = (
        _one_line(schema.get("description"), _PARAMETER_CHARS)
        if isinstance(schema, Mapping)
        else ""
    )
    bounds = _bounds(schema)
    told = f"{text} ({bounds})" if text and bounds else text or bounds
    shown = name
    if not _plain_name(name):
        shown = f"{json.dumps(name)} ({types.of(schema, name)})"
    return f"{shown}: {told}" if told else shown, bool(told)


_BOUNDS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "format": "{}",
}


def _bounds(schema: Schema) -> str:
    """What a schema asks for that its Python type does not tell."""
    branches = [schema, *_list(schema, "anyOf"), *_list(schema, "oneOf"), *_list(schema, "allOf")]
    found: dict[str, None] = {}
    for branch in branches:
        for key, text in _BOUNDS.items():
            value = branch.get(key) if isinstance(branch, Mapping) else None
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                found[text.format(_one_line(str(value), 80))] = None
    return ", ".join(found)


def _paragraphs(description: str) -> list[str]:
    """Lines of a description: whole paragraphs as far as they fit."""
    first, *others = re.split(r"\n\s*\n", description.strip())
    room = _DESCRIPTION_CHARS - len(first)
    if room < 0:
        first = first[:_DESCRIPTION_CHARS].rsplit(None, 1)[0] + " ..."
    kept = [first]
    for paragraph in others:
        room -= len(paragraph)
        if room < 0:
            break
        kept.append(paragraph)
    return _clean("\n\n".join(kept)).split("\n")


def _quoted(lines: Sequence[str]) -> list[str]:
    """`lines` as a docstring that nothing in them can end."""
    text = "\n".join(lines).replace('"""', "'''")
    opening = 'r"""' if "\\" in text else '"""'
    rows = (opening + text).split("\n")
    # A closing mark on its own line cannot be taken by a last quote or backslash of the text.
    return [f'{rows[0]}"""'] if len(rows) == 1 and text[-1:] not in '"\\' else [*rows, '"""']


@dataclass(slots=True)
class _Classes:
    """Classes of all tools: one for each shape, no two with the same name."""

    blocks: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    def known(self, shape: str) -> str | None:
        """Name of the class of this shape, if there is one."""
        return self._names.get(shape)

    def claim(self, shape: str, name: str) -> str:
        """A name for a new shape: `name`, or with a number if another shape has it."""
        taken = set(self._names.values())
        chosen, number = name, 1
        while chosen in taken or chosen in _TAKEN:
            number += 1
            chosen = f"{name}{number}"
        self._names[shape] = chosen
        return chosen


_TAKEN = {"Any", "Literal", "NotRequired", "ToolError", "None", "True", "False"}


@dataclass(slots=True)
class _Types:
    """Python types of the schemas in one document."""

    document: Schema
    prefix: str
    classes: _Classes
    _made: int = 0
    _depth: int = 0
    _resolving: list[str] = field(default_factory=list)

    def of(self, schema: Schema, hint: str = "") -> str:
        """The type of `schema`; `hint` names the class of an object that has no name."""
        found = dict.fromkeys(self._alternatives(schema, hint))
        if "Any" in found or not found:
            return "Any"
        ordered = [item for item in found if item != "None"]
        return " | ".join([*ordered, "None"] if "None" in found else ordered)

    def _alternatives(self, schema: Schema, hint: str) -> list[str]:
        if self._depth >= _MOST_DEPTH or not isinstance(schema, Mapping):
            return ["Any"]
        self._depth += 1
        try:
            return self._branches(schema, hint)
        finally:
            self._depth -= 1

    def _branches(self, schema: Mapping[str, Any], hint: str) -> list[str]:
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), hint)
        if "const" in schema or isinstance(schema.get("enum"), list):
            return _literal([schema["const"]] if "const" in schema else schema["enum"])
        if branches := [*_list(schema, "anyOf"), *_list(schema, "oneOf")]:
            return [item for branch in branches for item in self._alternatives(branch, hint)]
        parts = _list(schema, "allOf")
        if len(parts) == 1 and "properties" not in schema:
            return self._alternatives(parts[0], hint)
        if parts:
            return [self._merged(schema, parts, hint)]
        kinds = _list_of_kinds(schema) or [""]
        return [self._kind(kind, schema, hint) for kind in kinds]

    def _kind(self, kind: str, schema: Mapping[str, Any], hint: str) -> str:
        if kind == "array":
            return self._array(schema, hint)
        if kind == "object" or (not kind and _properties(schema)):
            return self._object(schema, hint)
        return _SCALARS.get(kind, "Any")

    def _array(self, schema: Mapping[str, Any], hint: str) -> str:
        prefix = _list(schema, "prefixItems")
        if prefix:
            return f"tuple[{', '.join(self.of(item, hint) for item in prefix)}]"
        item = self.of(schema.get("items"), f"{hint}_item" if hint else "item")
        return f"list[{item}]"

    def _object(self, schema: Mapping[str, Any], hint: str) -> str:
        if not _properties(schema):
            value = schema.get("additionalProperties")
            return f"dict[str, {self.of(value, hint)}]"
        return self._class(schema, f"{self.prefix}{_camel(hint)}")

    def _merged(self, schema: Mapping[str, Any], parts: Sequence[Schema], hint: str) -> str:
        """An ``allOf`` of objects as one object."""
        properties: dict[str, Any] = {}
        required: list[Any] = []
        for part in [*map(self._target, parts), schema]:
            properties.update(_properties(part))
            required += _list(part, "required")
        if not properties:
            return "Any"
        merged = {"type": "object", "properties": properties, "required": required}
        return self._class(merged, f"{self.prefix}{_camel(hint)}")

    def _reference(self, reference: str, hint: str) -> list[str]:
        target = self._target({"$ref": reference})
        name = _camel(reference.rpartition("/")[2])
        if name and _properties(target) and not {"anyOf", "oneOf", "allOf"} & set(target):
            return [self._class(target, name)]
        if reference in self._resolving:
            return ["Any"]
        self._resolving.append(reference)
        try:
            return self._alternatives(target, hint)
        finally:
            self._resolving.pop()

    def _target(self, schema: Schema) -> Schema:
        """What a ``$ref`` into the document names; other schemas as they are."""
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        node: Any = self.document
        first, *steps = str(schema["$ref"]).split("/")
        if first != "#":
            return None
        for step in steps:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or key not in node:
                return None
            node = node[key]
        return node

    def _class(self, schema: Mapping[str, Any], name: str) -> str:
        shape = json.dumps([schema, self._reachable(schema)], sort_keys=True, default=_plain)
        if (known := self.classes.known(shape)) is not None:
            return known
        if self._made >= _MOST_CLASSES:
            return "dict[str, Any]"
        self._made += 1
        name = self.classes.claim(shape, name)
        required = _required(schema)
        rows = [self._field(key, sub, key in required) for key, sub in _properties(schema).items()]
        if all(row.startswith("#") for row in rows):
            rows.append("...")
        text = _one_line(schema.get("description"), _PARAMETER_CHARS)
        head = [f"class {name}:", *(f"    {line}" for line in (_quoted([text]) if text else ()))]
        # Classes it refers to have been added before it.
        self.classes.blocks.append("\n".join([*head, *(f"    {row}" for row in rows)]))
        return name

    def _field(self, key: str, schema: Schema, required: bool) -> str:
        hint = self.of(schema, key)
        text = (
            _one_line(schema.get("description"), _FIELD_CHARS)
            if isinstance(schema, Mapping)
            else ""
        )
        note = f"  # {text}" if text else ""
        if not _plain_name(key):
            return f"# [{json.dumps(key)}]: {hint}{note}"
        if required:
            return f"{key}: {hint}{note}"
        if _has_default(schema):
            return f"{key}: {hint} = {_python(schema['default'])}{note}"
        return f"{key}: NotRequired[{hint}]{note}"

    def _reachable(self, schema: Schema) -> dict[str, Any]:
        """Definitions that a schema leads to: two shapes are one only if these are the same."""
        found: dict[str, Any] = {}
        todo = [schema]
        while todo:
            node = todo.pop()
            if isinstance(node, Mapping):
                reference = node.get("$ref")
                if isinstance(reference, str) and reference not in found:
                    found[reference] = self._target({"$ref": reference})
                    todo.append(found[reference])
                todo.extend(node.values())
            elif isinstance(node, list):
                todo.extend(node)
        return found


_SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


def _literal(values: Sequence[object]) -> list[str]:
    """``Literal[...]`` of an enum, or the types of its values if it is long or has others."""
    kinds = {str: "str", int: "int", bool: "bool", type(None): "None"}
    if not values or any(type(value) not in kinds for value in values):
        return ["Any"]
    named = [value for value in values if value is not None]
    if len(values) > _MOST_LITERALS:
        types = [kinds[type(value)] for value in values]
    else:
        types = [f"Literal[{', '.join(_python(value) for value in named)}]"] if named else []
    return types if len(named) == len(values) else [*types, "None"]


def _python(value: Any) -> str:
    """JSON data as a Python expression; text with double quotes, as models write it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_python(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_python(k)}: {_python(v)}' for k, v in value.items())}}}"
    return repr(value) if isinstance(value, bool | int | float) or value is None else "..."


def _has_default(schema: Schema) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _list(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key) if isinstance(schema, Mapping) else None
    return value if isinstance(value, list) else []


def _properties(schema: Schema) -> dict[str, Any]:
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def _required(schema: Schema) -> list[str]:
    return [name for name in _list(schema, "required") if isinstance(name, str)]


def _list_of_kinds(schema: Schema) -> list[str]:
    """The ``type`` of a schema: one name or several."""
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    listed = kinds if isinstance(kinds, list) else [kinds]
    return [kind for kind in listed if isinstance(kind, str)]


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _plain_name(name: str) -> bool:
    """True if Python can write it as a name, and no character of it looks like another."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _can_be_written(name: str) -> bool:
    """True if a script can write ``ctx.<name>(...)``; others it calls with `ctx.call`."""
    parts = name.split(".")
    return len(parts) <= 2 and all(_plain_name(p) and not p.startswith("_") for p in parts)


def _way_to(name: str) -> str:
    return f"ctx.{name}" if _can_be_written(name) else f"ctx.call({json.dumps(name)}, {{...}})"


def _camel(name: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return f"_{joined}" if joined[:1].isdigit() else joined


def _clean(text: str) -> str:
    """`text` without characters that could hide or move what a model reads."""
    return "".join(c for c in text.expandtabs(4) if c == "\n" or c.isprintable())


def _one_line(text: object, most: int) -> str:
    line = _clean(" ".join(text.split())) if isinstance(text, str) else ""
    return line if len(line) <= most else f"{line[: most - 3]}..."
