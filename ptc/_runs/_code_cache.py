"""Compiled scripts, cached by source."""

from __future__ import annotations

__all__ = ["CodeCache"]


class CodeCache:
    """Cache compiled code by the exact source it was compiled from.

    A run cannot change the code that another run executes: code is accepted from a worker only
    before a line of the script has run there (`_protocol.LEGAL`), and is used only for the same
    source.
    """

    def __init__(self, most_bytes: int = 16 << 20) -> None:
        """Create an empty cache that holds up to `most_bytes` of code and source."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._codes: dict[str, bytes] = {}
        """The least recently used entry comes first."""

    def get(self, source: str) -> bytes | None:
        """Return the code of `source` and mark it as used; None if it is not cached."""
        code = self._codes.pop(source, None)
        if code is not None:
            self._codes[source] = code
        return code

    def put(self, source: str, code: bytes) -> None:
        """Add `code`, and evict the least recently used entries to make room for it."""
        size = len(code) + len(source)
        if self.get(source) is not None or size > self._most_bytes:
            return
        self._codes[source] = code
        self._bytes += size
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._codes))
            self._bytes -= len(self._codes.pop(oldest)) + len(oldest)
