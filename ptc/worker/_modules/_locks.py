"""Locks of `threading` for the cooperative threads of `_threads`.

Only one thread runs at a time, and none is interrupted between two waits: a lock, an event or a
condition is therefore plain data.
"""

from __future__ import annotations

import _thread
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from .._classes import open_type
from .._identity import stable_id
from .._threads import THREADS

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "BrokenBarrierError",
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Semaphore",
    "let_others_run",
]


def _timeout_of(blocking: bool, timeout: float) -> float | None:
    """Return the seconds to wait; None: no bound.

    A lock of CPython that is free checks the arguments as this version does.
    """
    _thread.allocate_lock().acquire(blocking, timeout)
    return None if timeout == -1 else float(timeout)


@open_type
class Lock:
    """`threading.Lock`."""

    __slots__ = ("__weakref__", "_locked")

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

    # Older names.
    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "locked" if self._locked else "unlocked"
        return f"<{state} _thread.lock object at {stable_id(self):#x}>"


@open_type
class RLock:
    """`threading.RLock`."""

    __slots__ = ("__weakref__", "_count", "_owner")

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
        held = f"owner={self._owner} count={self._count}"
        return f"<{state} _thread.RLock object {held} at {stable_id(self):#x}>"


@open_type
class Condition:
    """`threading.Condition`."""

    __slots__ = ("__weakref__", "_lock", "_waiting")

    def __init__(self, lock: Lock | RLock | None = None) -> None:
        if lock is not None and not isinstance(lock, Lock | RLock):
            _ = lock.acquire, lock.release  # the library's error for other objects
            raise TypeError("lock must be a threading.Lock or a threading.RLock")
        self._lock: Lock | RLock = RLock() if lock is None else lock
        self._waiting: deque[list[bool]] = deque()

    def __repr__(self) -> str:
        return f"<Condition({self._lock!r}, {len(self._waiting)})>"

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

    __slots__ = ("__weakref__", "_flag")

    def __init__(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        """Return True if the event is set; other threads run first if it is not."""
        if not self._flag:
            let_others_run()
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
        state = "set" if self._flag else "unset"
        return f"<threading.Event at {stable_id(self):#x}: {state}>"


def let_others_run() -> None:
    """Let the other threads run: a loop that polls would never end otherwise."""
    THREADS.poll()


@open_type
class Semaphore:
    """`threading.Semaphore`."""

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one; return False if there is none in time."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        if not self._value and not (
            blocking and THREADS.wait(lambda: self._value > 0, timeout, "a Semaphore")
        ):
            return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Give back `n`."""
        if n < 1:
            raise ValueError("n must be one or more")
        self._value += n
        if sys.version_info < (3, 12):
            _ = range(n)  # the library counts the threads that it wakes

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<threading.Semaphore at {stable_id(self):#x}: value={self._value}>"


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

    def __repr__(self) -> str:
        value = f"value={self._value}/{self._initial}"
        return f"<threading.BoundedSemaphore at {stable_id(self):#x}: {value}>"


class BrokenBarrierError(RuntimeError):
    """`threading.BrokenBarrierError`."""


@open_type
class Barrier:
    """`threading.Barrier`."""

    __slots__ = ("__weakref__", "_action", "_broken", "_parties", "_round", "_timeout")

    def __init__(self, parties: int, action: Any = None, timeout: float | None = None) -> None:
        if parties < 1:
            raise ValueError("parties must be > 0")
        self._parties, self._action, self._timeout = parties, action, timeout
        self._broken = False
        self._round: list[int] = []

    def __repr__(self) -> str:
        state = "broken" if self._broken else f"waiters={self.n_waiting}/{self._parties}"
        return f"<threading.Barrier at {stable_id(self):#x}: {state}>"

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
            let_others_run()
        self._round, self._broken = [], False

    def abort(self) -> None:
        """Break the barrier."""
        self._broken = True
