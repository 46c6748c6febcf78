"""A call's way through the host, the same for a script and for an application.

Stages, in this order, one function each: look up and allow, validate, reserve budget, execute,
convert, bound. What a stage refuses is a result with an error, never an exception.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event as ThreadEvent
from typing import Any, cast

import anyio
import anyio.to_thread

from . import _json
from ._result import CallRecord, CallStatus
from ._schema import Arguments, nearest
from ._tool import Tool, ToolCall, ToolContext, ToolResult
from .errors import ToolError

__all__ = ["Budget", "Dispatch", "OpenCall"]

THREAD_GRACE_SECONDS = 0.5
"""How long a cancelled call waits for a plain function, which nothing can interrupt."""

_PREVIEW_CHARS = 200


@dataclass(slots=True)
class Budget:
    """Tool calls a run may still make. Reserved before a call starts, so none can pass it."""

    most: int
    used: int = 0

    def reserve(self, tool: str) -> None:
        """Take one call. Raises `ToolError` ``limit_exceeded`` if none is left."""
        if self.used >= self.most:
            msg = (
                f"{tool}: the run may make {self.most} tool calls and has made them all; "
                "return what the script has, or ask for a higher max_tool_calls"
            )
            details: dict[str, object] = {"limit": "max_tool_calls", "most": self.most}
            raise ToolError(msg, code="limit_exceeded", tool=tool, details=details)
        self.used += 1


@dataclass(slots=True)
class OpenCall:
    """A call while it is under way; `record` is what is known of it so far."""

    call: ToolCall
    status: CallStatus = "not_started"
    started: float = 0.0
    ended: float = 0.0
    result_bytes: int = 0
    error: ToolError | None = None
    side_effect: bool = False
    _preview: tuple[str, str] | None = field(default=None, repr=False)

    def record(self) -> CallRecord:
        """The call as a frozen record."""
        if self._preview is None:
            self._preview = _preview(self.call.arguments)
        end = self.ended or (time.perf_counter() if self.started else 0.0)
        return CallRecord(
            seq=self.call.seq,
            tool=self.call.name,
            status=self.status,
            arguments=self._preview[0],
            arguments_sha256=self._preview[1],
            duration_ms=round((end - self.started) * 1000, 3) if self.started else 0.0,
            result_bytes=self.result_bytes,
            error_code=self.error.code if self.error else None,
            error=self.error.message[:2_000] if self.error else None,
            line=self.call.line,
        )


def _preview(arguments: Mapping[str, Any]) -> tuple[str, str]:
    try:
        text = _json.dumps(arguments, what="arguments").decode()
        digest = _json.sha256_of(arguments)
    except _json.JsonError as error:
        return f"(not JSON: {error})"[:_PREVIEW_CHARS], ""
    return (text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"), digest


class Dispatch:
    """The way of a call for one caller: its tools, its root, its limits."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        known: Mapping[str, Tool],
        root: Path,
        max_result_bytes: int,
        budget: Budget | None = None,
        discovery: Callable[[], Mapping[str, Tool]] | None = None,
    ) -> None:
        """Make the way.

        Args:
            tools: The tools the caller may use: its allow-list.
            known: All tools of the session, for a message that tells refused from unknown.
            root: Folder the tools are confined to.
            max_result_bytes: JSON bytes of one result.
            budget: Calls the caller may make; None: an application's direct calls are not counted.
            discovery: Makes the tools that `ctx` has for itself, whatever the allow-list. Called
                when one is first wanted: most runs want none.
        """
        self._discovery = discovery
        self._tools = tools
        self._known = known
        self._root = root
        self._max_result_bytes = max_result_bytes
        self._budget = budget

    async def run(self, open_call: OpenCall) -> ToolResult:
        """Run a call to its end. Its failure is in the result.

        If the task is cancelled, the call's status is ``unknown`` and the cancellation goes on.
        """
        call = open_call.call
        try:
            if self._budget is not None:
                self._budget.reserve(call.name)
            tool = self._look_up(call.name)
            open_call.side_effect = tool.side_effect
            arguments = tool.validate(call.arguments)
            open_call.status, open_call.started = "unknown", time.perf_counter()
            value = await self._execute(tool, arguments, call)
            result = ToolResult(call.name, value=value, _render=tool.render)
            open_call.status = "succeeded"
        except ToolError as error:
            error.tool = call.name
            result = ToolResult(call.name, error=error)
            self._failed(open_call, error)
        except Exception as error:  # noqa: BLE001  # a tool's own: it becomes a result
            wrapped = ToolError(
                f"{call.name} failed: {type(error).__name__}: {error}",
                code="internal",
                tool=call.name,
            )
            wrapped.__cause__ = error
            result = ToolResult(call.name, error=wrapped)
            self._failed(open_call, wrapped)
        finally:
            if open_call.started:
                open_call.ended = time.perf_counter()
        return result

    def to_json(self, open_call: OpenCall, result: ToolResult) -> tuple[ToolResult, bytes]:
        """The value as JSON for a script, bounded; an error in its place if it has none."""
        if result.error is not None:
            return result, b"null"
        try:
            data = _json.dumps(result.value, what=result.tool)
        except _json.JsonError as refused:
            msg = f"the result of {result.tool} cannot be handed over: {refused}"
            error = ToolError(msg, code="result_not_json", tool=result.tool)
            open_call.error = error
            return ToolResult(result.tool, error=error), b"null"
        if len(data) > self._max_result_bytes:
            msg = (
                f"the result of {result.tool} has {len(data):,} bytes, over the limit of "
                f"{self._max_result_bytes:,}; ask for less at a time"
            )
            error = ToolError(msg, code="result_too_large", tool=result.tool)
            open_call.error = error
            return ToolResult(result.tool, error=error), b"null"
        open_call.result_bytes = len(data)
        return result, data

    def _look_up(self, name: str) -> Tool:
        tool = self._tools.get(name)
        if tool is None and self._discovery is not None:
            tool = self._discovery().get(name)
        if tool is not None:
            return tool
        allowed = ", ".join(self._tools) or "none"
        if name in self._known:
            msg = f"tool {name!r} is not allowed in this run; allowed: {allowed}"
            raise ToolError(msg, code="not_allowed", tool=name)
        msg = f"there is no tool {name!r}{nearest(name, self._tools)}; allowed: {allowed}"
        raise ToolError(msg, code="unknown_tool", tool=name)

    async def _execute(self, tool: Tool, arguments: Arguments, call: ToolCall) -> Any:
        extra: dict[str, Any] = {}
        if tool.context_parameter is not None:
            extra[tool.context_parameter] = ToolContext(
                root=self._root,
                tool_name=tool.name,
                call_id=f"{call.run_id or 'direct'}.{call.seq}",
                run_id=call.run_id,
                seq=call.seq,
            )
        if not tool.spread:
            bound = partial(tool.function, arguments, **extra)
        else:
            bound = partial(tool.function, **arguments, **extra)
        if tool.is_async:
            return await cast("Callable[[], Awaitable[Any]]", bound)()
        return await _in_thread(bound)

    @staticmethod
    def _failed(open_call: OpenCall, error: ToolError) -> None:
        open_call.error = error
        open_call.status = "failed" if open_call.started else "not_started"


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Run a plain function in a thread; when cancelled, give it a moment to come to its end."""
    finished = ThreadEvent()

    def work() -> Any:
        try:
            return function()
        finally:
            finished.set()

    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(THREAD_GRACE_SECONDS, shield=True):
            while not finished.is_set():  # noqa: ASYNC110  # the thread has no loop to set an anyio.Event in
                await anyio.sleep(0.002)
        raise
