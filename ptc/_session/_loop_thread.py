"""An event loop in a thread of its own, which other threads call and wait for.

The loop never changes its thread: tools hold objects that belong to one, such as connections of
sqlite3.

Rule 1: when an interrupted wait ends, its call has ended, too.
    tests/core/runs/test_faults.py::test_ctrl_c_interrupts_the_operation_of_a_blocking_session
Rule 2: an interrupt while a context manager is entered or left does not leave it entered.
    tests/core/test_loop_thread.py::test_interrupt_at_any_line_leaves_no_manager_entered
Rule 3: no wait outlasts the loop.
    tests/core/test_loop_thread.py::test_call_that_the_loop_leaves_behind_fails
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from functools import partial
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ..errors import SessionClosedError

__all__ = ["LoopThread"]

_T = TypeVar("_T")
_V = TypeVar("_V")
_ErrorInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class LoopThread:
    """Runs an event loop in a thread while the context is open.

    A call wakes each thread once. A call of anyio's portal does so twice: it waits for its start,
    too, and takes 0.35 ms where this takes 0.2.
    """

    _portal: BlockingPortal
    _loop: asyncio.AbstractEventLoop
    _thread: int

    def __init__(self) -> None:
        """Prepare a thread; entering the context starts it."""
        self._stack = ExitStack()
        self._calls: set[_Call[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._fail_calls)
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(self._accept_calls()))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait for the calls of other threads, or cancel them after an exception; stop."""
        self._stack.__exit__(exc_type, exc, traceback)

    @asynccontextmanager
    async def _accept_calls(self) -> AsyncIterator[None]:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        try:
            yield
        except BaseException:
            for call in list(self._calls):
                call.cancel()
            raise
        finally:
            while self._tasks:
                await asyncio.wait(self._tasks)

    def _fail_calls(self) -> None:
        """Let no thread wait for a loop that has ended."""
        for call in list(self._calls):
            call.fail(SessionClosedError("the session was closed before the call began"))

    def enter(
        self, manager: AbstractAsyncContextManager[_T], view: Callable[[_T], _V]
    ) -> AbstractContextManager[_V]:
        """Return a plain context manager that enters and leaves `manager` in the loop's thread.

        Args:
            manager: It receives the exception of the block, and may suppress it.
            view: Converts the value of `manager` to the value of the result.
        """
        return _Entered(self, _Visit(self, manager), view)

    def call(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Call `function` in the loop's thread and context of the caller; wait, return its result.

        Raises:
            RuntimeError: In the loop's own thread, which would wait for itself, and when the loop
                has ended.
            CancelledError: If the loop ended because of an exception.
            Exception: Any error of the function.
        """
        if get_ident() == self._thread:
            msg = (
                "this runs in the event loop of the session, which cannot wait for itself: "
                "call the session from another thread"
            )
            raise RuntimeError(msg)
        call = _Call(function)
        try:
            self._calls.add(call)
            self._loop.call_soon_threadsafe(self.start, call)
            call.wait()
        except BaseException:
            # Ctrl-C at any point of the lines above, or a closed loop.
            self.give_up(call)
            raise
        finally:
            self._calls.discard(call)
        return call.result()

    def give_up(self, call: _Call[Any]) -> None:
        """Cancel a call and wait for its end; in the loop's own thread, do not wait."""
        with suppress(RuntimeError):  # the loop has ended
            self.cancel(call)
            if get_ident() != self._thread:
                call.wait()

    def cancel(self, call: _Call[Any]) -> None:
        """Cancel a call.

        Raises:
            RuntimeError: If the loop has ended.
        """
        self._loop.call_soon_threadsafe(call.cancel)

    def submit(self, function: Callable[[], Awaitable[_T]]) -> Future[_T]:
        """Call `function` in the loop's thread; cancelling the future cancels the call."""
        return self._portal.start_task_soon(function)

    def start(self, call: _Call[Any]) -> asyncio.Task[None]:
        """Start a call, in the loop's thread."""
        sniffio = sys.modules.get("sniffio")  # newer releases of anyio do without it
        if sniffio is not None:
            # The caller's context may name the library of another loop.
            sniffio.current_async_library_cvar.set("asyncio")
        task = self._loop.create_task(call.run())
        self._calls.add(call)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._calls.discard(call))
        task.add_done_callback(self._tasks.discard)
        return task


