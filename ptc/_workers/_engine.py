"""The interface of an engine: ready workers for runs, with a sandbox that was verified."""

from __future__ import annotations

from typing import Any, Protocol

from .._core._reactor import Reactor
from ._worker import Worker
from ._zygote import Hello

__all__ = ["Engine"]


class Engine(Protocol):
    """A source of workers, each for one run. It belongs to one session."""

    @property
    def reactor(self) -> Reactor:
        """Callbacks of the event loop, once there are workers."""
        ...

    @property
    def is_warm(self) -> bool:
        """True if workers can start at once."""
        ...

    @property
    def name(self) -> str:
        """Name and version, which a run records: it continues on an equal one."""
        ...

    def start(self) -> None:
        """Begin to prepare the engine, without waiting; `hello` or `acquire` reports errors."""
        ...

    async def hello(self) -> Hello:
        """Prepare the engine and return what confines its workers.

        Raises:
            SetupError: If it cannot confine or start a worker on this machine.
            SessionClosedError: If it was closed.
        """
        ...

    async def acquire(self, memory_bytes: int) -> Worker:
        """Return a worker for one run; requests are served in order.

        Raises:
            SetupError: If no worker can be started.
            SessionClosedError: If the engine was closed.
        """
        ...

    async def close(self) -> None:
        """Stop every worker, and wait until none is left."""

    def describe(self) -> dict[str, Any]:
        """Return how many workers are ready, coming and alive, for diagnostics."""
        ...
