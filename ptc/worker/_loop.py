"""The event loop of a script: asyncio's tasks and futures on the wire, with a logical clock.

It is not a `BaseEventLoop`, which creates sockets and processes: a script can hold its loop.

Rule 1: one frame from the host is handled to quiescence, or for a fixed number of turns, before the
    next is read, so the order in which a script's tasks run depends on the messages alone.
    tests/worker/test_runtime.py::test_results_are_handled_one_at_a_time_in_the_order_they_arrive
Rule 2: only a frame, or a reading by the script, advances the time.
    tests/worker/test_clock.py::test_computing_does_not_advance_the_clock
Rule 3: no attribute of a loop leads to the wire
    (tests/worker/test_reachability.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import sys
import typing
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn

from ._budget import LimitError
from ._clock import Clock
from ._threads import MAIN, THREADS

__all__ = ["LOOPS", "ScriptLoop", "forbid_other_loops"]

_RESOLUTION_S = 1e-9
"""A timer is due if less than this remains; `BaseEventLoop` uses the system clock's resolution."""
_BUSY_TURNS = 1_000
"""Turns without a frame after which a loop that is never idle lets the host report. Without it,
``while not task.done(): await asyncio.sleep(0)`` would never receive a result."""
_MOST_CANCELLED = 100
"""Cancelled timers that may stay scheduled; as in `BaseEventLoop`."""
_Handler = Callable[[Any, dict[str, Any]], object]


class _ScriptLoops:
    """Event loop policy: the loop of the run, and one for each thread of a script that asks.

    The library's own loops open descriptors, a forbidden system call here. `asyncio.gather(...)`
    outside of a coroutine requests a loop.
    """

    __slots__ = ("_by_thread", "create", "main")

    def __init__(self) -> None:
        #: Loop of the main thread; None in a process that executes no script.
        self.main: ScriptLoop | None = None
        #: Makes a loop for another thread.
        self.create: Callable[[], ScriptLoop] = _no_loop
        self._by_thread: dict[int, ScriptLoop] = {}

    def start(self, main: ScriptLoop, create: Callable[[], ScriptLoop]) -> None:
        """Set the loops of a run."""
        self.main, self.create = main, create
        self._by_thread = {MAIN: main}

    def get_event_loop(self) -> ScriptLoop:
        """Return the loop of the running thread."""
        if self.main is None:
            _no_loop()
        number = THREADS.current
        if number not in self._by_thread:
            self._by_thread[number] = self.create()
        return self._by_thread[number]

    def new_event_loop(self) -> ScriptLoop:
        """As `get_event_loop`."""
        return self.get_event_loop()


def _no_loop() -> NoReturn:
    msg = "no running event loop: call this inside `async def run(ctx, inputs)`"
    raise RuntimeError(msg)


def forbid_other_loops() -> None:
    """Make asyncio refuse to create an event loop in this process."""
    asyncio.events.__dict__["_event_loop_policy"] = LOOPS


