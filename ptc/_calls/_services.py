"""Services of the host behind a `ToolContext`, for a tool while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread

from .._records._content import Attachment, AttachmentRef
from .._records._preview import RECALL, Reader, preview_of, with_addresses
from .._records._result import EventKind, RunResult
from .._records._stored_file import StoredFile
from .._schema._copy import copy_data
from .._tools._context import ToolContext
from .._tools._reach import Reach
from .._tools._tool import Tool, ToolCall, define_tool
from .._tools._tool_result import ToolResult
from .._tools._untrusted import combined_mode, model_text
from ..errors import ArtifactError, ToolError, UsageError
from ..journal._documents import CallDocuments
from ._call import OpenCall
from ._occurrences import Occurrences
from ._recorder import SuspendedError
from ._scope import Scope

if TYPE_CHECKING:
    from ..models._open import OpenModels

__all__ = ["NestedCaller", "Services", "suspended_error"]

_MAX_NESTED = 8
"""Depth of tools that call tools; deeper calls are taken for an endless recursion."""


class NestedCaller(Protocol):
    """Pipeline for the calls that tools make."""

    nested: dict[str, OpenCall]  # calls of a run that its tools made, by path

    def admit(self, call: OpenCall) -> None: ...

    async def run(self, call: OpenCall) -> ToolResult: ...

    def answer(self, call: OpenCall, result: ToolResult) -> tuple[bool, bytes]: ...

    def record(self, call: OpenCall, ok: bool, body: bytes, elapsed: float | None) -> None: ...

    def record_cancellation(self, call: OpenCall) -> None: ...


class Services:
    """Services for one attempt of a call. The `ToolContext` is created on first use."""

    __slots__ = (
        "_call",
        "_context",
        "_nested",
        "_quiet",
        "_running",
        "_scope",
        "_suspended",
        "_thread",
        "_tool",
        "cancelled",
        "function_called",
        "over",
    )

    def __init__(self, scope: Scope, nested: NestedCaller, tool: Tool, call: OpenCall) -> None:
        self._scope = scope
        self._nested = nested
        self._tool = tool
        self._call = call
        self._context: ToolContext | None = None
        self._suspended = False
        self._running = 0
        self._quiet: anyio.Event | None = None
        self._thread = get_ident()
        self.cancelled = False
        self.function_called = True
        self.over = False

    def context(self) -> ToolContext:
        if self._context is None:
            call, tool, scope = self._call, self._tool, self._scope
            self._context = ToolContext(
                root=scope.shared.root,
                tool_name=tool.name,
                call_id=call.id,
                run_id=call.call.run_id,
                seq=call.seq,
                attempt=call.attempt,
                side_effect=tool.side_effect,
                idempotent=tool.idempotent,
                env=scope.environment.values.get(tool.name),
                unprotected=scope.shared.unprotected,
                protected=scope.shared.protected,
                approved=call.approved,
                _services=self,
            )
        return self._context

    @property
    def calls_left(self) -> int | None:
        budget = self._scope.budget
        return None if budget is None else budget.left

    def key(self) -> str | None:
        return self._call.key()

    @property
    def epoch(self) -> int | None:
        recorder = self._scope.recorder
        return None if recorder is None else recorder.epoch

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._emit("progress", {"done": done, "total": total, "message": message})

    def log(self, message: str, data: Mapping[str, Any]) -> None:
        self._emit("log", {"message": message, "data": dict(data)})

    def output(self, partial: Any) -> None:
        self._emit("tool_output_delta", partial)

    async def is_watched(self) -> bool:
        if self._scope.on_event is not None:
            return True
        viewers = self._scope.shared.viewers
        return self._scope.recorder is not None and (
            viewers is not None and await viewers.are_present()
        )

    def _emit(self, kind: EventKind, data: Any) -> None:
        if self.over:
            # A task or thread that outlived its call: the subscriber has received its end.
            return
        # A copy: the tool may continue to modify its own, and the reader is in no hurry.
        data = copy_data(self._scope.environment.redactor.data(data))
        if get_ident() == self._thread:
            self._deliver(kind, data)
        else:
            # Imported here: its import takes 5 ms, and few tools report from a thread.
            from anyio.from_thread import run_sync

            run_sync(self._deliver, kind, data)

    def _deliver(self, kind: EventKind, data: Any) -> None:
        self._scope.emit(kind, self._call, data)
        recorder = self._scope.recorder
        if kind == "tool_output_delta" and recorder is not None and not self.over:
            recorder.partials.add(self._call, data)

    def attach(self, attachment: Attachment) -> AttachmentRef:
        self._check_open("attach")
        ref = self._scope.store(attachment)
        self._call.attached.append(ref)
        return ref

    def open_stored(self, handle: str) -> StoredFile:
        self._check_open("open_stored")
        try:
            found = self._scope.shared.artifacts.open(handle)
        except (OSError, ArtifactError) as error:
            why = getattr(error, "strerror", None) or error
            msg = f"the stored value {handle!r:.80} cannot be read: {why}"
            raise ToolError(msg, code="unreadable") from None
        if found is None:
            msg = (
                f"this session has no stored value with handle {handle!r:.80}: copy the handle "
                "from the note of a truncated result; the value may also have been deleted"
            )
            raise ToolError(msg, code="unknown_handle")
        # Any tool of the session may have returned it.
        sources: tuple[OpenCall | Tool, ...] = (self._call, *self._scope.shared.known.values())
        self._call.untrusted = combined_mode(source.untrusted for source in sources)
        return found

    def _check_open(self, method: str) -> None:
        if self.over:
            msg = (
                f"{self._tool.name}: {method} was called after the tool had returned; await the "
                "tasks that it starts"
            )
            raise UsageError(msg)

    @property
    def reach(self) -> Reach:
        return self._call.reach or Reach(self._scope.tools)

    @property
    def documents(self) -> CallDocuments:
        open_documents = self._scope.shared.documents
        if open_documents is None:
            msg = f"{self._tool.name}: this session has no journal"
            raise UsageError(msg)
        return CallDocuments(open_documents(), self._call.key() or "")

    @property
    def models(self) -> OpenModels:
        open_models = self._scope.shared.open_models
        if open_models is None:
            msg = f"{self._tool.name}: this session has no models"
            raise UsageError(msg)
        return open_models()

    async def program(self, reach: Reach, options: Mapping[str, Any]) -> RunResult:
        self._check_open("program")
        run_script = self._scope.shared.run_script
        if run_script is None:
            msg = f"{self._tool.name}: this session runs no scripts"
            raise UsageError(msg)
        call = replace(self.context(), _reach=reach)
        result = await run_script(call, self._scope.limits, options)
        if self._call.suspended:
            raise suspended_error(self._tool)
        error, on_killed = result.error, self._scope.on_killed
        # The codes of other outcomes come from the script's worker, which may be hostile.
        crashed = result.status == "crashed"
        if crashed and error is not None and error.code == "killed" and on_killed is not None:
            # Not the outcome of this call: it would be recorded, and returned by every resumption.
            on_killed(replace(error, message=f"in {self._tool.name}: {error.message}", line=0))
            await anyio.sleep_forever()  # until the end of the run cancels this call
        return result

    async def step(
        self, name: str, function: Callable[[], Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        async def execute(_: dict[str, Any]) -> Any:
            return await function()

        tool = define_tool(name, f"A step of {self._tool.name}.", {"type": "object"}, execute)
        value = (await self.call_tool(name, arguments, Reach({name: tool}))).unwrap()
        if self._scope.recorder is not None:
            # A step may be expensive, such as a request to a model: it is not lost with the host.
            await self._scope.recorder.make_durable()
        return value

    async def call_tool(self, name: str, arguments: Mapping[str, Any], reach: Reach) -> ToolResult:
        self._check_open("call_tool")
        parent = self._call
        if sum(1 for _ in parent.callers()) >= _MAX_NESTED:
            msg = f"{name}: tools have called one another {_MAX_NESTED} deep, the most allowed"
            raise ToolError(msg, code="too_deep", tool=name)
        # A cancelled tool that never awaits is stopped here, before the next effect.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._suspended:
            raise suspended_error(self._tool)
        if parent.attempt_calls is None:
            above = parent.siblings
            parent.attempt_calls = Occurrences(None if above is None else above.key_run)
        if self._scope.recorder is not None:
            self._scope.recorder.record_caller(parent)
        request = ToolCall(name, copy_data(arguments), seq=0, run_id=parent.call.run_id)
        call = OpenCall(request, parent, reach)
        self._nested.admit(call)
        try:
            result = await self._run(call)
        except SuspendedError as suspension:
            if call.may_suspend:
                parent.suspended = True
                await self._suspend()
                raise
            # A tool that cannot be started again cannot be suspended for days.
            raise ToolError(str(suspension), code="unknown_outcome", tool=name) from None
        if call.tool is not None:
            modes = (parent.untrusted, call.untrusted, call.tool.untrusted, result.untrusted)
            parent.untrusted = combined_mode(modes)
        self._nested.record(call, *self._nested.answer(call, result), None)
        tool = call.tool
        if not result.ok or tool is None:
            return result
        recorded = call.outcome.recorded and self._scope.recorder is not None
        value = tool.revive(result.value) if recorded else result.value
        return replace(result, tool=name, value=value, _render=tool.render)

    async def text_for_model(self, result: ToolResult, max_chars: int, reach: Reach) -> str:
        tool = reach.tools.get(result.tool)
        mode = result.untrusted or (tool and tool.untrusted) or self._scope.shared.untrusted
        recalls = RECALL in reach.tools
        plain = replace(result, untrusted=None, attachments=result.attachments if recalls else ())
        note, text = "", with_addresses(plain.text, plain.attachments)
        if len(text) > max_chars and result.ok:
            store = self._scope.shared.artifacts
            reader: Reader = "tool" if recalls else "path"
            preview = await anyio.to_thread.run_sync(
                partial(preview_of, plain.value, store, max_chars, text=text, reader=reader)
            )
            text, note = preview.text, preview.note
        # The key of the call, which a text cannot know, is the same when the tool starts again.
        own = self.key()
        key = None if own is None else sha256(own.encode()).digest()
        shown = model_text(text, mode, source=result.tool, max_chars=max_chars, key=key)
        return "\n\n".join(filter(None, (shown, note)))

    async def _run(self, call: OpenCall) -> ToolResult:
        """Run a nested call, list it, and report its start and end."""
        listed, path = self._nested.nested, call.path
        earlier = listed.get(path)
        if call.call.run_id is not None:
            listed[path] = call
        self._scope.emit("tool_started", call)
        self._running += 1
        try:
            return await self._nested.run(call)
        except anyio.get_cancelled_exc_class():
            if call.completing is not None or not call.was_called:
                self._nested.record_cancellation(call)
            raise
        finally:
            self._running -= 1
            if not self._running and self._quiet is not None:
                self._quiet.set()
                self._quiet = None
            self._scope.emit("tool_finished", call)
            if call.outcome.recorded and earlier is not None:
                # The call that executed it has duration and attempts.
                listed[path] = earlier

    async def _suspend(self) -> None:
        """Wait until no nested call of this attempt is running; then allow no further one.

        A tool usually reacts to the exception by cancelling its other calls, and a cancelled
        effect has an unknown outcome. So a suspended call must not interrupt the calls beside it.
        """
        try:
            # Calls that are made concurrently start in this iteration of the event loop.
            await anyio.lowlevel.checkpoint()
            while self._running:
                if self._quiet is None:
                    self._quiet = anyio.Event()
                await self._quiet.wait()
        finally:
            self._suspended = True


def suspended_error(tool: Tool) -> SuspendedError:
    """Return the exception that suspends a tool because it called a suspended call."""
    return SuspendedError(f"{tool.name} called a tool whose call waits for a decision")
