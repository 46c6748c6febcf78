"""One worker process seen from the host: send, receive, kill.

Rule 1: a frame that is not legal now, or not well-formed, ends the worker at once.
    tests/core/runs/test_hostile_worker.py
Rule 2: the worker is signalled through a pidfd, never through a number that may be reused.
    tests/core/workers/test_process.py::test_a_worker_is_killed_by_descriptor
Rule 3: the host reads with `recv`, never `recvmsg`: a worker cannot hand it descriptors.
    tests/core/runs/test_hostile_worker.py::test_descriptors_sent_by_a_worker_do_not_arrive
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from .._reactor import Reactor, Stop
from .._wire._protocol import (
    FROM_WORKER,
    MAX_BODY,
    Decoder,
    Kind,
    OversizedError,
    State,
    encode,
    next_state,
    parse,
)
from ._syscall_names import syscall_name

__all__ = ["LOOKS", "Exit", "Worker", "WorkerGoneError"]

_CHUNK = 65_536
"""Bytes read at once. Over 128 KiB malloc takes fresh pages for each buffer: 8 us a frame."""

LOOKS = 30
"""Times the socket is looked at after an answer, about 20 us: a script that calls one tool after
the other has its next call there in 15, and two turns of the event loop cost 25."""
_LOOKS_IN_A_ROW = 32
"""Looks that find something before the event loop has its turn."""
_END_SECONDS = 1.0
_CHUNKS_IN_A_ROW = 8
"""Chunks of one worker that are read before the event loop has its turn."""
_FRAMES_IN_A_ROW = 128
"""Frames of one worker that are handled before the event loop has its turn: of 64 KiB of the
shortest, 10,000, it would wait for a tenth of a second."""
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h: the clock of a process is ``~pid << 3 | 2``, which is
what clock_getcpuclockid(3) gives."""


class WorkerGoneError(Exception):
    """Raised when a program cannot be sent: the worker died before it had one."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a worker process ended."""

    signal: int
    """Signal that killed it; 0: none."""
    status: int
    """Exit status; -1: it could not be forked."""
    call: tuple[int, ...] | None = None
    """The system call that the jail stopped it at, as the kernel told the zygote: architecture,
    number, six arguments. None: it was not stopped, or nobody was told."""
    why: str = ""
    """What is known beyond that."""
    memory_bytes: int = 0
    """The most memory it held at once beside what it was forked with."""

    @property
    def reached_the_fence(self) -> bool:
        """True if the jail ended it."""
        return self.call is not None or self.signal == signal.SIGSYS

    @property
    def words(self) -> str:
        """How it ended, for a person."""
        if self.call is not None:
            return f"stopped at system call {syscall_name(self.call[0], self.call[1])}"
        words = signal.Signals(self.signal).name if self.signal else f"exit status {self.status}"
        return f"{words}: {self.why}" if self.why else words


