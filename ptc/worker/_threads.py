"""Threads of a script: one at a time, and switched only where one waits.

A worker may not start threads of the system. A thread of a script is a greenlet: a stack of its own
in the same thread of the process. It runs until it finishes or waits (for a lock, a queue, a
sleep, a call on ctx); then the next one that can continue does. The order depends on the script and
its messages alone, so a replay repeats it.

A WebAssembly guest has one stack. There, a thread starts when another one waits, on top of it, and
the one below continues when it has finished. Threads that need each other in turn cannot go on,
which ends the run with an error that says so.

Rule 1: a wait that nothing can end raises `DeadlockError` in the main thread
    (tests/worker/test_threads.py::test_wait_that_nothing_can_end_raises_a_deadlock_error).
Rule 2: no object that a script can hold leads to a strand, a greenlet or a loop: facades have
    numbers, and the strands are in this module (tests/worker/test_reachability.py).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import greenlet as stacks  # type: ignore[import-untyped]  # it has no stubs

from ._budget import LimitError
from ._clock import Clock

__all__ = ["MAIN", "THREADS", "DeadlockError", "Threads"]

_RESOLUTION_S: Final = 1e-9
_MOST_POLLS: Final = 1_000
"""Questions without a waiting thread that can run, after which the host is asked."""
_POLL_WAIT_S: Final = 0.01
_ONE_STACK: Final[bool] = getattr(stacks, "ONE_STACK", False)
_MOST_ROUNDS: Final = 1_000
"""Frames that a thread may wait for while the one below it could continue, with one stack."""
#: Number of the main thread.
MAIN: Final = 1


def _swap_task(loop: Any, task: Any) -> Any:
    """Make `task` the one that runs in `loop`, the running loop; return the one that did.

    Before 3.14 the interpreter keeps it for each loop, from then on for each thread.
    """
    if sys.version_info < (3, 14):
        return None
    return asyncio.tasks._swap_current_task(loop, task)


class DeadlockError(RuntimeError):
    """The script waits for something that nothing can end.

    Attributes:
        places: Line and function of the script's frames that wait, if its traceback has none.
    """

    __module__ = "builtins"  # reprs and errors show it

    def __init__(self, message: str, places: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.places = tuple(places)


class UNWOUND(BaseException):  # no error: a signal between threads
    """Ends a thread on top of one that has to continue, with one stack."""


class _Strand:
    """One thread: its stack, and the condition for which it waits."""

    __slots__ = (
        "daemon",
        "deadline",
        "hooks",
        "loop",
        "name",
        "number",
        "ready",
        "stack",
        "started",
        "task",
        "waits",
    )

    def __init__(self, number: int, name: str, *, daemon: bool) -> None:
        self.number, self.name, self.daemon = number, name, daemon
        self.stack: Any = None
        self.started = False
        #: True if the strand can continue; None while it runs.
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        #: What it waits for, in words, and the line.
        self.waits: tuple[str, int] = ("", 0)
        # The interpreter keeps these for each thread of the system.
        self.loop: Any = None
        self.task: Any = None
        self.hooks: Any = sys.get_asyncgen_hooks()

    def can_continue(self, now: float) -> bool:
        """Return True if the strand can be switched to."""
        if self.ready is None or self.ready():
            return True
        return self.deadline is not None and self.deadline <= now + _RESOLUTION_S


class Threads:
    """The threads of one worker, and the only place where it waits for the host."""

    def __init__(self) -> None:
        """Create the state of a process; `attach` it for each run."""
        self._clock = Clock()
        self._most = 1_000
        self._receive: Callable[[], None] = _nothing
        self._owed: Callable[[], bool] = bool
        self._request_timer: Callable[[float], None] = _ignore
        self._place: Callable[[], tuple[int, str]] = lambda: (0, "")
        self._waiting_places: Callable[[], Sequence[tuple[int, str]]] = tuple
        self.restart()

    def restart(self) -> None:
        """Forget the threads of the run before."""
        self._main = _Strand(MAIN, "MainThread", daemon=False)
        self._main.started = True
        self._current = self._main
        self._live: dict[int, _Strand] = {MAIN: self._main}
        self._numbers = MAIN
        self._doomed = False
        self._stuck = ""
        self._timer_requested = -1.0
        self._polls = self._frames = 0

    def attach(
        self,
        clock: Clock,
        receive: Callable[[], None],
        owed: Callable[[], bool],
        request_timer: Callable[[float], None],
        place: Callable[[], tuple[int, str]],
        waiting_places: Callable[[], Sequence[tuple[int, str]]],
        most: int,
    ) -> None:
        """Connect the threads to a run.

        Args:
            clock: The run's clock.
            receive: Reads one frame of the host and delivers it.
            owed: True while a result from the host is pending.
            request_timer: Requests a frame at a time of the host's clock.
            place: Returns line and function of the script's innermost frame.
            waiting_places: Returns them of the frames in which the first task waits.
            most: Threads that may exist at once.
        """
        self.restart()
        self._clock, self._receive, self._owed = clock, receive, owed
        self._request_timer, self._place, self._most = request_timer, place, most
        self._waiting_places = waiting_places

    # -- identity ------------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """Number of the running thread."""
        return self._current.number

    @property
    def alone(self) -> bool:
        """True if there is no thread beside the main one."""
        return len(self._live) == 1

    def numbers(self) -> list[int]:
        """Return the numbers of the threads that have not finished."""
        return list(self._live)

    def is_alive(self, number: int) -> bool:
        """Return True if a thread has not finished."""
        return number in self._live

    # -- life ----------------------------------------------------------------------------------

    def start(self, name: str, body: Callable[[], None], *, daemon: bool = False) -> int:
        """Run `body` in a new thread until it waits; return the thread's number.

        Args:
            name: Name of the thread, for the message of a deadlock.
            body: It must not raise.
            daemon: True if the run need not wait for it.

        Raises:
            LimitError: If there are too many threads.
        """
        if len(self._live) > self._most:
            msg = (
                f"the script has {self._most:,} threads, the most it may have at once (max_tasks); "
                "join some before starting more, or use a ThreadPoolExecutor"
            )
            raise LimitError(msg, "max_tasks")
        if self._main.stack is None:
            self._main.stack = stacks.getcurrent()
        self._numbers += 1
        strand = _Strand(self._numbers, name, daemon=daemon)

        def whole() -> None:
            try:
                body()
            finally:
                # The stack of the main thread continues, wherever it waits.
                del self._live[strand.number]
                self._enter(self._main)

        strand.stack = stacks.greenlet(whole, self._main.stack)
        strand.ready = _always
        self._live[strand.number] = strand
        if self._current is self._main and not _ONE_STACK:
            self._yield(strand)
        return strand.number

    def _yield(self, other: _Strand) -> None:
        """Switch to `other`, ready to continue at once."""
        me = self._current
        me.ready = _always
        try:
            self._switch(other)
        finally:
            me.ready = None

    def _switch(self, other: _Strand) -> None:
        me = self._current
        if not other.started:
            other.started, other.ready = True, None
        me.loop, me.hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        me.task = None if me.loop is None else _swap_task(me.loop, None)
        self._enter(other)
        other.stack.switch()
        if _ONE_STACK:  # the other one has finished
            self._enter(me)

    def _enter(self, strand: _Strand) -> None:
        """Make `strand` the running one, just before its stack is switched to."""
        self._current = strand
        asyncio._set_running_loop(strand.loop)
        if strand.loop is not None:
            _swap_task(strand.loop, strand.task)
        sys.set_asyncgen_hooks(*strand.hooks)

    def finish(self) -> None:
        """Wait for the threads that are not daemons, as the interpreter does at its exit."""
        if not self.alone:
            self.wait(self._is_finished, what="the end of its threads")

    def _is_finished(self) -> bool:
        return all(strand.daemon or strand is self._main for strand in self._live.values())

    # -- waiting -------------------------------------------------------------------------------

    def idle(self, ready: Callable[[], bool], deadline: float | None) -> None:
        """Wait until `ready` returns True or the clock shows `deadline`; for an event loop."""
        me = self._current
        me.deadline, me.ready, me.waits = deadline, ready, _LOOP
        try:
            self._wait(me, ready)
        finally:
            me.ready = me.deadline = None

    def yield_to_host(self, deadline: float | None) -> None:
        """Let a frame in, and other threads, for a loop that is never idle."""
        if not self.alone or deadline is not None or self._owed():
            moment, seen = self._clock.peek() + _POLL_WAIT_S, self._frames
            until = moment if deadline is None else min(moment, deadline)
            self.idle(lambda: self._frames != seen, until)

    def wait(
        self, ready: Callable[[], bool], timeout: float | None = None, what: str = "a condition"
    ) -> bool:
        """Wait until `ready` returns True; return False if `timeout` seconds pass before.

        Raises:
            DeadlockError: If nothing can make it True. It is raised in the main thread.
        """
        if ready():
            return True
        me = self._current
        if timeout is not None:
            # Exact: the comparisons of a script's own number would choose the deadline.
            timeout = max(0.0, float.__float__(float(timeout)))
        me.deadline = None if timeout is None else self._clock.peek() + timeout
        me.ready, me.waits = ready, (what, self._place()[0])
        try:
            return self._wait(me, ready)
        finally:
            me.ready = me.deadline = None

    def _wait(self, me: _Strand, ready: Callable[[], bool]) -> bool:
        rounds = 0
        while not ready():
            if _ONE_STACK and me is not self._main:
                rounds += 1
                self._unwind_if_stuck(me, rounds)
            if me is self._main and self._doomed:
                break
            now = self._clock.peek()
            if me.deadline is not None and me.deadline <= now + _RESOLUTION_S:
                return False
            other = self._next(me, now)
            if other is not None:
                self._switch(other)
            else:
                self._wait_for_host(me)
        if me is self._main and self._doomed:
            self._doomed = False
            raise self._deadlock()
        return True

    def _unwind_if_stuck(self, me: _Strand, rounds: int) -> None:
        """End the thread on top, and the run, if only one below it can continue."""
        if not self._doomed:
            new = any(not strand.started for strand in self._live.values())
            can_wait = self._owed() or me.deadline is not None
            if new or (can_wait and rounds < _MOST_ROUNDS):
                return
            below = [s for s in self._live.values() if s is not me and s.started and s.ready]
            if can_wait and not any(strand.ready() for strand in below if strand.ready):
                return
            self._doomed = True
            waits = me.waits[0] or "a condition"
            self._stuck = (
                f"{me.name} waits for {waits}, and only a thread that it interrupted can end that"
            )
        raise UNWOUND

    def _next(self, me: _Strand, now: float) -> _Strand | None:
        """Return the next strand that can continue, in turn."""
        if len(self._live) == 1:
            return None
        if _ONE_STACK:
            return next((each for each in self._others(me) if not each.started), None)
        new = False
        for each in self._others(me):
            if each.can_continue(now):
                if each.started or me is self._main:
                    return each
                new = True
        # The stack of a new strand begins where it is first switched to. A chain of threads that
        # start each other would use up the C stack, so only the main thread starts them.
        return self._main if new else None

    def _others(self, me: _Strand) -> Iterator[_Strand]:
        """Yield the other strands, in turn: those after `me` first."""
        strands = list(self._live.values())
        at = strands.index(me)
        yield from strands[at + 1 :]
        yield from strands[:at]

    def _wait_for_host(self, me: _Strand) -> None:
        """Read a frame, which may let a strand continue."""
        deadlines = [s.deadline for s in self._live.values() if s.deadline is not None]
        if deadlines:
            self.set_timer(min(deadlines) - self._clock.ahead())
        elif not self._owed():
            if me is self._main:
                raise self._deadlock()
            self._doomed = True
            self._switch(self._main)
            return
        self._frames += 1
        self._receive()

    def poll(self) -> None:
        """Let the other threads run once, for a thread that asks whether they have finished."""
        if self.alone:
            return
        me = self._current
        other = self._next(me, self._clock.peek())
        if other is not None:
            self._polls = 0
            self._yield(other)
            return
        # A loop that does nothing but ask would never let a frame in.
        self._polls += 1
        if self._polls >= _MOST_POLLS:
            self._polls = 0
            self.wait(_never, _POLL_WAIT_S)

    def sleep(self, seconds: float) -> None:
        """Sleep; the other threads run meanwhile."""
        self.wait(_never, seconds, "the time")

    def now(self) -> float:
        """Return the logical seconds since the start of the run."""
        return self._clock.peek()

    def set_timer(self, deadline: float) -> None:
        """Request a frame at `deadline` of the host's clock, unless that has been done."""
        if deadline != self._timer_requested:
            self._timer_requested = deadline
            self._request_timer(deadline)

    def _deadlock(self) -> DeadlockError:
        """Build the error for the main thread, which must be the running one."""
        if self._stuck:
            return DeadlockError(f"deadlock: {self._stuck}{_ONE_STACK_HINT}")
        in_loop = self._main.waits is _LOOP
        places = self._waiting_places() if in_loop else []
        if self.alone and in_loop:
            where = f"the `await` on line {places[-1][0]}" if places else "the script"
            return DeadlockError(
                f"deadlock: {where} waits for something that no task, timer or call of the script "
                "can end; for example an Event or Queue that no other task sets or fills",
                places,
            )
        if self.alone:
            what = self._main.waits[0]
            return DeadlockError(f"deadlock: the script waits for {what}, which nothing can end")
        waits = ", ".join(
            f"{strand.name} waits for {strand.waits[0]}"
            + (f" (line {strand.waits[1]})" if strand.waits[1] else "")
            for strand in list(self._live.values())[:_SHOWN]
        )
        return DeadlockError(f"deadlock: {waits}, and nothing can end that", places)


_SHOWN: Final = 8
_ONE_STACK_HINT: Final = (
    "; the engine 'wasm' runs a thread to its end once it has started it: use asyncio, or the "
    "engine 'process'"
)
_LOOP: Final = ("an `await` that no task, timer or call can end", 0)


def _nothing() -> None:
    raise DeadlockError("no run")


def _ignore(_deadline: float) -> None:
    return None


def _always() -> bool:
    return True


def _never() -> bool:
    return False


#: The threads of this process.
THREADS: Final = Threads()
