"""What a tool's function is told about its call, and what it may ask of the host meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .._records._content import Attachment, AttachmentRef
from ..errors import UsageError

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

    def output(self, partial: Any) -> None: ...

    def progress(self, done: float, total: float | None, message: str) -> None: ...

    def log(self, message: str, data: Mapping[str, Any]) -> None: ...

    def facts(self, name: str) -> ToolFacts | None: ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a tool may know of another one that it may call."""

    name: str
    """The tool's name."""
    side_effect: bool
    """True if it changes anything outside the run."""
    idempotent: bool
    """True if doing it twice is as good as once."""
    text: Callable[[Any], str] = field(repr=False, compare=False)
    """What a model reads of a value of it."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool's function is told about the call, in a parameter of this type.

    Made by hand, as in a test of the function alone, it answers with the defaults below:
    `progress`, `output` and `log` go nowhere and `call_tool` refuses.
    """

    root: Path
    """The session's root: an absolute, resolved folder."""
    tool_name: str
    """Name of the tool. Nothing a caller sends can change it."""
    call_id: str
    """Unique in the session: ``<run id>.<seq>`` from a script, ``direct.<seq>`` otherwise; of a
    call made by a tool, its caller's with ``.<seq>`` after it."""
    run_id: str | None
    """The run whose script made the call; None for a direct call."""
    seq: int
    """Number of the call in its run, from 1, in the order the calls were made; of a call made by a
    tool, among the calls of that tool. The same as in the call's record."""
    attempt: int = 1
    """Number of the try, from 1: more than 1 if the tool is tried again after a failure."""
    side_effect: bool = False
    """As the tool was defined."""
    idempotent: bool = True
    """As the tool was defined."""
    env: Any = field(default=None, repr=False)
    """The values the tool asked for with ``env=``: an instance of that model. Never in a repr."""
    unprotected: frozenset[str] = frozenset()
    """Protected paths that the owner of the session has lifted (`Session`, ``unprotected=``)."""
    _services: CallServices | None = field(default=None, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str | None:
        """What to give a service that can tell a repeated request from a new one.

        Equal for the same call on retry and on replay; different for other arguments, another
        tool, another run, and for the same call made once more. 64 hex digits, or what the caller
        of a direct call gave; None for a direct call without one.
        """
        return self._services.key() if self._services is not None else None

    @property
    def cancelled(self) -> bool:
        """True if nobody waits for the result any more.

        An async tool need not ask: it is cancelled at its next await. A plain function cannot be
        interrupted and should ask now and then.
        """
        return self._services is not None and self._services.cancelled

    @property
    def calls_left(self) -> int | None:
        """Tool calls the run may still make; None for a direct call, which is not counted."""
        return self._services.calls_left if self._services is not None else None

    @property
    def watched(self) -> bool:
        """True if somebody is told of the call while it works: else `output` is in vain."""
        return self._services is not None and self._services.watched

    def output(self, partial: Any) -> None:
        """Tell whoever watches what the value is so far: JSON-able data, in the tool's own form.

        From the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.output(partial)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell whoever watches how far the call is.

        From the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.progress(done, total, message)

    def log(self, message: str, **data: Any) -> None:
        """Tell whoever watches; `data` is JSON-able.

        From the event loop, or from a thread that anyio started.
        """
        if self._services is not None:
            self._services.log(message, data)

    def attach(self, attachment: Attachment) -> AttachmentRef:
        """Keep a file; it is named in the call's record and result.

        Raises:
            ToolError: ``attachment_failed`` if it cannot be written.
            UsageError: If this context was made by hand.
        """
        if self._services is None:
            msg = "attach needs a context that a session made"
            raise UsageError(msg)
        return self._services.attach(attachment)

    def tool_facts(self, name: str) -> ToolFacts | None:
        """What is to be known of a tool that `call_tool` would call; None if it would refuse.

        Raises:
            UsageError: If this context was made by hand.
        """
        if self._services is None:
            msg = "tool_facts needs a context that a session made"
            raise UsageError(msg)
        return self._services.facts(name)

    async def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """Call another tool as the caller of this one may: its allow-list, its limits.

        Raises:
            ToolError: If it is not allowed or fails.
            UsageError: If this context was made by hand.
        """
        if self._services is None:
            msg = "call_tool needs a context that a session made"
            raise UsageError(msg)
        return await self._services.call_tool(name, arguments)


ambient_call: ContextVar[CallServices | None] = ContextVar("ptc_call", default=None)
"""The call that the running code belongs to; set and reset around a tool's function."""


def current_tool_context() -> ToolContext | None:
    """The context of the tool call this code runs in; None outside of one.

    For code that a tool's function calls and that cannot be given the context.
    """
    call = ambient_call.get()
    return call.context() if call is not None else None
