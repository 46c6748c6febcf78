"""`threading` on the cooperative threads of `_threads`.

A thread runs when it is started, until it waits. Locks, events and conditions are therefore plain
data: only one thread runs at a time, and none is interrupted between two waits.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..._language import _policy as policy
from .._classes import open_type
from .._threads import MAIN, THREADS
from ._console import CONSOLE
from ._traceback import format_error

__all__ = ["threading_members"]

_THREAD_NUMBERS = itertools.count(1)
_BY_NUMBER: dict[int, Thread] = {}


def _timeout_of(blocking: bool, timeout: float | None) -> float | None:
    """Return the seconds to wait; None: no bound. Raises as a lock of CPython does."""
    if not blocking and timeout not in {None, -1}:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout is None or timeout == -1:
        return None
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    return float(timeout)


@open_type
class Lock:
    """`threading.Lock`."""

    __slots__ = ("_locked",)

    def __init__(self) -> None:
        self._locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; return False if it is not free in time."""
        seconds = _timeout_of(blocking, timeout)
        if self._locked and not (
            blocking and THREADS.wait(lambda: not self._locked, seconds, "a lock")
        ):
            return False
        self._locked = True
        return True

    def release(self) -> None:
        """Free the lock."""
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False

    def locked(self) -> bool:
        """Return True if the lock is taken."""
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{'locked' if self._locked else 'unlocked'} _thread.lock object>"


