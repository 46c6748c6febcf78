"""The clocks of a run: wall time, CPU time of the worker, and the timers of the script."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from .._core._reactor import Reactor, Stop
from .._records._limits import Limits
from .._workers._worker import Worker

__all__ = ["Clocks"]

_TICK_AGAIN_SECONDS: Final = 0.01
_LEAST_CPU_SECONDS: Final = 0.005
"""Shortest interval between two reads of the CPU clock."""


class Clocks:
    """Reports to a run that its time is used up, and that a timer of its script has fired."""

    def __init__(
        self,
        reactor: Reactor,
        limits: Limits,
        *,
        on_timeout: Callable[[], None],
        on_cpu_limit: Callable[[int], None],
        on_tick: Callable[[float], None],
    ) -> None:
        """Prepare the clocks; nothing is started.

        Args:
            reactor: The event loop.
            limits: Limits of the run.
            on_timeout: Called when the wall time is used up.
            on_cpu_limit: Called with the milliseconds used when the CPU time is used up.
            on_tick: Called with the seconds since the start when a timer of the script fires.
        """
        self._reactor = reactor
        self._limits = limits
        self._on_timeout = on_timeout
        self._on_cpu_limit = on_cpu_limit
        self._on_tick = on_tick
        self._worker: Worker | None = None
        self._started = self._finished = 0.0
        self._cpu_before = 0.0
        self._deadline, self._batch, self._scheduled = 0.0, -1, False
        self._stop_timeout: Stop | None = None
        self._stop_tick: Stop | None = None
        self._stop_cpu: Stop | None = None

    @property
    def elapsed(self) -> float:
        """Seconds from the start until now, or until the run finished."""
        return (self._finished or time.perf_counter()) - self._started

    def start(self, worker: Worker) -> None:
        """Start the clocks when the script starts."""
        self._worker = worker
        self._started = time.perf_counter()
        self._limit_time(0.0)
        # A single-threaded process cannot use more CPU time than wall time.
        if self._limits.max_cpu_ms < self._limits.timeout_ms:
            self._cpu_before = worker.cpu_seconds() or 0.0
            self._check_cpu()

    def resume(self, elapsed: float) -> None:
        """Continue at `elapsed` seconds: the time that the replay took is not charged."""
        self._started = time.perf_counter() - elapsed
        if self._stop_timeout is not None:
            self._stop_timeout()
        self._limit_time(elapsed)

    def wait_for(self, deadline: float) -> None:
        """Set the script's timer to `deadline`, in seconds since the start.

        A script waits only for its earliest timer, so a newer request replaces the older one.
        """
        self._deadline = deadline
        batch = self._worker.batch if self._worker is not None else 0
        if batch != self._batch:
            self._batch = batch
            self._start_timer()
        elif not self._scheduled:
            # Each timer is a task under trio: of thousands set at once, only the last is started.
            self._scheduled = True
            self._reactor.call_later(0, self._start_timer)

    def finish(self) -> None:
        """Freeze the elapsed time and stop the clocks."""
        self._finished = time.perf_counter()
        self.stop()

    def stop(self) -> None:
        """Stop all clocks and release the worker."""
        self._worker = None
        for stop in (self._stop_timeout, self._stop_tick, self._stop_cpu):
            if stop is not None:
                stop()
        self._stop_timeout = self._stop_tick = self._stop_cpu = None

    def _limit_time(self, elapsed: float) -> None:
        left = max(0.0, self._limits.timeout_ms / 1000 - elapsed)
        self._stop_timeout = self._reactor.call_later(left, self._on_timeout)

    def _start_timer(self) -> None:
        self._scheduled = False
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
            # The worker chooses how many ticks it requests: they must not pile up unread.
            self._stop_tick = self._reactor.call_later(
                _TICK_AGAIN_SECONDS, lambda: self._tick(deadline)
            )
            return
        self._on_tick(max(deadline, self.elapsed))

    def _check_cpu(self) -> None:
        """Report used-up CPU time, or check again when it may be used up at the earliest."""
        if self._worker is None:
            return
        now = self._worker.cpu_seconds()
        if now is None:
            return  # the process is gone, or the kernel reports nothing: RLIMIT_CPU still holds
        most = self._limits.max_cpu_ms
        used = (now - self._cpu_before) * 1000
        if used >= most:
            self._on_cpu_limit(round(used))
            return
        delay = max(_LEAST_CPU_SECONDS, (most - used) / 1000)
        self._stop_cpu = self._reactor.call_later(delay, self._check_cpu)
