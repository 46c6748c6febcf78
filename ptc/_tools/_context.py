"""Context of a tool call: facts about the call, and services of the host while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from .._core._arguments import require_range
from .._dataclass import dataclass
from .._records._content import Attachment, AttachmentRef
from .._records._limits import MAXIMA, Limits
from .._records._stored_file import StoredFile
from ..errors import UsageError
from ._approval import ApprovalNeededError

if TYPE_CHECKING:
    from .._records._result import RunResult
    from ..journal._documents import CallDocuments
    from ..models._open import OpenModels
    from ._allow import AllowList
    from ._reach import Reach
    from ._tool import Tool
    from ._tool_result import ToolResult

__all__ = ["CallServices", "ToolContext", "ambient_call", "current_tool_context"]


class CallServices(Protocol):
    """The host's side of a `ToolContext`."""

    def context(self) -> ToolContext: ...  # the context itself

    @property
    def cancelled(self) -> bool: ...  # as ToolContext.cancelled

    @property
    def calls_left(self) -> int | None: ...  # as ToolContext.calls_left

    def key(self) -> str | None: ...  # as ToolContext.idempotency_key

    @property
    def epoch(self) -> int | None: ...  # as ToolContext.epoch

    async def is_watched(self) -> bool: ...  # as ToolContext.is_watched

    def attach(self, attachment: Attachment) -> AttachmentRef: ...

    def open_stored(self, handle: str) -> StoredFile: ...

    def output(self, partial: Any) -> None: ...

    def progress(self, done: float, total: float | None, message: str) -> None: ...

    def log(self, message: str, data: Mapping[str, Any]) -> None: ...

    @property
    def reach(self) -> Reach: ...  # tools that the call may call

    @property
    def documents(self) -> CallDocuments: ...  # as ToolContext.documents

    @property
    def models(self) -> OpenModels: ...  # as ToolContext.models

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], reach: Reach
    ) -> ToolResult: ...

    async def text_for_model(self, result: ToolResult, max_chars: int, reach: Reach) -> str: ...

    async def step(
        self, name: str, function: Callable[[], Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any: ...

    async def program(self, reach: Reach, options: Mapping[str, Any]) -> RunResult: ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of a call, passed to a tool's function in a parameter of this type.

    A context that you create yourself, as in a unit test of the function, has the defaults below:
    `progress`, `output` and `log` do nothing, and `call_tool` raises.
    """

    root: Path
    """The session's root: an absolute, resolved folder."""
    tool_name: str
    """Name of the tool, as defined: a caller cannot change it."""
    call_id: str
    """Unique in the session: ``<run id>.<seq>`` for a call of a script, ``direct.<seq>`` for a
    direct call. A call made by a tool has its caller's id followed by ``.<seq>``."""
    run_id: str | None
    """Run of the calling script; None for a direct call."""
    seq: int
    """Number of the call in its run, from 1, in the order of the calls. A call made by a tool is
    numbered among the calls of that tool. Equal to the number in the call's record."""
    attempt: int = 1
    """Number of the attempt, from 1; more than 1 for a retry."""
    side_effect: bool = False
    """As the tool was defined."""
    idempotent: bool = True
    """As the tool was defined."""
    env: Any = field(default=None, repr=False)
    """Values of the tool's ``env=``: an instance of that model. Never in a repr."""
    unprotected: frozenset[str] = frozenset()
    """Protected paths that the session has unprotected (`Session`, ``unprotected=``)."""
    protected: frozenset[str] = frozenset()
    """Further files and folders that the session protects, relative to the root."""
    approved: bool = False
    """True if this call required approval and was approved."""
    _services: CallServices | None = field(default=None, repr=False, compare=False)
    _reach: Reach | None = field(default=None, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str | None:
        """Key to pass to a service that deduplicates requests.

        Equal for the same call on retry and on replay; different for other arguments, another
        tool, another run, and for a second equal call. 64 hex digits, or the key that the caller
        of a direct call passed; None for a direct call without one.
        """
        return self._services.key() if self._services is not None else None

    @property
    def epoch(self) -> int | None:
        """Fencing token of the run: it grows each time that a process starts or continues the run.

        A host that was frozen may make one call after another host has continued its run. A service
        that stores the highest epoch of each run, and refuses a lower one, is safe from that. None
        for a call that is not recorded.
        """
        return self._services.epoch if self._services is not None else None

    @property
    def cancelled(self) -> bool:
        """True if the call was cancelled: its result will not be used.

        An async tool need not check: it is cancelled at its next await. A plain function cannot be
        interrupted and should check from time to time.
        """
        return self._services is not None and self._services.cancelled

    @property
    def calls_left(self) -> int | None:
        """Tool calls that the run may still make; None for a direct call, which is not counted."""
        return self._services.calls_left if self._services is not None else None

    async def is_watched(self) -> bool:
        """Return True if the call has a subscriber, or `ptc ui` shows runs of the journal.

        Otherwise nobody sees what `output` reports, and a tool need not make it.
        """
        return self._services is not None and await self._services.is_watched()

    def output(self, partial: Any) -> None:
        """Report a partial value: JSON-able data in the tool's own format.

        Subscribers receive each. The journal stores the last one, up to 64 KiB, until the call
        ends, and pages show it.

        Call it from the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.output(partial)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress to subscribers.

        Call it from the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.progress(done, total, message)

    def log(self, message: str, **data: Any) -> None:
        """Send a message with JSON-able `data` to subscribers.

        Call it from the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.log(message, data)

    def attach(self, attachment: Attachment) -> AttachmentRef:
        """Store a file and list it in the call's record and result.

        Raises:
            ToolError: ``attachment_failed`` if it cannot be written.
            UsageError: If a session did not create this context.
        """
        return self._host("attach").attach(attachment)

    @property
    def documents(self) -> CallDocuments:
        """Named JSON data in the session's journal, which outlive the process.

        ``read`` and ``change`` wait for a disk: call them in a plain function, which runs in a
        thread.

        Raises:
            UsageError: If a session with a journal did not create this context.
        """
        return self._host("documents").documents

    def open_stored(self, handle: str) -> StoredFile:
        """Open a stored value or attachment of the session, to read parts of it; close it after.

        Args:
            handle: Its handle, SHA-256 or address.

        Raises:
            ToolError: ``unknown_handle`` if the session has no such file, or it was changed.
            UsageError: If a session did not create this context.
        """
        return self._host("open_stored").open_stored(handle)

    def require_approval(self) -> None:
        """Return if the call was approved; otherwise end it, and request its approval.

        The call then waits or pauses like one of a tool with ``needs_approval``. Once it is
        approved, the tool starts again: require the approval before the first effect. A call of a
        tool with a `cache` fails instead.

        Raises:
            ToolError: ``approval_required``. Do not catch it.
        """
        if not self.approved:
            msg = f"{self.tool_name} requires approval of this call"
            raise ApprovalNeededError(msg, code="approval_required")

    async def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """Call another tool under the allow-list and the limits of this tool's caller.

        Raises:
            ToolError: If the tool is not allowed or fails.
            UsageError: If a session did not create this context.
        """
        host = self._host("call_tool")
        return (await host.call_tool(name, arguments, self._within("call_tool"))).unwrap()

    async def result_of(self, name: str, /, **arguments: Any) -> ToolResult:
        """Call another tool as `call_tool`, and return its result: a failure is part of it.

        Raises:
            UsageError: If a session did not create this context.
        """
        host = self._host("result_of")
        return await host.call_tool(name, arguments, self._within("result_of"))

    async def text_for_model(self, result: ToolResult, *, max_chars: int) -> str:
        """Return the text of a result of `result_of` for a model.

        A longer text is truncated, with a note; the whole value is stored, and the note says how to
        get it. The text of an untrusted tool is marked or stripped.

        Args:
            result: The result.
            max_chars: Characters of the text, without markers.

        Raises:
            UsageError: If a session did not create this context.
        """
        host = self._host("text_for_model")
        return await host.text_for_model(result, max_chars, self._within("text_for_model"))

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools that `call_tool` can call, by name, with the rules of the allow-list enforced.

        Raises:
            UsageError: If a session did not create this context.
        """
        return MappingProxyType(self._within("tools").tools)

    @property
    def models(self) -> OpenModels:
        """Language models of the session.

        Raises:
            UsageError: If a session did not create this context.
        """
        return self._host("models").models

    def restricted(self, allowed_tools: AllowList, *, max_calls: int | None = None) -> ToolContext:
        """Return this context with fewer tools, for the caller's untrusted instructions.

        The tools apply to `call_tool`, `program` and all calls below them. ::

            reader = ctx.restricted(["read", Allow("grep", path="src/**")], max_calls=20)

        Args:
            allowed_tools: Names, patterns and rules. Rules apply in addition to the caller's.
            max_calls: Most calls through the new context, calls below them included. The call
                after the last fails with code ``limit_exceeded``. None: only the limits of the run
                apply.

        Raises:
            ToolError: ``not_allowed``, if an entry allows nothing that the caller may call.
            UsageError: If a session did not create this context, or an argument is wrong.
        """
        if max_calls is not None:
            require_range("max_calls", max_calls, MAXIMA["max_tool_calls"])
        reach = self._within("restricted").narrow(allowed_tools, max_calls)
        return replace(self, _reach=reach)

    async def program(
        self,
        source: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        limits: Limits | Mapping[str, Any] | None = None,
        output_schema: Any = None,
        filename: str | None = None,
    ) -> RunResult:
        """Run a script whose tools are those of this context.

        Its calls are calls of this tool: they are recorded, limited and approved as such, and the
        script has no record of its own. If a call waits for a decision, this call is suspended.
        After the decision the tool starts again, and finished calls return their recorded results.
        The script waits for its turn like any other, but never for the run that waits for it.

        Args:
            source: The script.
            inputs: JSON-able data for the script.
            limits: Limits of the script. Default: those of the session. Those above the limits of
                the run are lowered to them.
            output_schema: Type or JSON Schema of the returned value.
            filename: Name of the script in tracebacks.

        Returns:
            The outcome, also of a script that failed. It lists no calls.

        Raises:
            UsageError: If an argument is wrong, or a session that runs scripts did not create this
                context.
        """
        options = {
            "source": source,
            "inputs": inputs,
            "limits": limits,
            "output_schema": output_schema,
            "filename": filename,
        }
        return await self._host("program").program(self._within("program"), options)

    async def step(
        self, name: str, function: Callable[[], Awaitable[Any]], /, **arguments: Any
    ) -> Any:
        """Execute `function` as a recorded step of this call, and return its value.

        When the tool starts again, after a decision or in another process, a step that succeeded
        returns its recorded value without being executed. It is recorded like a call of a tool
        without a side effect, and counts as one; its record is durable when this returns.

        Args:
            name: Name of the step in the record.
            function: Async function without parameters. Its value must have a JSON form, in which
                it is returned.
            **arguments: JSON-able data that identifies the step, for the record. Equal steps of a
                call are matched in their order.

        Raises:
            ToolError: If `function` fails, or its value has no JSON form.
            UsageError: If a session did not create this context.
        """
        return await self._host("step").step(name, function, arguments)

    def _host(self, method: str) -> CallServices:
        if self._services is None:
            msg = f"{method} needs a context that a session created"
            raise UsageError(msg)
        return self._services

    def _within(self, method: str) -> Reach:
        return self._host(method).reach if self._reach is None else self._reach


ambient_call: ContextVar[CallServices | None] = ContextVar("ptc_call", default=None)
"""Call of the running code; set and reset around a tool's function."""


def current_tool_context() -> ToolContext | None:
    """Return the context of the running tool call; None outside of a call.

    For code that a tool's function calls without passing it the context.
    """
    call = ambient_call.get()
    return call.context() if call is not None else None
