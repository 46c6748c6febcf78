"""Calls of an event loop in another thread: they end, whatever happens to the loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest
from anyio import from_thread, sleep_forever
from sniffio import current_async_library, current_async_library_cvar

from ptc import BlockingSession, SessionClosedError
from ptc._session import _loop_thread
from ptc._session._loop_thread import LoopThread, _Call

REQUEST = ContextVar("REQUEST", default="none")
TIMEOUT_S = 30
INTERRUPTED = {_loop_thread.__file__, from_thread.__file__}
"""Modules that enter a context manager in another thread."""


class Caller(threading.Thread):
    """A thread that makes one call and keeps the exception."""

    def __init__(self, loop: LoopThread, function: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(daemon=True)
        self.loop, self.function = loop, function
        self.error: BaseException | None = None
        self.value: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self.loop.call(self.function)
        except BaseException as error:  # noqa: BLE001  # the test asserts its type
            self.error = error

    def ends(self) -> bool:
        self.join(TIMEOUT_S)
        return not self.is_alive()


class Waiting:
    """A call that waits until it is cancelled."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), False

    async def __call__(self) -> None:
        self.began.set()
        try:
            await sleep_forever()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class Managed:
    """Counts how often its context manager was entered and left."""

    def __init__(self) -> None:
        self.entered = self.left = 0
        self.error: BaseException | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        await asyncio.sleep(0)
        self.entered += 1
        try:
            await asyncio.sleep(0)
            yield 7
        except BaseException as error:
            self.error = error
            if not isinstance(error, LookupError):
                raise
        finally:
            self.left += 1


