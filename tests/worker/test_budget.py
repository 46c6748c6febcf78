"""``ctx.budget``: what a script is told of what it has left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Limits, RunResult, Session, ToolContext, ToolError, tool

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail() -> None:
    """Fail, as tools do."""
    raise ToolError("no", code="limit_exceeded")


@tool
async def left(context: ToolContext) -> int | None:
    """Give what the host says is left."""
    return context.calls_left


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add, fail, left], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, body: str, kind: str = "def", **limits: Any) -> RunResult:
    source = f"import asyncio\n{kind} run(ctx, inputs):\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return await session.program(source=source, limits=Limits(**limits))


async def test_budget_reports_every_remaining_limit(session: Session) -> None:
    body = """
before = ctx.budget
ctx.add(1)
print("four", end="")
print("é", end="")
ctx.log("x")
ctx.emit([1])
after = ctx.budget
return {k: before[k] - after[k] for k in before if k not in ("calls_by_tool", "time_ms")}, \
    after.calls_by_tool, before.calls_by_tool["add"], before.time_ms, after.tool_calls
"""
    result = await run(session, body, max_calls_by_tool={"add": 3}, timeout_ms=20_000)
    assert result.status == "completed", result.error
    spent, by_tool, add_before, time_before, calls = result.value
    assert spent == {
        "tool_calls": 1, "stdout_bytes": 8, "messages": 3, "emits": 1, "emit_bytes": 3,
    }  # fmt: skip
    assert (by_tool, add_before, time_before, calls) == ({"add": 2}, 3, 20_000, 99)


async def test_budget_matches_the_counts_of_the_host(session: Session) -> None:
    body = """
seen = []
for call in (lambda: ctx.add(1), lambda: ctx.add("no number"), lambda: ctx.fail(),
             lambda: ctx.call("nothing", {}), lambda: ctx.add("x" * 2_000)):
    try:
        call()
    except ToolError:
        pass
    seen.append([ctx.budget.tool_calls - 1, ctx.left()])
return seen
"""
    result = await run(session, body, max_argument_bytes=1_000)
    assert result.status == "completed", result.error
    assert [mine for mine, _ in result.value] == [told for _, told in result.value]
    assert result.value[-1][0] == 100 - 2 - 5


async def test_script_can_stop_before_exceeding_its_budget(session: Session) -> None:
    body = """
got = []
while ctx.budget.tool_calls > 1 and ctx.budget.calls_by_tool["add"]:
    got.append(ctx.add(1))
return len(got)
"""
    assert (await run(session, body, max_tool_calls=9, max_calls_by_tool={"add": 4})).value == 4
    assert (await run(session, body, max_tool_calls=9, max_calls_by_tool={"add": 40})).value == 8


async def test_gathered_calls_are_charged_when_created(session: Session) -> None:
    body = """
calls = [ctx.add(n) for n in range(5)]
made = ctx.budget.tool_calls
await asyncio.gather(*calls)
over = await asyncio.gather(*(ctx.add(n) for n in range(9)), return_exceptions=True)
return made, sum(isinstance(o, ToolError) for o in over), ctx.budget.tool_calls
"""
    result = await run(session, body, "async def", max_tool_calls=10)
    assert result.value == [5, 4, 0], result.error


async def test_remaining_time_is_as_of_the_last_host_message(session: Session) -> None:
    body = """
first = ctx.budget.time_ms
for n in range(200_000):
    pass
still = ctx.budget.time_ms
await asyncio.sleep(0.05)
return first, still, ctx.budget.time_ms
"""
    result = await run(session, body, "async def", timeout_ms=10_000)
    first, still, later = result.value
    assert first == still == 10_000
    assert later <= 9_950


async def test_budget_apart_from_time_is_the_same_in_every_run(session: Session) -> None:
    body = "ctx.emit(1)\nctx.add(1)\nb = ctx.budget\nb.pop('time_ms')\nreturn b"
    values = [(await run(session, body)).value for _ in range(3)]
    assert values[0] == values[1] == values[2]


async def test_budget_is_read_only_and_its_copies_are_independent(session: Session) -> None:
    body = """
ctx.budget["tool_calls"] = 10 ** 9
kept = ctx.budget
kept["tool_calls"] = 5
try:
    ctx.budget = {}
except (AttributeError, TypeError) as error:
    return ctx.budget.tool_calls, str(error)
"""
    result = await run(session, body, max_tool_calls=7)
    assert result.value == [7, "ctx cannot be changed"], result.error


async def test_tool_description_mentions_budget_and_limits(session: Session) -> None:
    text = session.describe_tools(limits=Limits(max_calls_by_tool={"add": 3}, max_cpu_ms=2_000))
    assert "ctx.budget" in text
    assert "add at most 3 times" in text
    assert "2 s of CPU" in text
    assert "add at most" not in session.describe_tools()
