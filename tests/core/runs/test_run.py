"""Ends of runs: cancelled and awaited calls, and violations of the kernel layer."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import anyio
import pytest

from ptc import Limits, RunEvent, RunResult, Session, tool
from ptc._records._limits import Breach
from ptc._records._result import Status
from ptc._runs._frames import HANDLERS
from ptc._runs._intake import ReturnValue
from ptc._runs._outcome import Outcome
from ptc._runs._program import Program
from ptc._tools._table import ToolTable
from ptc._wire._protocol import LEGAL, Kind, Output, State
from tests.core.pools import pool_of

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


@pytest.mark.usefixtures("nothing_left")
async def test_finished_run_leaves_no_tool_call_running(tmp_path: Path) -> None:
    running: set[int] = set()
    ended: list[int] = []

    @tool
    async def slow(n: int) -> int:
        """Take for ever, and say when it is over."""
        running.add(n)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            running.discard(n)
            ended.append(n)
        return n

    ends = {
        "return 1": "completed",
        "raise ValueError('x')": "failed",
        "while True: pass": "timed_out",
    }
    async with Session(tmp_path, tools=[slow], toolsets=(), workers=2) as session:
        for body, status in ends.items():
            ended.clear()
            source = (
                "import asyncio\nasync def run(ctx, inputs):\n"
                "    tasks = [asyncio.create_task(one(ctx, n)) for n in range(5)]\n"
                f"    await asyncio.sleep(0.05)\n    {body}\n"
                "async def one(ctx, n):\n    return await ctx.slow(n)\n"
            )
            result = await session.program(source=source, limits=Limits(timeout_ms=500))
            assert result.status == status, result.error
            assert running == set()
            assert sorted(ended) == [0, 1, 2, 3, 4]
            assert [c.status for c in result.calls] == ["unknown"] * 5


async def test_call_abandoned_by_a_script_is_cancelled_in_the_host(tmp_path: Path) -> None:
    cancelled = anyio.Event()

    @tool
    async def slow() -> int:
        """Never answer."""
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return 1

    source = """
import asyncio
async def run(ctx, inputs):
    try:
        await asyncio.wait_for(ctx.slow(), 0.05)
    except TimeoutError:
        return "gave up"
