"""Running a tool's function: in the event loop or in a thread, to a value or to an exception.

Rule 1: whatever a function does, it ends its call and nothing else: neither `sys.exit` nor a
    cancellation of its own making reaches the session.
    tests/core/calls/test_execute.py::test_what_a_function_raises_ends_its_call_and_nothing_else
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from threading import Event as ThreadEvent
from typing import Any, Protocol

import anyio
import anyio.to_thread

from ..errors import ToolError

__all__ = ["THREAD_GRACE_SECONDS", "cancellation_in", "run_function"]

THREAD_GRACE_SECONDS = 0.5
"""How long a cancelled call waits for a plain function, which nothing can interrupt."""


class Cancellable(Protocol):
    """What a plain function can ask whether anybody still waits."""

    cancelled: bool
    begun: bool
    """False if it was cancelled before its thread came: it was not called, and never will be."""


async def run_function(function: Callable[[], Any], call: Cancellable, *, is_async: bool) -> Any:
    """The value of `function`; if that is an awaitable, what comes of it.

    Raises:
        ToolError: ``internal`` if it tried to end the process, or was cancelled by its own doing.
        Exception: The function's own; of a group of one, that one.
    """
    try:
        value = function() if is_async else await _in_thread(function, call)
        return await value if is_async or inspect.isawaitable(value) else value
    except BaseExceptionGroup as group:
        ended = cancellation_in(group)
        if ended is not None and _is_cancelled():
            raise ended from None
        raise _failure_of(group) from None
    except SystemExit as error:
        raise _tried_to_exit(error) from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        # It awaited a task or a future of its own that had been cancelled.
        msg = "something that the tool waited for was cancelled, and it did not say why"
        raise ToolError(msg, code="internal") from error


def cancellation_in(group: BaseExceptionGroup) -> BaseException | None:
    """The cancellation among the exceptions of a group; None if there is none.

    A task that is being cancelled may fail on its way out, and its group then holds both. Only the
    cancellation may go on: whoever cancelled takes it out of the group and is left with the rest.
    """
    return _first(group.subgroup(anyio.get_cancelled_exc_class()))


def _failure_of(group: BaseExceptionGroup) -> BaseException:
    """The only exception of a group, or the group; a failure if one would end the process."""
    exits = _first(group.subgroup(SystemExit))
    if isinstance(exits, SystemExit):
        return _tried_to_exit(exits)
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


def _first(found: BaseException | None) -> BaseException | None:
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _tried_to_exit(error: SystemExit) -> ToolError:
    msg = f"the tool tried to end the process: sys.exit({error.code!r:.80}); raise ToolError"
    return ToolError(msg, code="internal")


def _is_cancelled() -> bool:
    """True if the running asyncio task is being cancelled from outside of what it runs."""
    task = asyncio.current_task()
    asked = task is not None and task.cancelling() > 0
    return asked or anyio.current_effective_deadline() == float("-inf")


async def _in_thread(function: Callable[[], Any], call: Cancellable) -> Any:
    """Run a plain function in a thread; when cancelled, give it a moment to come to its end."""
    begun, finished = ThreadEvent(), ThreadEvent()

    def work() -> Any:
        begun.set()
        try:
            # Either this sees that it was cancelled, or who cancelled sees that it has begun.
            # In a tuple: trio takes no awaitable from a thread.
            return None if call.cancelled else (function(),)
        finally:
            finished.set()

    try:
        return (await anyio.to_thread.run_sync(work, abandon_on_cancel=True))[0]
    except anyio.get_cancelled_exc_class():
        call.cancelled = True
        # In this order: a thread that comes now finds that it was cancelled.
        call.begun = begun.is_set()
        with anyio.move_on_after(THREAD_GRACE_SECONDS, shield=True):
            while begun.is_set() and not finished.is_set():  # noqa: ASYNC110  # the thread has no loop to set an anyio.Event in
                await anyio.sleep(0.002)
        raise
