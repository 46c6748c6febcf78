"""The clocks of a run: its time, the CPU time of its process, and what its script waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from .._reactor import Reactor, Stop
from .._records._limits import Limits
from .._workers._process import Worker

__all__ = ["Clocks"]

_TICK_AGAIN_SECONDS: Final = 0.01
_LEAST_CPU_SECONDS: Final = 0.005
"""Time until the CPU clock is read again, at least."""


class Clocks:
    """Tells a run that its time is over, and when a moment has come that its script waits for."""

    def __init__(
        self,
        reactor: Reactor,
        limits: Limits,
        *,
        timed_out: Callable[[], None],
        used_cpu: Callable[[int], None],
        ticked: Callable[[float], None],
    ) -> None:
        """Start nothing yet.

        Args:
            reactor: The event loop.
            limits: Of the run.
            timed_out: Called when its time is over.
            used_cpu: Called with the milliseconds of CPU time when those are used up.
            ticked: Called with the seconds since the start when the script's moment has come.
        """
        self._reactor = reactor
        self._limits = limits
        self._timed_out = timed_out
        self._used_cpu = used_cpu
        self._ticked = ticked
        self._worker: Worker | None = None
        self._started = self._ended = 0.0
        self._cpu_before = 0.0
        self._deadline, self._batch, self._again = 0.0, -1, False
        self._stop_timeout: Stop | None = None
        self._stop_tick: Stop | None = None
        self._stop_cpu: Stop | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the start, or between start and end."""
        return (self._ended or time.perf_counter()) - self._started

    def start(self, worker: Worker) -> None:
        """The script begins."""
        self._worker = worker
        self._started = time.perf_counter()
        self._limit_time(0.0)
        # One process without threads: it cannot use more CPU time than wall time.
        if self._limits.max_cpu_ms < self._limits.timeout_ms:
            self._cpu_before = worker.cpu_seconds() or 0.0
            self._look_at_cpu()

    def go_on(self, elapsed: float) -> None:
        """Go on where the script's clock stood; what lay between is no time of the run's."""
        self._started = time.perf_counter() - elapsed
        if self._stop_timeout is not None:
            self._stop_timeout()
        self._limit_time(elapsed)

    def wait_for(self, deadline: float) -> None:
        """Tell the script when it is `deadline`, in seconds since the start.

        A script waits for its earliest timer only: a newer request replaces the older.
        """
        self._deadline = deadline
        batch = self._worker.batch if self._worker is not None else 0
        if batch != self._batch:
            self._batch = batch
            self._start_timer()
        elif not self._again:
            # Each timer is a task under trio: of thousands that came at once only the last counts.
            self._again = True
            self._reactor.call_later(0, self._start_timer)

    def end(self) -> None:
        """The run has its outcome."""
        self._ended = time.perf_counter()
        self.stop()

    def stop(self) -> None:
        """Let go of the worker and tell nothing more."""
        self._worker = None
        for stop in (self._stop_timeout, self._stop_tick, self._stop_cpu):
            if stop is not None:
                stop()
        self._stop_timeout = self._stop_tick = self._stop_cpu = None

    def _limit_time(self, elapsed: float) -> None:
        left = max(0.0, self._limits.timeout_ms / 1000 - elapsed)
        self._stop_timeout = self._reactor.call_later(left, self._timed_out)

    def _start_timer(self) -> None:
        self._again = False
        if self._stop_tick is not None:
            self._stop_tick()
        if self._worker is not None:
            deadline = self._deadline
            delay = max(0.0, deadline - self.elapsed)
            self._stop_tick = self._reactor.call_later(delay, lambda: self._tick(deadline))

    def _tick(self, deadline: float) -> None:
        if self._worker is None:
            return
        if self._worker.backlog_bytes:
            # Ticks are as many as the worker asks for: they do not pile up for one who does not
            # take them.
            self._stop_tick = self._reactor.call_later(
                _TICK_AGAIN_SECONDS, lambda: self._tick(deadline)
            )
            return
        self._ticked(max(deadline, self.elapsed))

    def _look_at_cpu(self) -> None:
        """Stop the run if its process has used its CPU time; else look again when it may have."""
        if self._worker is None:
            return
        now = self._worker.cpu_seconds()
        if now is None:
            return  # it is gone, or this kernel does not tell: then its rlimit is what holds
        most = self._limits.max_cpu_ms
        used = (now - self._cpu_before) * 1000
        if used >= most:
            self._used_cpu(round(used))
            return
        delay = max(_LEAST_CPU_SECONDS, (most - used) / 1000)
        self._stop_cpu = self._reactor.call_later(delay, self._look_at_cpu)
