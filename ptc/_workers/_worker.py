"""The host's handle of one worker, whatever it runs on: send, receive, check, kill.

Rule 1: an illegal or malformed frame kills the worker at once.
    tests/core/runs/test_hostile_worker.py
Rule 2: the host reads with `recv`, never `recvmsg`: a worker cannot hand it descriptors.
    tests/core/runs/test_hostile_worker.py::test_descriptors_sent_by_a_worker_are_not_received
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, cast

import anyio

from .._core._reactor import Reactor, Stop
from .._dataclass import dataclass
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

__all__ = ["BUSY_POLLS", "Exit", "Stream", "Worker", "WorkerGoneError"]

_SIGSYS = getattr(signal, "SIGSYS", -1)  # Windows has it not, and no processes
_CHUNK = 65_536
"""Bytes per read. Above 128 KiB malloc maps new pages for each buffer: 8 us per frame."""

BUSY_POLLS = 90
"""Polls of the socket after an answer, 30 to 60 us: a script that calls one tool after the other
sends its next call within 15 us, on a slow machine 50, and two iterations of the event loop cost
25."""
_BUSY_POLLS_IN_A_ROW = 32
"""Successful busy-polls before the event loop runs again."""
_CHUNKS_IN_A_ROW = 8
"""Chunks of one worker that are read before the event loop runs again."""
_MOST_COLLECTED = 256
"""Frames that are collected before they are sent: the worker reads them while the host goes on."""
_FRAMES_IN_A_ROW = 128
"""Frames of one worker that are handled before the event loop runs again: for 64 KiB of the
shortest frames, 10,000, it would wait a tenth of a second."""


class WorkerGoneError(Exception):
    """Raised when a program cannot be sent because the worker has died."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit of a worker."""

    signal: int
    """Signal that killed it; 0 if none."""
    status: int
    """Exit status; -1 if it could not be forked."""
    call: tuple[int, ...] | None = None
    """System call at which the jail stopped it, as the kernel reported it to the zygote:
    architecture, number, six arguments. None: it was not stopped, or the call is unknown."""
    why: str = ""
    """Further information, if any."""
    memory_bytes: int = 0
    """Peak memory beyond that of the zygote it was forked from."""
    trap: str = ""
    """Reason for which a guest was stopped, in words; empty for a process."""

    @property
    def stopped_by_kernel(self) -> bool:
        """True if the jail killed it."""
        return self.call is not None or self.signal == _SIGSYS

    @property
    def words(self) -> str:
        """Description of the exit for messages."""
        if self.call is not None:
            return f"stopped at system call {syscall_name(self.call[0], self.call[1])}"
        if self.trap:
            return self.trap
        words = signal.Signals(self.signal).name if self.signal else f"exit status {self.status}"
        return f"{words}: {self.why}" if self.why else words


class Stream(Protocol):
    """Methods of a connected socket that never blocks, which a worker's frames cross."""

    def recv(self, size: int, /) -> bytes:
        """As a socket's."""
        ...

    def send(self, data: bytes | bytearray, /) -> int:
        """As a socket's."""
        ...

    def fileno(self) -> int:
        """As a socket's: negative once it is closed."""
        ...

    def close(self) -> None:
        """As a socket's."""


