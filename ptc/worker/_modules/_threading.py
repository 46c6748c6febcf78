"""`threading` on the cooperative threads of `_threads`.

A thread runs when it is started, until it waits.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from ..._language import _policy as policy
from .._classes import open_type
from .._threads import MAIN, THREADS, UNWOUND
from ._console import CONSOLE
from ._locks import (
    Barrier,
    BoundedSemaphore,
    BrokenBarrierError,
    Condition,
    Event,
    Lock,
    RLock,
    Semaphore,
    let_others_run,
)
from ._traceback import format_error

__all__ = ["threading_members"]

_THREAD_NUMBERS = itertools.count(1)
_BY_NUMBER: dict[int, Thread] = {}


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
        except UNWOUND:
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
            let_others_run()
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

    __slots__ = ("__weakref__", "_spaces")
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
