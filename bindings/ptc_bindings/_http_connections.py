"""Connections of the HTTP server: bounded in number, and in the time they take.

uvicorn parses HTTP and bounds headers, but waits for a request without an end.

Rule 1: a connection that does not send a whole request head, or does not read its answer, is
    closed. tests/bindings/test_http.py::test_slow_request_is_ended
Rule 2: data that follow a request, and that nothing reads yet, are bounded.
    tests/bindings/test_http.py::test_flood_behind_a_request_ends_the_connection
Rule 3: at the maximum, the oldest connection without a request makes room.
    tests/bindings/test_http.py::test_idle_connections_do_not_lock_others_out
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import OrderedDict

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["KEEP_ALIVE_SECONDS", "MAX_HEAD_BYTES", "connection_class"]

KEEP_ALIVE_SECONDS = 30
MAX_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_WRITE_SECONDS = 30.0
_MAX_CONNECTIONS = 1_024
_RESET = struct.pack("ii", 1, 0)
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


class _Connections:
    """Open connections, oldest first."""

    def __init__(self) -> None:
        # Workers and files need descriptors, too.
        soft = _most_descriptors()
        self.most = min(_MAX_CONNECTIONS, soft // 2) if soft > 0 else _MAX_CONNECTIONS
        self.open: OrderedDict[Connection, None] = OrderedDict()

    def make_room(self) -> bool:
        """Close a connection without a request if there are too many; False if all have one."""
        if len(self.open) < self.most:
            return True
        idle = next((each for each in self.open if not each.busy), None)
        if idle is not None:
            idle.abort()
        return idle is not None


def _most_descriptors() -> int:
    """Return how many descriptors this process may have; 0 or less: as many as it wants."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Connection(H11Protocol):
    """A connection with deadlines."""

    known: _Connections
    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None
    _early_bytes = 0

    @property
    def busy(self) -> bool:
        """True while a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """Close without waiting for the peer to read."""
        self.known.open.pop(self, None)
        if not self.transport.is_closing():
            # Else the kernel would store the unread rest for minutes.
            opened = self.transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        if not self.known.make_room():
            transport.write(_UNAVAILABLE)
            transport.close()
        super().connection_made(transport)
        self.known.open[self] = None
        self._await_head(_HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the deadlines."""
        self.known.open.pop(self, None)
        for timer in (self._deadline, self._write_deadline):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the deadline of the head once it is whole."""
        if self.busy and not self.cycle.more_body:
            # uvicorn stores further requests without a bound while it answers one.
            self._early_bytes += len(data)
            if self._early_bytes > MAX_HEAD_BYTES:
                self.abort()
                return
        else:
            self._early_bytes = 0
        super().data_received(data)
        if self.busy and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_response_complete(self) -> None:
        """Start the deadline of the next request."""
        # Also if the connection is closing: its peer may never read the rest.
        self._await_head(KEEP_ALIVE_SECONDS + _HEAD_SECONDS)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start the deadline of the peer to read."""
        super().pause_writing()
        self._write_deadline = self.loop.call_later(_WRITE_SECONDS, self.abort)

    def resume_writing(self) -> None:
        """Stop the deadline of the peer."""
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None
        super().resume_writing()

    def _await_head(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.abort)


def connection_class() -> type[Connection]:
    """Return the class of the connections of one server."""
    return type("Connection", (Connection,), {"known": _Connections()})
