"""The host's handle of the restorer, which puts workers back to what they were before their runs.

Off by default: docs/design.md has the reasons.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import orjson

__all__ = ["OFF", "ON", "VERIFIED", "RestorerClient", "chosen"]

OFF, ON, VERIFIED = "", "1", "2"
"""`VERIFIED`: all memory of a worker is compared after each restoring, for tests."""
_MESSAGE_BYTES = 65_536
_SECONDS = 10.0


def chosen() -> str:
    """Return the mode for the next zygote."""
    found = os.environ.get("PTC_TEST_RESTORE", OFF)
    return found if found in {ON, VERIFIED} else OFF


class RestorerClient:
    """The host's end of the socket of requests."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)

    def restore(self, number: int) -> bool:
        """Ask for a worker to be restored; False if there is no restorer any more.

        A worker that was restored announces itself again; any other is killed.
        """
        try:
            self._socket.send(orjson.dumps({"restore": number}))
        except OSError:
            return False
        return True

    def report(self) -> dict[str, Any]:
        """Return the restorer's counts, by event; for tests and diagnostics."""
        self._socket.settimeout(_SECONDS)
        try:
            self._socket.send(b'{"report":true}')
            counts: dict[str, Any] = orjson.loads(self._socket.recv(_MESSAGE_BYTES))
            return counts
        finally:
            self._socket.setblocking(False)

    def close(self) -> None:
        """Close the socket; the restorer ends."""
        with contextlib.suppress(OSError):
            self._socket.close()