class Worker:
    """A forked worker: its socket, its pidfd, where it is in its run."""

    __slots__ = (
        "_backlog",
        "_decoder",
        "_frames",
        "_held",
        "_pidfd",
        "_reactor",
        "_socket",
        "_stop_reading",
        "_stop_resuming",
        "_stop_writing",
        "_taken",
        "batch",
        "eager",
        "eof",
        "exit",
        "id",
        "memory_bytes",
        "most_bytes",
        "on_end",
        "on_fault",
        "on_frame",
        "on_oversized",
        "state",
    )

    def __init__(
        self, number: int, sock: socket.socket, reactor: Reactor, memory_bytes: int
    ) -> None:
        self.id = number
        self.memory_bytes = memory_bytes
        self.state = State.FORKED
        self.exit: Exit | None = None
        self.eof = False
        self.batch = 0
        """Counts what was read at once."""
        self.eager = False
        """True: look for more before the event loop is asked."""
        self.on_frame: Callable[[Kind, Any, int], None] = lambda _kind, _message, _size: None
        self.most_bytes: Mapping[Kind, int] = {}
        """Bytes up to which a body of these kinds is decoded; a larger one is passed on raw."""
        self.on_oversized: Callable[[Kind, int], None] = lambda _kind, _size: None
        """Called in place of `on_frame` for a value that does not come in parts and is too large to
        come otherwise. Nothing more is read from the worker."""
        self.on_fault: Callable[[Exception], None] = lambda _error: None
        self.on_end: Callable[[], None] = lambda: None
        self._socket = sock
        self._reactor = reactor
        self._decoder = Decoder(FROM_WORKER)
        self._frames: Iterator[tuple[Kind, bytes]] | None = None
        self._held = False
        self._pidfd: int | None = None
        self._backlog = bytearray()
        self._taken: anyio.Event | None = None
        self._stop_writing: Stop | None = None
        self._stop_resuming: Stop | None = None
        self._stop_reading: Stop | None = reactor.on_readable(sock, self._readable)

    @property
    def killable(self) -> bool:
        """True once the descriptor has come through which it is signalled."""
        return self._pidfd is not None

    def adopt(self, pidfd: int) -> None:
        """Take the descriptor through which the worker is signalled."""
        self._pidfd = pidfd

    @property
    def backlog_bytes(self) -> int:
        """Bytes sent that the worker has not yet made room for."""
        return len(self._backlog)

    async def taken(self) -> None:
        """Wait until the worker has made room for what was sent, or is gone."""
        if self._backlog:
            if self._taken is None:
                self._taken = anyio.Event()
            await self._taken.wait()

    def send(self, *frames: tuple[Kind, bytes]) -> bool:
        """Send frames; what the socket does not take now is sent when it does.

        Returns:
            False if the worker is known to be gone.

        Raises:
            ProtocolError: If a frame is not legal in the worker's state.
        """
        state = self.state
        parts = []
        for kind, body in frames:
            state = next_state(state, kind)
            parts.append(encode(kind, body))
        self.state = state
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if self.eof:
            return False
        if not self._backlog:
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                return False
            if sent == len(data):
                return True
            data = data[sent:]
        self._backlog += data
        if self._stop_writing is None:
            self._stop_writing = self._reactor.on_writable(self._socket, self._writable)
        return True

    def cpu_seconds(self) -> float | None:
        """CPU time its process has used so far; None if that cannot be known any more."""
        if self._pidfd is None or self.exit is not None:
            return None
        try:
            text = Path(f"/proc/self/fdinfo/{self._pidfd}").read_text(encoding="ascii")
            pid = int(text.partition("\nPid:")[2].split(None, 1)[0])
            # Of a process that has been reaped, -1. A number that was given to another since is
            # read at worst; nothing is done to that process.
            return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK) if pid > 0 else None
        except (OSError, ValueError, IndexError):
            return None

    def kill(self) -> None:
        """End the process now. Does nothing to one that has ended."""
        if self._pidfd is not None and self.exit is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def hang_up(self) -> None:
        """Kill, and close the socket: nothing more is read from the worker."""
        self.kill()
        self._close_socket()

    def wait(self) -> None:
        """Wait for the end of a worker that has been killed and whose zygote is gone: a moment."""
        if self._pidfd is not None and self.exit is None:
            select.select([self._pidfd], [], [], _END_SECONDS)

    def ended(self, how: Exit) -> None:
        """Called with the zygote's report that the process has been reaped."""
        self.exit = how
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self.eof or how.status == -1:
            self.on_end()

    def _close_socket(self) -> None:
        self.eof = True
        for stop in (self._stop_reading, self._stop_writing, self._stop_resuming):
            if stop is not None:
                stop()
        self._stop_reading = self._stop_writing = self._stop_resuming = None
        self._frames = None
        self._backlog.clear()
        self._all_taken()
        if self._socket.fileno() >= 0:
            self._reactor.closing(self._socket)
            self._socket.close()

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            sent = len(self._backlog)
        del self._backlog[:sent]
        if not self._backlog and self._stop_writing is not None:
            self._stop_writing()
            self._stop_writing = None
            self._all_taken()

    def _all_taken(self) -> None:
        if self._taken is not None:
            self._taken.set()
            self._taken = None

    def hold(self) -> None:
        """Handle no further frame, and read nothing, until `release`."""
        self._held = True
        self._stop_now()

    def release(self) -> None:
        """Undo `hold`."""
        if self._held:
            self._held = False
            self._resume_soon()

    def _stop_now(self) -> None:
        if self._stop_reading is not None:
            self._stop_reading()
            self._stop_reading = None

    def _resume_soon(self) -> None:
        if self._stop_resuming is None and not self.eof:
            self._stop_resuming = self._reactor.call_later(0, self._resume)

    def _resume(self) -> None:
        """Go on with the frames that were read before, then read."""
        self._stop_resuming = None
        if self.eof or self._held:
            return
        if self._frames is not None:
            self.batch += 1
            self._handle_frames()
        if self._frames is None and not self.eof and self._stop_reading is None:
            self._stop_reading = self._reactor.on_readable(self._socket, self._readable)

    def look(self, times: int) -> bool:
        """Look for bytes and handle them, without the event loop; True if there were some."""
        if self.eof or self._held:
            return False
        if self._frames is not None:
            self._handle_frames()
            return True
        receive = self._socket.recv
        for _ in range(times):
            try:
                data = receive(_CHUNK)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError:
                data = b""
            self._received(data)
            return True
        return False

    def _readable(self) -> None:
        self.look(1)
        for _ in range(_LOOKS_IN_A_ROW):
            if not self.eager or self._frames is not None or not self.look(LOOKS):
                return

    def _received(self, data: bytes) -> None:
        """Handle bytes that have come; a chunk that is part of a large frame brings the next.

        Not a chunk of whole frames: thousands of them are enough for one turn of the event loop.
        """
        for _ in range(_CHUNKS_IN_A_ROW):
            whole = self._handle(data)
            if whole or len(data) < _CHUNK or self.eof:
                return
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                return
        self._handle(data)

    def _handle(self, data: bytes) -> bool:
        """Handle what `data` completes; True if that is a frame."""
        self.batch += 1
        if not data:
            self._close_socket()
            if self.exit is not None:
                self.on_end()
            return False
        self._frames = iter(self._decoder.feed(data))
        return self._handle_frames()

    def _handle_frames(self) -> bool:
        """Handle frames that were read; True if there was one. Some may be left for later."""
        assert self._frames is not None  # noqa: S101  # asked before
        count = 0
        try:
            for count, (kind, body) in enumerate(self._frames, start=1):
                self.state = next_state(self.state, kind)
                size = len(body)
                decoded = size <= self.most_bytes.get(kind, size)
                self.on_frame(kind, parse(kind, body) if decoded else body, size)
                if self.eof:
                    return True
                if self._held or count >= _FRAMES_IN_A_ROW:
                    self._stop_now()
                    if not self._held:
                        self._resume_soon()
                    return True
        except OversizedError as error:
            if error.kind in self.most_bytes and error.size <= MAX_BODY[error.kind]:
                self.on_oversized(error.kind, error.size)
                self.hang_up()
            else:
                self._fail(error)
        except Exception as error:  # noqa: BLE001  # no callback of an event loop may raise
            self._fail(error)
        self._frames = None
        return count > 0

    def _fail(self, error: Exception) -> None:
        self.hang_up()
        self.on_fault(error)
