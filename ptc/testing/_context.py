"""A tool context for unit tests of functions that read it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._records._content import Attachment, AttachmentRef
from .._records._result import RunResult
from .._records._stored_file import StoredFile
from .._tools._context import ToolContext, ambient_call
from .._tools._reach import Reach
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import ToolError, UsageError
from ..journal._database import Database
from ..journal._documents import CallDocuments, SqliteDocuments
from ..models._open import ModelSource, OpenModels

__all__ = ["tool_context"]


@contextmanager
def tool_context(
    *,
    root: str | Path = ".",
    tool_name: str = "test",
    call_id: str = "test.1",
    run_id: str | None = None,
    attempt: int = 1,
    idempotency_key: str | None = None,
    epoch: int | None = None,
    env: Any = None,
    cancelled: bool = False,
    approved: bool = False,
    call_tool: Callable[..., Any] | None = None,
    tools: Iterable[Tool] = (),
    model: ModelSource | None = None,
) -> Iterator[ToolContext]:
    """Make code of the block run as if in a tool call, without a session.

    ::

        with ptc.testing.tool_context(env=Keys(api_key="k"), idempotency_key="1") as ctx:
            assert await charge(cents=5) == 5      # takes a ToolContext, or reads the current one

    `current_tool_context` returns the context, and calling a `Tool` whose function takes a
    `ToolContext` passes it. `progress`, `output` and `log` do nothing.

    Args:
        root: `ToolContext.root`.
        tool_name: `ToolContext.tool_name`.
        call_id: `ToolContext.call_id`.
        run_id: `ToolContext.run_id`.
        attempt: `ToolContext.attempt`.
        idempotency_key: `ToolContext.idempotency_key`.
        epoch: `ToolContext.epoch`.
        env: `ToolContext.env`.
        cancelled: `ToolContext.cancelled`.
        approved: `ToolContext.approved`.
        call_tool: Replaces `ToolContext.call_tool`: receives the name of a tool and the arguments
            by keyword, async or not. None: a call raises `ToolError` ``unknown_tool``.
        tools: `ToolContext.tools`; calls go to `call_tool`.
        model: Default model of `ToolContext.models`.
    """
    services = _Services(idempotency_key, epoch, cancelled, call_tool, tuple(tools), model)
    context = ToolContext(
        root=Path(root).resolve(),
        tool_name=tool_name,
        call_id=call_id,
        run_id=run_id,
        seq=1,
        attempt=attempt,
        env=env,
        approved=approved,
        _services=services,
    )
    services.own = context
    token = ambient_call.set(services)
    try:
        yield context
    finally:
        ambient_call.reset(token)
        services.close()


class _Services:
    """Services of a context without a host."""

    own: ToolContext

    def __init__(
        self,
        key: str | None,
        epoch: int | None,
        cancelled: bool,
        call_tool: Callable[..., Any] | None,
        tools: tuple[Tool, ...],
        model: ModelSource | None,
    ) -> None:
        self._key = key
        self.epoch = epoch
        self._tools = tools
        self.models = OpenModels(model)
        self._database: Database | None = None
        self._call_tool = call_tool
        self.cancelled = cancelled
        self.calls_left: int | None = None

    def context(self) -> ToolContext:
        return self.own

    def key(self) -> str | None:
        return self._key

    def attach(self, attachment: Attachment) -> AttachmentRef:
        msg = "a context of ptc.testing.tool_context stores no files; test attach with a Session"
        raise ToolError(msg, code="attachment_failed")

    def open_stored(self, handle: str) -> StoredFile:
        msg = "a context of ptc.testing.tool_context stores no files; test with a Session"
        raise ToolError(msg, code="unknown_handle")

    async def is_watched(self) -> bool:
        return False

    def output(self, partial: Any) -> None:
        """Do nothing: nobody subscribed."""

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Do nothing: nobody subscribed."""

    def log(self, message: str, data: Mapping[str, Any]) -> None:
        """Do nothing: nobody subscribed."""

    @property
    def documents(self) -> CallDocuments:
        if self._database is None:
            self._database = Database(None)
        return CallDocuments(SqliteDocuments(self._database), self._key or "")

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def reach(self) -> Reach:
        return Reach({tool.name: tool for tool in self._tools})

    async def call_tool(self, name: str, arguments: Mapping[str, Any], reach: Reach) -> ToolResult:
        try:
            if self._call_tool is None:
                msg = f"there is no tool {name!r}; pass tool_context(call_tool=...)"
                raise ToolError(msg, code="unknown_tool", tool=name)
            value = self._call_tool(name, **arguments)
            return ToolResult(name, value=await value if inspect.isawaitable(value) else value)
        except ToolError as error:
            return ToolResult(name, error=error)

    async def text_for_model(self, result: ToolResult, max_chars: int, reach: Reach) -> str:
        return result.text[:max_chars]

    async def step(
        self, name: str, function: Callable[[], Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        return await function()

    async def program(self, reach: Reach, options: Mapping[str, Any]) -> RunResult:
        msg = "a context of ptc.testing.tool_context runs no scripts; test with a Session"
        raise UsageError(msg)