@open_type
class RLock:
    """`threading.RLock`."""

    __slots__ = ("_count", "_owner")

    def __init__(self) -> None:
        self._count = self._owner = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, once more if this thread has it."""
        seconds = _timeout_of(blocking, timeout)
        me = THREADS.current
        if self._count and self._owner != me:
            if not blocking:
                return False
            if not THREADS.wait(lambda: not self._count, seconds, "a lock"):
                return False
        self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        """Free the lock once."""
        if not self._count or self._owner != THREADS.current:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1

    def _release_all(self) -> int:
        count, self._count = self._count, 0
        return count

    def _take_back(self, count: int) -> None:
        self.acquire()
        self._count = count

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "locked" if self._count else "unlocked"
        return f"<{state} _thread.RLock object owner={self._owner} count={self._count}>"


@open_type
class Condition:
    """`threading.Condition`."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self, lock: Lock | RLock | None = None) -> None:
        if lock is not None and not isinstance(lock, Lock | RLock):
            raise TypeError("lock must be a threading.Lock or a threading.RLock")
        self._lock: Lock | RLock = RLock() if lock is None else lock
        self._waiting: deque[list[bool]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Free the lock."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _check_owned(self, action: str) -> None:
        lock = self._lock
        owned = (
            lock._locked
            if isinstance(lock, Lock)
            else lock._count > 0 and lock._owner == THREADS.current
        )
        if not owned:
            raise RuntimeError(f"cannot {action} on un-acquired lock")

    def wait(self, timeout: float | None = None) -> bool:
        """Free the lock, wait for `notify`, and take the lock again."""
        self._check_owned("wait")
        lock, flag = self._lock, [False]
        self._waiting.append(flag)
        count = lock._release_all() if isinstance(lock, RLock) else 0
        if isinstance(lock, Lock):
            lock.release()
        try:
            return THREADS.wait(lambda: flag[0], timeout, "the notification of a Condition")
        finally:
            if flag in self._waiting and not flag[0]:
                self._waiting.remove(flag)
            if isinstance(lock, RLock):
                lock._take_back(count)
            else:
                lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until `predicate` is true."""
        deadline = None if timeout is None else _now() + timeout
        result = predicate()
        while not result:
            left = None if deadline is None else deadline - _now()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        """Wake up to `n` waiting threads."""
        self._check_owned("notify")
        for _ in range(min(n, len(self._waiting))):
            self._waiting.popleft()[0] = True

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self.notify(len(self._waiting))

    notifyAll = notify_all


def _now() -> float:
    return THREADS.now()


@open_type
class Event:
    """`threading.Event`."""

    __slots__ = ("_flag",)

    def __init__(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        """Return True if the event is set; other threads run first if it is not."""
        if not self._flag:
            _let_others_run()
        return self._flag

    isSet = is_set

    def set(self) -> None:
        """Set the event."""
        self._flag = True

    def clear(self) -> None:
        """Reset the event."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set; return False if it is not in time."""
        return THREADS.wait(lambda: self._flag, timeout, "an Event that no thread sets")

    def __repr__(self) -> str:
        return f"<threading.Event: {'set' if self._flag else 'unset'}>"


def _let_others_run() -> None:
    """Let the other threads run: a loop that polls would never end otherwise."""
    THREADS.poll()


@open_type
class Semaphore:
    """`threading.Semaphore`."""

    __slots__ = ("_value",)

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one; return False if there is none in time."""
        seconds = _timeout_of(blocking, timeout)
        if not self._value and not (
            blocking and THREADS.wait(lambda: self._value > 0, seconds, "a Semaphore")
        ):
            return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Give back `n`."""
        if n < 1:
            raise ValueError("n must be one or more")
        self._value += n

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@open_type
class BoundedSemaphore(Semaphore):
    """`threading.BoundedSemaphore`."""

    __slots__ = ("_initial",)

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._initial = value

    def release(self, n: int = 1) -> None:
        """Give back `n`, no more than were taken."""
        if self._value + n > self._initial:
            raise ValueError("Semaphore released too many times")
        super().release(n)


class BrokenBarrierError(RuntimeError):
    """`threading.BrokenBarrierError`."""


@open_type
class Barrier:
    """`threading.Barrier`."""

    __slots__ = ("_action", "_broken", "_parties", "_round", "_timeout")

    def __init__(self, parties: int, action: Any = None, timeout: float | None = None) -> None:
        if parties < 1:
            raise ValueError("parties must be > 0")
        self._parties, self._action, self._timeout = parties, action, timeout
        self._broken = False
        self._round: list[int] = []

    @property
    def parties(self) -> int:
        """Threads that the barrier needs."""
        return self._parties

    @property
    def n_waiting(self) -> int:
        """Threads that wait."""
        return len(self._round) if len(self._round) < self._parties else 0

    @property
    def broken(self) -> bool:
        """True if the barrier is broken."""
        return self._broken

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the other threads; return the position of this one."""
        if self._broken:
            raise BrokenBarrierError
        mine = self._round
        position = len(mine)
        mine.append(THREADS.current)
        if len(mine) == self._parties:
            self._round = []
            if self._action is not None:
                try:
                    self._action()
                except BaseException:
                    self.abort()
                    raise
            return position
        seconds = self._timeout if timeout is None else timeout
        if not THREADS.wait(
            lambda: len(mine) == self._parties or self._broken, seconds, "a Barrier"
        ):
            self.abort()
        if self._broken:
            raise BrokenBarrierError
        return position

    def reset(self) -> None:
        """Let the waiting threads fail, and start anew."""
        if self._round:
            self.abort()
            _let_others_run()
        self._round, self._broken = [], False

    def abort(self) -> None:
        """Break the barrier."""
        self._broken = True


@open_type
class Thread:
    """`threading.Thread`; scripts may subclass it."""

    _prepared = False

    def __init__(
        self,
        group: None = None,
        target: Any = None,
        name: str | None = None,
        args: Any = (),
        kwargs: Any = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        if group is not None:
            raise AssertionError("group argument must be None for now")
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        if name is None:
            name = f"Thread-{next(_THREAD_NUMBERS)}"
            label = getattr(target, "__name__", None)
            if type(label) is str:
                name = f"{name} ({policy.demangle(label)})"
        self._name = str(name)
        self._daemon = current_thread().daemon if daemon is None else bool(daemon)
        self._number = 0
        self._prepared = True

    def _check(self) -> None:
        if not self._prepared:
            raise RuntimeError("thread.__init__() not called")

    def start(self) -> None:
        """Run the thread until it waits."""
        self._check()
        if self._number:
            raise RuntimeError("threads can only be started once")
        self._number = THREADS.start(self._name, self._live, daemon=self._daemon)
        if THREADS.is_alive(self._number):
            _BY_NUMBER[self._number] = self

    def _live(self) -> None:
        """Run the thread; called on its own stack."""
        self._number = THREADS.current
        _BY_NUMBER[self._number] = self
        try:
            self.run()
        except SystemExit:
            pass
        except BaseException as error:  # noqa: BLE001  # shown, as by threading.excepthook
            text = f"Exception in thread {self._name}:\n{format_error(error)}"
            CONSOLE.show(text, end="", file=CONSOLE.stderr)
        finally:
            _BY_NUMBER.pop(self._number, None)

    def run(self) -> None:
        """Call the target."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has finished."""
        self._check()
        if not self._number:
            raise RuntimeError("cannot join thread before it is started")
        if self._number == THREADS.current:
            raise RuntimeError("cannot join current thread")
        number = self._number
        THREADS.wait(lambda: not THREADS.is_alive(number), timeout, f"the end of {self._name}")

    def is_alive(self) -> bool:
        """Return True if the thread has started and not finished; others run first."""
        self._check()
        if self._number > 0 and THREADS.is_alive(self._number):
            _let_others_run()
        return self._number > 0 and THREADS.is_alive(self._number)

    @property
    def name(self) -> str:
        """Name of the thread."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = str(name)

    @property
    def daemon(self) -> bool:
        """True if the run does not wait for the thread."""
        return self._daemon

    @daemon.setter
    def daemon(self, daemon: bool) -> None:
        if self._number:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemon = bool(daemon)

    @property
    def ident(self) -> int | None:
        """Number of the thread; None before it is started."""
        return self._number if self._number > 0 else None

    native_id = ident

    def getName(self) -> str:  # the library's name
        """Return the name."""
        return self._name

    def setName(self, name: str) -> None:  # the library's name
        """Set the name."""
        self.name = name

    def isDaemon(self) -> bool:  # the library's name
        """Return True for a daemon."""
        return self._daemon

    def setDaemon(self, daemonic: bool) -> None:  # the library's name
        """Make the thread a daemon or not."""
        self.daemon = daemonic

    def __repr__(self) -> str:
        alive = self._number > 0 and THREADS.is_alive(self._number)
        state = "started" if alive else "stopped" if self._number else "initial"
        state += " daemon" if self._daemon else ""
        number = f" {self._number}" if self._number > 0 else ""
        kind = policy.demangle(type(self).__name__)
        return f"<{kind}({self._name}, {state}{number})>"


class _MainThread(Thread):
    __module__ = "threading"  # reprs and errors show it

    def __init__(self) -> None:
        self._target, self._args, self._kwargs = None, (), {}
        self._name, self._daemon, self._number, self._prepared = "MainThread", False, MAIN, True


class Timer(Thread):
    """`threading.Timer`."""

    def __init__(
        self, interval: float, function: Any, args: Any = None, kwargs: Any = None
    ) -> None:
        super().__init__()
        self.interval, self.function = interval, function
        self.args, self.kwargs = args or [], kwargs or {}
        self.finished = Event()

    def cancel(self) -> None:
        """Stop the timer if it has not fired."""
        self.finished.set()

    def run(self) -> None:
        """Wait, then call the function."""
        self.finished.wait(self.interval)
        if not self.finished._flag:
            self.function(*self.args, **self.kwargs)
        self.finished.set()


open_type(_MainThread)
open_type(Timer)
_MAIN: Final = _MainThread()


@open_type
class local:  # the library's name
    """`threading.local`: attributes of each thread."""

    __slots__ = ("_spaces",)
    _spaces: dict[int, dict[str, Any]]

    def __init__(self) -> None:
        object.__setattr__(self, "_spaces", {})

    def __getattr__(self, name: str) -> Any:
        space = self._spaces.get(THREADS.current, {})
        if name not in space:
            raise AttributeError(
                f"'_thread._local' object has no attribute {policy.demangle(name)!r}"
            )
        return space[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._spaces.setdefault(THREADS.current, {})[name] = value

    def __delattr__(self, name: str) -> None:
        if self._spaces.get(THREADS.current, {}).pop(name, None) is None:
            raise AttributeError(policy.demangle(name))


def current_thread() -> Thread:
    """`threading.current_thread`."""
    return _BY_NUMBER.get(THREADS.current, _MAIN)


def _main_thread() -> Thread:
    return _MAIN


def _enumerate() -> list[Thread]:
    return [_MAIN, *_BY_NUMBER.values()]


def _active_count() -> int:
    return len(THREADS.numbers())


def _get_ident() -> int:
    return THREADS.current


def threading_members() -> dict[str, Any]:
    """Return the members of `threading`."""
    return {
        "Barrier": Barrier,
        "BoundedSemaphore": BoundedSemaphore,
        "BrokenBarrierError": BrokenBarrierError,
        "Condition": Condition,
        "Event": Event,
        "Lock": Lock,
        "RLock": RLock,
        "Semaphore": Semaphore,
        "TIMEOUT_MAX": 9223372036.0,
        "Thread": Thread,
        "ThreadError": RuntimeError,
        "Timer": Timer,
        "active_count": _active_count,
        "current_thread": current_thread,
        "enumerate": _enumerate,
        "get_ident": _get_ident,
        "get_native_id": _get_ident,
        "local": local,
        "main_thread": _main_thread,
    }
