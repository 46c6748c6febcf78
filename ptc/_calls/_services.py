"""The host's side of a `ToolContext`: what a tool may ask of its host while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import anyio.lowlevel

from .._records._content import Attachment, AttachmentRef
from .._records._result import EventKind
from .._tools._context import ToolContext, ToolFacts
from .._tools._tool import Tool, ToolCall
from .._tools._tool_result import ToolResult
from ..errors import ToolError, UsageError
from ._call import Occurrences, OpenCall, idempotency_key
from ._recorder import ParkedError

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
        "_quiet",
        "_suspended",
        "_thread",
        "_tool",
        "_under_way",
        "begun",
        "cancelled",
        "over",
    )

    def __init__(self, dispatch: Dispatch, tool: Tool, call: OpenCall) -> None:
        self._dispatch = dispatch
        self._tool = tool
        self._call = call
        self._context: ToolContext | None = None
        self._made: Occurrences | None = None
        self._suspended = False
        self._under_way = 0
        self._quiet: anyio.Event | None = None
        self._thread = get_ident()
        self.cancelled = False
        self.begun = True
        self.over = False

    def context(self) -> ToolContext:
        if self._context is None:
            call, tool = self._call, self._tool
            self._context = ToolContext(
                root=self._dispatch.shared.root,
                tool_name=tool.name,
                call_id=call.id,
                run_id=call.call.run_id,
                seq=call.seq,
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
        if sum(1 for _ in parent.above()) >= _MOST_NESTED:
            msg = f"{name}: {_MOST_NESTED} tools have called one another; that is a circle"
            raise ToolError(msg, code="too_deep", tool=name)
        # A tool that does not wait itself is stopped here, before the next effect.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._suspended:
            raise parked(self._tool)
        if self._made is None:
            # Of this try: the same calls of a second try are the same again.
            self._made = Occurrences()
        if self._dispatch.track is not None:
            self._dispatch.track.note_caller(parent)
        call = ToolCall(name, arguments, seq=0, run_id=parent.call.run_id)
        open_call = OpenCall(call, parent=parent, siblings=self._made, allowed=parent.allowed)
        self._dispatch.admit(open_call)
        try:
            result = await self._run(open_call)
        except ParkedError as waits:
            if open_call.may_park:
                parent.parked = True
                await self._suspend()
                raise
            # A tool that cannot be begun again cannot be put away for a day.
            raise ToolError(str(waits), code="unknown_outcome", tool=name) from None
        self._dispatch.record(open_call, *self._dispatch.answer(open_call, result), None)
        value = result.unwrap()
        recorded = open_call.known and self._dispatch.track is not None
        return open_call.tool.revive(value) if recorded and open_call.tool else value

    async def _run(self, call: OpenCall) -> ToolResult:
        """Run a nested call, list it and report its start and its end."""
        listed, path = self._dispatch.nested, call.path
        earlier = listed.get(path)
        if call.call.run_id is not None:
            listed[path] = call
        self._dispatch.tell("tool_started", call)
        self._under_way += 1
        try:
            return await self._dispatch.run(call)
        except anyio.get_cancelled_exc_class():
            if not call.was_called:
                self._dispatch.cut_off(call)
            raise
        finally:
            self._under_way -= 1
            if not self._under_way and self._quiet is not None:
                self._quiet.set()
                self._quiet = None
            self._dispatch.tell("tool_finished", call)
            if call.known and earlier is not None:
                # The try that executed it has duration and attempts.
                listed[path] = earlier

    async def _suspend(self) -> None:
        """Wait until no nested call of this try is running; then allow no further one.

        A tool mostly reacts to the exception by cancelling its other calls, and an effect that is
        cancelled has an unknown outcome. So a call that waits for a decision must not interrupt
        the calls beside it.
        """
        try:
            # Calls that are made concurrently start in this iteration of the event loop.
            await anyio.lowlevel.checkpoint()
            while self._under_way:
                if self._quiet is None:
                    self._quiet = anyio.Event()
                await self._quiet.wait()
        finally:
            self._suspended = True


def parked(tool: Tool) -> ParkedError:
    """What ends a tool that called another whose call waits."""
    return ParkedError(f"{tool.name} called a tool whose call waits for a decision")
