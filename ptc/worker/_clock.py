"""The logical clock: a script's time is data the host sent, so a replay sees the same times."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Clock"]


class Clock:
    """What every clock of a script reads. The runtime sets the fields; nothing ticks by itself."""

    __slots__ = ("drive", "elapsed", "epoch", "sleep")

    def __init__(self) -> None:
        #: Start of the run, in seconds since 1970 UTC, given by the host.
        self.epoch: float = 0.0
        #: Logical seconds since the start; advances with messages of the host only.
        self.elapsed: float = 0.0
        #: Blocking sleep of a plain `def run`; None while an event loop runs.
        self.sleep: Callable[[float], None] | None = None
        #: Runs a coroutine to its end where no event loop runs, for `asyncio.run`.
        self.drive: Callable[[Coroutine[Any, Any, Any]], Any] | None = None

    def read(self) -> float:
        """Logical seconds since the start of the run."""
        return self.elapsed

    def now(self) -> float:
        """Seconds since 1970 UTC."""
        return self.epoch + self.elapsed
