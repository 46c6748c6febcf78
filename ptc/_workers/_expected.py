"""Workers that are expected within a time: back from a run, or from the restorer."""

from __future__ import annotations

from collections.abc import Callable

from .._core._reactor import Reactor, Stop

__all__ = ["ExpectedWorkers"]


class ExpectedWorkers:
    """Numbers of the workers that are expected, each with a timer."""

    def __init__(self, seconds: float, on_late: Callable[[int], object]) -> None:
        """Expect none.

        Args:
            seconds: Time that a worker has.
            on_late: Receives the number of a worker whose time is over. It is expected no more.
        """
        self._seconds = seconds
        self._on_late = on_late
        self._timers: dict[int, Stop] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, number: int, reactor: Reactor) -> None:
        """Expect a worker from now on."""
        self._timers[number] = reactor.call_later(self._seconds, lambda: self._end(number))

    def _end(self, number: int) -> None:
        if self._timers.pop(number, None) is not None:
            self._on_late(number)

    def remove(self, number: int) -> bool:
        """Expect a worker no more: it is there, or will not come. True if it was expected."""
        stop = self._timers.pop(number, None)
        if stop is None:
            return False
        stop()
        return True

    def clear(self) -> None:
        """Expect none any more."""
        for number in list(self._timers):
            self.remove(number)
