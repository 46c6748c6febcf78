"""Code that workers have compiled, kept by the host for runs of the same source."""

from __future__ import annotations

__all__ = ["CodeCache"]


class CodeCache:
    """Compiled code by the very source it was made of.

    A run cannot change what another executes: code is taken from a worker only before a line of
    the script has run there (`_protocol.LEGAL`), and is given only to runs of the same source.
    """

    def __init__(self, most_bytes: int = 16 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._codes: dict[str, bytes] = {}

    def get(self, source: str) -> bytes | None:
        """Code of `source`; None if it is not here."""
        return self._codes.get(source)

    def put(self, source: str, code: bytes) -> None:
        """Keep `code`; the oldest is dropped for room."""
        if source in self._codes:
            return
        self._codes[source] = code
        self._bytes += len(code) + len(source)
        while self._bytes > self._most_bytes and self._codes:
            oldest = next(iter(self._codes))
            self._bytes -= len(self._codes.pop(oldest)) + len(oldest)
