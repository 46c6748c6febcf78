"""Definitions, contexts and effects, as systems that journal effects ask for them (SM rows)."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import (
    CallRecord,
    RunEvent,
    Session,
    ToolContext,
    ToolError,
    current_tool_context,
    define_tool,
    get_tool_metadata,
    tool,
)
from ptc._calls._call import OpenCall
from ptc._calls._occurrences import Occurrences
from ptc._tools._tool import ToolCall
from ptc.journal._location import journal_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object"}


@tool(name="wholefoods.place_order")
async def place_order(ctx: ToolContext, item: str, count: int = 1) -> list[Any]:
    """Order groceries."""
    return [ctx.tool_name, item, count]


async def test_dotted_tool_name_is_used_everywhere(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[place_order], toolsets=()) as session:
        result = await session.tool("wholefoods.place_order", {"item": "tea"})
        assert result.unwrap() == ["wholefoods.place_order", "tea", 1]
        assert result.tool == "wholefoods.place_order"
        run = await session.program(
            source="def run(ctx, inputs):\n    return ctx.wholefoods.place_order('jam')\n"
        )
        assert run.unwrap() == ["wholefoods.place_order", "jam", 1]
        assert run.calls[0].tool == "wholefoods.place_order"


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [
        ({"item": "tea", "count": "x"}, "invalid_arguments"),
        ({}, "invalid_arguments"),
        ({"item": "tea", "more": 1}, "invalid_arguments"),
        ({"item": "tea"}, {"item": "tea", "count": 1}),
        ({"item": "tea", "count": "2"}, {"item": "tea", "count": 2}),
    ],
)
async def test_tool_function_receives_validated_arguments_or_is_not_called(
    tmp_path: Path, sent: dict[str, Any], outcome: Any
) -> None:
    got: list[dict[str, Any]] = []

    @tool
    async def order(item: str, count: int = 1) -> None:
        """Order."""
        got.append({"item": item, "count": count})

    async with Session(tmp_path, tools=[order], toolsets=()) as session:
        error = (await session.tool("order", sent)).error
    assert (error.code if error else got) == (outcome if error else [outcome])
    assert bool(got) is (error is None)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, (False, True)),
        ({"side_effect": True}, (True, False)),
        ({"side_effect": True, "idempotent": True}, (True, True)),
        ({"side_effect": False, "idempotent": False}, (False, False)),
        ({"idempotent": False}, (False, False)),
    ],
)
def test_side_effect_and_idempotent_flags_default_from_each_other(
    options: Any, flags: tuple[bool, bool]
) -> None:
    def work(ctx: ToolContext) -> None: ...

    found = get_tool_metadata(tool(name="flags", description="D.", **options)(work))
    assert found is not None
    assert (found.side_effect, found.idempotent) == flags


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({}, False),
        ({"side_effect": True, "idempotent": True}, False),
        ({"side_effect": True}, True),
    ],
)
def test_only_non_idempotent_effect_without_context_warns(options: Any, warns: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            define_tool(f"blind_{len(options)}", "D.", ANY, lambda a: a, **options)
    assert [("idempotency_key" in str(w.message)) for w in caught] == ([True] if warns else [])


async def test_direct_call_returns_the_identical_object(tmp_path: Path) -> None:
    value = {"same": object()}

    async def later(arguments: Mapping[str, Any]) -> Any:
        return value

    def at_once(arguments: Mapping[str, Any]) -> Any:
        return value

    tools = [define_tool("later", "L.", ANY, later), define_tool("at_once", "A.", ANY, at_once)]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        assert await session.later() is value  # type: ignore[attr-defined]  # a tool as a method
        assert await session.at_once() is value  # type: ignore[attr-defined]  # a tool as a method


@tool(side_effect=True, idempotent=True)
async def seen(ctx: ToolContext, tool_name: str = "", run_id: str = "") -> dict[str, Any]:
    """Say what the context is."""
    return {
        "tool_name": ctx.tool_name,
        "run_id": ctx.run_id,
        "call_id": ctx.call_id,
        "seq": ctx.seq,
        "attempt": ctx.attempt,
        "key": ctx.idempotency_key,
        "flags": [ctx.side_effect, ctx.idempotent],
        "root": str(ctx.root),
        "left": ctx.calls_left,
        "cancelled": ctx.cancelled,
        "env": ctx.env,
    }


async def test_context_of_a_direct_call_has_no_run(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[seen], toolsets=()) as session:
        assert await session.call(seen) == {
            "tool_name": "seen",
            "run_id": None,
            "call_id": "direct.1",
            "seq": 1,
            "attempt": 1,
            "key": None,
            "flags": [True, True],
            "root": str(tmp_path.resolve()),
            "left": None,
            "cancelled": False,
            "env": None,
        }


async def test_the_number_of_a_call_is_the_same_in_context_record_and_journal(
    tmp_path: Path,
) -> None:
    async with Session(tmp_path, tools=[seen], toolsets=()) as session:
        result = await session.program(
            source="import asyncio\nasync def run(ctx, inputs):\n"
            "    return await asyncio.gather(*(ctx.seen(tool_name=n) for n in 'abc'))\n",
            allowed_tools=["seen"],
        )
        rows = result.unwrap()
    assert [row["seq"] for row in rows] == [call.seq for call in result.calls] == [1, 2, 3]
    assert [row["call_id"] for row in rows] == [f"{result.run_id}.{n}" for n in (1, 2, 3)]
    assert {row["run_id"] for row in rows} == {result.run_id}
    assert len({row["key"] for row in rows}) == 3
    with closing(sqlite3.connect(journal_of(tmp_path))) as file:
        kept = file.execute("SELECT path FROM calls ORDER BY path").fetchall()
    assert [path for (path,) in kept] == ["1", "2", "3"]


async def test_caller_arguments_cannot_change_the_tool_context(tmp_path: Path) -> None:
    @tool
    async def evil(ctx: ToolContext) -> Any:
        """Call another tool, under names of the context."""
        return await ctx.call_tool("seen", tool_name="evil", run_id="stolen")

    async with Session(tmp_path, tools=[seen, evil], toolsets=()) as session:
        found = await session.call(evil)
        assert (found["tool_name"], found["run_id"], found["call_id"]) == (
            "seen",
            None,
            "direct.1.1",
        )
        error = (await session.tool("evil", {"ctx": {"tool_name": "x"}})).error
        assert error is not None
        assert error.code == "invalid_arguments"


async def test_current_tool_context_is_scoped_to_its_call(tmp_path: Path) -> None:
    """Nested, concurrent, after an error, and gone afterwards."""

    @tool
    async def inner(fail: bool = False) -> Any:
        """Say whose context it is."""
        await anyio.lowlevel.checkpoint()
        context = current_tool_context()
        assert context is not None
        if fail:
            raise ToolError("no")
        return context.call_id

    @tool
    async def outer(ctx: ToolContext, fail: bool = False) -> Any:
        """Call another; the own context is there again, whatever came of it."""
        assert current_tool_context() is ctx
        try:
            found = await ctx.call_tool("inner", fail=fail)
        except ToolError:
            found = "failed"
        assert current_tool_context() is ctx
        return [ctx.call_id, found]

    found: dict[int, Any] = {}
    async with Session(tmp_path, tools=[outer, inner], toolsets=()) as session:

        async def one(number: int) -> None:
            found[number] = await session.call(outer, fail=number % 2 == 1)
            assert current_tool_context() is None

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(one, number)
        assert not (await session.tool("inner", {"fail": True})).ok
    assert current_tool_context() is None
    assert len({row[0] for row in found.values()}) == 6
    for number, (own, of_inner) in found.items():
        assert of_inner == ("failed" if number % 2 else f"{own}.1")


async def test_rejected_call_is_recorded_as_not_started_and_emits_both_events(
    tmp_path: Path,
) -> None:
    @tool
    async def look(n: int) -> int:
        """Look."""
        if n < 0:
            raise ToolError("below zero", code="negative")
        return n

    @tool(side_effect=True, idempotent=True)
    async def put() -> None:
        """Put."""

    source = """
