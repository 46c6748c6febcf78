"""`asyncio` as scripts see it: the event loop, and the functions that take or return one.

A script never holds a loop: it holds an `EventLoop` without attributes, whose methods find the loop
themselves. A loop, a handle or a context variable of the worker is therefore out of its reach.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from .._classes import open_type
from .._clock import Clock
from .._loop import LOOPS, ScriptLoop
from .._types import Future, Task
from . import _futures

__all__ = ["asyncio_members"]


async def _wait_for(call: Any) -> Any:
    return await call


def _as_coroutine(awaitable: Any) -> Any:
    """Return a coroutine that waits for a call on ctx, which has started already."""
    return _wait_for(awaitable) if isinstance(awaitable, asyncio.Future) else awaitable


def _create_task(coro: Any, *, name: Any = None, context: Any = None) -> Any:
    """`asyncio.create_task`, which also accepts a call on ctx."""
    return asyncio.create_task(_as_coroutine(coro), name=name)


class TaskGroup(asyncio.TaskGroup):
    """`asyncio.TaskGroup`, which also accepts calls on ctx."""

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        """As `asyncio.TaskGroup.create_task`."""
        return super().create_task(_as_coroutine(coro), name=name)


# ---------------------------------------------------------------------------------------------
# The event loop


@open_type
class Handle:
    """`asyncio.Handle` and `asyncio.TimerHandle`: functions of the real one."""

    __module__ = "asyncio.events"  # reprs and errors show it

    __slots__ = ("cancel", "cancelled", "when")

    def __init__(self, real: Any) -> None:
        self.cancel, self.cancelled = real.cancel, real.cancelled
        self.when = getattr(real, "when", _no_time)

    def __repr__(self) -> str:
        return f"<Handle{' cancelled' if self.cancelled() else ''}>"


def _no_time() -> float:
    raise AttributeError("'Handle' object has no attribute 'when'")


def _real() -> Any:
    """Return the loop that runs, or the one that would."""
    return asyncio._get_running_loop() or LOOPS.get_event_loop()


_clock: Clock = Clock()


@open_type
class EventLoop:
    """The event loop of a script. Every object of this class stands for the only loop there is."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed = False

    # -- running

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future` is done and return its result; only where no loop runs."""
        self._check_closed()
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "This event loop is already running: inside `async def run` write `await ...` "
                "in place of `loop.run_until_complete(...)`"
            )
        return _running(self, lambda: _real().run_until_complete(_checked(future)))

    def run_forever(self) -> None:
        """Run until `stop` is called; only where no loop runs."""
        self._check_closed()
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("This event loop is already running")
        _running(self, lambda: _real().run_forever())

    def stop(self) -> None:
        """Stop after the current turn."""
        _real().stop()

    def is_running(self) -> bool:
        """Return True while the loop runs."""
        return asyncio._get_running_loop() is not None

    def is_closed(self) -> bool:
        """Return True after `close`."""
        return self._closed

    def close(self) -> None:
        """Refuse to run from now on."""
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        self._closed = True

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators are closed when they are dropped."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the calls of the default executor."""
        await asyncio.gather(*_in_threads, return_exceptions=True)

    # -- time

    def time(self) -> float:
        """Return the seconds of the script's clock."""
        return _clock.read()

    # -- scheduling

    def create_future(self) -> Any:
        """Create a future."""
        return _real().create_future()

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        """Create a task; a call on ctx is accepted, too."""
        return _real().create_task(_as_coroutine(coro), name=name)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call `callback` in the next turn."""
        return Handle(_real().call_soon(callback, *args))

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call `callback` in the next turn of the main thread's loop."""
        return Handle((LOOPS.main or _real()).call_soon(callback, *args))

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call `callback` after `delay` seconds."""
        if delay is None:
            raise TypeError("delay must not be None")
        return Handle(_real().call_later(delay, callback, *args))

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call `callback` when `time()` is `when`."""
        if when is None:
            raise TypeError("when cannot be None")
        return Handle(_real().call_at(when, callback, *args))

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """Call `func` in a thread; return a future."""
        if executor is None:
            executor = _default_executor()
        elif not isinstance(executor, _futures.Executor):
            raise TypeError("executor must be a concurrent.futures.ThreadPoolExecutor or None")
        waiting = _wrap_future(executor.submit(func, *args))
        _in_threads.add(waiting)
        waiting.add_done_callback(_in_threads.discard)
        return waiting

    def set_default_executor(self, executor: Any) -> None:
        """Do nothing: threads are as good as each other."""

    # -- errors

    def set_exception_handler(self, handler: Any) -> None:
        """Set the function that receives otherwise unhandled errors."""
        if handler is not None and not callable(handler):
            raise TypeError(f"A callable object or None is expected, got {handler!r}")
        keys = ("message", "exception", "future", "task")
        _real().set_exception_handler(
            handler
            and (lambda _, found: handler(self, {key: found[key] for key in keys if key in found}))
        )

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return f"<EventLoop running={self.is_running()} closed={self._closed} debug=False>"


class _State:
    """Loops that scripts hold: the one that runs, and the one that was set."""

    __slots__ = ("current", "executor", "shown")

    def __init__(self) -> None:
        self.shown = self.current = EventLoop()
        self.executor: Any = None


_state: Final = _State()
_in_threads: Final[set[Any]] = set()


def _default_executor() -> Any:
    if _state.executor is None:
        _state.executor = _futures.ThreadPoolExecutor(thread_name_prefix="asyncio")
    return _state.executor


def _running(shown: EventLoop, work: Callable[[], Any]) -> Any:
    before, _state.current = _state.current, shown
    try:
        return work()
    finally:
        _state.current = before


def _checked(future: Any) -> Any:
    if isinstance(future, asyncio.Future | types.CoroutineType) or hasattr(future, "__await__"):
        return future
    raise TypeError("An asyncio.Future, a coroutine or an awaitable is required")


def _get_running_loop() -> EventLoop:
    """`asyncio.get_running_loop`."""
    if asyncio._get_running_loop() is None:
        raise RuntimeError("no running event loop")
    return _state.current


def _get_event_loop() -> EventLoop:
    """`asyncio.get_event_loop`; where none runs, the loop of the script."""
    return _state.current if asyncio._get_running_loop() is not None else _state.shown


def _set_event_loop(loop: Any) -> None:
    """`asyncio.set_event_loop`."""
    if loop is not None and not isinstance(loop, EventLoop):
        raise TypeError(f"loop must be an event loop or None, not {type(loop).__name__!r}")
    _state.shown = loop or EventLoop()


# ---------------------------------------------------------------------------------------------
# Functions


def _run(main: Any, *, debug: bool | None = None, loop_factory: Any = None) -> Any:
    """`asyncio.run` on the only loop of the run."""
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "asyncio.run() cannot be called from a running event loop: inside `async def run` "
            "write `await main()` in place of `asyncio.run(main())`"
        )
    loop = _make_loop(loop_factory)
    if sys.version_info >= (3, 14):
        main = _as_main(main)
    elif not isinstance(main, types.CoroutineType):
        message = f"a coroutine was expected, got {main!r}"
        if isinstance(main, asyncio.Future):
            message += "; put it in a function: `async def main(): return await ...`"
        raise ValueError(message)
    if _clock.run_coroutine is None:
        raise RuntimeError("asyncio.run() is not available here")
    run = _clock.run_coroutine
    return _running(loop, lambda: run(main))


def _as_main(awaitable: Any) -> Any:
    """Return a coroutine for any awaitable, which `asyncio.run` takes from 3.14 on."""
    is_coroutine = isinstance(_checked(awaitable), types.CoroutineType)
    return awaitable if is_coroutine else _wait_for(awaitable)


def _make_loop(factory: Any) -> EventLoop:
    loop = EventLoop() if factory is None else factory()
    if not isinstance(loop, EventLoop):
        raise AttributeError(
            f"{type(loop).__name__!r} object has no attribute 'run_until_complete'"
        )
    return loop


@open_type
class Runner:
    """`asyncio.Runner`."""

    __slots__ = ("_closed", "_factory", "_loop")

    def __init__(self, *, debug: bool | None = None, loop_factory: Any = None) -> None:
        self._factory, self._closed = loop_factory, False
        self._loop: EventLoop | None = None

    def __enter__(self) -> Runner:
        self.get_loop()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get_loop(self) -> EventLoop:
        """Return the loop."""
        if self._closed:
            raise RuntimeError("Runner is closed")
        if self._loop is None:
            self._loop = _make_loop(self._factory)
        return self._loop

    def run(self, coro: Any, *, context: Any = None) -> Any:
        """Run a coroutine."""
        if sys.version_info >= (3, 14):
            coro = _as_main(coro)
        elif not isinstance(coro, types.CoroutineType):
            raise ValueError(f"a coroutine was expected, got {coro!r}")
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("Runner.run() cannot be called from a running event loop")
        return self.get_loop().run_until_complete(coro)

    def close(self) -> None:
        """Refuse to run from now on."""
        self._closed = True


async def _to_thread(func: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`asyncio.to_thread`."""
    call = functools.partial(func, *args, **kwargs)
    return await EventLoop().run_in_executor(None, call)


_to_thread.__name__ = _to_thread.__qualname__ = "to_thread"  # for the warning if not awaited


def _wrap_future(future: Any, *, loop: Any = None) -> Any:
    """`asyncio.wrap_future`."""
    if isinstance(future, asyncio.Future):
        return future
    if not isinstance(future, _futures.Future):
        raise AssertionError(f"concurrent.futures.Future is expected, got {future!r}")
    waiting = _real().create_future()

    def copy(done: _futures.Future) -> None:
        if waiting.done():
            return
        if done.cancelled():
            waiting.cancel()
        elif done._exception is not None:
            error = done._exception
            if isinstance(error, StopIteration):
                error = RuntimeError(f"{error!r} cannot be raised into a Future")
            waiting.set_exception(error)
        else:
            waiting.set_result(done._result)

    future.add_done_callback(copy)
    waiting.add_done_callback(lambda _: waiting.cancelled() and future.cancel())
    return waiting


def _run_coroutine_threadsafe(coro: Any, loop: Any) -> Any:
    """`asyncio.run_coroutine_threadsafe`."""
    if not isinstance(coro, types.CoroutineType):
        raise TypeError("A coroutine object is required")
    target, shown = LOOPS.main or _real(), _futures.Future()

    def copy(task: Any) -> None:
        if task.cancelled():
            shown.cancel()
            return
        error = task.exception()
        if error is not None:
            shown.set_exception(error)
        else:
            shown.set_result(task.result())

    target.call_soon(lambda: target.create_task(coro).add_done_callback(copy))
    return shown


def _all_tasks(loop: Any = None) -> Any:
    """`asyncio.all_tasks`; of a loop that is not the script's, only the running task."""
    real = _real() if loop is not None else asyncio.get_running_loop()
    if not isinstance(real, ScriptLoop):
        return {asyncio.current_task()}
    return asyncio.all_tasks(real)  # type: ignore[arg-type]  # it has what asyncio calls


def asyncio_members(clock: Clock) -> dict[str, Any]:
    """Return the members of `asyncio` that differ from the library's."""
    global _clock
    _clock = clock
    return {
        "AbstractEventLoop": EventLoop,
        "Future": Future,
        "Runner": Runner,
        "Task": Task,
        "TaskGroup": TaskGroup,
        "all_tasks": _all_tasks,
        "create_task": _create_task,
        "get_event_loop": _get_event_loop,
        "get_running_loop": _get_running_loop,
        "new_event_loop": EventLoop,
        "run": _run,
        "run_coroutine_threadsafe": _run_coroutine_threadsafe,
        "set_event_loop": _set_event_loop,
        "to_thread": _to_thread,
        "wrap_future": _wrap_future,
    }