"""
    async with Session(tmp_path, tools=[slow], toolsets=(), workers=1) as session:
        with anyio.fail_after(10):
            result = await session.program(source=source)
            await cancelled.wait()
    assert result.value == "gave up"


async def test_sync_functions_run_concurrently_in_threads(tmp_path: Path) -> None:
    barrier = threading.Barrier(2, timeout=10)

    @tool
    def meet(n: int) -> int:
        """Wait for the other."""
        barrier.wait()
        return n

    source = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    return await asyncio.gather(ctx.meet(1), ctx.meet(2))\n"
    )
    async with Session(tmp_path, tools=[meet], toolsets=(), workers=1) as session:
        with anyio.fail_after(15):
            assert (await session.program(source=source)).value == [1, 2]


async def test_unstoppable_thread_does_not_delay_the_result(tmp_path: Path) -> None:
    release = threading.Event()

    @tool
    def stuck() -> int:
        """Block."""
        release.wait(20)
        return 1

    source = "def run(ctx, inputs):\n    return ctx.stuck()\n"
    try:
        async with Session(tmp_path, tools=[stuck], toolsets=(), workers=1) as session:
            with anyio.fail_after(10):
                result = await session.program(source=source, limits=Limits(timeout_ms=100))
        assert result.status == "timed_out"
        assert result.calls[0].status == "unknown"
        assert "waiting for stuck" in (result.error.message if result.error else "")
    finally:
        release.set()


@pytest.mark.usefixtures("nothing_left")
async def test_killed_worker_crashes_only_its_own_run(tmp_path: Path) -> None:
    entered = anyio.Event()

    @tool
    async def wait() -> int:
        """Never answer."""
        entered.set()
        await anyio.sleep_forever()
        return 1

    async with Session(tmp_path, tools=[wait], toolsets=(), workers=1) as session:
        results: list[RunResult] = []

        async def one() -> None:
            results.append(
                await session.program(source="async def run(ctx, inputs):\n await ctx.wait()\n")
            )

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(one)
                await entered.wait()
                (run,) = session._runs.active
                assert run._worker is not None
                run._worker.kill()
            assert results[0].status == "crashed"
            assert results[0].error is not None
            assert "SIGKILL" in results[0].error.message
            assert results[0].calls[0].status == "unknown"
            again = await session.program(source="def run(ctx, inputs):\n    return 1\n")
            assert again.value == 1


@pytest.mark.usefixtures("nothing_left")
async def test_a_killed_zygote_is_replaced(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        source = "def run(ctx, inputs):\n    return 1\n"
        with anyio.fail_after(30):
            assert (await session.program(source=source)).value == 1
            zygote = pool_of(session)._zygote
            assert zygote is not None
            os.kill(zygote.pid, signal.SIGKILL)
            while pool_of(session)._zygote is zygote:
                await anyio.lowlevel.checkpoint()
            assert (await session.program(source=source)).value == 1


async def test_subscriber_receives_call_start_before_call_finish(tmp_path: Path) -> None:
    @tool
    async def one() -> int:
        """One."""
        return 1

    open_now: set[int] = set()
    most = 0

    def watch(event: RunEvent) -> None:
        nonlocal most
        if event.call is not None:
            (open_now.add if event.kind == "tool_started" else open_now.discard)(event.call.seq)
            most = max(most, len(open_now))

    source = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    return sum(await asyncio.gather(*(ctx.one() for _ in range(10))))\n"
    )
    async with Session(tmp_path, tools=[one], toolsets=(), workers=1) as session:
        assert (await session.program(source=source, on_event=watch)).value == 10
    assert most >= 1
    assert open_now == set()


def test_calls_made_one_by_one_run_concurrently_under_asyncio_run(tmp_path: Path) -> None:
    """Under `asyncio.run` a callback of the reader is in no task and in no loop anyio knows."""

    async def main() -> RunResult:
        here: list[asyncio.Event] = []

        @tool
        async def meet() -> int:
            """Wait until three have come."""
            here.append(asyncio.Event())
            if len(here) == 3:
                for each in here:
                    each.set()
            await asyncio.wait_for(here[0].wait(), 10)
            return len(here)

        source = (
            "import asyncio\nasync def run(ctx, inputs):\n    calls = []\n"
            "    for _ in range(3):\n        calls.append(ctx.meet())\n"
            "        await asyncio.sleep(0.001)\n    return await asyncio.gather(*calls)\n"
        )
        async with Session(tmp_path, tools=[meet], toolsets=(), workers=1) as session:
            return await session.program(source=source)

    assert asyncio.run(main()).unwrap() == [3, 3, 3]


def test_every_frame_that_a_worker_may_send_to_a_run_has_a_handler() -> None:
    states = (State.STARTED, State.COMPILING, State.RUNNING)
    legal = {kind for state in states for kind in LEGAL[state]}
    assert set(HANDLERS) == {kind for kind in legal if kind > Kind.READY}


def test_only_the_first_finish_of_a_run_has_an_effect() -> None:
    program = Program("r", "1", "s.py", b"{}", ToolTable({}), Limits(max_messages=1))
    finished: list[Status] = []
    events: list[RunEvent] = []
    outcome = Outcome(program, events.append, finished.append)
    outcome.add_output("a", Output.STDOUT)
    assert outcome.status is None
    outcome.add_output("b", Output.STDERR)
    outcome.finish("completed", value=ReturnValue(1, 5))
    result = outcome.to_result(
        calls=(), pending=(), warnings=[], duration_ms=1.0, queued_ms=0.0, tool_calls=0
    )
    assert finished == ["limit_exceeded"]
    assert (result.status, result.value, result.stdout, result.stderr) == (
        "limit_exceeded",
        None,
        "a",
        "b",
    )
    assert result.error is not None
    assert (result.error.code, result.error.breach) == (
        "limit_max_messages",
        Breach("max_messages", 1, 2),
    )
    assert [(event.kind, event.text) for event in events] == [("stdout", "a"), ("stderr", "b")]
