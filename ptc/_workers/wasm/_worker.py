"""The host's handle of a guest: a worker whose stream is a pipe between two threads."""

from __future__ import annotations

from typing import Any

from ..._core._reactor import Reactor
from .._worker import Worker
from ._guest import Guest
from ._pipe import Pipe, PipeReactor

__all__ = ["WasmWorker"]


class WasmWorker(Worker):
    """A guest and the state of its run."""

    __slots__ = ("guest",)

    def __init__(self, number: int, pipe: Pipe, reactor: Reactor, memory_bytes: int) -> None:
        self.guest: Guest | None = None
        adapted: Any = PipeReactor(reactor)  # its sockets are pipes
        super().__init__(number, pipe, adapted, memory_bytes)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of its thread."""
        return None if self.guest is None else self.guest.cpu_seconds()

    def ask_place(self) -> bool:
        """Return False: a guest that computes reads nothing, and cannot be interrupted."""
        return False

    def kill(self) -> None:
        """Stop the guest between two instructions."""
        if self.guest is not None and self.exit is None:
            self.guest.stop()

    def busy_poll(self, times: int) -> bool:
        """Look once: while this thread polls, that of the guest cannot answer."""
        return super().busy_poll(min(times, 1))
