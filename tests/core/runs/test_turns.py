"""A run with thousands of calls lets other tasks of the event loop continue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ptc import Limits, Session, tool
from ptc._records._result import CallRecord, RunResult
from ptc._runs import _call_list, _run, _scheduler
from ptc._runs._turns import Turns

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.shared_zygote]

SOURCE = """
import asyncio
async def run(ctx, inputs):
    return sum(await asyncio.gather(*(ctx.add() for _ in range(400))))
"""


class Work:
    """A clock that advances by a millisecond for each step, and the steps between two turns."""

    def __init__(self) -> None:
        self.steps = 0
        self.turns: list[int] = []
        self.done = anyio.Event()

    def clock(self) -> float:
        return 100 + self.steps / 1_000

    def step(self) -> float:
        self.steps += 1
        return self.clock()

    async def watch(self) -> None:
        while not self.done.is_set():
            seen = self.steps
            await anyio.lowlevel.checkpoint()
            self.turns.append(self.steps - seen)


async def watched_run(root: Path, work: Work) -> None:
    @tool
    async def add() -> int:
        """Add one step."""
        work.step()
        return 1

    async with Session(root, tools=[add], toolsets=(), workers=1) as session:
        await session.warm_up()
        async with anyio.create_task_group() as group:
            group.start_soon(work.watch)
            result = await session.program(source=SOURCE, limits=Limits(max_tool_calls=400))
            work.done.set()
            assert (result.value, len(result.calls)) == (400, 400), result.error
            assert [call.seq for call in result.calls] == list(range(1, 401))


async def test_calls_that_never_wait_leave_time_for_other_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    monkeypatch.setattr(_scheduler, "Turns", lambda: Turns(work.clock))
    await watched_run(tmp_path, work)
    assert max(work.turns) <= 16, "two turns of 8 ms, with the turn of the watcher between them"


WAITING_FIRST = """
import asyncio
async def run(ctx, inputs):
    await asyncio.gather(*(ctx.add(wait=True) for _ in range(inputs["waiting"])))
    return sum(await asyncio.gather(*(ctx.add() for _ in range(400))))
"""


@pytest.mark.parametrize("waiting", [0, 100])
async def test_servers_without_time_are_neither_started_nor_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    work, checks = Work(), list[float]()

    def clock() -> float:
        checks.append(work.clock())
        return checks[-1]

    @tool
    async def add(wait: bool = False) -> int:
        """Add one step, or wait."""
        if wait:
            await anyio.sleep(0.01)
        else:
            work.step()
        return 1

    monkeypatch.setattr(_scheduler, "Turns", lambda: Turns(clock))
    limits = Limits(max_tool_calls=500)
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        result = await session.program(
            source=WAITING_FIRST, inputs={"waiting": waiting}, limits=limits
        )
    assert result.value == 400, result.error
    # Once for each call, and a few times for each of 50 turns.
    assert len(checks) < 2_000


async def test_records_of_calls_are_made_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, made = Work(), Work()
    monkeypatch.setattr(_call_list, "Turns", lambda: Turns(made.step))
    made.done = work.done
    async with anyio.create_task_group() as group:
        group.start_soon(made.watch)
        await watched_run(tmp_path, work)
    assert made.steps >= 400
    assert max(made.turns) <= 20


MIXED = """
import asyncio
async def run(ctx, inputs):
    return sum(await asyncio.gather(*(ctx.meet(wait=n % 4 == 3) for n in range(400))))
"""


async def test_calls_that_wait_run_concurrently_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, met, waiting = Work(), anyio.Event(), list[int]()
    monkeypatch.setattr(_scheduler, "Turns", lambda: Turns(work.clock))

    @tool
    async def meet(wait: bool) -> int:
        """Compute, or wait until 100 calls wait at once."""
        work.step()
        if wait:
            waiting.append(1)
            if len(waiting) == 100:
                met.set()
            await met.wait()
        return 1

    limits = Limits(max_tool_calls=400, max_in_flight=100)
    async with Session(tmp_path, tools=[meet], toolsets=(), workers=1) as session:
        with anyio.fail_after(30):
            result = await session.program(source=MIXED, limits=limits)
    assert result.value == 400, result.error


def many(calls: int) -> RunResult:
    record = CallRecord(1, "add", "failed", "{}", "d", 0.5, 1, error='"calls":[]')
    rows = tuple(replace(record, seq=seq) for seq in range(1, calls + 1))
    return RunResult("r", "completed", value={"calls": []}, partial=(1, "é"), calls=rows)


@pytest.mark.parametrize("calls", [0, 1, 1_000, 1_001, 2_500])
async def test_result_encoded_in_steps_equals_its_json(calls: int) -> None:
    result = many(calls)
    assert await _run._encode(result) == result.to_json()
