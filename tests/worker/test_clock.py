"""A script's clock: messages and readings advance it, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Limits, RunResult, Session

from .timed_tool import after

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[after], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, source: str, **options: Any) -> RunResult:
    return await session.program(source=source, **options)


async def test_computing_does_not_advance_the_clock(session: Session) -> None:
    source = """
import time
def run(ctx, inputs):
    def took(work):
        start = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - start
    return took(lambda: None) == took(lambda: sum(range(3_000_000))) > 0
"""
    assert (await run(session, source)).value is True


LOOPS = [
    "while time.time() < start + 5: turns += 1",
    "while time.monotonic() - begun < 5: turns += 1",
    "while time.perf_counter_ns() < began + 5_000_000_000: turns += 1",
    "while datetime.datetime.now() < now + datetime.timedelta(seconds=5): turns += 1",
    "while loop.time() < looped + 5: turns += 1",
    "while time.time() < start + 5: turns += 1; await asyncio.sleep(0)",
]


@pytest.mark.parametrize("loop", LOOPS)
async def test_loop_that_waits_for_the_clock_ends(session: Session, loop: str) -> None:
    source = f"""
import asyncio, datetime, time
async def run(ctx, inputs):
    turns, loop = 0, asyncio.get_running_loop()
    start, begun, began = time.time(), time.monotonic(), time.perf_counter_ns()
    now, looped = datetime.datetime.now(), loop.time()
    {loop}
    return [turns, time.time() - start >= 5]
"""
    result = await run(session, source)
    assert result.value is not None, result.error
    turns, passed = result.value
    assert passed
    assert 49_900 < turns <= 50_000, "time passed otherwise than by readings"


async def test_sleep_after_readings_takes_its_time_and_no_longer(session: Session) -> None:
    source = """
import asyncio, time
async def run(ctx, inputs):
    start = time.time()
    while time.time() < start + 20: pass
    before = time.time()
    await asyncio.sleep(0.05)
    async with asyncio.timeout(5):
        await ctx.after(1)
    return 0.05 <= time.time() - before < 10
"""
    result = await run(session, source)
    assert result.value is True, result.error
    assert 50 <= result.usage.duration_ms < 10_000


async def test_readings_let_a_timer_fire(session: Session) -> None:
    source = """
import asyncio, time
async def run(ctx, inputs):
    fired = []
    asyncio.get_running_loop().call_later(2, fired.append, True)
    start = time.time()
    while not fired:
        time.time()
        await asyncio.sleep(0)
    return time.time() - start >= 2
"""
    result = await run(session, source)
    assert result.value is True, result.error


@pytest.mark.parametrize(
    "wait",
    [
        "task = asyncio.create_task(ctx.after(30))\n    while not task.done()",
        "call = ctx.after(30)\n    while not call.done()",
        "task = asyncio.create_task(asyncio.sleep(0.03))\n    while not task.done()",
    ],
)
async def test_polling_without_pause_receives_results(session: Session, wait: str) -> None:
    source = f"""
import asyncio
async def run(ctx, inputs):
    {wait}:
        await asyncio.sleep(0)
    return "done"
"""
    result = await run(session, source, limits=Limits(timeout_ms=20_000))
    assert result.value == "done", result.error
