"""The host's handle of the restorer, which puts workers back to what they were before their runs.

Off by default: docs/design.md has the reasons.

Rule 1: a worker gets a program only after the restorer has announced it, whatever the worker sends.
    tests/worker/restore/test_hostile_runs.py::test_worker_cannot_announce_itself
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import orjson

from .._core._reactor import Reactor, Stop

__all__ = ["COMPARED", "OFF", "ON", "RestorerClient", "mode_of"]

OFF, ON, COMPARED = "", "1", "2"
"""`COMPARED`: all memory of a worker is compared after each restoring, for tests."""
_MESSAGE_BYTES = 65_536
_MESSAGES_IN_A_ROW = 64
"""Messages handled before the event loop runs again."""
_SECONDS = 10.0


def mode_of(reuse_workers: bool) -> str:
    """Return the mode of a session; a variable for tests of the project overrides `OFF`."""
    if reuse_workers:
        return COMPARED if os.environ.get("PTC_TEST_RESTORE") == COMPARED else ON
    found = os.environ.get("PTC_TEST_RESTORE", OFF)
    return found if found in {ON, COMPARED} else OFF


class RestorerClient:
    """The host's end of the socket of requests."""

    def __init__(self, descriptor: int, reactor: Reactor, on_ready: Callable[[int], None]) -> None:
        """Listen.

        Args:
            descriptor: The socket.
            reactor: The event loop.
            on_ready: Receives the number of a worker that is new, or as new.
        """
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._reactor = reactor
        self._on_ready = on_ready
        self._counts: dict[str, int] | None = None
        self._stop: Stop | None = reactor.on_readable(self._socket, self._readable)

    def restore(self, number: int) -> bool:
        """Ask for a worker to be restored; False if there is no restorer any more.

        A worker that was restored is announced; any other is killed.
        """
        try:
            self._socket.send(orjson.dumps({"restore": number}))
        except OSError:
            return False
        return True

    def report(self) -> dict[str, int]:
        """Return the restorer's counts, by event; for tests and diagnostics."""
        self._counts = None
        self._socket.settimeout(_SECONDS)
        try:
            self._socket.send(b'{"report":true}')
            while self._counts is None and self._read_one():
                pass
        finally:
            self._socket.setblocking(False)
        return self._counts or {}

    def close(self) -> None:
        """Close the socket; the restorer ends."""
        if self._stop is not None:
            self._stop()
            self._stop = None
            self._reactor.closing(self._socket)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _readable(self) -> None:
        for _ in range(_MESSAGES_IN_A_ROW):
            if self._stop is None or not self._read_one():
                return

    def _read_one(self) -> bool:
        """Read and handle a message; False if there is none."""
        try:
            data = self._socket.recv(_MESSAGE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:  # It ended, and the zygote with it, which is noticed there.
            if self._stop is not None:
                self._stop()
                self._stop = None
            return False
        message: dict[str, Any] = orjson.loads(data)
        if "ready" in message:
            self._on_ready(message["ready"])
        else:
            self._counts = message["report"]
        return True