async def run(ctx, inputs):
    for name, arguments in inputs["calls"]:
        try:
            await ctx.call(name, arguments)
        except ToolError:
            pass
"""
    calls = [
        ("look", {"n": 1}),
        ("look", {"n": "x"}),
        ("put", {}),
        ("nope", {}),
        ("look", {"n": -1}),
    ]
    events: list[RunEvent] = []
    async with Session(tmp_path, tools=[look, put], toolsets=()) as session:
        result = await session.program(
            source=source,
            inputs={"calls": calls},
            allowed_tools=["look"],
            on_event=events.append,
            run_id="r",
        )
        rows = (await session.history.recorded("r")).calls
    wanted = [
        ("look", "succeeded", None),
        ("look", "not_started", "invalid_arguments"),
        ("put", "not_started", "not_allowed"),
        ("nope", "not_started", "unknown_tool"),
        ("look", "failed", "negative"),
    ]
    assert [(c.tool, c.status, c.error_code) for c in result.calls] == wanted
    assert [(row.tool, row.end.status if row.end else "") for row in rows] == [
        (name, status) for name, status, _ in wanted
    ]
    told = [(e.kind, e.call.tool, e.call.seq) for e in events if e.call is not None]
    assert told == [
        (kind, name, n)
        for n, (name, _, _) in enumerate(wanted, 1)
        for kind in ("tool_started", "tool_finished")
    ], "each is told at its start and at its end, the refused ones too"


names = st.sampled_from(["put", "pay", "shop.pay"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "\u00e9"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=6,
)
logical_calls = st.tuples(names, st.dictionaries(st.sampled_from("abcd"), values, max_size=4))


def reverse_keys(value: Any) -> Any:
    """The same data with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: reverse_keys(value[key]) for key in reversed(list(value))}
    return [reverse_keys(item) for item in value] if isinstance(value, list) else value


