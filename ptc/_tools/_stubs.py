"""Python stubs of tools: typed signatures that a model reads.

Pure text from data: JSON Schema in, Python stubs out. A schema that cannot be converted becomes
``Any``, never an error: a tool with an odd schema is still a tool.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import overload

from ._stub_text import camel_case, clean, is_plain_name, one_line, python_literal, quote_docstring
from ._stub_types import (
    Classes,
    Schema,
    Types,
    has_default,
    list_at,
    properties_of,
    required_of,
)
from ._tool import Tool

__all__ = ["call_form", "is_method_name", "render_stubs"]

_DESCRIPTION_CHARS = 600
"""Most characters of a tool's description: whole paragraphs, and always the first."""
_PARAMETER_CHARS = 300
"""Most characters of the description of a parameter."""


@overload
def render_stubs(tools: Sequence[Tool]) -> str: ...
@overload
def render_stubs(tools: Sequence[Tool], most_chars: int) -> str | None: ...
def render_stubs(tools: Sequence[Tool], most_chars: int | None = None) -> str | None:
    """Render typed Python stubs of `tools`: classes of objects, then functions.

    The text is valid Python for any schema and description.

    Args:
        tools: The tools.
        most_chars: Characters above which the result is None, after no more work than that takes.
    """
    if most_chars is not None and sum(map(_least_chars, tools)) > most_chars:
        return None
    classes = Classes()
    functions: list[str] = []
    namespaces: dict[str, list[str]] = {}
    size = 0
    for tool in tools:
        namespace = tool.name.rpartition(".")[0] if is_method_name(tool.name) else ""
        group = namespaces.setdefault(namespace, []) if namespace else functions
        group.append(_render_function(tool, classes))
        size += len(group[-1])
        if most_chars is not None and size > most_chars:
            return None
    for namespace, group in namespaces.items():
        body = "\n\n".join(textwrap.indent(text, "    ") for text in group)
        functions.append(f"class {namespace}:  # ctx.{namespace}\n{body}")
    text = "\n\n".join([*classes.blocks, *functions])
    return None if most_chars is not None and len(text) > most_chars else text


def _least_chars(tool: Tool) -> int:
    """Return the fewest characters of a stub, without deriving the schemas of the tool."""
    return len(tool.name.rpartition(".")[2]) + len('async def () -> Any:\n    """"""')


def _render_function(tool: Tool, classes: Classes) -> str:
    types = Types(tool.parameters, camel_case(tool.name), classes)
    properties = properties_of(tool.parameters)
    lines = _trim_description(tool.description)
    if tool.side_effect:
        lines = [*lines, "", "It has side effects."]
    described = [_describe_argument(name, schema, types) for name, schema in properties.items()]
    if all(is_plain_name(name) for name in properties):
        signature = _render_signature(properties, required_of(tool.parameters), types)
        rows = [row for row, adds in described if adds]
    else:
        # A name such as "user-id" cannot be a keyword argument: the arguments go in one dict.
        signature = "arguments: dict[str, Any]"
        lines = [*lines, "", "Takes one dict of arguments."]
        rows = [row for row, _ in described]
    name = tool.name.rpartition(".")[2]
    if not is_method_name(tool.name):
        lines = [*lines, "", f"Call it as {call_form(tool.name)}."]
        name = re.sub(r"\W|^(?=\d)", "_", tool.name, flags=re.ASCII) + "_"
    if rows:
        lines = [*lines, "", "Args:", *(f"    {row}" for row in rows)]
    returns = "Any"
    if tool.result_schema is not None:
        results = Types(tool.result_schema, f"{camel_case(tool.name)}Result", classes)
        returns = results.of(tool.result_schema)
    docstring = "\n".join(f"    {line}" if line else "" for line in quote_docstring(lines))
    return f"async def {name}({signature}) -> {returns}:\n{docstring}"


def _render_signature(
    properties: Mapping[str, Schema], required: Sequence[str], types: Types
) -> str:
    parts: list[str] = []
    starred = False
    names = list(properties)
    for index, (name, schema) in enumerate(properties.items()):
        hint = f"{name}: {types.of(schema, name)}"
        if name in required:
            parts.append(hint)
            continue
        if not starred and any(later in required for later in names[index:]):
            # Python requires parameters without a default first, unless they are keyword-only.
            parts.append("*")
            starred = True
        default = python_literal(schema["default"]) if has_default(schema) else "..."
        parts.append(f"{hint} = {default}")
    return ", ".join(parts)


def _describe_argument(name: str, schema: Schema, types: Types) -> tuple[str, bool]:
    """Return a row of ``Args:``, and True if it adds to the signature."""
    text = (
        one_line(schema.get("description"), _PARAMETER_CHARS) if isinstance(schema, Mapping) else ""
    )
    bounds = _describe_bounds(schema)
    note = f"{text} ({bounds})" if text and bounds else text or bounds
    shown = name
    if not is_plain_name(name):
        shown = f"{json.dumps(name)} ({types.of(schema, name)})"
    return f"{shown}: {note}" if note else shown, bool(note)


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


def _describe_bounds(schema: Schema) -> str:
    """Describe the constraints of a schema that its Python type does not express."""
    branches = [
        schema,
        *list_at(schema, "anyOf"),
        *list_at(schema, "oneOf"),
        *list_at(schema, "allOf"),
    ]
    found: dict[str, None] = {}
    for branch in branches:
        for key, text in _BOUNDS.items():
            value = branch.get(key) if isinstance(branch, Mapping) else None
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                found[text.format(one_line(str(value), 80))] = None
    return ", ".join(found)


def _trim_description(description: str) -> list[str]:
    """Return the lines of a description: as many whole paragraphs as fit."""
    first, *others = re.split(r"\n\s*\n", description.strip())
    room = _DESCRIPTION_CHARS - len(first)
    if room < 0:
        first = first[:_DESCRIPTION_CHARS].rsplit(None, 1)[0] + " ..."
    chosen = [first]
    for paragraph in others:
        room -= len(paragraph)
        if room < 0:
            break
        chosen.append(paragraph)
    return clean("\n\n".join(chosen)).split("\n")


def is_method_name(name: str) -> bool:
    """True if a script can write ``ctx.<name>(...)``; other tools need `ctx.call`."""
    parts = name.split(".")
    return len(parts) <= 2 and all(is_plain_name(p) and not p.startswith("_") for p in parts)


def call_form(name: str) -> str:
    return f"ctx.{name}" if is_method_name(name) else f"ctx.call({json.dumps(name)}, {{...}})"
