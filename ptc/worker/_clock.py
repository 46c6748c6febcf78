"""The logical clock: messages of the host and readings of the script advance it, nothing else.

So a replay sees the same times, and a loop that waits for a time ends.

Rule 1: each reading by the script advances the clock by one step, so that
    ``while time.time() < deadline`` ends without a message from the host.
    tests/worker/test_clock.py::test_loop_that_waits_for_the_clock_ends
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["Clock"]

_STEP_S: Final = 1e-4
"""Seconds by which a reading advances the clock. A loop that reads the clock and does 0.1 ms of
work then takes as long as in CPython; one that does nothing but read takes less."""
_FIRST_REPORT: Final = 64
"""Readings before the first report. The next ones follow at twice the number each."""


class Clock:
    """Source of every clock of a script. The runtime sets the fields; nothing ticks by itself."""

    __slots__ = ("_report_at", "elapsed", "epoch", "readings", "report", "run_coroutine", "sleep")

    def __init__(self) -> None:
        #: Start of the run, in seconds since 1970 UTC, as the host sent it.
        self.epoch: float = 0.0
        #: Seconds since the start as the host counts them; only its messages advance them.
        self.elapsed: float = 0.0
        #: Readings by the script.
        self.readings: int = 0
        #: Called with the number of readings each time that it has doubled.
        self.report: Callable[[int], None] | None = None
        #: Blocking sleep of a plain `def run`; None while an event loop runs.
        self.sleep: Callable[[float], None] | None = None
        #: Runs a coroutine to completion if no event loop runs, for `asyncio.run`.
        self.run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
        self._report_at = _FIRST_REPORT

    def restart(self, epoch: float = 0.0) -> None:
        """Start a run at `epoch`."""
        self.epoch, self.elapsed, self.readings, self._report_at = epoch, 0.0, 0, _FIRST_REPORT

    def ahead(self) -> float:
        """Return the seconds by which the script's clock is ahead of the host's."""
        return self.readings * _STEP_S

    def host_time(self) -> float:
        """Return the seconds since the start of the run as the host counts them."""
        return self.elapsed

    def peek(self) -> float:
        """Return the logical seconds since the start of the run, for the worker itself."""
        return self.elapsed + self.readings * _STEP_S

    def read(self) -> float:
        """Return the logical seconds since the start of the run, and advance the clock."""
        self.readings += 1
        if self.readings >= self._report_at:
            self._report_at *= 2
            if self.report is not None:
                self.report(self.readings)
        return self.elapsed + self.readings * _STEP_S

    def now(self) -> float:
        """Return the seconds since 1970 UTC, and advance the clock."""
        return self.epoch + self.read()