class _Call(Generic[_T]):
    """One call. Its methods but `wait` and `result` are called in the loop's thread."""

    __slots__ = ("_ended", "_error", "_function", "_scope", "_value", "has_ended")

    _value: _T

    def __init__(self, function: Callable[[], Awaitable[_T]]) -> None:
        self._function = function
        self._error: BaseException | None = CancelledError()
        self._ended = Lock()
        self._ended.acquire()
        self.has_ended = False
        self._scope: CancelScope | None = None

    async def run(self) -> None:
        """Make the call, unless it has ended already."""
        if self.has_ended:
            return
        self._scope = CancelScope()
        try:
            with self._scope:
                self._value = await self._function()
                self._error = None
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # for the caller, who asked for it
            self._error = error
        finally:
            self._end()

    def cancel(self) -> None:
        """Cancel the call. One that has not begun ends at once."""
        if self._scope is None:
            self._end()
        else:
            self._scope.cancel()

    def fail(self, error: Exception) -> None:
        """End a call that cannot run. One that has ended, but not been read, keeps its outcome."""
        if not self.has_ended:
            self._error = error
            self._end()

    def _end(self) -> None:
        if not self.has_ended:
            self.has_ended = True
            self._ended.release()

    def wait(self) -> None:
        """Wait for the end; again after an interrupted wait."""
        if not self.has_ended:
            self._ended.acquire()

    def result(self) -> _T:
        """Return the value of a call that has ended, or raise its error."""
        error, self._error = self._error, None
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


class _Visit(Generic[_T]):
    """A task that enters a manager and leaves it later: cancel scopes do not change their task.

    Its methods are called in the loop's thread.
    """

    __slots__ = ("_entered", "_left", "_manager", "_task", "_thread", "call")

    _entered: asyncio.Future[_T]
    _left: asyncio.Future[_ErrorInfo]
    _task: asyncio.Task[None]

    def __init__(self, thread: LoopThread, manager: AbstractAsyncContextManager[_T]) -> None:
        self._thread = thread
        self._manager = manager
        self.call = _Call(self._run)
        """Ends when the manager has been left."""

    async def _run(self) -> bool | None:
        self._entered.set_result(await self._manager.__aenter__())
        try:
            info = await self._left
        except BaseException:
            await self._manager.__aexit__(*sys.exc_info())
            raise
        return await self._manager.__aexit__(*info)

    async def enter(self) -> _T:
        """Enter the manager and return its value."""
        loop = asyncio.get_running_loop()
        self._entered, self._left = loop.create_future(), loop.create_future()
        self._task = self._thread.start(self.call)
        either: set[asyncio.Future[Any]] = {self._task, self._entered}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            self.call.result()  # raises the error of the manager
        return self._entered.result()

    async def leave(self, info: _ErrorInfo) -> bool:
        """Leave the manager with the exception of its block; return True to suppress that."""
        if not self._left.done():
            self._left.set_result(info)
        await asyncio.wait({self._task})
        return bool(self.call.result())


class _Entered(AbstractContextManager[_V], Generic[_T, _V]):
    """The caller's side of a visit."""

    def __init__(self, thread: LoopThread, visit: _Visit[_T], view: Callable[[_T], _V]) -> None:
        self._thread = thread
        self._visit = visit
        self._view = view

    def __enter__(self) -> _V:
        try:
            return self._view(self._thread.call(self._visit.enter))
        except BaseException:
            # Ctrl-C, also after the manager was entered: nobody would leave it.
            self._thread.give_up(self._visit.call)
            raise

    def __exit__(self, *info: Any) -> bool:
        try:
            return self._thread.call(partial(self._visit.leave, info))
        except BaseException:
            self._thread.give_up(self._visit.call)
            raise

    def __del__(self) -> None:
        # Ctrl-C before the first line of `__exit__`: the interpreter checks for signals there.
        with suppress(RuntimeError, AttributeError):  # the loop has ended; `__init__` has not
            if not self._visit.call.has_ended:
                self._thread.cancel(self._visit.call)
