"""Definition of tools: schemas from hints, checks of arguments, what is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from ptc import ToolContext, ToolError, ToolResult, Toolset, UsageError, define_tool, tool
from ptc._tools._toolset import collect


@tool
async def search(
    ctx: ToolContext,
    query: str,
    kind: Literal["file", "dir"] = "file",
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    title: str | None = None,
) -> list[str]:
    """Find things.

    Longer text.

    Args:
        query: What to look for,
            in words.
        limit: At most so many.

    Returns:
        Names.
    """
    return [f"{query} {kind} {limit} {title} {ctx.tool_name}"]


def test_hints_and_docstring_become_the_definition() -> None:
    assert search.definition == {
        "name": "search",
        "description": "Find things.\n\nLonger text.",
        "parameters": {
            "additionalProperties": False,
            "type": "object",
            "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "What to look for, in words."},
                "kind": {"type": "string", "enum": ["file", "dir"], "default": "file"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 50,
                    "default": 10,
                    "description": "At most so many.",
                },
                "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
        },
    }
    assert search.result_schema == {"type": "array", "items": {"type": "string"}}
    assert search.context_parameter == "ctx"
    assert search.is_async


def test_valid_arguments_are_parsed_and_get_their_defaults() -> None:
    assert search.validate({"query": "a", "limit": "7"}) == {
        "query": "a",
        "kind": "file",
        "limit": 7,
        "title": None,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "search: `query` is required"),
        ({"qeury": "a"}, "search: `query` is required; unknown argument `qeury` (did you mean"),
        ({"query": "a", "limit": 0}, "search: `limit`: Input should be greater than or equal to 1"),
        ({"query": "a", "kind": "x"}, "search: `kind`: Input should be 'file' or 'dir', got 'x'"),
        (
            {"query": "a", "ctx": 1},
            "unknown argument `ctx` (there are `query`, `kind`, `limit`, `title`)",
        ),
    ],
)
def test_invalid_arguments_are_reported_individually(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolError) as caught:
        search.validate(arguments)
    assert message in caught.value.message
    assert caught.value.code == "invalid_arguments"
    assert caught.value.tool == "search"


SCHEMA = {
    "type": "object",
    "properties": {"when": {"type": "string", "format": "date"}, "n": {"type": "integer"}},
    "required": ["when"],
    "additionalProperties": False,
}


def test_a_raw_schema_is_enforced_with_its_formats() -> None:
    raw = define_tool("raw", "Raw.", SCHEMA, lambda args: args)
    assert raw.validate({"when": "2026-01-02"}) == {"when": "2026-01-02"}
    for bad in ({"when": "31st of Nope"}, {"n": 1}, {"when": "2026-01-02", "nn": 1}):
        with pytest.raises(ToolError, match=r"^raw: "):
            raw.validate(bad)


def test_lone_surrogate_is_an_invalid_argument_of_a_raw_schema() -> None:
    raw = define_tool("raw", "Raw.", SCHEMA, lambda args: args)
    for wrong in ({"to": "\ud800"}, {"\ud800": 1}):
        with pytest.raises(ToolError, match="lone surrogate") as caught:
            raw.validate(wrong)
        assert caught.value.code == "invalid_arguments"


def test_invalid_schema_is_refused_at_definition() -> None:
    with pytest.raises(UsageError, match='must be a JSON Schema with "type": "object"'):
        define_tool("x", "X.", {"type": "array"}, lambda args: args)
    with pytest.raises(UsageError, match="not a valid JSON Schema"):
        define_tool("x", "X.", {"type": "object", "properties": 3}, lambda args: args)


def test_parameter_without_a_schema_is_refused_at_definition() -> None:
    def untyped(x):  # type: ignore[no-untyped-def]  # the point of the test
        """Do."""

    def variadic(*things: int) -> None:
        """Do."""

    def live(done: Callable[[int], int]) -> None:
        """Do."""

    class Opaque:
        pass

    def opaque(x: Opaque) -> None:
        """Do."""

    for function, message in (
        (untyped, "parameter `x` has no type hint"),
        (variadic, r"parameter `\*things` has no schema"),
        (live, "has no JSON Schema"),
        (opaque, "has no JSON Schema|cannot be resolved"),
    ):
        with pytest.raises(UsageError, match=message):
            tool(function)


def test_blank_description_and_reserved_name_are_refused() -> None:
    def blank() -> None: ...

    for description in (None, "", "  \n"):
        with pytest.raises(UsageError, match="needs a description"):
            tool(name="blank", description=description)(blank)
    for name in ("call", "emit", "log.this"):
        with pytest.raises(UsageError, match="reserved for ctx"):
            tool(name=name, description="D.")(blank)
    for name in ("", "a\nb", "x" * 257):
        with pytest.raises(UsageError, match="tool name"):
            tool(name=name, description="D.")(blank)


@pytest.mark.parametrize("name", ["9a", "a-b", "a b", "x" * 65, "é", "_private", "a.b.c"])
def test_unusual_tool_name_warns_and_works(name: str) -> None:
    with pytest.warns(
        UserWarning, match=r"cannot be a method of ctx; a script calls it with ctx\.call"
    ) as caught:
        made = tool(name=name, description="D.")(lambda: 7)
    assert caught[0].filename == __file__
    assert collect([made])[name].validate({}) == {}


def test_a_name_that_is_not_snake_case_warns() -> None:
    with pytest.warns(UserWarning, match="not snake_case"):
        tool(name="sendEmail", description="D.")(lambda: None)


def test_duplicate_tools_are_refused_and_functions_are_accepted() -> None:
    def plain(a: int) -> int:
        """Double."""
        return 2 * a

    assert list(collect([plain, search])) == ["plain", "search"]
    with pytest.raises(UsageError, match="two tools are named 'search'"):
        collect([search, Toolset("more", (search,))])
    with pytest.raises(UsageError, match="is not a tool"):
        collect([3])


def test_an_object_whose_call_is_async_is_an_async_tool() -> None:
    class Caller:
        async def __call__(self, args: dict[str, Any]) -> int:
            return 1

    assert define_tool("c", "C.", {"type": "object"}, Caller()).is_async
    assert not define_tool("d", "D.", {"type": "object"}, functools.partial(dict)).is_async


def test_tool_result_has_a_value_or_an_error_and_text() -> None:
    assert ToolResult("t", value=[1, 2]).text == "[1,2]"
    assert ToolResult("t", value="as it is").text == "as it is"
    failed = ToolResult("t", error=ToolError("no such file", code="not_found", retryable=True))
    assert failed.text == "Error [not_found] (retryable): no such file"
    assert not failed.ok
    with pytest.raises(ToolError, match="no such file"):
        failed.unwrap()


def test_tool_with_side_effects_is_idempotent_only_if_declared() -> None:
    @tool(side_effect=True)
    async def send(ctx: ToolContext) -> None:
        """Send."""

    @tool(side_effect=True, idempotent=True)
    async def put() -> None:
        """Put."""

    @tool
    async def look() -> None:
        """Look."""

    assert [t.idempotent for t in (send, put, look)] == [False, True, True]
