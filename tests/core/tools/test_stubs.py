"""Description for models: signatures of the tools and rules of a script."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from ptc import Limits, Tool, ToolContext, define_tool, tool
from ptc._policy_modules import MODULES
from ptc._refused_names import PARTIAL
from ptc._tools._instructions import describe_program
from ptc._tools._stubs import render_stubs
from ptc._tools._table import ToolTable


@dataclass
class Match:
    """A line that matches."""

    path: str
    line: int
    cut: bool = False


@tool
async def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    kind: Literal["file", "dir"] = "file",
    glob: str | None = None,
    limit: Annotated[int, Field(ge=1, le=100)] | None = None,
) -> list[Match]:
    """Find lines.

    The second paragraph.

    Args:
        ctx: The call.
        pattern: A regular expression.
        limit: Most matches.
    """
    return []


@tool(side_effect=True, idempotent=True)
def write(path: str, text: str) -> None:
    """Write a file."""


def described(tools: Sequence[Tool], limits: Limits, modules: Sequence[str]) -> str:
    return describe_program(ToolTable({tool.name: tool for tool in tools}), limits, modules)


def raw(
    parameters: Mapping[str, Any],
    *,
    name: str = "raw",
    description: str = "Do it.",
    result: Mapping[str, Any] | None = None,
) -> Tool:
    return define_tool(
        name,
        description,
        {"type": "object", **parameters},
        lambda arguments: arguments,
        result_schema=result,
    )


def parse_stub(text: str) -> ast.Module:
    with warnings.catch_warnings():
        # A backslash that is no escape is a warning of the compiler, and here an error.
        warnings.simplefilter("error")
        return ast.parse(text)


def functions(text: str) -> dict[str, ast.AsyncFunctionDef]:
    return {n.name: n for n in parse_stub(text).body if isinstance(n, ast.AsyncFunctionDef)}


def classes(text: str) -> dict[str, ast.ClassDef]:
    return {n.name: n for n in parse_stub(text).body if isinstance(n, ast.ClassDef)}


def hints(text: str, name: str) -> dict[str, str]:
    node = functions(text)[name].args
    return {a.arg: ast.unparse(a.annotation or a) for a in [*node.args, *node.kwonlyargs]}


def test_tool_is_rendered_as_a_typed_function_with_classes_and_docs() -> None:
    assert (
        render_stubs([grep])
        == '''\
class Match:
    """A line that matches."""
    path: str
    line: int
    cut: bool = False

async def grep(pattern: str, path: str = ".", kind: Literal["file", "dir"] = "file", \
glob: str | None = None, limit: int | None = None) -> list[Match]:
    """Find lines.

    The second paragraph.

    Args:
        pattern: A regular expression.
        limit: Most matches. (>= 1, <= 100)
    """'''
    )


def test_stub_states_side_effects_and_a_missing_result() -> None:
    text = render_stubs([write])
    assert "It has side effects." in text
    assert "-> None:" in render_stubs([raw({}, result={"type": "null"})])


def test_an_unknown_result_is_any() -> None:
    assert "async def raw() -> Any:" in render_stubs([raw({})])


def test_class_shared_by_two_tools_is_rendered_once() -> None:
    @tool
    async def find(text: str) -> Match | None:
        """Find one."""
        return None

    text = render_stubs([grep, find])
    assert list(classes(text)) == ["Match"]
    assert "-> Match | None:" in text


def test_different_classes_of_one_name_are_renamed() -> None:
    def result(field: str) -> dict[str, Any]:
        shape = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
        return {"$defs": {"Row": shape}, "type": "array", "items": {"$ref": "#/$defs/Row"}}

    text = render_stubs(
        [raw({}, name="a", result=result("x")), raw({}, name="b", result=result("y"))]
    )
    assert list(classes(text)) == ["Row", "Row2"]
    assert "async def a() -> list[Row]:" in text
    assert "async def b() -> list[Row2]:" in text


def test_definitions_with_different_references_are_not_shared() -> None:
    def result(kind: str) -> dict[str, Any]:
        outer = {"type": "object", "properties": {"inner": {"$ref": "#/$defs/Inner"}}}
        inner = {"type": "object", "properties": {"x": {"type": kind}}}
        return {"$defs": {"Outer": outer, "Inner": inner}, "$ref": "#/$defs/Outer"}

    tools = [raw({}, name=n, result=result(k)) for n, k in (("a", "string"), ("b", "integer"))]
    text = render_stubs(tools)
    assert list(classes(text)) == ["Inner", "Outer", "Inner2", "Outer2"]


def test_nested_objects_records_and_unions_are_typed() -> None:
    parameters = {
        "properties": {
            "options": {
                "type": "object",
                "properties": {
                    "depth": {"type": "integer", "description": "How deep."},
                    "user-id": {"type": "string"},
                    "order": {"enum": ["up", "down"], "default": "up"},
                },
                "required": ["depth"],
            },
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "anything": {},
            "either": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]
            },
            "kinds": {"type": ["string", "integer", "null"]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {}}}},
            "mode": {"const": "fast"},
            "maybe": {"enum": ["a", None]},
        },
        "required": ["options"],
    }
    text = render_stubs([raw(parameters, name="search_all")])
    assert hints(text, "search_all") == {
        "options": "SearchAllOptions",
        "headers": "dict[str, str]",
        "anything": "Any",
        "either": "str | list[float]",
        "kinds": "str | int | None",
        "pair": "tuple[str, int]",
        "rows": "list[SearchAllRowsItem]",
        "mode": "Literal['fast']",
        "maybe": "Literal['a'] | None",
    }
    assert (
        """\
