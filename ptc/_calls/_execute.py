"""Execution of a tool's function, in the event loop or in a thread.

Rule 1: a function can end only its own call: neither `sys.exit`, a `GeneratorExit` nor a
    cancellation that it causes itself reaches the session.
    tests/core/calls/test_execute.py::test_exception_of_a_tool_function_fails_only_its_call
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from threading import Event as ThreadEvent
from threading import current_thread
from typing import Any, Protocol

import anyio
import anyio.to_thread

from .._core._threads import TOOL_THREAD
from ..errors import ToolError

__all__ = ["THREAD_GRACE_SECONDS", "cancellation_in", "run_function"]

THREAD_GRACE_SECONDS = 0.5
"""Time that a cancelled call waits for a plain function, which cannot be interrupted."""


class Cancellable(Protocol):
    """State of a call that a plain function can check."""

    cancelled: bool
    function_called: bool
    """False if the call was cancelled before its thread started: the function is never called."""


async def run_function(
    function: Callable[[], Any], call: Cancellable, *, is_async: bool, name: str = "function"
) -> Any:
    """Return the value of `function`; await it if it is awaitable.

    Args:
        function: Function of a tool, without parameters.
        call: Its call.
        is_async: True: call it in the event loop. False: in a thread.
        name: Name of the tool, for the thread.

    Raises:
        ToolError: ``internal`` if it tried to end the process, or awaited a cancelled task.
        Exception: The function's own; the only one of a group.
    """
    try:
        value = function() if is_async else await _in_thread(function, call, name)
        return await value if is_async or inspect.isawaitable(value) else value
    except BaseExceptionGroup as group:
        ended = cancellation_in(group)
        if ended is not None and _is_cancelled():
            raise ended from None
        raise _failure_of(group) from None
    except SystemExit as error:
        raise _tried_to_exit(error) from error
    except GeneratorExit as error:
        if not _in_event_loop():  # the coroutine of the call itself is being closed
            raise
        raise _stopped(error) from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        # It awaited a task or a future of its own that had been cancelled.
        msg = "the tool awaited a task or future that was cancelled; handle CancelledError in it"
        raise ToolError(msg, code="internal") from error


def cancellation_in(group: BaseExceptionGroup) -> BaseException | None:
    """Return the cancellation among the exceptions of a group; None if it has none.

    A task that is being cancelled may also fail, and its group then holds both. Only the
    cancellation may propagate: the scope that cancelled would raise the rest of the group.
    """
    return _first(group.subgroup(anyio.get_cancelled_exc_class()))


def _failure_of(group: BaseExceptionGroup) -> BaseException:
    """Return the only exception of a group, or the group; a `ToolError` for an exit in it."""
    exits = _first(group.subgroup((SystemExit, GeneratorExit)))
    if isinstance(exits, SystemExit):
        return _tried_to_exit(exits)
    if isinstance(exits, GeneratorExit):
        return _stopped(exits)
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


def _first(found: BaseException | None) -> BaseException | None:
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _tried_to_exit(error: SystemExit) -> ToolError:
    msg = f"the tool called sys.exit({error.code!r:.80}), which ends only its call; raise ToolError"
    return ToolError(msg, code="internal")


def _stopped(error: GeneratorExit) -> ToolError:
    msg = f"the tool raised {error!r:.80}, which Python keeps for generators; raise ToolError"
    return ToolError(msg, code="internal")


def _in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True


def _is_cancelled() -> bool:
    """True if the running asyncio task is being cancelled by a caller of the function."""
    task = asyncio.current_task()
    cancelling = task is not None and task.cancelling() > 0
    return cancelling or anyio.current_effective_deadline() == float("-inf")


async def _in_thread(function: Callable[[], Any], call: Cancellable, name: str) -> Any:
    """Run a plain function in a thread; when cancelled, wait a moment for its end."""
    started, finished = ThreadEvent(), ThreadEvent()

    def work() -> Any:
        started.set()
        thread = current_thread()
        thread_name, thread.name = thread.name, f"{TOOL_THREAD}{name}"
        try:
            # Either this sees the cancellation, or the canceller sees `started`.
            # In a tuple: trio accepts no awaitable from a thread.
            return None if call.cancelled else (function(),)
        except GeneratorExit as error:
            # Thrown into the coroutines that wait here, it would close them.
            raise _stopped(error) from error
        finally:
            thread.name = thread_name
            finished.set()

    try:
        return (await anyio.to_thread.run_sync(work, abandon_on_cancel=True))[0]
    except anyio.get_cancelled_exc_class():
        call.cancelled = True
        # In this order: a thread that starts now sees the cancellation.
        call.function_called = started.is_set()
        with anyio.move_on_after(THREAD_GRACE_SECONDS, shield=True):
            while started.is_set() and not finished.is_set():  # noqa: ASYNC110  # the thread has no loop to set an anyio.Event in
                await anyio.sleep(0.002)
        raise
