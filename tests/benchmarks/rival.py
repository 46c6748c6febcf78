"""Monty (PyPI: pydantic-monty) behind the same interface, with equivalent limits."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from engine import WORKERS, Gate, megabyte, tool_functions
from measure import descendants
from pydantic_monty import (  # pyright: ignore[reportMissingImports]  # installed by hand
    AsyncMonty,
    Monty,
    MontyError,
    ResourceLimits,
    __version__,
)

__all__ = ["REFUSAL", "VERSION", "open_blocking_monty", "open_monty"]

VERSION: str = __version__
REFUSAL: type[Exception] = MontyError
"""Raised for a script that Monty does not execute."""

_LIMITS: ResourceLimits = {
    "max_feed_duration_secs": 30.0,
    "max_memory": 268_435_456,
    "max_suspensions": 100_000,
}


def _noop(x: int) -> int:
    return x


def _rows() -> list[dict[str, Any]]:
    return megabyte


class AwaitedMonty:
    """A pool of Monty's workers; every run checks one out, so it starts in a fresh state."""

    def __init__(self, pool: AsyncMonty, gate: Gate) -> None:
        self._pool = pool
        self.gate = gate
        self._tools: dict[str, Callable[..., Any]] = dict(tool_functions(gate))
        # A blocking script gets plain functions: a coroutine would have to be awaited.
        self._blocking = {**self._tools, "noop": _noop, "rows": _rows}

    async def run(self, source: str) -> Any:
        """See `Engine.run`. Tools are bare names there, and the value is the last expression's."""
        is_async = "async def run(" in source
        call = "await run(None, inputs)" if is_async else "run(None, inputs)"
        async with self._pool.checkout(limits=_LIMITS) as session:
            return await session.feed_run(
                f"{source.replace('ctx.', '')}\n{call}",
                inputs={"inputs": {}},
                external_lookup=self._tools if is_async else self._blocking,
            )

    async def settle(self) -> None:
        """See `Engine.settle`: a worker returns to the pool as soon as a run ends."""
        await asyncio.sleep(0.0005)

    def workers(self) -> set[int]:
        """See `Engine.workers`: all workers of this process, of any pool."""
        return {pid for pid in descendants(os.getpid()) if _name(pid) == "monty"}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@asynccontextmanager
async def open_monty() -> AsyncIterator[AwaitedMonty]:
    """Open a pool with as many ready workers as ptc; its default is the number of cores."""
    async with AsyncMonty(min_processes=WORKERS, max_processes=16) as pool:
        yield AwaitedMonty(pool, Gate())


class BlockingMonty:
    """Monty's blocking API: half the time of the async one, but it blocks an event loop."""

    def __init__(self, pool: Monty) -> None:
        self._pool = pool

    def run(self, source: str) -> Any:
        """See `Engine.run`."""
        with self._pool.checkout(limits=_LIMITS) as session:
            return session.feed_run(f"{source}\nrun(None, inputs)", inputs={"inputs": {}})

    def settle(self) -> None:
        """See `Engine.settle`."""
        time.sleep(0.0005)


@contextmanager
def open_blocking_monty() -> Iterator[BlockingMonty]:
    """Open a pool with ready workers."""
    with Monty(min_processes=WORKERS, max_processes=16) as pool:
        yield BlockingMonty(pool)