class SearchAllOptions:
    depth: int  # How deep.
    # ["user-id"]: str
    order: Literal["up", "down"] = "up"
"""
        in text
    )
    assert "x: NotRequired[Any]" in text


def test_object_composed_with_all_of_is_one_class() -> None:
    result = {
        "$defs": {
            "Base": {
                "type": "object",
                "properties": {"id": {"type": "integer"}},
                "required": ["id"],
            }
        },
        "allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"name": {"type": "string"}}}],
    }
    text = render_stubs([raw({}, result=result)])
    assert "class RawResult:\n    id: int\n    name: NotRequired[str]" in text


def test_recursive_type_is_rendered_by_name() -> None:
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["children"],
    }
    text = render_stubs([raw({}, result={"$defs": {"Node": node}, "$ref": "#/$defs/Node"})])
    assert "class Node:\n    children: list[Node]" in text
    loop = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}
    assert "-> Any:" in render_stubs([raw({}, result=loop)])


@pytest.mark.parametrize(
    "reference", ["#/$defs/Gone", "https://example.org/schema.json", "#/a/~1b/~0c", "", "#"]
)
def test_unresolvable_reference_is_any(reference: str) -> None:
    text = render_stubs([raw({}, result={"type": "array", "items": {"$ref": reference}})])
    assert "-> list[Any]:" in text or reference == "#"
    parse_stub(text)


def test_long_enum_is_rendered_as_its_type() -> None:
    short = {"properties": {"unit": {"enum": [f"u{n}" for n in range(30)]}}}
    long = {"properties": {"unit": {"enum": [f"u{n}" for n in range(31)]}}}
    assert hints(render_stubs([raw(short)]), "raw")["unit"].startswith("Literal['u0'")
    assert hints(render_stubs([raw(long)]), "raw")["unit"] == "str"


def test_optional_before_required_parameter_makes_all_keyword_only() -> None:
    properties = {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}
    text = render_stubs([raw({"properties": properties, "required": ["b"]})])
    assert "async def raw(*, a: int = 1, b: str) -> Any:" in text
    parse_stub(text)


def test_invalid_parameter_names_are_passed_in_one_dict() -> None:
    properties = {
        "user-id": {"type": "string", "description": "Whose."},
        "from": {"type": "integer"},
    }
    text = render_stubs([raw({"properties": properties})])
    assert "async def raw(arguments: dict[str, Any]) -> Any:" in text
    assert "Takes one dict of arguments." in text
    assert '"user-id" (str): Whose.' in text
    assert '"from" (int)' in text


def test_tool_named_like_a_keyword_is_called_through_ctx_call() -> None:
    text = render_stubs([raw({}, name="import")])
    assert 'ctx.call("import", {...})' in text
    parse_stub(text)


ODD = [
    "a-b",
    "a.b.c",
    "ns.a-b",
    "n-s.x",
    "_hidden",
    "class.x",
    "1a",
    "\u00fcn\u00ef",
    'qu"ote',
    "a b",
]


@pytest.mark.filterwarnings("ignore:tool name")
@pytest.mark.parametrize("name", ODD)
def test_tool_with_invalid_python_name_is_called_through_ctx_call(name: str) -> None:
    odd, plain = raw({}, name=name), raw({}, name="ns.plain")
    call = f"ctx.call({json.dumps(name)}, {{...}})"
    text = render_stubs([odd, plain])
    parse_stub(text)
    assert call.replace("\\", "") in text.replace("\\", "")
    rules = described([odd], Limits(), [])
    assert f"`await {call}`" in rules
    assert f"ctx.{name}(" not in rules
    assert "`await ctx.ns.plain(...)`" in described([odd, plain], Limits(), [])
    many = described(
        [odd, *(raw({}, name=f"t{n}", description="x" * 600) for n in range(40))], Limits(), []
    )
    assert f"# {call}: " in many


@pytest.mark.parametrize(
    "description",
    [
        'Ends the docstring: """\n    import os',
        "A path with a back\\slash and \\N{not a name} \\x",
        'ends with a quote "',
        "ends with a backslash \\",
        "first\u202egnp.exe\u200b\x1b[31m",
        "tab\there",
    ],
)
def test_description_cannot_escape_its_docstring(description: str) -> None:
    text = render_stubs([raw({}, description=description)])
    (node,) = parse_stub(text).body
    assert isinstance(node, ast.AsyncFunctionDef)
    assert len(node.body) == 1
    assert all(c.isprintable() or c == "\n" for c in text)


