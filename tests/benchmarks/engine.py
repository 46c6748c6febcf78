"""What is measured: something that runs a script with tools. Ours is here, Monty's in `rival`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from measure import descendants

from ptc import BlockingSession, Limits, Session, tool

__all__ = [
    "WORKERS",
    "BlockingEngine",
    "Engine",
    "Gate",
    "megabyte",
    "open_blocking_ptc",
    "open_ptc",
    "tool_functions",
]

_REHEARSAL_SECONDS = 0.004
"""A worker rehearses when the pool is full, for about 2 ms, and says nothing when it is done."""
WORKERS = 4
"""Workers kept ready: the default of a session; Monty gets as many."""


class Engine(Protocol):
    """Runs a script in a fresh state, in a process of its own."""

    @property
    def gate(self) -> Gate:
        """Where calls of the tool `hold` wait."""

    async def run(self, source: str) -> Any:
        """The value of the script's `run`. Any other outcome is an exception."""

    async def settle(self) -> None:
        """Wait until as many workers are ready as are kept ready."""

    def workers(self) -> set[int]:
        """Process ids of the workers."""


class BlockingEngine(Protocol):
    """The same for a program without an event loop, and without tools."""

    def run(self, source: str) -> Any:
        """As `Engine.run`."""

    def settle(self) -> None:
        """As `Engine.settle`."""


class Gate:
    """Tool calls that wait until they are let go."""

    def __init__(self) -> None:
        self._waiting = 0
        self._arrived = asyncio.Condition()
        self._open = asyncio.Event()

    async def hold(self) -> int:
        """Wait at the gate."""
        async with self._arrived:
            self._waiting += 1
            self._arrived.notify_all()
        await self._open.wait()
        return self._waiting

    async def full(self, calls: int) -> None:
        """Wait until so many calls are at the gate."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self._waiting >= calls)

    def release(self) -> None:
        """Let all calls go."""
        self._open.set()


async def noop(x: int) -> int:
    """Give x back."""
    return x


async def nap() -> int:
    """Sleep 10 ms."""
    await asyncio.sleep(0.01)
    return 1


def _megabyte() -> list[dict[str, Any]]:
    """About 1,000,000 bytes of JSON."""
    return [
        {"id": n, "name": f"row {n}", "tags": ["a", "b"], "score": n / 8, "ok": n % 2 == 0}
        for n in range(14_200)
    ]


megabyte = _megabyte()


async def rows() -> list[dict[str, Any]]:
    """Give about 1 MB of rows."""
    return megabyte


def tool_functions(gate: Gate) -> Mapping[str, Callable[..., Any]]:
    """The tools of every script, by name."""
    return {"noop": noop, "nap": nap, "rows": rows, "hold": gate.hold}


class Ptc:
    """This project, through its public face; `_pool` only says when to begin."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self.gate = gate

    async def run(self, source: str) -> Any:
        """As `Engine.run`."""
        return (await self._session.program(source=source)).unwrap()

    async def settle(self) -> None:
        """As `Engine.settle`."""
        while self._session._pool.ready < WORKERS:  # a pool tells nobody
            await asyncio.sleep(0.0005)
        await asyncio.sleep(_REHEARSAL_SECONDS)

    def workers(self) -> set[int]:
        """As `Engine.workers`: those below the zygote that have no children."""
        zygote = self._session._pool._zygote
        if zygote is None:
            return set()
        return {pid for pid, below in descendants(zygote.pid).items() if not below}


@asynccontextmanager
async def open_ptc() -> AsyncIterator[Ptc]:
    """A session in the jail, its workers ready."""
    gate = Gate()
    limits = Limits(max_tool_calls=10_000, max_output_bytes=8_388_608)
    with TemporaryDirectory() as root:
        tools = [tool(function) for function in tool_functions(gate).values()]
        async with Session(
            root, tools=tools, toolsets=(), limits=limits, workers=WORKERS
        ) as session:
            await session.warm_up()
            engine = Ptc(session, gate)
            await engine.settle()
            yield engine


class BlockingPtc:
    """As `Ptc`, without an event loop of the caller's."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session

    def run(self, source: str) -> Any:
        """As `Engine.run`."""
        return self._session.program(source=source).unwrap()

    def settle(self) -> None:
        """As `Engine.settle`."""
        while self._session._session._pool.ready < WORKERS:
            time.sleep(0.0005)
        time.sleep(_REHEARSAL_SECONDS)


@contextmanager
def open_blocking_ptc() -> Iterator[BlockingPtc]:
    """A blocking session in the jail, its workers ready."""
    with TemporaryDirectory() as root, BlockingSession(root, toolsets=()) as session:
        session.warm_up()
        yield BlockingPtc(session)
