"""A worker that is a process, signalled through a descriptor.

Rule 1: the worker is signalled through a pidfd, never through a number that may be reused.
    tests/core/workers/test_process.py::test_a_worker_is_killed_by_descriptor
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable

from .._core._reactor import Reactor
from .._wire._protocol import PLACE_SIGNAL
from ._worker import Exit, Worker

__all__ = ["ProcessWorker"]

_END_SECONDS = 1.0
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h: the clock of a process is ``~pid << 3 | 2``, as returned
by clock_getcpuclockid(3)."""


class ProcessWorker(Worker):
    """A forked worker: its socket, its pidfd and the state of its run."""

    __slots__ = ("_clock", "_cpu_before", "_pidfd", "give_back")

    def __init__(
        self, number: int, sock: socket.socket, reactor: Reactor, memory_bytes: int
    ) -> None:
        self._pidfd: int | None = None
        self._clock: int | None = None
        self._cpu_before = 0.0
        self.give_back: Callable[[], bool] | None = None
        """Has it restored for another run; False if it has to be killed. None: it always is."""
        super().__init__(number, sock, reactor, memory_bytes)

    @property
    def killable(self) -> bool:
        """True once its pidfd has arrived."""
        return self._pidfd is not None

    def set_pidfd(self, pidfd: int) -> None:
        """Set the pidfd through which the worker is signalled."""
        self._pidfd = pidfd

    def cpu_seconds(self) -> float | None:
        """Return the CPU time its process has used so far, or None if it has exited."""
        if self._pidfd is None or self.exit is not None:
            return None
        try:
            if self._clock is None:
                pid = _pid_of(self._pidfd)
                # -1 for a reaped process.
                if pid <= 0:
                    return None
                self._clock = (~pid << 3) | _PROCESS_CLOCK
            # At worst the clock of a process that reuses the pid is read; nothing is done to that
            # process.
            return time.clock_gettime(self._clock) - self._cpu_before
        except (OSError, ValueError, IndexError):
            return None

    def ask_place(self) -> bool:
        """Ask for the lines that execute, with a signal; return False if it has exited.

        It answers with FRAMES between two instructions of the interpreter, and not at all inside of
        a long one, such as the sum of a large range.
        """
        if self._pidfd is None or self.exit is not None:
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, PLACE_SIGNAL)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Kill the process. Does nothing if it has exited."""
        if self._pidfd is not None and self.exit is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    @property
    def may_return(self) -> bool:
        """True if `give_up` may have it restored; otherwise a run kills it."""
        return self.give_back is not None

    def give_up(self) -> None:
        """End its use by a run: have it restored if that is possible, kill it otherwise."""
        if self.give_back is None or not self.has_ended or not self.give_back():
            self.hang_up()

    def announce(self) -> None:
        """Make it one that waits for a program: it is new, or was restored."""
        if self.give_back is not None:
            self._cpu_before += self.cpu_seconds() or 0.0
        super().announce()

    def wait(self) -> None:
        """Wait briefly for the exit of a killed worker after the death of its zygote."""
        if self._pidfd is not None and self.exit is None:
            select.select([self._pidfd], [], [], _END_SECONDS)

    def record_exit(self, how: Exit) -> None:
        """Record the exit, after the zygote reported that the process has been reaped."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        super().record_exit(how)


def _pid_of(pidfd: int) -> int:
    """Return the id of the process of a pidfd; -1 after it was reaped.

    Raises:
        OSError, ValueError, IndexError: If it cannot be read.
    """
    # Not with `open`, whose buffer and decoder take four times as long; each run ends with this.
    info = os.open(f"/proc/self/fdinfo/{pidfd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(info, 4_096)
    finally:
        os.close(info)
    return int(data.partition(b"\nPid:")[2].split(None, 1)[0])
