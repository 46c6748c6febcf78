"""Room for documents in flight: their number and their size are limited."""

from __future__ import annotations

import anyio

__all__ = ["Slots"]


class Slots:
    """Admits documents while there is room for them. One task takes, many release."""

    def __init__(self, most: int, most_chars: int) -> None:
        """Set the limits.

        Args:
            most: Documents at most.
            most_chars: Characters of their texts at most. One document may have more.
        """
        self._most = most
        self._most_chars = most_chars
        self._count = self._chars = 0
        self._released = anyio.Event()

    def take(self, chars: int) -> bool:
        """Admit a document of `chars` characters; False if there is no room for it."""
        room = self._count < self._most and self._chars + chars <= self._most_chars
        if self._count and not room:
            return False
        self._count += 1
        self._chars += chars
        return True

    def release(self, chars: int) -> None:
        """End a document that was admitted."""
        self._count -= 1
        self._chars -= chars
        self._released.set()
        self._released = anyio.Event()

    async def wait(self) -> None:
        """Wait for the next end of a document."""
        await self._released.wait()
