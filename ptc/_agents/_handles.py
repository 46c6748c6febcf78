"""Tasks in the background: handles, and their end with the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, TypeAlias

import anyio

from .._core._reactor import spawn
from ..errors import SessionClosedError, ToolError
from ._outcome import TaskResult, TaskStatus

__all__ = ["BackgroundTasks", "HandleStatus", "TaskHandle"]

HandleStatus: TypeAlias = Literal["running", "cancelled"] | TaskStatus


class TaskHandle:
    """A task that runs in the background until its session is closed.

    ::

        handle = await session.task("explore", "Find ...", background=True)
        ...
        result = await handle
    """

    def __init__(self) -> None:
        """Create the handle of a task that has not finished."""
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._result: TaskResult | None = None
        self._error: BaseException | None = None

    @property
    def status(self) -> HandleStatus:
        """``running``, ``cancelled``, or the status of the result."""
        if self._result is not None:
            return self._result.status
        if self._error is not None:
            exceeded = isinstance(self._error, ToolError) and self._error.code in (
                "limit_exceeded",
                "timeout",
            )
            return "limit_exceeded" if exceeded else "failed"
        return "cancelled" if self._finished.is_set() else "running"

    def cancel(self) -> None:
        """Cancel the task and its running calls. Does nothing if it has finished."""
        self._scope.cancel()

    def __await__(self) -> Generator[Any, Any, TaskResult]:
        """Wait for the result. Cancelling the waiter does not cancel the task.

        Raises:
            ToolError: As for `Session.task`; ``cancelled`` if the task was cancelled.
        """
        return self._wait().__await__()

    async def _wait(self) -> TaskResult:
        await self._finished.wait()
        if self._result is not None:
            return self._result
        if self._error is not None:
            raise self._error
        msg = "the task was cancelled"
        raise ToolError(msg, code="cancelled", tool="task")

    async def _run(self, function: Callable[[], Awaitable[TaskResult]]) -> None:
        try:
            with self._scope:
                self._result = await function()
        except Exception as error:  # noqa: BLE001  # raised where the handle is awaited
            self._error = error
        finally:
            self._finished.set()


class BackgroundTasks:
    """The tasks that run in the background of a session."""

    def __init__(self) -> None:
        self._running: set[TaskHandle] = set()
        self._closed = False

    def start(self, function: Callable[[], Awaitable[TaskResult]]) -> TaskHandle:
        """Start a task in the running event loop.

        Raises:
            SessionClosedError: If the session is being closed.
        """
        if self._closed:
            msg = "the session is closed"
            raise SessionClosedError(msg)
        handle = TaskHandle()

        async def run() -> None:
            try:
                await handle._run(function)  # its other half
            finally:
                self._running.discard(handle)

        self._running.add(handle)
        spawn(run)
        return handle

    async def close(self) -> None:
        """Cancel the running tasks, and wait for their end."""
        self._closed = True
        for handle in self._running.copy():
            handle.cancel()
        for handle in self._running.copy():
            await handle._finished.wait()  # its other half
