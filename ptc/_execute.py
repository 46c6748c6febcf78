"""Running a tool's function: in the event loop or in a thread, to a value or to an exception.

Rule 1: whatever a function does, it ends its call and nothing else: neither `sys.exit` nor a
    cancellation of its own making reaches the session.
    tests/core/test_execute.py::test_what_a_function_raises_ends_its_call_and_nothing_else
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from threading import Event as ThreadEvent
from typing import Any, Protocol

import anyio
import anyio.to_thread

from .errors import ToolError

__all__ = ["THREAD_GRACE_SECONDS", "run_function", "words_of"]

THREAD_GRACE_SECONDS = 0.5
"""How long a cancelled call waits for a plain function, which nothing can interrupt."""


class Cancellable(Protocol):
    """What a plain function can ask whether anybody still waits."""

    cancelled: bool


async def run_function(function: Callable[[], Any], call: Cancellable, *, is_async: bool) -> Any:
    """The value of `function`; if that is an awaitable, what comes of it.

    Raises:
        ToolError: ``internal`` if it tried to end the process, or was cancelled by its own doing.
        Exception: The function's own; of a group of one, that one.
    """
    try:
        value = function() if is_async else await _in_thread(function, call)
        return await value if is_async or inspect.isawaitable(value) else value
    except ExceptionGroup as group:
        raise _only(group) from None
    except SystemExit as error:
        msg = f"the tool tried to end the process: sys.exit({error.code!r:.80}); raise ToolError"
        raise ToolError(msg, code="internal") from error
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        # It awaited a task or a future of its own that had been cancelled.
        msg = "something that the tool waited for was cancelled, and it did not say why"
        raise ToolError(msg, code="internal") from error


def words_of(error: BaseException) -> str:
    """Type and text of an exception, whatever it is: of a group those of its members."""
    try:
        if isinstance(error, BaseExceptionGroup):
            return "; ".join(words_of(member) for member in error.exceptions[:8])
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # its __str__ is its author's code
        return f"{type(error).__name__} (its text cannot be made)"


def _only(group: ExceptionGroup[Exception]) -> Exception:
    found: Exception = group
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    return found


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
        with anyio.move_on_after(THREAD_GRACE_SECONDS, shield=True):
            while begun.is_set() and not finished.is_set():  # noqa: ASYNC110  # the thread has no loop to set an anyio.Event in
                await anyio.sleep(0.002)
        raise
