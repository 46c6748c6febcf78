"""Context of a tool call: facts about the call, and services of the host while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .._records._content import Attachment, AttachmentRef
from .._records._stored_file import StoredFile
from ..errors import UsageError
from ._approval import ApprovalNeededError

__all__ = ["CallServices", "ToolContext", "ToolFacts", "ambient_call", "current_tool_context"]


class CallServices(Protocol):
    """The host's side of a `ToolContext`."""

    def context(self) -> ToolContext: ...  # the context itself

    @property
    def cancelled(self) -> bool: ...  # as ToolContext.cancelled

    @property
    def calls_left(self) -> int | None: ...  # as ToolContext.calls_left

    def key(self) -> str | None: ...  # as ToolContext.idempotency_key

    @property
    def watched(self) -> bool: ...  # as ToolContext.watched

    def attach(self, attachment: Attachment) -> AttachmentRef: ...

    def open_stored(self, handle: str) -> StoredFile: ...

    def output(self, partial: Any) -> None: ...

    def progress(self, done: float, total: float | None, message: str) -> None: ...

    def log(self, message: str, data: Mapping[str, Any]) -> None: ...

    def facts(self, name: str) -> ToolFacts | None: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Properties of a tool that another tool may call."""

    name: str
    """The tool's name."""
    side_effect: bool
    """True if a call changes anything outside the run."""
    idempotent: bool
    """True if executing a call twice has the same effect as once."""
    text: Callable[[Any], str] = field(repr=False, compare=False)
    """Formats a value of the tool as text for a model."""


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

    @property
    def idempotency_key(self) -> str | None:
        """Key to pass to a service that deduplicates requests.

        Equal for the same call on retry and on replay; different for other arguments, another
        tool, another run, and for a second equal call. 64 hex digits, or the key that the caller
        of a direct call passed; None for a direct call without one.
        """
        return self._services.key() if self._services is not None else None

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

    @property
    def watched(self) -> bool:
        """True if the call has a subscriber; without one, `output` has no effect."""
        return self._services is not None and self._services.watched

    def output(self, partial: Any) -> None:
        """Send the partial value to subscribers: JSON-able data in the tool's own format.

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
        if self._services is None:
            msg = "attach needs a context that a session created"
            raise UsageError(msg)
        return self._services.attach(attachment)

    def open_stored(self, handle: str) -> StoredFile:
        """Open a stored value or attachment of the session, to read parts of it; close it after.

        Args:
            handle: Its handle, SHA-256 or address.

        Raises:
            ToolError: ``unknown_handle`` if the session has no such file, or it was changed.
            UsageError: If a session did not create this context.
        """
        if self._services is None:
            msg = "open_stored needs a context that a session created"
            raise UsageError(msg)
        return self._services.open_stored(handle)

    def tool_facts(self, name: str) -> ToolFacts | None:
        """Properties of a tool that `call_tool` can call; None for any other name.

        Raises:
            UsageError: If a session did not create this context.
        """
        if self._services is None:
            msg = "tool_facts needs a context that a session created"
            raise UsageError(msg)
        return self._services.facts(name)

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
        if self._services is None:
            msg = "call_tool needs a context that a session created"
            raise UsageError(msg)
        return await self._services.call_tool(name, arguments)


ambient_call: ContextVar[CallServices | None] = ContextVar("ptc_call", default=None)
"""Call of the running code; set and reset around a tool's function."""


def current_tool_context() -> ToolContext | None:
    """Return the context of the running tool call; None outside of a call.

    For code that a tool's function calls without passing it the context.
    """
    call = ambient_call.get()
    return call.context() if call is not None else None
