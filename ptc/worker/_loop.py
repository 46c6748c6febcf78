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
from ._budget import LimitError
from ._clock import Clock
from ._wire import Wire, timer_body

__all__ = ["ScriptLoop"]


class ScriptLoop(asyncio.BaseEventLoop):
    """A loop without descriptors, threads or signals: it waits for frames and nothing else."""

    _wire: Wire
    _deliver: Callable[[], None]
    _owed: Callable[[], bool]
    _max_tasks: int

    def __init__(self, clock: Clock) -> None:
        """Make a loop on the run's logical clock; `attach` it before it runs."""
        super().__init__()
        self._clock = clock
        self._timer_asked = -1.0
        # BaseEventLoop._run_once asks its selector for events.
        self._selector = self
        self._made = self._count_at = 0
        self._task_names = (f"Task-{number}" for number in itertools.count(1))

    def attach(
        self,
        wire: Wire,
        deliver: Callable[[], None],
        owed: Callable[[], bool],
        max_tasks: int,
    ) -> None:
        """Connect the loop.

        Args:
            wire: Where timers are asked for.
            deliver: Reads one frame and hands it to whom it concerns; called when idle.
            owed: True while the host owes the script a frame.
            max_tasks: Tasks there may be at once, one for the script itself not counted.
        """
        self._wire, self._deliver, self._owed = wire, deliver, owed
        self._max_tasks = self._count_at = max_tasks + 1

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As asyncio's; the names of tasks are counted by loop, so that each run begins at 1."""
        self._made += 1
        if self._made > self._count_at:
            self._count_tasks(coro)
        if options.get("name") is None:
            options["name"] = next(self._task_names)
        return super().create_task(coro, **options)

    def _count_tasks(self, coro: Any) -> None:
        """Refuse a task over the limit; say how many may be made before the next look."""
        live = len(asyncio.all_tasks(self))
        if live >= self._max_tasks:
            coro.close()
            most = self._max_tasks - 1
            msg = (
                f"the script has {most:,} tasks, as many as it may have at once (max_tasks); "
                "wait for some before making more, e.g. in batches with asyncio.gather"
            )
            raise LimitError(msg, "max_tasks")
        self._count_at = self._made + self._max_tasks - live - 1

    def time(self) -> float:
        """Logical seconds since the run began."""
        elapsed: float = self._clock.elapsed
        return elapsed

    def select(self, timeout: float | None) -> list[Any]:
        """Called by `_run_once`: wait for one frame, unless there is work to do already."""
        if timeout is not None:
            # A time of a script's own class may have made it anything.
            wait = float(timeout)
            if wait <= 0:
                return []
            deadline = self._clock.elapsed + wait
            if deadline != self._timer_asked:
                self._timer_asked = deadline
                self._wire.queue(Kind.TIMER, timer_body(deadline))
        elif not self._owed():
            self._wire.queue(Kind.STALLED, b"[]")
        self._deliver()
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: `select` has already delivered the frame."""

    def _write_to_self(self) -> None:
        """Nothing to wake: no other thread can call in."""
