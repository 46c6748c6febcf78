"""Sessions of an event loop share a zygote, and nothing else."""

from __future__ import annotations

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, Session, tool
from tests.core.pools import pool_of

pytestmark = pytest.mark.anyio

PATIENCE_S = 30


def zygote_of(session: Session) -> int:
    zygote = pool_of(session)._zygote
    assert zygote is not None
    return zygote.pid


def children_of(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


async def open_sessions(stack: AsyncExitStack, root: Path, number: int, **options: Any) -> Any:
    """Open sessions and start their workers."""
    sessions = [Session(root, toolsets=(), **options) for _ in range(number)]
    for session in sessions:
        await stack.enter_async_context(session)
        await session.warm_up()
    return sessions


async def test_sessions_share_a_zygote_and_divide_the_ready_workers(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            sessions = await open_sessions(stack, tmp_path, 4, workers=4)
            assert len({zygote_of(session) for session in sessions}) == 1
            assert [pool_of(session).target for session in sessions] == [1, 1, 1, 1]
            values = [(await s.program(source=str(n))).unwrap() for n, s in enumerate(sessions)]
            assert values == [0, 1, 2, 3]


async def test_sessions_with_other_isolation_do_not_share(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            (strict,) = await open_sessions(stack, tmp_path, 1, workers=1)
            (weaker,) = await open_sessions(stack, tmp_path, 1, workers=1, isolation="process")
            assert zygote_of(strict) != zygote_of(weaker)


async def test_closing_a_session_ends_its_own_runs_and_workers_alone(tmp_path: Path) -> None:
    started = anyio.Event()

    @tool
    async def hold() -> None:
        """Wait for ever."""
        started.set()
        await anyio.sleep_forever()

    with anyio.fail_after(PATIENCE_S):
        async with Session(tmp_path, tools=[hold], toolsets=(), workers=1) as kept:
            await kept.warm_up()
            pid = zygote_of(kept)
            closed = Session(tmp_path, tools=[hold], toolsets=(), workers=1)
            async with anyio.create_task_group() as group:

                async def run_until_closed() -> None:
                    async with closed:
                        source = "await ctx.hold()"
                        assert (await closed.program(source=source)).status == "cancelled"

                group.start_soon(run_until_closed)
                await started.wait()
                assert zygote_of(closed) == pid
                await closed.aclose()
            assert pool_of(closed).live == 0
            assert (await kept.program(source="1 + 1")).value == 2
            assert zygote_of(kept) == pid
        assert not Path(f"/proc/{pid}").exists()


async def test_sessions_survive_the_death_of_their_zygote(tmp_path: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            sessions = await open_sessions(stack, tmp_path, 2, workers=1)
            pid = zygote_of(sessions[0])
            os.kill((children_of(pid) or [pid])[0], signal.SIGKILL)
            while any(pool_of(session)._hello is not None for session in sessions):
                await anyio.sleep(0.001)
            for session in sessions:
                assert (await session.program(source="1 + 1")).value == 2
            assert zygote_of(sessions[0]) == zygote_of(sessions[1]) != pid


async def test_limits_of_one_session_do_not_reach_another(tmp_path: Path) -> None:
    small = Limits(max_memory_bytes=32 << 20)
    with anyio.fail_after(PATIENCE_S):
        async with AsyncExitStack() as stack:
            (tight,) = await open_sessions(stack, tmp_path, 1, workers=1, limits=small)
            (roomy,) = await open_sessions(stack, tmp_path, 1, workers=1)
            source = "len('x' * 60_000_000)"
            assert (await tight.program(source=source)).status == "limit_exceeded"
            assert (await roomy.program(source=source)).value == 60_000_000
