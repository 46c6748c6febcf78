"""Bounded capture of text."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["TAIL_CHARS", "Tail"]

TAIL_CHARS: Final = 65_536
"""Characters that are retained."""


class Tail:
    """Counts all text that is added and retains the last 64 Ki characters."""

    __slots__ = ("_chars", "_parts", "bytes", "chars")

    def __init__(self) -> None:
        self._parts: deque[str] = deque()
        self._chars = 0
        #: UTF-8 bytes of all text that was added.
        self.bytes = 0
        #: Characters of all text that was added.
        self.chars = 0

    def add(self, text: str) -> None:
        """Append `text`."""
        self.bytes += len(text.encode(errors="replace"))
        self.chars += len(text)
        self._parts.append(text)
        self._chars += len(text)
        while self._parts and self._chars - len(self._parts[0]) >= TAIL_CHARS:
            self._chars -= len(self._parts.popleft())

    @property
    def dropped(self) -> int:
        """Characters that were not retained."""
        return max(0, self.chars - TAIL_CHARS)

    def __str__(self) -> str:
        return "".join(self._parts)[-TAIL_CHARS:]
