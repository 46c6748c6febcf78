"""Runs that wait for a worker of an engine, in the order of their requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from .._dataclass import dataclass
from ..errors import SessionClosedError, SetupError
from ._worker import Worker

__all__ = ["Waiters"]

_W = TypeVar("_W", bound=Worker)


@dataclass(slots=True)
class _Waiter(Generic[_W]):
    memory_bytes: int
    event: anyio.Event
    worker: _W | None = None
    error: SetupError | SessionClosedError | None = None


class Waiters(Generic[_W]):
    """The waiting runs of one engine."""

    def __init__(self) -> None:
        self._queue: deque[_Waiter[_W]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def count(self, memory_bytes: int) -> int:
        """Return how many wait for a worker with this memory limit."""
        return sum(waiter.memory_bytes == memory_bytes for waiter in self._queue)

    async def wait(
        self, memory_bytes: int, request: Callable[[], object], seconds: float, late: str
    ) -> _W | None:
        """Wait for a worker; None if `wake` was called.

        Args:
            memory_bytes: Memory limit of the worker.
            request: Called once the run is in the queue; starts workers.
            seconds: Longest time.
            late: Message of the error after that time.

        Raises:
            SetupError: If no worker came in time, or `fail` was called.
            SessionClosedError: If `close` was called.
        """
        waiter = _Waiter[_W](memory_bytes, anyio.Event())
        self._queue.append(waiter)
        try:
            request()
            with anyio.move_on_after(seconds):
                await waiter.event.wait()
        except BaseException:
            self._queue = deque(other for other in self._queue if other is not waiter)
            if waiter.worker is not None:
                waiter.worker.hang_up()
            raise
        if not waiter.event.is_set():
            self._queue.remove(waiter)
            raise SetupError(late)
        if waiter.error is not None:
            raise waiter.error
        return waiter.worker

    def offer(self, worker: _W) -> bool:
        """Give a worker to the first run that waits for one with its memory limit, if any."""
        for waiter in self._queue:
            if waiter.memory_bytes == worker.memory_bytes:
                self._queue.remove(waiter)
                waiter.worker = worker
                waiter.event.set()
                return True
        return False

    def fail(self, memory_bytes: int, message: str) -> None:
        """Let the runs that wait for a worker with this memory limit raise `SetupError`."""
        for waiter in [w for w in self._queue if w.memory_bytes == memory_bytes]:
            self._queue.remove(waiter)
            waiter.error = SetupError(message)
            waiter.event.set()

    def close(self, message: str) -> None:
        """Let all runs raise `SessionClosedError`."""
        for waiter in self._queue:
            waiter.error = SessionClosedError(message)
        self.wake()

    def wake(self) -> None:
        """End the waits of all runs without a worker."""
        for waiter in self._queue:
            waiter.event.set()
        self._queue.clear()