class Interrupt:
    """Raises KeyboardInterrupt in this thread before one instruction of `INTERRUPTED`."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> Self:
        self.before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # CPython 3.12 reads it when tracing starts
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        # Python ignores an interrupt of `__del__`.
        if code.co_filename not in INTERRUPTED or code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


def wait_for_tasks(loop: LoopThread, remaining: int = 0) -> None:
    """Wait until no more than `remaining` tasks are left."""

    async def wait() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(others := loop._tasks - {asyncio.current_task()}) > remaining:
                await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # for the callbacks of the task

    loop.call(wait)


def test_call_runs_in_the_loop_with_the_context_of_its_caller() -> None:
    async def look() -> tuple[int, str, str]:
        return threading.get_ident(), REQUEST.get(), current_async_library()

    REQUEST.set("seven")
    mark = current_async_library_cvar.set("trio")
    try:
        with LoopThread() as loop:
            first, second = loop.call(look), loop.call(look)
    finally:
        current_async_library_cvar.reset(mark)
    assert first == second
    assert first[0] != threading.get_ident()
    assert first[1:] == ("seven", "asyncio")


@pytest.mark.parametrize("error", [KeyError("a"), StopAsyncIteration(), SystemExit(3)])
def test_any_error_reaches_the_caller_and_the_loop_goes_on(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    async def succeed() -> int:
        return 1

    with LoopThread() as loop:
        with pytest.raises(type(error)) as caught:
            loop.call(fail)
        assert caught.value is error
        assert loop.call(succeed) == 1


def test_call_from_the_loop_itself_is_refused() -> None:
    async def call_again() -> None:
        loop.call(call_again)

    with LoopThread() as loop, pytest.raises(RuntimeError, match="call the session from another"):
        loop.call(call_again)


def test_exit_waits_for_the_calls_of_other_threads() -> None:
    release, began = threading.Event(), threading.Event()

    async def work() -> int:
        began.set()
        await asyncio.to_thread(release.wait, TIMEOUT_S)
        return 5

    with LoopThread() as loop:
        caller = Caller(loop, work)
        assert began.wait(TIMEOUT_S)
        loop._loop.call_soon_threadsafe(loop._loop.call_later, 0.05, release.set)
    assert caller.ends()
    assert caller.value == 5


def test_exit_after_an_error_cancels_the_calls_of_other_threads() -> None:
    waiting, callers = Waiting(), []

    def leave_with_an_error() -> None:
        with LoopThread() as loop:
            callers.append(Caller(loop, waiting))
            assert waiting.began.wait(TIMEOUT_S)
            raise KeyError("a")

    with pytest.raises(KeyError, match="a"):
        leave_with_an_error()
    (caller,) = callers
    assert caller.ends()
    assert waiting.cancelled
    assert isinstance(caller.error, CancelledError)


@pytest.mark.parametrize("is_requested", [False, True])
def test_interrupt_before_the_call_begins_ends_it(
    is_requested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Waiting()
    with LoopThread() as loop:
        request = loop._loop.call_soon_threadsafe

        def interrupt(*call: Any) -> None:
            monkeypatch.undo()
            if is_requested:
                request(*call)
            raise KeyboardInterrupt

        monkeypatch.setattr(loop._loop, "call_soon_threadsafe", interrupt)
        with pytest.raises(KeyboardInterrupt):
            loop.call(waiting)
        assert waiting.began.is_set() <= waiting.cancelled


def test_interrupt_at_any_line_leaves_no_manager_entered() -> None:
    # Regression: closing a session waited for ever after Ctrl-C while a stream was entered.
    entered = at = 0
    with LoopThread() as loop:
        for at in count(1):
            managed, interrupt = Managed(), Interrupt(at)
            try:
                with interrupt, loop.enter(managed.open(), str) as value:
                    assert value == "7"
            except KeyboardInterrupt:
                pass
            if interrupt.left > 0:
                break
            wait_for_tasks(loop)
            assert managed.entered == managed.left, f"interrupted before instruction {at}"
            entered += managed.entered
    assert 0 < entered < at, "some interrupts came before the manager was entered, and some after"


def test_manager_sees_the_error_of_its_block_and_may_suppress_it() -> None:
    managed, error = Managed(), KeyError("a")
    with LoopThread() as loop:
        with loop.enter(managed.open(), str):
            raise error
        assert managed.error is error
        with pytest.raises(ValueError, match="b"), loop.enter(managed.open(), str):
            raise ValueError("b")
    assert (managed.entered, managed.left) == (2, 2)


def test_error_of_a_manager_that_is_entered_reaches_the_caller() -> None:
    @asynccontextmanager
    async def fail() -> AsyncIterator[int]:
        raise KeyError("a")
        yield 1

    with LoopThread() as loop:
        with pytest.raises(KeyError, match="a"), loop.enter(fail(), str):
            pytest.fail("it was entered")
        wait_for_tasks(loop)


def test_manager_is_not_entered_in_the_thread_of_the_loop() -> None:
    managed = Managed()

    async def enter() -> None:
        with loop.enter(managed.open(), str):
            pytest.fail("it was entered")

    with LoopThread() as loop, pytest.raises(RuntimeError, match="call the session from another"):
        loop.call(enter)
    assert managed.entered == 0


def test_session_is_closed_after_interrupts_of_its_streams(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, toolsets=(), workers=1) as session:
        for at in range(1, 600, 23):
            try:
                with Interrupt(at), session.stream(source="1") as events:
                    list(events)
            except KeyboardInterrupt:
                pass
        assert session.program(source="1 + 1").value == 2
        assert session._thread is not None
        wait_for_tasks(session._thread, 1)  # that of the session itself


def test_call_that_the_loop_leaves_behind_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    with LoopThread() as loop:
        # As if the loop had ended between the request and its next turn.
        monkeypatch.setattr(loop._loop, "call_soon_threadsafe", lambda *_: asked.set())
        caller = Caller(loop, Waiting())
        assert asked.wait(TIMEOUT_S)
        monkeypatch.undo()
    assert caller.ends()
    assert isinstance(caller.error, SessionClosedError)


def test_outcome_that_was_not_read_before_the_loop_ended_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Regression: the caller got SessionClosedError if its thread was not fast enough.
    ended, read = threading.Event(), threading.Event()
    wait = _Call.wait

    def wait_long(call: _Call[Any]) -> None:
        wait(call)
        ended.set()
        assert read.wait(TIMEOUT_S)

    async def succeed() -> int:
        return 5

    with LoopThread() as loop:
        monkeypatch.setattr(_Call, "wait", wait_long)
        caller = Caller(loop, succeed)
        assert ended.wait(TIMEOUT_S)
    read.set()
    assert caller.ends()
    assert (caller.value, caller.error) == (5, None)


def test_call_after_the_end_of_the_loop_is_refused() -> None:
    with LoopThread() as loop:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        loop.call(Waiting())


def test_future_that_is_cancelled_cancels_its_call() -> None:
    waiting = Waiting()
    with LoopThread() as loop:
        future = loop.submit(waiting)
        assert waiting.began.wait(TIMEOUT_S)
        assert future.cancel()
    assert waiting.cancelled