def keys_of(calls: list[tuple[str, dict[str, Any]]], run: str = "r1") -> list[str]:
    siblings, keys = Occurrences(), []
    for number, (name, arguments) in enumerate(calls, 1):
        call = OpenCall(ToolCall(name, {}, number, run), siblings=siblings, arguments=arguments)
        siblings.add(call)
        key = call.key()
        assert key is not None
        keys.append(key)
    return keys


@settings(max_examples=50, deadline=None)
@given(st.lists(logical_calls, max_size=8), st.randoms())
def test_idempotency_key_depends_on_run_tool_arguments_and_occurrence(
    calls: list[tuple[str, dict[str, Any]]], random: Any
) -> None:
    keys = keys_of(calls)
    assert len(set(keys)) == len(calls)
    assert keys == keys_of([(name, reverse_keys(arguments)) for name, arguments in calls])
    shuffled = list(calls)
    random.shuffle(shuffled)
    assert set(keys_of(shuffled)) == set(keys)
    others = [("other", arguments) for _, arguments in calls]
    more = [(name, {**arguments, "e": 1}) for name, arguments in calls]
    for different in (keys_of(others), keys_of(more), keys_of(calls, run="r2")):
        assert not set(keys) & set(different)


PAUSES = "async def run(ctx, inputs):\n    await ctx.put()\n    return await ctx.both()\n"


async def test_after_side_effect_hook_is_not_called_again_for_replayed_effects(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    made: list[str] = []

    async def after(record: CallRecord) -> None:
        told.append(f"{record.tool} {record.parent}")

    async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
        made.append(ctx.tool_name)
        return ctx.tool_name

    async def both(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return [await ctx.call_tool("put"), await ctx.call_tool("ask")]

    effect: Any = {"side_effect": True, "idempotent": True}
    tools = [
        define_tool("put", "P.", ANY, work, **effect),
        define_tool("ask", "A.", ANY, work, needs_approval=True, **effect),
        define_tool("both", "B.", ANY, both),
    ]
    names = ["put", "ask", "both"]
    async with Session(tmp_path, tools=tools, toolsets=(), after_side_effect=after) as session:
        paused = await session.program(source=PAUSES, allowed_tools=names, run_id="r")
        assert paused.status == "paused"
        await session.history.approve("r", by="ann")
        assert (await session.resume("r")).unwrap() == ["put", "ask"]
    assert made == ["put", "put", "ask"]
    assert told == ["put None", "put 2", "ask 2"], "once for each effect"
