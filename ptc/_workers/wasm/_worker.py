"""The host's handle of a guest: a worker whose stream is a pipe between two threads."""

from __future__ import annotations

from typing import Any

from ..._core._reactor import Reactor
from ..._wire._protocol import Kind, State
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
        """Have the guest's thread read the line out of its memory."""
        return self.guest is not None and self.exit is None and self.guest.ask_place()

    def report_place(self, line: int) -> None:
        """Pass on the line at which it computes, as if the guest had sent it."""
        if self.eof or self.state is not State.RUNNING:
            return
        try:
            self.on_frame(Kind.FRAMES, [["", line, []]], 0)
        except Exception as error:  # noqa: BLE001  # no callback of an event loop may raise
            self._fail(error)

    def kill(self) -> None:
        """Stop the guest between two instructions."""
        if self.guest is not None and self.exit is None:
            self.guest.stop()

    def busy_poll(self, times: int) -> bool:
        """Look once: while this thread polls, that of the guest cannot answer."""
        return super().busy_poll(min(times, 1))