class Worker(ABC):
    """A worker: the stream of its frames and the state of its run."""

    __slots__ = (
        "_backlog",
        "_collected",
        "_decoder",
        "_drained",
        "_frames",
        "_held",
        "_reactor",
        "_socket",
        "_stop_flushing",
        "_stop_reading",
        "_stop_resuming",
        "_stop_writing",
        "batch",
        "decode_limits",
        "eager",
        "eof",
        "exit",
        "id",
        "memory_bytes",
        "on_end",
        "on_fault",
        "on_frame",
        "on_oversized",
        "state",
    )

    def __init__(self, number: int, stream: Stream, reactor: Reactor, memory_bytes: int) -> None:
        self.id = number
        self.memory_bytes = memory_bytes
        self.state = State.FORKED
        self.exit: Exit | None = None
        self.eof = False
        self.batch = 0
        """Counter of reads; frames of the same read share its value."""
        self.eager = False
        """True: busy-poll for more data before returning to the event loop."""
        self.on_frame: Callable[[Kind, Any, int], None] = lambda _kind, _message, _size: None
        self.decode_limits: Mapping[Kind, int] = {}
        """Maximum size at which a body of these kinds is decoded; larger ones are passed raw."""
        self.on_oversized: Callable[[Kind, int], None] = lambda _kind, _size: None
        """Called instead of `on_frame` for a value that is too large for one frame and not sent in
        parts. Nothing more is read from the worker."""
        self.on_fault: Callable[[Exception], None] = lambda _error: None
        self.on_end: Callable[[], None] = lambda: None
        self._socket = cast(Any, stream)  # the reactor knows which kind
        self._reactor = reactor
        self._decoder = Decoder(FROM_WORKER)
        self._frames: Iterator[tuple[Kind, bytes]] | None = None
        self._held = False
        self._backlog = bytearray()
        self._drained: anyio.Event | None = None
        self._collected = 0
        self._stop_flushing: Stop | None = None
        self._stop_writing: Stop | None = None
        self._stop_resuming: Stop | None = None
        self._stop_reading: Stop | None = reactor.on_readable(self._socket, self._readable)

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """Return the CPU time it has used so far; None if it has exited."""

    @abstractmethod
    def ask_place(self) -> bool:
        """Ask a script that computes for its lines; return False if it cannot be asked."""

    @abstractmethod
    def kill(self) -> None:
        """Stop it, whatever it executes. Does nothing if it has exited."""

    @property
    def backlog_bytes(self) -> int:
        """Bytes of sent frames that the socket has not accepted yet."""
        return 0 if self._stop_writing is None else len(self._backlog)

    async def wait_drained(self) -> None:
        """Wait until the socket has accepted all sent frames, or the worker is gone."""
        if self._backlog:
            if self._drained is None:
                self._drained = anyio.Event()
            await self._drained.wait()

    def send(self, *frames: tuple[Kind, bytes], more: bool = False) -> bool:
        """Send frames, buffering the bytes that the socket does not accept yet.

        Args:
            frames: Kinds and bodies.
            more: True: more frames are likely to follow in this iteration of the event loop. They
                are collected, and sent at its end together.

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
        if more or self._backlog:
            self._collect(data, more=more)
            return True
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return False
        if sent < len(data):
            self._backlog += data[sent:]
            self._stop_writing = self._reactor.on_writable(self._socket, self._writable)
        return True

    def _collect(self, data: bytes, *, more: bool) -> None:
        """Append to the backlog, and send it at the latest in the next iteration of the loop."""
        self._backlog += data
        self._collected += 1
        if self._stop_writing is not None:
            return  # it waits for the socket
        if not more or self._collected >= _MOST_COLLECTED or len(self._backlog) >= _CHUNK:
            self._flush()
        elif self._stop_flushing is None:
            self._stop_flushing = self._reactor.call_later(0, self._flush)

    def _flush(self) -> None:
        """Send the collected frames, and the rest of them once the socket is writable."""
        self._collected = 0
        if self._stop_flushing is not None:
            self._stop_flushing()
            self._stop_flushing = None
        if not self._backlog or self.eof:
            return
        self._write()
        if self._backlog:
            self._stop_writing = self._reactor.on_writable(self._socket, self._writable)

    @property
    def may_return(self) -> bool:
        """True if `give_up` may have it restored; otherwise a run kills it."""
        return False

    @property
    def has_ended(self) -> bool:
        """True if it has sent the last frame of its run, and nothing is left to send or handle."""
        waiting = self._frames is not None or self._held or self._backlog
        live = not self.eof and self.exit is None
        return (
            self.state is State.ENDED and live and not waiting and not self._decoder.pending_bytes
        )

    def give_up(self) -> None:
        """End its use by a run."""
        self.hang_up()

    def announce(self) -> None:
        """Make it one that waits for a program: it is new, or was restored."""
        self.state = State.IDLE
        self.eager = False
        self.decode_limits = {}
        self.on_oversized = lambda _kind, _size: None
        self.on_end = lambda: None

    def hang_up(self) -> None:
        """Kill it and close the stream: nothing more is read from it."""
        self.kill()
        self._close_socket()

    def record_exit(self, how: Exit) -> None:
        """Record the exit, after it was reported."""
        self.exit = how
        if self.eof or how.status == -1:
            self.on_end()

    def _close_socket(self) -> None:
        self.eof = True
        for stop in (
            self._stop_reading,
            self._stop_writing,
            self._stop_resuming,
            self._stop_flushing,
        ):
            if stop is not None:
                stop()
        self._stop_reading = self._stop_writing = self._stop_resuming = self._stop_flushing = None
        self._frames = None
        self._backlog.clear()
        self._signal_drained()
        if self._socket.fileno() >= 0:
            self._reactor.closing(self._socket)
            self._socket.close()

    def _writable(self) -> None:
        self._write()
        if not self._backlog and self._stop_writing is not None:
            self._stop_writing()
            self._stop_writing = None

    def _write(self) -> None:
        """Send as much of the backlog as the socket accepts."""
        try:
            sent = self._socket.send(self._backlog)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            sent = len(self._backlog)
        del self._backlog[:sent]
        if not self._backlog:
            self._signal_drained()

    def _signal_drained(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def hold(self) -> None:
        """Stop reading and handling frames until `release`."""
        self._held = True
        self._stop_reading_now()

    def release(self) -> None:
        """Undo `hold`."""
        if self._held:
            self._held = False
            self._resume_soon()

    def _stop_reading_now(self) -> None:
        if self._stop_reading is not None:
            self._stop_reading()
            self._stop_reading = None

    def _resume_soon(self) -> None:
        if self._stop_resuming is None and not self.eof:
            self._stop_resuming = self._reactor.call_later(0, self._resume)

    def _resume(self) -> None:
        """Handle the frames that were already read, then resume reading."""
        self._stop_resuming = None
        if self.eof or self._held:
            return
        if self._frames is not None:
            self.batch += 1
            self._handle_frames()
        if self._frames is None and not self.eof and self._stop_reading is None:
            self._stop_reading = self._reactor.on_readable(self._socket, self._readable)

    def busy_poll(self, times: int) -> bool:
        """Poll the socket without the event loop and handle its data; True if there was some."""
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
            self._on_received(data)
            return True
        return False

    def _readable(self) -> None:
        self.busy_poll(1)
        for _ in range(_BUSY_POLLS_IN_A_ROW):
            if not self.eager or self._frames is not None or not self.busy_poll(BUSY_POLLS):
                return

    def _on_received(self, data: bytes) -> None:
        """Handle received bytes; read on only after a chunk that is part of a large frame.

        Whole frames end the loop: a chunk can hold thousands, enough for one event loop iteration.
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
        """Handle the frames that `data` completes; True if there was one."""
        self.batch += 1
        if not data:
            self._close_socket()
            if self.exit is not None:
                self.on_end()
            return False
        self._frames = iter(self._decoder.feed(data))
        return self._handle_frames()

    def _handle_frames(self) -> bool:
        """Handle frames that were read; True if there was one. Some may remain for later."""
        assert self._frames is not None  # noqa: S101  # callers have checked
        count = 0
        try:
            for count, (kind, body) in enumerate(self._frames, start=1):
                self.state = next_state(self.state, kind)
                size = len(body)
                decoded = size <= self.decode_limits.get(kind, size)
                self.on_frame(kind, parse(kind, body) if decoded else body, size)
                if self.eof:
                    return True
                if self._held or count >= _FRAMES_IN_A_ROW:
                    self._stop_reading_now()
                    if not self._held:
                        self._resume_soon()
                    return True
        except OversizedError as error:
            if error.kind in self.decode_limits and error.size <= MAX_BODY[error.kind]:
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
