"""Tools of other libraries, what is known of a tool, and the hook after a side effect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import (
    CallRecord,
    Session,
    ToolContext,
    ToolError,
    UsageError,
    define_tool,
    get_tool_metadata,
    tool,
    tool_from,
)

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Args(BaseModel):
    a: int


def make_method(kind: str) -> Any:
    return lambda arguments: [kind, dict(arguments)]


async def outcome(root: Path, thing: Any, **arguments: Any) -> Any:
    async with Session(root, tools=[thing], toolsets=()) as session:
        (name,) = session.tool_names()
        return (await session.tool(name, arguments)).unwrap()


@pytest.mark.parametrize("kinds", [("invoke", "call", "run", "func"), ("call", "func"), ("func",)])
async def test_first_documented_method_of_a_foreign_tool_is_called(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    thing = SimpleNamespace(
        name="thing",
        description="A thing.",
        parameters=SCHEMA,
        **{k: make_method(k) for k in kinds},
    )
    assert await outcome(tmp_path, thing, a=1) == [kinds[0], {"a": 1}]


@pytest.mark.parametrize("field", ["args_schema", "parameters", "input_schema", "inputSchema"])
@pytest.mark.parametrize("schema", [SCHEMA, Args])
async def test_foreign_schema_is_found_under_its_usual_names_and_enforced(
    tmp_path: Path, field: str, schema: Any
) -> None:
    thing = SimpleNamespace(
        name="thing", description="D.", invoke=make_method("invoke"), **{field: schema}
    )
    assert await outcome(tmp_path, thing, a=1) == ["invoke", {"a": 1}]
    async with Session(tmp_path, tools=[thing], toolsets=()) as session:
        with pytest.raises(ToolError, match="`a`: "):
            await session.thing(a="x")  # type: ignore[attr-defined]  # a tool as a method


class Shop:
    """Sell things."""

    name = "shop"

    async def run(self, word: str, times: int = 1) -> str:
        return word * times


class Callable_:
    """Be called."""

    def __call__(self, word: str) -> str:
        return word


async def test_foreign_tool_without_a_schema_uses_its_signature(tmp_path: Path) -> None:
    assert await outcome(tmp_path, Shop(), word="a", times=2) == "aa"
    named = tool_from(Callable_(), name="called")
    assert await outcome(tmp_path, named, word="b") == "b"


async def test_func_is_called_with_keywords_if_its_signature_has_them(tmp_path: Path) -> None:
    def func(a: int) -> int:
        return a + 1

    thing = SimpleNamespace(name="thing", description="D.", args_schema=Args, func=func)
    assert await outcome(tmp_path, thing, a=1) == 2


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (3, "3 is not a tool: it has no invoke, call, run, func"),
        (SimpleNamespace(name="x"), "is not a tool"),
        (
            SimpleNamespace(invoke=make_method("invoke"), parameters=SCHEMA),
            "has no name; pass tool_from",
        ),
        (
            SimpleNamespace(name="x", invoke=make_method("i"), parameters=SCHEMA, description=""),
            "needs a",
        ),
        (Shop, "is not a tool"),
    ],
)
def test_object_that_is_not_a_tool_is_refused_with_the_reason(thing: Any, why: str) -> None:
    if isinstance(thing, SimpleNamespace):
        thing.__doc__ = None
    with pytest.raises(UsageError, match=why):
        tool_from(thing)


class Reads(SimpleNamespace):
    read_only_hint = True


@pytest.mark.parametrize(
    ("declared", "effect", "repeatable"),
    [
        ({}, True, False),
        ({"annotations": None, "metadata": None}, True, False),
        ({"annotations": {"readOnlyHint": True}}, False, True),
        ({"annotations": Reads()}, False, True),
        ({"metadata": {"readOnlyHint": True}}, False, True),
        ({"annotations": {"readOnlyHint": "true"}}, True, False),
        ({"annotations": {"readOnlyHint": False}}, True, False),
        ({"annotations": {"readOnlyHint": True, "destructiveHint": True}}, True, False),
        ({"annotations": {"idempotentHint": True}}, True, True),
        ({"side_effect": False}, False, True),
        ({"side_effect": True, "idempotent": True}, True, True),
        ({"side_effect": 0, "idempotent": 1}, True, False),
    ],
)
@pytest.mark.parametrize("schema", [{}, {"parameters": SCHEMA}])
def test_undeclared_effects_of_a_foreign_tool_are_assumed_to_be_the_worst(
    declared: dict[str, Any], effect: bool, repeatable: bool, schema: dict[str, Any]
) -> None:
    thing = SimpleNamespace(name="x", description="D.", run=Shop().run, **schema, **declared)
    made = tool_from(thing)
    assert (made.side_effect, made.idempotent) == (effect, repeatable)
    overridden = tool_from(thing, side_effect=False, idempotent=True)
    assert (overridden.side_effect, overridden.idempotent) == (False, True)


def test_options_of_the_application_override_assumed_effects() -> None:
    read_only = tool_from(Shop(), side_effect=False)
    assert (read_only.side_effect, read_only.idempotent) == (False, True)
    assert tool_from(Shop(), side_effect=False, cache=True).cache is not None
    with pytest.raises(UsageError, match="cannot be cached; leave out cache, or pass side_effect"):
        tool_from(Shop(), cache=True)


async def test_undeclared_foreign_tool_is_not_allowed_by_default(tmp_path: Path) -> None:
    calls = []

    def delete_everything(arguments: dict[str, Any]) -> str:
        calls.append(arguments)
        return "deleted"

    thing = SimpleNamespace(
        name="delete_everything", description="D.", args_schema=SCHEMA, invoke=delete_everything
    )
    source = "def run(ctx, inputs):\n    return ctx.delete_everything(a=1)"
    async with Session(tmp_path, tools=[thing], toolsets=()) as session:
        refused = await session.program(source=source)
        assert (refused.status, refused.calls, calls) == ("rejected", (), [])
        allowed = await session.program(source=source, allowed_tools=["delete_everything"])
        assert allowed.unwrap() == "deleted"


async def test_functions_and_partials_are_the_applications_own(tmp_path: Path) -> None:
    def look(word: str, times: int) -> str:
        """Look a word up."""
        return word * times

    twice = tool_from(partial(look, times=2), name="twice", description="Look up twice.")
    assert not tool_from(look).side_effect
    assert not tool_from("".join, name="glue", parameters=SCHEMA).side_effect
    assert not twice.side_effect
    assert await outcome(tmp_path, twice, word="a") == "aa"


def test_metadata_exists_for_tools_only() -> None:
    @tool(side_effect=True, needs_approval=True, tags={"x"})
    async def pay(ctx: ToolContext) -> None:
        """Pay."""

    found = get_tool_metadata({"pay": pay}["pay"])
    assert found is not None
    assert (found.name, found.side_effect, found.idempotent) == ("pay", True, False)
    assert (found.takes_context, found.gated, found.tags) == (True, True, frozenset({"x"}))
    assert [get_tool_metadata(x) for x in (None, "pay", object(), print, {})] == [None] * 5
    assert tool_from(pay) is pay


async def test_after_side_effect_hook_is_awaited_and_cannot_fail_the_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, str]] = []

    async def hook(record: CallRecord) -> None:
        seen.append((record.tool, record.status))
        raise RuntimeError("no snapshot")

    def fail(arguments: Mapping[str, Any]) -> None:
        raise ValueError("no")

    def done(arguments: Mapping[str, Any]) -> int:
        return len(seen)

    anything = {"type": "object"}
    tools = [
        define_tool("pure", "P.", anything, done),
        define_tool("change", "C.", anything, done, side_effect=True, idempotent=True),
        define_tool("broken", "B.", anything, fail, side_effect=True, idempotent=True),
    ]
    async with Session(tmp_path, tools=tools, toolsets=(), after_side_effect=hook) as session:
        assert await session.pure() == 0  # type: ignore[attr-defined]  # a tool as a method
        assert await session.change() == 0  # type: ignore[attr-defined]  # a tool as a method
        assert not (await session.tool("broken")).ok
        assert await session.pure() == 1  # type: ignore[attr-defined]  # a tool as a method
    assert seen == [("change", "succeeded")]
    assert "after_side_effect failed for direct.2" in caplog.text


def test_options_apply_to_a_tool_of_ptc() -> None:
    @tool
    def look(a: int) -> int:
        """Look."""
        return a

    gated = tool_from(look, name="see", needs_approval=True)
    assert (gated.name, gated.needs_approval, gated.description) == ("see", True, "Look.")
    with pytest.raises(UsageError, match="parameters"):
        tool_from(look, parameters=SCHEMA)
