"""The worker's end of the wire: one blocking socket, frames in and frames out.

It trusts the host and nothing else; the host validates every frame that the script makes it send.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol

from .._wire._messages import MAX_ELAPSED
from .._wire._polling import PollScore
from .._wire._protocol import Decoder, Kind, encode

__all__ = ["Wire", "timer_body"]

_CHUNK = 65_536
_POLLS = 120
"""Polls of the socket before the process sleeps: 40 to 80 us, as long as two processes take to wake
on a slow machine, where 40 polls missed the answers: an awaited call took 198 us there with 40
polls, 93 with 120."""
_NOT_BLOCKING: int = getattr(socket, "MSG_DONTWAIT", 0)  # a guest has no sockets, and never polls
_BATCH_BYTES = 32_768
"""Queued bytes that are sent without waiting for the script to become idle, so that a script which
computes for a long time does not delay its calls."""


def timer_body(deadline: float) -> bytes:
    """Build the body of TIMER; the time is limited to the range that the host accepts."""
    exact = float.__float__(float(deadline))  # the repr of a subclass may be any text
    return b"[%r]" % min(max(0.0, exact), MAX_ELAPSED)


class Stream(Protocol):
    """Methods of a socket that a wire uses."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """As a socket's."""
        ...

    def sendall(self, data: bytes, /) -> object:
        """As a socket's."""


class Wire:
    """Frames over a connected stream socket. Frames queued are sent before anything is awaited."""

    __slots__ = (
        "_closed",
        "_decoder",
        "_inbox",
        "_outbox",
        "_outbox_bytes",
        "_polling",
        "_sending",
        "_socket",
        "_writing",
        "inspect",
    )

    inspect: Callable[[bytes], bytes]
    """Answers the body of INSPECT; set while a script runs."""

    def __init__(self, sock: Stream) -> None:
        self._socket = sock
        self._decoder = Decoder()
        self._inbox: deque[tuple[Kind, bytes]] = deque()
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._polling = PollScore()
        self._writing = self._closed = self._sending = False

    def queue(self, kind: Kind, body: bytes) -> None:
        """Send a frame with the next batch. Raises `ValueError` if it is over its limit."""
        frame = encode(kind, body)
        if self._closed:
            return
        self._outbox.append(frame)
        self._outbox_bytes += len(frame)
        if self._outbox_bytes >= _BATCH_BYTES:
            self.flush()

    def send(self, kind: Kind, body: bytes) -> None:
        """Send a frame now, after those queued."""
        self.queue(kind, body)
        self.flush()

    def close(self, kind: Kind, body: bytes) -> None:
        """Send the last frame. A frame queued later, by a finalizer of the script, is dropped."""
        frame = encode(kind, body)
        self._closed = True
        self._outbox.append(frame)
        self.flush()

    def queue_in_parts(self, kind: Kind, parts: Iterable[bytes], body: Callable[[], bytes]) -> None:
        """Send a value in parts, as they are made, and then the frame that it belongs to.

        Args:
            kind: Kind of that frame.
            parts: The parts.
            body: Returns the body of the frame; called when all parts are made.

        Raises:
            RuntimeError: If making the parts of one value writes another value in parts.
        """
        if self._writing:
            msg = "a large value cannot be written while another one is being written"
            raise RuntimeError(msg)
        self._writing = True
        try:
            self.queue(Kind.PART, b"<%c" % kind)
            for part in parts:
                self.queue(Kind.PART, part)
            if kind is Kind.DONE:
                self.close(kind, body())
            else:
                self.queue(kind, body())
        finally:
            self._writing = False

    def flush(self) -> None:
        """Send the queued frames."""
        if self._sending:
            # A finalizer of the script or a signal handler runs inside the loop below: what it
            # queued follows the frames that are being sent.
            return
        self._sending = True
        while self._outbox:
            batch, self._outbox = self._outbox, []
            self._outbox_bytes = 0
            data = b"".join(batch) if len(batch) > 1 else batch[0]
            try:
                self._socket.sendall(data)
            except OSError:
                self._terminate()
        self._sending = False

    def receive(self, *, spin: bool = True) -> tuple[Kind, bytes]:
        """Wait for the next frame and return it.

        Args:
            spin: Busy-poll briefly before sleeping, as long as it pays: a tool that answers at once
                then costs no wake-up of this process, which takes longer than such a tool.
        """
        self.flush()
        inbox = self._inbox
        while not inbox:
            self._fill(spin=spin)
        frame = inbox.popleft()
        if frame[0] is Kind.PING:
            # The caller has handled all previous frames, or it would not read another.
            self.send(Kind.PONG, b"[]")
            return self.receive(spin=spin)
        if frame[0] is Kind.INSPECT:
            self.send(Kind.FRAMES, self.inspect(frame[1]))
            return self.receive(spin=spin)
        return frame

    def request(self, kind: Kind, answer: Kind) -> bytes | None:
        """Request an answer and wait for it; frames that arrive before it stay for `receive`.

        Returns:
            The body of the answer; None if nothing can be requested, because the last frame was
            sent, or a finalizer of the script runs while frames are being sent.
        """
        if self._closed or self._sending:
            return None
        self.send(kind, b"[]")
        inbox, seen = self._inbox, 0
        while True:
            for at in range(seen, len(inbox)):
                if inbox[at][0] is answer:
                    body = inbox[at][1]
                    del inbox[at]
                    return body
            seen = len(inbox)
            self._fill(spin=True)

    def _fill(self, *, spin: bool) -> None:
        """Wait for data, and add its frames to the inbox."""
        data = self._poll() if spin and self._polling.pays() else None
        if data is None:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                self._terminate()
        if not data:
            self._terminate()
        self._inbox.extend(self._decoder.feed(data))

    def _poll(self) -> bytes | None:
        receive = self._socket.recv
        for _ in range(_POLLS):
            try:
                data = receive(_CHUNK, _NOT_BLOCKING)
            except BlockingIOError:
                continue
            except OSError:
                self._terminate()
            self._polling.note(hit=True)
            return data
        self._polling.note(hit=False)
        return None

    def _terminate(self) -> NoReturn:
        # The host has closed the run.
        os._exit(0)
