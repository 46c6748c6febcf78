"""The event loop of a script: the real asyncio on the wire, with a logical clock.

Rule 1: one frame from the host is handled to quiescence before the next is read, so the order in
    which a script's tasks run depends on the messages alone.
    tests/worker/test_runtime.py::test_results_are_handled_one_at_a_time_in_the_order_they_arrive
Rule 2: time moves only when a frame says so.
    tests/worker/test_runtime.py::test_time_stands_still_while_a_script_computes
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from .._protocol import Kind
from ._clock import Clock
from ._wire import Wire

__all__ = ["ScriptLoop"]


class ScriptLoop(asyncio.BaseEventLoop):
    """A loop without descriptors, threads or signals: it waits for frames and nothing else."""

    _wire: Wire
    _deliver: Callable[[], None]
    _owed: Callable[[], bool]

    def __init__(self, clock: Clock) -> None:
        """Make a loop on the run's logical clock; `attach` it before it runs."""
        super().__init__()
        self._clock = clock
        self._timer_asked = -1.0
        # BaseEventLoop._run_once asks its selector for events.
        self._selector = self
        self._task_names = (f"Task-{number}" for number in itertools.count(1))

    def attach(self, wire: Wire, deliver: Callable[[], None], owed: Callable[[], bool]) -> None:
        """Connect the loop.

        Args:
            wire: Where timers are asked for.
            deliver: Reads one frame and hands it to whom it concerns; called when idle.
            owed: True while the host owes the script a frame.
        """
        self._wire, self._deliver, self._owed = wire, deliver, owed

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As asyncio's; the names of tasks are counted by loop, so that each run begins at 1."""
        if options.get("name") is None:
            options["name"] = next(self._task_names)
        return super().create_task(coro, **options)

    def time(self) -> float:
        """Logical seconds since the run began."""
        elapsed: float = self._clock.elapsed
        return elapsed

    def select(self, timeout: float | None) -> list[Any]:
        """Called by `_run_once`: wait for one frame, unless there is work to do already."""
        if timeout is not None:
            if timeout <= 0:
                return []
            deadline = self._clock.elapsed + timeout
            if deadline != self._timer_asked:
                self._timer_asked = deadline
                self._wire.queue(Kind.TIMER, b"[%r]" % deadline)
        elif not self._owed():
            self._wire.queue(Kind.STALLED, b"[]")
        self._deliver()
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: `select` has already delivered the frame."""

    def _write_to_self(self) -> None:
        """Nothing to wake: no other thread can call in."""
