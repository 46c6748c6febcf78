"""Bound the work that one text may cause."""

from __future__ import annotations

__all__ = ["Work", "WorkExceededError"]

MAX_WORK = 1_200_000
"""Units for one text, of about a microsecond each. Typical damage takes one for each character."""
SPARE_WORK = 100_000
WORK_FOR_EACH_CHAR = 30


class WorkExceededError(Exception):
    """The text is not worth more work."""


class Work:
    """Counts the work done for one text; not a clock, so that the same text has the same result.

    Attributes:
        ended: True if the text is known to be complete, False if it is known to be truncated.
        done: Units so far.
    """

    __slots__ = ("_limit", "done", "ended")

    def __init__(self, text: str, ended: bool | None = None) -> None:
        self.ended = ended
        self.done = 0
        self._limit = min(WORK_FOR_EACH_CHAR * len(text) + SPARE_WORK, MAX_WORK)

    def spend(self, units: int) -> None:
        """Count `units`.

        Raises:
            WorkExceededError: If the limit for the text is exceeded.
        """
        self.done += units
        if self.done > self._limit:
            raise WorkExceededError
