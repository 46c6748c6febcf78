"""Child agents of a `BlockingSession`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from .._tools._allow import AllowList
from ._session import Session

if TYPE_CHECKING:
    from .._agents._handles import HandleStatus, TaskHandle
    from .._agents._outcome import TaskResult
    from .._agents._task_tools import TaskRequest
    from ._agent_session import TaskOptions

__all__ = ["BlockingAgents", "BlockingTaskHandle"]

_T = TypeVar("_T")


class BlockingTaskHandle:
    """A task that runs in the background until its session is closed, as `TaskHandle`."""

    def __init__(
        self, handle: TaskHandle, wait: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        """Wrap a handle.

        Args:
            handle: The handle.
            wait: Calls an async function in the thread of the session.
        """
        self._handle = handle
        self._wait = wait

    @property
    def status(self) -> HandleStatus:
        """As `TaskHandle.status`."""
        return self._handle.status

    def cancel(self) -> None:
        """As `TaskHandle.cancel`."""

        async def cancel() -> None:
            self._handle.cancel()

        self._wait(cancel)

    def result(self) -> TaskResult:
        """Wait for the result.

        Raises:
            ToolError: As for `Session.task`; ``cancelled`` if the task was cancelled.
        """

        async def wait() -> TaskResult:
            return await self._handle

        found: TaskResult = self._wait(wait)
        return found


class BlockingAgents(ABC):
    """The part of `BlockingSession` for child agents, as `AgentSession`."""

    _session: Session

    @abstractmethod
    def _wait(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Call in the session's thread and wait."""

    def agent_kinds(self) -> dict[str, str]:
        """As `Session.agent_kinds`."""
        return self._session.agent_kinds()

    @overload
    def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: Literal[False] = False,
        **options: Unpack[TaskOptions],
    ) -> TaskResult: ...
    @overload
    def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: Literal[True],
        **options: Unpack[TaskOptions],
    ) -> BlockingTaskHandle: ...
    def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: bool = False,
        **options: Unpack[TaskOptions],
    ) -> TaskResult | BlockingTaskHandle:
        """As `Session.task`."""
        if background:

            async def start() -> TaskHandle:
                return await self._session.task(
                    agent, prompt, allowed_tools=allowed_tools, background=True, **options
                )

            return BlockingTaskHandle(self._wait(start), self._wait)
        call = partial(self._session.task, agent, prompt, allowed_tools=allowed_tools, **options)
        return self._wait(call)

    def tasks(
        self,
        tasks: Iterable[TaskRequest | Mapping[str, Any]],
        *,
        allowed_tools: AllowList | None = None,
        max_concurrency: int = 4,
    ) -> list[TaskResult]:
        """As `Session.tasks`."""
        return self._wait(
            partial(
                self._session.tasks,
                tasks,
                allowed_tools=allowed_tools,
                max_concurrency=max_concurrency,
            )
        )
