"""Blocking work in a thread that no cancellation of its caller interrupts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ._reactor import Signal

__all__ = ["TOOL_THREAD", "complete_in_thread"]

TOOL_THREAD = "ptc tool "
"""Start of the name of a thread that executes a tool's function; the name of the tool follows."""

_T = TypeVar("_T")


async def complete_in_thread(function: Callable[[], _T]) -> _T:
    """Call `function` in a thread of its own, and return its result.

    The thread starts before the first await, and the interpreter waits for its end: `function` is
    executed to its end even if this task is cancelled at once. `anyio.to_thread` checks for a
    cancellation before it starts one, and keeps its threads for later.
    """
    work = _Work(function)
    thread = threading.Thread(target=work.run, name="ptc-work")
    thread.start()
    await work.ended.wait()
    thread.join()
    return work.result()


class _Work(Generic[_T]):
    """A function and its outcome."""

    def __init__(self, function: Callable[[], _T]) -> None:
        self._function = function
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self.ended = Signal()

    def run(self) -> None:
        """Call the function, in the thread."""
        try:
            self._results.append(self._function())
        except BaseException as error:  # noqa: BLE001  # raised to the waiting task
            self._error = error
        self.ended.set()

    def result(self) -> _T:
        """Return the result of the function, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._results[0]
