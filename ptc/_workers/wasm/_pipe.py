"""The stream between the event loop and the thread of a guest, bounded in both directions.

The end of the event loop has the methods of a socket that never blocks, and announces itself by
callbacks: it works with every event loop, also where loops can wait for no pipe. The end of the
guest blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from ..._core._reactor import Reactor, Stop

__all__ = ["Pipe", "PipeReactor"]

_MOST: Final = 1 << 20
"""Bytes in one direction that nobody has read."""


class Pipe:
    """Both ends: methods of the event loop, and ``guest_...`` of the guest's thread."""

    __slots__ = (
        "_announced",
        "_call_in_loop",
        "_closed",
        "_ended",
        "_from_guest",
        "_lock",
        "_on_readable",
        "_on_writable",
        "_room",
        "_to_guest",
        "_wake",
    )

    def __init__(self, call_in_loop: Callable[[Callable[[], object]], None]) -> None:
        """`call_in_loop` calls a function in the event loop, from any thread."""
        self._call_in_loop = call_in_loop
        self._lock = threading.Lock()
        self._to_guest = bytearray()
        self._from_guest = bytearray()
        self._wake: threading.Lock | None = None
        self._closed = self._ended = self._announced = False
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None

    # -- the event loop ------------------------------------------------------------------------

    def recv(self, size: int, /) -> bytes:
        """Return bytes of the guest; empty once it has ended.

        Raises:
            BlockingIOError: If there are none now.
        """
        with self._lock:
            data = bytes(self._from_guest[:size])
            if data:
                del self._from_guest[:size]
                self._wake_guest()
            elif not self._ended:
                raise BlockingIOError
        return data

    def send(self, data: bytes | bytearray, /) -> int:
        """Pass bytes to the guest; return how many there was room for.

        Raises:
            BlockingIOError: If there is no room.
        """
        with self._lock:
            room = _MOST - len(self._to_guest)
            if room <= 0 and data:
                raise BlockingIOError
            part = data if len(data) <= room else data[:room]
            self._to_guest += part
            self._wake_guest()
        return len(part)

    def fileno(self) -> int:
        """Return a negative number once the pipe is closed."""
        return -1 if self._closed else 0

    def close(self) -> None:
        """Close the pipe: the guest is stopped when it reads or writes."""
        with self._lock:
            self._closed = True
            self._from_guest.clear()
            self._to_guest.clear()
            self._wake_guest()

    def on_readable(self, callback: Callable[[], None]) -> Stop:
        """Call `callback` while there is something to read."""
        self._on_readable = callback
        self._announce()
        return self._stop_reading

    def on_writable(self, callback: Callable[[], None]) -> Stop:
        """Call `callback` while there is room."""
        self._on_writable = callback
        self._announce()
        return self._stop_writing

    def _stop_reading(self) -> None:
        self._on_readable = None

    def _stop_writing(self) -> None:
        self._on_writable = None

    def _announce(self) -> None:
        """Have the event loop look at both directions, in its next turn."""
        with self._lock:
            if self._announced:
                return
            self._announced = True
        self._call_in_loop(self._look)

    def _look(self) -> None:
        with self._lock:
            self._announced = False
            readable, writable = self._is_readable(), self._is_writable()
        if readable and self._on_readable is not None:
            self._on_readable()
        if writable and self._on_writable is not None:
            self._on_writable()
        if (self._on_readable is not None and self._is_readable()) or (
            self._on_writable is not None and self._is_writable()
        ):
            self._announce()

    def _is_readable(self) -> bool:
        return not self._closed and (bool(self._from_guest) or self._ended)

    def _is_writable(self) -> bool:
        return not self._closed and len(self._to_guest) < _MOST

    # -- the thread of the guest ---------------------------------------------------------------

    def guest_read(self, size: int) -> bytes | None:
        """Wait for bytes of the host; return None if the pipe is closed."""
        while True:
            with self._lock:
                if self._closed:
                    return None
                if self._to_guest:
                    full = len(self._to_guest) >= _MOST
                    data = bytes(self._to_guest[:size])
                    del self._to_guest[:size]
                    break
                wake = self._sleep()
            wake.acquire()
        if full:
            self._announce()
        return data

    def guest_write(self, data: bytes) -> bool:
        """Pass bytes to the event loop, when there is room; return False if it is closed."""
        while True:
            with self._lock:
                if self._closed:
                    return False
                if len(self._from_guest) < _MOST:
                    self._from_guest += data
                    break
                wake = self._sleep()
            wake.acquire()
        self._announce()
        return True

    def guest_ended(self) -> None:
        """Tell the event loop that the guest has ended."""
        with self._lock:
            self._ended = True
        self._announce()

    def _sleep(self) -> threading.Lock:
        """Return a lock that is released when something changes."""
        self._wake = wake = threading.Lock()
        wake.acquire()
        return wake

    def _wake_guest(self) -> None:
        if self._wake is not None:
            self._wake.release()
            self._wake = None


class PipeReactor:
    """A reactor whose sockets are pipes."""

    __slots__ = ("_reactor",)

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor

    def on_readable(self, pipe: Pipe, callback: Callable[[], None]) -> Stop:
        """As `Reactor`."""
        return pipe.on_readable(callback)

    def on_writable(self, pipe: Pipe, callback: Callable[[], None]) -> Stop:
        """As `Reactor`."""
        return pipe.on_writable(callback)

    def closing(self, pipe: Pipe) -> None:
        """Do nothing: no event loop knows the pipe."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Stop:
        """As `Reactor`."""
        return self._reactor.call_later(seconds, callback)
