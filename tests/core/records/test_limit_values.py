"""Limits as data: what may be asked for, how a ceiling clamps it, and that none can be left out."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, RunResult, Session, UsageError, tool
from ptc._records._limits import CEILING

NUMBERS = [f.name for f in dataclasses.fields(Limits) if f.name != "max_calls_by_tool"]
NO_NUMBER: list[Any] = [
    *(None, 0, -1, True, False, 1.0, float("nan"), float("inf"), "5", [], 10**30),
]


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def other(a: int) -> int:
    """Another tool."""
    return a


@pytest.mark.parametrize("name", NUMBERS)
def test_no_value_disables_a_limit(name: str) -> None:
    for value in NO_NUMBER:
        with pytest.raises(UsageError, match=rf"Limits\.{name} must be an integer from 1 to "):
            Limits(**{name: value})
    least: dict[str, Any] = {name: 1}
    assert getattr(Limits(**least), name) == 1


@pytest.mark.parametrize("value", NO_NUMBER)
def test_max_calls_by_tool_values_must_be_positive_integers(value: Any) -> None:
    with pytest.raises(UsageError, match=r"max_calls_by_tool\['add'\] must be an integer from 1"):
        Limits(max_calls_by_tool={"add": value})
    wrong: list[Any] = [value, [("add", 3)]]
    for calls in wrong:
        with pytest.raises(UsageError, match=r"max_calls_by_tool must be a dict like"):
            Limits(max_calls_by_tool=calls)
    nameless: Any = {None: 3}
    with pytest.raises(UsageError, match=r"None is not the name of a tool"):
        Limits(max_calls_by_tool=nameless)


def test_limits_are_deeply_immutable() -> None:
    limits = Limits(max_calls_by_tool={"add": 3})
    calls: Any = limits.max_calls_by_tool
    for change in (
        lambda: calls.__setitem__("add", 9),
        lambda: calls.update(add=9),
        lambda: calls.pop("add"),
        calls.clear,
        lambda: calls.__ior__({"add": 9}),
    ):
        with pytest.raises(TypeError, match="limits are immutable"):
            change()
    assert limits == copy.deepcopy(limits)
    assert type(copy.deepcopy(limits).max_calls_by_tool) is type(calls)
    assert hash(limits) == hash(Limits(max_calls_by_tool={"add": 3}))
    assert limits != Limits()


def test_limits_above_a_ceiling_are_clamped_and_named() -> None:
    high = Limits(**dict.fromkeys(NUMBERS, 1_000), max_calls_by_tool={"add": 9, "free": 5})
    low = Limits(**dict.fromkeys(NUMBERS, 10), max_calls_by_tool={"add": 2, "other": 4})
    clamped = high.clamp(low)
    assert {getattr(clamped, name) for name in NUMBERS} == {10}
    assert clamped.max_calls_by_tool == {"add": 2, "free": 5, "other": 4}
    assert sorted(high.over(low)) == sorted([*NUMBERS, "max_calls_by_tool"])
    assert low.over(high) == []
    assert low.clamp(high).max_calls_by_tool == {"add": 2, "other": 4, "free": 5}


def test_limits_do_not_exceed_a_ceiling_raised_to_them() -> None:
    limits = Limits(**dict.fromkeys(NUMBERS, 4_000), max_calls_by_tool={"add": 2})
    assert limits.over(CEILING.raise_to(limits)) == []
    # A limit that is not named is not clamped, and a floor cannot clamp it.
    assert CEILING.raise_to(limits).max_calls_by_tool == {}


async def run(root: Path, body: str, limits: Limits, **session: Any) -> RunResult:
    source = "def run(ctx, inputs):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    async with Session(root, tools=[add, other], toolsets=(), workers=1, **session) as opened:
        return await opened.program(source=source, limits=limits)


CALLS = """
counts = {}
for n in range(6):
    for name in ("add", "other"):
        try:
            ctx.call(name, {"a": n})
        except ToolError as error:
            counts[name + "!"] = [error.code, error.details, error.message]
        else:
            counts[name] = counts.get(name, 0) + 1
return counts"""


@pytest.mark.anyio
async def test_call_limit_of_one_tool_does_not_affect_another(tmp_path: Path) -> None:
    result = await run(tmp_path, CALLS, Limits(max_calls_by_tool={"add": 2}))
    assert (result.value["add"], result.value["other"]) == (2, 6)
    code, details, message = result.value["add!"]
    assert code == "limit_exceeded"
    assert details == {"limit": "max_calls_by_tool", "most": 2, "used": 2}
    assert message == (
        "add: the run may make 2 calls of add (max_calls_by_tool) and has made them all; "
        "return the results so far, or raise max_calls_by_tool"
    )
    assert json.loads(result.to_json())["limits"]["max_calls_by_tool"] == {"add": 2}


@pytest.mark.anyio
async def test_parallel_calls_cannot_exceed_the_limit_of_a_tool(tmp_path: Path) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    got = await asyncio.gather(*(ctx.add(n) for n in range(40)), return_exceptions=True)
    return sum(isinstance(g, int) for g in got)
"""
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        limits = Limits(max_calls_by_tool={"add": 7})
        result = await session.program(source=source, limits=limits)
    assert result.value == 7
    assert sum(call.status == "succeeded" for call in result.calls) == 7


@pytest.mark.anyio
async def test_uncaught_tool_limit_error_ends_the_run_at_that_limit(tmp_path: Path) -> None:
    result = await run(tmp_path, "while True: ctx.add(1)", Limits(max_calls_by_tool={"add": 3}))
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "limit_max_calls_by_tool"
    assert dataclasses.astuple(result.error.breach) == ("max_calls_by_tool", 3, None)  # type: ignore[arg-type]  # it is there


@pytest.mark.anyio
async def test_ceiling_limits_tools_that_the_run_does_not_name(
    tmp_path: Path,
) -> None:
    ceiling = Limits(max_calls_by_tool={"add": 2})
    own = await run(tmp_path, CALLS, Limits(), ceiling=ceiling)
    assert (own.value["add"], own.value["other"], own.warnings) == (2, 6, ())
    asked = await run(tmp_path, CALLS, Limits(max_calls_by_tool={"add": 5}), ceiling=ceiling)
    assert asked.value["add"] == 2
    assert [str(warning) for warning in asked.warnings] == [
        "limits.max_calls_by_tool={'add': 5} is above the session's ceiling and was clamped to "
        "{'add': 2}",
    ]
    async with Session(
        tmp_path, tools=[add, other], toolsets=(), workers=1, ceiling=ceiling
    ) as session:
        assert session.limits.max_calls_by_tool == {"add": 2}


@pytest.mark.anyio
async def test_limit_for_an_unknown_tool_suggests_the_nearest_name(tmp_path: Path) -> None:
    wrong = Limits(max_calls_by_tool={"ad": 2})
    words = r"Limits\.max_calls_by_tool names 'ad', which is not a tool of the session.*add"
    with pytest.raises(UsageError, match=words):
        await run(tmp_path, "return 1", wrong)
    for option in ("limits", "ceiling"):
        given: dict[str, Any] = {option: wrong}
        with pytest.raises(UsageError, match=f"^{option}: {words}"):
            Session(tmp_path, tools=[add], toolsets=(), **given)