class ScriptLoop:
    """A loop without descriptors, threads or signals: it waits for frames and nothing else.

    It has the methods of `AbstractEventLoop` that asyncio calls for tasks and timers, and no other.
    """

    def __init__(self, clock: Clock) -> None:
        """Create a loop on the run's logical clock; `attach` it before it runs."""
        self._clock_time = clock.peek
        self._ready: deque[Any] = deque()  # handles, whose methods the library leaves untyped
        self._scheduled: list[Any] = []
        self._stopping = self._running = False
        self._handler: _Handler | None = None
        self._timer_requested = -1.0
        self._cancelled = self._busy = 0
        self._made = self._count_at = self._max_tasks = 0
        self._task_names = (f"Task-{number}" for number in itertools.count(1))

    def attach(self, max_tasks: int) -> None:
        """Connect the loop to a run, with `max_tasks` tasks at once beside that of the script."""
        self._max_tasks = self._count_at = max_tasks + 1

    @property
    def _as_loop(self) -> asyncio.AbstractEventLoop:
        return typing.cast(asyncio.AbstractEventLoop, self)

    # -- running -------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future`, or the task made of a coroutine, is done; return its result."""
        task = asyncio.ensure_future(future, loop=self._as_loop)
        task.add_done_callback(self._stop_after)
        try:
            self.run_forever()
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # marks it as retrieved: it is being raised already
            raise
        finally:
            task.remove_done_callback(self._stop_after)
        if not task.done():
            msg = "Event loop stopped before Future completed."
            raise RuntimeError(msg)
        return task.result()

    def _stop_after(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled():
            error = future.exception()
            if isinstance(error, SystemExit | KeyboardInterrupt):
                return  # the task raises it out of the loop
        self.stop()

    def run_forever(self) -> None:
        """Run until `stop` is called."""
        if self._running or asyncio._get_running_loop() is not None:
            msg = "This event loop is already running"
            raise RuntimeError(msg)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        asyncio._set_running_loop(self._as_loop)
        self._running = True
        try:
            while not self._stopping:
                self._run_once()
        finally:
            self._running = self._stopping = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run_once(self) -> None:
        """Run the ready callbacks; if there are none, wait for a frame first."""
        self._drop_cancelled()
        scheduled, ready = self._scheduled, self._ready
        if not ready:
            self._busy = 0
            self._wait(scheduled[0].when() if scheduled else None)
        else:
            self._busy += 1
            if self._busy >= _BUSY_TURNS:
                self._busy = 0
                THREADS.yield_to_host(scheduled[0].when() if scheduled else None)
        due = self._clock_time() + _RESOLUTION_S
        while scheduled and scheduled[0].when() < due:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _drop_cancelled(self) -> None:
        """Drop cancelled timers: at the front, and everywhere once they are the majority."""
        scheduled = self._scheduled
        if self._cancelled > _MOST_CANCELLED and 2 * self._cancelled > len(scheduled):
            scheduled[:] = [timer for timer in scheduled if not timer.cancelled()]
            heapq.heapify(scheduled)
            self._cancelled = 0
        while scheduled and scheduled[0].cancelled():
            heapq.heappop(scheduled)
            self._cancelled -= 1

    def _wait(self, deadline: float | None) -> None:
        THREADS.idle(lambda: bool(self._ready), deadline)

    def _close_generator(self, generator: Any) -> None:
        """Close an asynchronous generator without references."""
        self.create_task(generator.aclose())

    def stop(self) -> None:
        """Stop after the current turn."""
        self._stopping = True

    def is_running(self) -> bool:
        """Return True while the loop runs."""
        return self._running

    def is_closed(self) -> bool:
        """Return False: the loop lives as long as its run."""
        return False

    # -- scheduling ----------------------------------------------------------------------------

    def time(self) -> float:
        """Return the logical seconds since the run started."""
        return self._clock_time()

    def call_soon(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call `callback` in the next turn."""
        handle = asyncio.Handle(callback, args, self._as_loop, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call `callback` after `delay` logical seconds."""
        return self.call_at(self._clock_time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call `callback` when the loop's clock shows `when`."""
        time = float(when)  # a number of a script's class may define comparisons of its own
        if time != time:
            msg = "Invalid value NaN (not a number)"
            raise ValueError(msg)
        timer: Any = asyncio.TimerHandle(time, callback, args, self._as_loop, context)
        timer._scheduled = True
        heapq.heappush(self._scheduled, timer)
        return typing.cast(asyncio.TimerHandle, timer)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer; called by the timer."""
        if handle._scheduled:  # type: ignore[attr-defined]  # the library's own flag
            self._cancelled += 1

    def create_future(self) -> asyncio.Future[Any]:
        """Create a future of this loop."""
        return asyncio.Future(loop=self._as_loop)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Create a task; task names are numbered per loop, so that each run starts at 1."""
        self._made += 1
        if self._made > self._count_at:
            self._count_tasks(coro)
        if options.get("name") is None:
            options["name"] = next(self._task_names)
        return asyncio.Task(coro, loop=self._as_loop, **options)

    def _count_tasks(self, coro: Any) -> None:
        """Refuse a task over the limit; otherwise set the number of tasks before the next count."""
        live = len(asyncio.all_tasks(self._as_loop))
        if live >= self._max_tasks:
            coro.close()
            most = self._max_tasks - 1
            msg = (
                f"the script has {most:,} tasks, the most it may have at once (max_tasks); "
                "wait for some before creating more, e.g. in batches with asyncio.gather"
            )
            raise LimitError(msg, "max_tasks")
        self._count_at = self._made + self._max_tasks - live - 1

    # -- errors --------------------------------------------------------------------------------

    def set_exception_handler(self, handler: _Handler | None) -> None:
        """Set the function that receives otherwise unhandled errors."""
        self._handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an otherwise unhandled error."""
        if self._handler is not None:
            self._handler(self, context)

    def get_debug(self) -> bool:
        """Return False."""
        return False


#: The loops of this process.
LOOPS: Final = _ScriptLoops()
