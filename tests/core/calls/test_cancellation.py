"""Cancelled at every await: whatever it was doing, nothing is left and the session goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc import Cache, Limits, RunResult, Session, tool
from tests.core.pools import pool_of

from ...conftest import children, descriptors
from .cancellation_points import MODES, Mode, Outcome, alive_tasks, cancel_at

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.usefixtures("nothing_left")]

SOURCE = """
import asyncio

async def run(ctx, inputs):
    ctx.emit("begun")
    await asyncio.sleep(0.001)
    first = await asyncio.gather(ctx.wait(1), ctx.block(2), ctx.kept(3), ctx.kept(3))
    return first + [await ctx.wait(4)]
"""
VALUE = [1, 2, 3, 3, 4]
OTHER = "def run(ctx, inputs):\n    return 2\n"
MOST = 200
"""Awaits at which something is cancelled, at most: it is to end long before."""


class Tools:
    """Tools that count how many of them are at work."""

    def __init__(self) -> None:
        self.busy = 0

        @tool
        async def wait(n: int) -> int:
            """Wait a little, twice."""
            self.busy += 1
            try:
                await anyio.lowlevel.checkpoint()
                await anyio.sleep(0.0005)
            finally:
                self.busy -= 1
            return n

        @tool
        def block(n: int) -> int:
            """Do something in a thread."""
            return n

        @tool(cache=Cache(scope="session", ttl_ms=0))
        async def kept(n: int) -> int:
            """Share what is under way."""
            await anyio.lowlevel.checkpoint()
            return n

        self.all = [wait, block, kept]


class Books:
    """Snapshot of a session's resources, and a wait until only those are left again."""

    def __init__(self, session: Session) -> None:
        self._pool = pool_of(session)
        self._wanted = self._now()

    async def balanced(self) -> None:
        with anyio.move_on_after(5):
            while self._now() != self._wanted:
                await anyio.sleep(0.001)
        assert self._now() == self._wanted

    def _now(self) -> dict[str, Any]:
        return {
            "ready": self._pool.ready,
            "live": self._pool.live,
            "descriptors": len(descriptors()),
            "processes": children(),
            "tasks": alive_tasks(),
        }


@asynccontextmanager
async def open_warm_session(root: Path, tools: Tools) -> AsyncIterator[Session]:
    async with Session(root, tools=tools.all, toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            for _ in range(2):
                assert (await session.program(source=SOURCE)).value == VALUE
            while pool_of(session).live != 1 or pool_of(session).ready != 1:
                await anyio.sleep(0.001)
            # Wait for the callbacks that the last run has deferred.
            seen = [0]
            while len(seen) < 10 or len(set(seen[-10:])) > 1:
                await anyio.sleep(0.002)
                seen.append(alive_tasks())
        yield session


async def cancel_everywhere(
    modes: Iterable[Mode], work: Callable[[], Awaitable[Any]], after: Callable[[], Awaitable[None]]
) -> int:
    """Cancel `work` at its first await, its second ... until it is done; how many."""
    points = 0
    for mode in modes:
        for n in range(1, MOST):
            with anyio.fail_after(20):
                out = await cancel_at(n, mode, work)
                await after()
            if not out.reached:
                assert out.error is None, out.error
                break
            points += 1
        else:
            pytest.fail("it never ended")
    return points


async def _program(session: Session) -> Any:
    result = await session.program(source=SOURCE)
    assert result.value == VALUE, result
    return result


async def _stream(session: Session) -> None:
    async with session.stream(source=SOURCE) as events:
        kinds = [event.kind async for event in events]
    assert kinds[-1] == "finished"


async def _check(session: Session) -> None:
    assert await session.check(source=SOURCE) == ()


async def _direct(session: Session) -> None:
    values = [
        (await session.tool(name, {"n": n})).value
        for n, name in enumerate(("wait", "block", "kept"), 1)
    ]
    assert values == [1, 2, 3]


async def _other_memory(session: Session) -> None:
    limits = Limits(max_memory_bytes=64 << 20)
    assert (await session.program(source=OTHER, limits=limits)).value == 2


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("work", "least"),
    [(_program, 3), (_stream, 5), (_check, 1), (_direct, 3), (_other_memory, 2)],
)
async def test_work_cancelled_at_any_await_leaves_the_session_usable(
    tmp_path: Path,
    anyio_backend: str,
    work: Callable[[Session], Awaitable[Any]],
    least: int,
) -> None:
    tools = Tools()
    async with open_warm_session(tmp_path, tools) as session:
        books = Books(session)

        async def after() -> None:
            assert tools.busy == 0
            assert not session._runs.active
            assert session._runs.unfinished == 0
            assert (await session.program(source=OTHER)).value == 2
            await books.balanced()

        points = await cancel_everywhere(MODES[anyio_backend], lambda: work(session), after)
    assert points >= least


async def test_session_cancelled_at_any_await_leaves_nothing_behind(
    tmp_path: Path, anyio_backend: str
) -> None:
    tools = Tools()

    async def life() -> None:
        async with Session(tmp_path, tools=tools.all, toolsets=(), workers=1) as session:
            await session.warm_up()
            assert (await session.program(source=SOURCE)).value == VALUE

    before, processes, tasks = len(descriptors()), children(), alive_tasks()

    async def after() -> None:
        assert tools.busy == 0
        with anyio.fail_after(10):
            while children() != processes or len(descriptors()) != before or alive_tasks() != tasks:
                await anyio.sleep(0.001)

    # Each starts a zygote: one way to be cancelled is enough here.
    points = await cancel_everywhere(MODES[anyio_backend][:1], life, after)
    assert points >= 5


async def test_close_cancelled_at_any_await_still_closes(
    tmp_path: Path, anyio_backend: str
) -> None:
    tools = Tools()
    before, processes, tasks = len(descriptors()), children(), alive_tasks()
    reached = 0
    for mode in MODES[anyio_backend][:2]:
        for n in range(1, MOST):
            session = Session(tmp_path, tools=tools.all, toolsets=(), workers=1)
            await session.__aenter__()
            results: list[RunResult] = []
            out = Outcome()

            async def one(session: Session = session, results: list[RunResult] = results) -> None:
                results.append(await session.program(source="while True: ctx.wait(1)"))

            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(one)
                    while not session._runs.active:
                        await anyio.sleep(0.001)
                    out = await cancel_at(n, mode, session.aclose)
                while (
                    children() != processes
                    or len(descriptors()) != before
                    or alive_tasks() != tasks
                ):
                    await anyio.sleep(0.001)
            assert [result.status for result in results] == ["cancelled"]
            await session.aclose()
            reached += out.reached
            if not out.reached:
                break
    assert reached >= 1