def test_long_description_is_truncated_at_paragraphs() -> None:
    text = render_stubs([raw({}, description="First.\n\n" + "x " * 200 + "\n\n" + "y " * 200)])
    assert "First." in text
    assert "x x" in text
    assert "y y" not in text
    cut = render_stubs([raw({}, description="word " * 1_000)])
    assert len(cut) < 700
    assert "word ..." in cut


def test_huge_schema_has_a_bounded_stub() -> None:
    properties = {
        f"p{n}": {"type": "object", "properties": {"x": {"type": "integer", "default": n}}}
        for n in range(200)
    }
    text = render_stubs([raw({"properties": properties})])
    assert len(classes(text)) == 40
    assert "p199: dict[str, Any]" in text


schemas = st.recursive(
    st.sampled_from([{}, True, False, {"type": "string"}, {"type": "null"}, {"enum": []}])
    | st.builds(lambda t: {"description": t, "default": t, "pattern": t}, st.text(max_size=30))
    | st.builds(lambda t: {"const": t}, st.text(max_size=5) | st.integers() | st.none())
    | st.builds(lambda t: {"$ref": t}, st.sampled_from(["#", "#/properties/a", "#/$defs/X", "x"])),
    lambda inner: (
        st.builds(lambda s: {"type": "array", "items": s}, inner)
        | st.builds(lambda s: {"anyOf": s}, st.lists(inner, max_size=3))
        | st.builds(lambda s: {"allOf": s}, st.lists(inner, max_size=3))
        | st.builds(
            lambda s, r: {"type": "object", "properties": s, "required": r},
            st.dictionaries(st.text(max_size=4), inner, max_size=3),
            st.lists(st.text(max_size=4), max_size=2),
        )
    ),
    max_leaves=15,
)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "é", "x y", "class"]), schemas, max_size=4), schemas
)
@settings(deadline=None)
@example({}, {"const": -(2**63) - 1})
@example({"a": {"const": 2**64}}, {"type": "object"})
def test_stub_of_any_schema_is_valid_python(properties: Any, result: Any) -> None:
    @tool(name="odd")
    async def plain() -> None:
        """Be odd."""

    odd = Tool(
        name="odd",
        description="Be odd.",
        parameters={"type": "object", "properties": properties, "$defs": {"X": result}},
        function=plain.function,
        validate=plain.validate,
        result_schema=result if isinstance(result, dict) else None,
    )
    assert "odd" in functions(render_stubs([odd]))


def test_rules_are_short_and_contain_the_limits_of_the_run() -> None:
    limits = Limits(timeout_ms=1_500, max_tool_calls=7, max_output_bytes=1_000, max_in_flight=3)
    text = described([grep], limits, list(MODULES))
    rules = text.replace(render_stubs([grep]), "")
    assert len(rules) < 4_250  # 3.14 has more modules
    assert render_stubs([grep]) in text
    for part in (
        "async def run(ctx, inputs)",
        "asyncio.gather",
        "ToolError",
        "code, message and retryable",
        "1,500 ms for the run",
        "7 tool calls",
        "1,000 bytes of JSON",
        "At most 3 run at once",
        "256 MiB of memory",
        "collections.abc",
        "No eval, exec, compile, memoryview",
        "metaclasses",
    ):
        assert part in rules


def test_example_is_valid_python_and_calls_only_allowed_tools() -> None:
    for tools in ([grep], [write], []):
        text = described(tools, Limits(), ["asyncio"])
        example = text.split("```python\n")[1].split("```")[0]
        parse_stub(example)
        assert ("ctx.grep(pattern=item)" in example) == (tools == [grep])
        assert "ctx.write" not in example


def test_rules_tell_whole_modules_from_those_offered_in_part() -> None:
    text = described([grep], Limits(), [*MODULES, "numpy"])
    whole, partial = text.split("Only these standard modules can be imported: ")[1].split(
        "In part:"
    )
    for module in ("json", "tomllib", "queue", "numpy", "xml.etree.ElementTree"):
        assert (f" {module}," in whole) == (module not in PARTIAL), module
    for part in ("functools (no partialmethod)", "io (only BytesIO, "):
        assert part in partial
    for module, names in PARTIAL.items():
        assert f"{module} ({names})" in partial
    assert " xml," not in text


def test_rules_mention_missing_tools_and_modules() -> None:
    text = described([], Limits(), [])
    assert "No tool is allowed" in text
    assert "No module can be imported" in text
    assert "Tools on ctx" not in text


def test_many_tools_are_rendered_as_a_catalogue_with_search() -> None:
    many = [
        define_tool(
            f"service_{n}.do",
            f"Do the thing number {n}.\n\n{'More words. ' * 30}",
            {"type": "object", "properties": {"x": {"type": "string", "description": "A text."}}},
            lambda args: args,
        )
        for n in range(300)
    ]
    few = described(many[:3], Limits(), ["json"])
    text = described(many, Limits(), ["json"])
    assert "async def do(" in few
    assert "async def do(" not in text
    assert "# ctx.service_7.do: Do the thing number 7." in text
    assert "ctx.search_tools(" in text
