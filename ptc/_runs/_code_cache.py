"""Compiled scripts, cached by source and by the tools they were checked against."""

from __future__ import annotations

from typing import NamedTuple

from .._wire._messages import Finding

__all__ = ["CachedCode", "CodeCache"]


class CachedCode(NamedTuple):
    """A script that was compiled and checked."""

    code: bytes
    """Compiled code, opaque to the host."""
    advice: tuple[Finding, ...] = ()
    """Findings of the check; none of them refused the script."""
    named: bytes = b"{}"
    """Parameters of the tools that the script names, as sent to a worker."""


class CodeCache:
    """Cache compiled code by the exact source it was compiled from, and the tools.

    A run cannot change the code that another run executes: code is accepted from a worker only
    before a line of the script has run there (`_protocol.LEGAL`), and is used only for the same
    source. The decision of the check depends on the tools, so it is used only for the same ones.
    """

    def __init__(self, most_bytes: int = 16 << 20) -> None:
        """Create an empty cache that holds up to `most_bytes` of code and source."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._codes: dict[tuple[str, bytes], CachedCode] = {}
        """The least recently used entry comes first."""

    def get(self, source: str, tools: bytes = b"") -> CachedCode | None:
        """Return the code of `source` and mark it as used; None if it is not cached."""
        key = source, tools
        cached = self._codes.pop(key, None)
        if cached is not None:
            self._codes[key] = cached
        return cached

    def put(self, source: str, cached: CachedCode, tools: bytes = b"") -> None:
        """Add the code of `source`, and evict the least recently used entries to make room."""
        size = _size(source, tools, cached)
        if self.get(source, tools) is not None or size > self._most_bytes:
            return
        self._codes[source, tools] = cached
        self._bytes += size
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._codes))
            self._bytes -= _size(*oldest, self._codes.pop(oldest))


_ADVICE_BYTES = 1_024
"""Approximate memory of one finding."""
_ENTRY_BYTES = 500
"""Approximate memory of an entry beside its texts."""


def _size(source: str, tools: bytes, cached: CachedCode) -> int:
    texts = len(cached.code) + len(cached.named) + len(source) + len(tools)
    return _ENTRY_BYTES + texts + len(cached.advice) * _ADVICE_BYTES
