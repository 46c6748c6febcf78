"""Calls of an event loop in another thread: they end, whatever happens to the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import Any

import pytest
from anyio import sleep_forever
from sniffio import current_async_library, current_async_library_cvar

from ptc import SessionClosedError
from ptc._session._loop_thread import LoopThread, _Call

REQUEST = ContextVar("REQUEST", default="none")
TIMEOUT_S = 30


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
