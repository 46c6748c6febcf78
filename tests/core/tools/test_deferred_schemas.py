"""Schemas of functions: derived when they are first needed, unless that can fail."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from ptc import Tool, ToolError, Toolset, UsageError, tool
from ptc._core._deferred import Deferred, peek
from ptc._schema._bounds import Bounds
from ptc._schema._check import SignatureSchema
from ptc._schema._plain_hints import is_plain_hint


class Point(BaseModel):
    """A model of two numbers."""

    x: int
    y: int


@dataclasses.dataclass
class Corner:
    """A corner of a shape."""

    name: Annotated[str, Field(max_length=9)]
    sizes: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Day:
    """A day."""

    day: date


@dataclasses.dataclass
class Shown:
    """A text that has another schema."""

    text: str

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return the schema of an integer."""
        return handler(int)


@dataclasses.dataclass
class Node:
    """A list of nodes."""

    nodes: list[Node]


@dataclasses.dataclass
class Wide(Corner):
    """A corner with a width."""

    width: int = 0


@dataclasses.dataclass
class Made:
    """A text that is made from a date."""

    day: dataclasses.InitVar[date]
    text: str = ""


ORIGIN = [Point(x=0, y=0)]
PLAIN: dict[str, Any] = {
    "text": str,
    "optional": int | None,
    "union": int | str | None,
    "list": list[dict[str, bool]],
    "dict": dict[str, Any],
    "literal": Literal["a", 1, True, None],
    "described": Annotated[str, Field(description="A text.", examples=["x"])],
    "bounded": Annotated[int, Field(ge=1, lt=100, description="A number.")],
    "length": Annotated[str, Field(min_length=1, max_length=9)],
    "pattern": Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", min_length=1)],
    "number of items": Annotated[list[str], Field(min_length=1, max_length=9)],
    "dataclass": Corner,
    "dict of names": Annotated[
        dict[Annotated[str, Field(pattern="^[a-z][a-z0-9]*$")], str], Field(max_length=3)
    ],
    "nested": list[Annotated[float, Field(gt=0.5)]],
}
UNCERTAIN: dict[str, Any] = {
    "any": Any,
    "date": date,
    "model": Point,
    "bytes": bytes,
    "bare list": list,
    "tuple": tuple[int, str],
    "integer keys": dict[int, str],
    "pattern": Annotated[str, Field(pattern="(")],
    "pattern with a wrong range": Annotated[str, Field(pattern="[z-a]")],
    "pattern of a number": Annotated[int, Field(pattern=r"^\S$")],
    "dataclass of dates": Day,
    "dataclass with a schema of its own": Shown,
    "dataclass that contains itself": Node,
    "dataclass with a class above it": Wide,
    "dataclass with an argument that is no field": Made,
    "alias": Annotated[str, Field(alias="other")],
    "bound of text": Annotated[str, Field(ge=1)],
    "fraction for an integer": Annotated[int, Field(ge=1.5)],
    "negative length": Annotated[str, Field(min_length=-1)],
    "other metadata": Annotated[str, "x"],
    "deep": list[list[list[list[list[list[list[int]]]]]]],
}


@pytest.mark.parametrize("name", PLAIN)
def test_schema_of_plain_hint_is_derived_without_an_error(name: str) -> None:
    assert is_plain_hint(PLAIN[name])

    def function(value: Any) -> None:
        """Do nothing."""

    schema = SignatureSchema("x", function, {"value": PLAIN[name]}, None)
    assert list(schema.published()["properties"]) == ["value"]


@pytest.mark.parametrize("name", UNCERTAIN)
def test_hint_that_may_have_no_schema_is_not_plain(name: str) -> None:
    assert not is_plain_hint(UNCERTAIN[name])


BOUNDS: dict[str, tuple[Any, Any, Any, list[Any]]] = {
    "integer": (int, Bounds(ge=1, le=9), Field(ge=1, le=9), [0, 1, 9, 10, "2", 1.5]),
    "text": (
        str,
        Bounds(min_length=2, max_length=3, pattern="^[a-z]+$"),
        Field(min_length=2, max_length=3, pattern="^[a-z]+$"),
        ["a", "ab", "abcd", "A1", 1],
    ),
    "list": (list[str], Bounds(min_length=1), Field(min_length=1), [[], ["a"], "a"]),
    "dict": (dict[str, int], Bounds(max_length=1), Field(max_length=1), [{"a": 1, "b": 2}, {}]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_those_of_a_field(name: str) -> None:
    kind, bounds, field, values = BOUNDS[name]

    def function(value: Any) -> None:
        """Do nothing."""

    def outcome(schema: SignatureSchema, value: Any) -> Any:
        try:
            return schema.validate({"value": value})
        except ToolError as error:
            return error.message

    ours = SignatureSchema("x", function, {"value": Annotated[kind, bounds]}, None)
    theirs = SignatureSchema("x", function, {"value": Annotated[kind, field]}, None)
    assert is_plain_hint(Annotated[kind, bounds])
    assert ours.published() == theirs.published()
    assert [outcome(ours, value) for value in values] == [
        outcome(theirs, value) for value in values
    ]
    assert any(isinstance(outcome(ours, value), str) for value in values)


def test_session_of_built_in_tools_starts_without_pydantic(tmp_path: Path) -> None:
    script = """
import anyio, sys
from ptc import Session

async def main():
    async with Session(sys.argv[1], journal=":memory:") as session:
        assert (await session.program(source="1 + 1")).value == 2
        print([name for name in ("pydantic", "importlib.metadata") if name in sys.modules])
        assert (await session.program(source="def run(ctx):\\n    return ctx.ls()")).value == []
        print("pydantic" in sys.modules)

anyio.run(main)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.stdout.split("\n") == ["[]", "True", ""], ended.stderr


def make() -> tuple[Tool, Callable[[], bool]]:
    @tool
    def find(query: str, limit: int = 10) -> list[Point]:
        """Find points.

        Args:
            query: Words.
            limit: Most points.
        """
        return [Point(x=1, y=limit)]

    return find, lambda: not isinstance(peek(find, "parameters"), Deferred)


def test_definition_derives_no_schema() -> None:
    find, is_derived = make()
    assert find.parameter_names == ("query", "limit")
    assert not is_derived()
    assert find.parameters["properties"]["query"] == {"type": "string", "description": "Words."}
    assert find.parameters is find.parameters
    assert is_derived()
    assert isinstance(find.parameters, dict)
    assert find.result_schema is not None
    assert find.result_schema["type"] == "array"


def test_derived_toolsets_derive_no_schema() -> None:
    find, is_derived = make()
    (prefixed,) = Toolset("x", (find,)).prefixed("geo").with_approval("*")
    assert prefixed.name == "geo.find"
    assert not is_derived()
    assert prefixed.validate({"query": "a"}) == {"query": "a", "limit": 10}
    with pytest.raises(ToolError, match=r"geo\.find: `limit`"):
        prefixed.validate({"query": "a", "limit": "x"})
    assert dataclasses.replace(prefixed, description="Y").parameters == find.parameters


def test_uncertain_hint_fails_where_the_tool_is_defined() -> None:
    with pytest.raises(UsageError, match="parameter `day`: a date is not a JSON type"):

        @tool
        def plan(day: date) -> str:
            """Plan a day."""
            return ""


def test_default_that_is_not_a_scalar_is_part_of_the_schema() -> None:
    find = tool(name="find", description="Find.")

    def function(text: str, points: list[Any] = ORIGIN) -> None:
        """Do nothing."""

    assert find(function).parameters["properties"]["points"]["default"] == [{"x": 0, "y": 0}]
