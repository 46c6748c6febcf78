"""Decision whether to busy-poll before sleeping, on either side of the wire.

A poll that finds data saves the wake-up of a process. One that finds none costs its time, and on a
machine whose cores are all busy it takes that time from the process it waits for.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PollScore"]

_MOST: Final = 3
"""Misses, not made up for by hits, after which polling stops."""
_RETRY_AFTER: Final = 32
"""Waits without a poll after which one is tried again: the script may do something else now."""


class PollScore:
    """Stops busy-polling when more polls miss than hit, and tries again from time to time."""

    __slots__ = ("_score", "_skipped")

    def __init__(self) -> None:
        self._score = _MOST
        self._skipped = 0

    def pays(self) -> bool:
        """Return True if the next wait should begin with a poll; ask once for each wait."""
        if self._score > 0:
            return True
        self._skipped += 1
        return self._skipped % _RETRY_AFTER == 0

    def note(self, *, hit: bool) -> None:
        """Count a poll that found data, or none."""
        if hit:
            self._score = min(self._score + 1, _MOST)
        else:
            self._score = max(self._score - 1, 0)
