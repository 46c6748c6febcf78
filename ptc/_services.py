"""The host's side of a `ToolContext`: what a tool may ask of its host while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import anyio.lowlevel

from ._call import Occurrences, OpenCall, idempotency_key
from ._content import Attachment, AttachmentRef
from ._context import ToolContext, ToolFacts
from ._result import EventKind
from ._tool import Tool, ToolCall
from ._tool_result import ToolResult
from ._track import ParkedError
from .errors import ToolError, UsageError

if TYPE_CHECKING:
    from ._dispatch import Dispatch

__all__ = ["Services", "parked"]

_MOST_NESTED = 8
"""Tools that call tools that call tools: deeper than this is a circle."""


class Services:
    """The host's side of one try's `ToolContext`; the context is made when it is wanted."""

    __slots__ = (
        "_call",
        "_context",
        "_dispatch",
        "_made",
        "_thread",
        "_tool",
        "cancelled",
        "over",
    )

    def __init__(self, dispatch: Dispatch, tool: Tool, call: OpenCall) -> None:
        self._dispatch = dispatch
        self._tool = tool
        self._call = call
        self._context: ToolContext | None = None
        self._made: Occurrences | None = None
        self._thread = get_ident()
        self.cancelled = False
        self.over = False

    def context(self) -> ToolContext:
        if self._context is None:
            call, tool = self._call, self._tool
            self._context = ToolContext(
                root=self._dispatch.shared.root,
                tool_name=tool.name,
                call_id=call.id,
                run_id=call.call.run_id,
                seq=call.call.seq,
                attempt=call.attempt,
                side_effect=tool.side_effect,
                idempotent=tool.idempotent,
                env=self._dispatch.environment.values.get(tool.name),
                unprotected=self._dispatch.shared.unprotected,
                _services=self,
            )
        return self._context

    @property
    def calls_left(self) -> int | None:
        budget = self._dispatch.budget
        return None if budget is None else budget.left

    def key(self) -> str | None:
        return idempotency_key(self._call)

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._tell("progress", {"done": done, "total": total, "message": message})

    def log(self, message: str, data: Mapping[str, Any]) -> None:
        self._tell("log", {"message": message, "data": dict(data)})

    def output(self, partial: Any) -> None:
        self._tell("tool_output_delta", partial)

    @property
    def watched(self) -> bool:
        return self._dispatch.on_event is not None

    def _tell(self, kind: EventKind, data: Any) -> None:
        if self.over:
            # A task or thread that outlived its call: whoever watched it has seen its end.
            return
        data = self._dispatch.environment.redactor.data(data)
        if get_ident() == self._thread:
            self._dispatch.tell(kind, self._call, data)
        else:
            anyio.from_thread.run_sync(self._dispatch.tell, kind, self._call, data)

    def attach(self, attachment: Attachment) -> AttachmentRef:
        self._check_open("attach")
        ref = self._dispatch.kept(attachment)
        self._call.attached.append(ref)
        return ref

    def _check_open(self, what: str) -> None:
        if self.over:
            msg = f"{self._tool.name}: {what} after the call has ended; await what it starts"
            raise UsageError(msg)

    def facts(self, name: str) -> ToolFacts | None:
        tools = self._dispatch.tools if self._call.allowed is None else self._call.allowed
        tool = tools.get(name)
        if tool is None:
            return None
        render = tool.render
        return ToolFacts(
            name=name,
            side_effect=tool.side_effect,
            idempotent=tool.idempotent,
            text=lambda value: ToolResult(name, value=value, _render=render).text,
        )

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        self._check_open("call_tool")
        parent = self._call
        if len(parent.place) > _MOST_NESTED:
            msg = f"{name}: {_MOST_NESTED} tools have called one another; that is a circle"
            raise ToolError(msg, code="too_deep", tool=name)
        if parent.parked:
            raise parked(self._tool)
        # A tool that does not wait itself is stopped here, before the next effect.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._made is None:
            # Of this try: the same calls of a second try are the same again.
            self._made = Occurrences()
        parent.children += 1
        call = ToolCall(name, arguments, seq=parent.children, run_id=parent.call.run_id)
        open_call = OpenCall(call, parent=parent, siblings=self._made, allowed=parent.allowed)
        if call.run_id is not None:
            self._dispatch.nested.append(open_call)
        self._dispatch.tell("tool_started", open_call)
        try:
            result = await self._dispatch.run(open_call)
        except ParkedError as waits:
            if open_call.may_park:
                parent.parked = True
                raise
            # A tool that cannot be begun again cannot be put away for a day.
            raise ToolError(str(waits), code="unknown_outcome", tool=name) from None
        finally:
            self._dispatch.tell("tool_finished", open_call)
            if open_call.call.seq != call.seq:
                self._drop_if_listed(open_call)
        self._dispatch.record(open_call, *self._dispatch.answer(open_call, result), None)
        return result.unwrap()

    def _drop_if_listed(self, call: OpenCall) -> None:
        """A call that an earlier try of the tool made is listed once."""
        nested = self._dispatch.nested
        if any(other is not call and other.path == call.path for other in nested):
            nested.remove(call)


def parked(tool: Tool) -> ParkedError:
    """What ends a tool that called another whose call waits."""
    return ParkedError(f"{tool.name} called a tool whose call waits for a decision")
