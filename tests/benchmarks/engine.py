"""Engines to measure: objects that run a script with tools. ptc is here, Monty in `rival`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from measure import descendants

from ptc import BlockingSession, Limits, Session, tool
from ptc._workers._pool import Pool

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
"""A worker rehearses for about 2 ms once the pool is full, and does not report when it is done."""
WORKERS = 4
"""Ready workers: the default of a session; Monty gets as many."""


def pool_of(session: Session) -> Pool:
    """Return the pool of a session whose engine is `process`."""
    pool = session._pool
    assert isinstance(pool, Pool)
    return pool


class Engine(Protocol):
    """Runs a script in a fresh state, in a separate process."""

    @property
    def gate(self) -> Gate:
        """Gate at which calls of the tool `hold` wait."""
        ...

    async def run(self, source: str) -> Any:
        """Return the value of the script's `run`; raise for any other outcome."""

    async def settle(self) -> None:
        """Wait until the configured number of workers is ready."""

    def workers(self) -> set[int]:
        """Return the process ids of the workers."""
        ...


class BlockingEngine(Protocol):
    """The same for a program without an event loop and without tools."""

    def run(self, source: str) -> Any:
        """See `Engine.run`."""

    def settle(self) -> None:
        """See `Engine.settle`."""


class Gate:
    """Holds tool calls until they are released."""

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
        """Release all calls."""
        self._open.set()


async def noop(x: int) -> int:
    """Return x."""
    return x


async def nap() -> int:
    """Sleep 10 ms."""
    await asyncio.sleep(0.01)
    return 1


def _megabyte() -> list[dict[str, Any]]:
    """Create about 1,000,000 bytes of JSON."""
    return [
        {"id": n, "name": f"row {n}", "tags": ["a", "b"], "score": n / 8, "ok": n % 2 == 0}
        for n in range(14_200)
    ]


megabyte = _megabyte()


async def rows() -> list[dict[str, Any]]:
    """Return about 1 MB of rows."""
    return megabyte


def tool_functions(gate: Gate) -> Mapping[str, Callable[..., Any]]:
    """The tools of every script, by name."""
    return {"noop": noop, "nap": nap, "rows": rows, "hold": gate.hold}


class Ptc:
    """ptc through its public API; `_pool` only tells when to start."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self.session = session
        self.gate = gate

    async def run(self, source: str) -> Any:
        """See `Engine.run`."""
        return (await self.session.program(source=source)).unwrap()

    async def settle(self) -> None:
        """See `Engine.settle`."""
        pool = pool_of(self.session)
        while pool.ready < pool.target:  # the pool has no notification
            await asyncio.sleep(0.0005)
        await asyncio.sleep(_REHEARSAL_SECONDS)

    def workers(self) -> set[int]:
        """See `Engine.workers`: the children of the zygote that have no children."""
        zygote = pool_of(self.session)._zygote
        if zygote is None:
            return set()
        return {pid for pid, below in descendants(zygote.pid).items() if not below}


class WasmPtc(Ptc):
    """ptc on the engine `wasm`, whose workers are threads of this process."""

    async def settle(self) -> None:
        """See `Engine.settle`."""
        pool = self.session._pool
        while pool is None or pool.describe()["ready"] < WORKERS:
            await asyncio.sleep(0.0005)

    def workers(self) -> set[int]:
        """See `Engine.workers`: it has no processes."""
        return set()


@asynccontextmanager
async def open_ptc(which: Literal["process", "wasm"] = "process") -> AsyncIterator[Ptc]:
    """Open a session with ready workers of an engine."""
    gate = Gate()
    limits = Limits(max_tool_calls=10_000, max_output_bytes=8_388_608)
    with TemporaryDirectory() as root:
        tools = [tool(function) for function in tool_functions(gate).values()]
        async with Session(
            root, tools=tools, toolsets=(), limits=limits, workers=WORKERS, engine=which
        ) as session:
            await session.warm_up()
            engine = (Ptc if which == "process" else WasmPtc)(session, gate)
            await engine.settle()
            yield engine


class BlockingPtc:
    """`Ptc` without an event loop of the caller."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session

    def run(self, source: str) -> Any:
        """See `Engine.run`."""
        return self._session.program(source=source).unwrap()

    def settle(self) -> None:
        """See `Engine.settle`."""
        pool = pool_of(self._session._session)
        while pool.ready < pool.target:
            time.sleep(0.0005)
        time.sleep(_REHEARSAL_SECONDS)


@contextmanager
def open_blocking_ptc() -> Iterator[BlockingPtc]:
    """Open a blocking session with the kernel layer and ready workers."""
    with TemporaryDirectory() as root, BlockingSession(root, toolsets=()) as session:
        session.warm_up()
        yield BlockingPtc(session)
