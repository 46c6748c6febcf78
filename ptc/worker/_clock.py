"""The logical clock: the host sends a script its time, so a replay sees the same times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Clock"]


class Clock:
    """Source of every clock of a script. The runtime sets the fields; nothing ticks by itself."""

    __slots__ = ("elapsed", "epoch", "run_coroutine", "sleep")

    def __init__(self) -> None:
        #: Start of the run, in seconds since 1970 UTC, as the host sent it.
        self.epoch: float = 0.0
        #: Logical seconds since the start; only messages of the host advance it.
        self.elapsed: float = 0.0
        #: Blocking sleep of a plain `def run`; None while an event loop runs.
        self.sleep: Callable[[float], None] | None = None
        #: Runs a coroutine to completion if no event loop runs, for `asyncio.run`.
        self.run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any] | None = None

    def read(self) -> float:
        """Return the logical seconds since the start of the run."""
        return self.elapsed

    def now(self) -> float:
        """Return the seconds since 1970 UTC."""
        return self.epoch + self.elapsed
