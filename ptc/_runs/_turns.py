"""Bounded use of the event loop by one run.

A run may have thousands of calls to finish or to report at once, and a hostile worker chooses their
number and size. Other runs and timers must not wait for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import anyio.lowlevel

__all__ = ["Turns"]

_TURN_SECONDS: Final = 0.008
"""Time that a run computes in one iteration of the event loop: some hundred calls, and less than a
person or a timer notices, even if several runs do so."""
_PAUSE_SECONDS: Final = 0.05
"""Time since a turn after which the run has certainly waited: it need not do so again."""


class Turns:
    """Time that all tasks of a run together use in one iteration of the event loop.

    A task checks `is_over` between its steps. When it is true, one task awaits `next`, and the
    others wait for that task.
    """

    __slots__ = ("_clock", "_until", "is_pausing")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._until = 0.0
        self.is_pausing = False
        """True while a task awaits `next`."""

    def is_over(self) -> bool:
        """True if the run should let the event loop continue."""
        now = self._clock()
        if now - self._until > _PAUSE_SECONDS:
            self._until = now + _TURN_SECONDS
        return self.is_pausing or now >= self._until

    async def next(self) -> None:
        """Wait for the next iteration, in which the run has its time again."""
        self.is_pausing = True
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            self.is_pausing = False
            self._until = self._clock() + _TURN_SECONDS
