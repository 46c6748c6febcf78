"""What a run leaves behind: its outcome, its calls, its output. Frozen data for every door."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from .. import _json
from ..errors import RunError
from ._content import AttachmentRef
from ._limits import Breach, Limits, Usage

__all__ = [
    "CallRecord",
    "Cut",
    "EventKind",
    "Failure",
    "Finding",
    "PendingCall",
    "RunEvent",
    "RunResult",
    "Status",
    "Variables",
]

T_co = TypeVar("T_co", covariant=True, default=Any)

Status: TypeAlias = Literal[
    "completed",
    "failed",
    "rejected",
    "timed_out",
    "limit_exceeded",
    "cancelled",
    "crashed",
    "violation",
    "paused",
]
"""How a run ended.

``completed``: it returned a value. ``failed``: an exception left the script. ``rejected``: refused
before a line of it ran. ``timed_out``, ``limit_exceeded``: it spent what it had. ``cancelled``: the
session was closed. ``crashed``: its process died. ``violation``: it reached the second fence.
``paused``: it waits for a decision (`RunResult.pending`) and can be resumed.
"""

CallStatus: TypeAlias = Literal["succeeded", "failed", "unknown", "not_started"]
"""``unknown``: it began and its end is not known. ``not_started``: refused, or never begun."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call of a run, as the host saw it."""

    seq: int
    """Number of the call in its run, from 1."""
    tool: str
    """Name the script called; it may be no tool at all."""
    status: CallStatus
    """How it ended."""
    arguments: str
    """JSON of the arguments, cut to 200 characters."""
    arguments_sha256: str
    """Digest of the arguments' sorted JSON."""
    duration_ms: float
    """From the start of the tool to its end."""
    result_bytes: int
    """JSON bytes of the value handed to the script."""
    error_code: str | None = None
    """Code of the `ToolError`, if it failed."""
    error: str | None = None
    """Its message."""
    line: int | None = None
    """Line of the script that made the call, as the worker told."""
    parent: str | None = None
    """The call whose tool made this one, as ``3`` or ``3.1``; None if the script did. `seq` then
    counts the calls of that tool."""
    attempts: int = 0
    """Times the tool was tried; 0 if it never was."""
    cached: bool = False
    """True if the result was kept from an equal call, or made by one that was under way."""
    attachments: tuple[AttachmentRef, ...] = ()
    """Files that the tool kept."""
    exit_code: int | None = None
    """Of a command, if that is what ran."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a script was refused, with its place and the way out."""

    code: str
    message: str
    line: int
    """1-based; 0: the script as a whole."""
    column: int
    """1-based; 0: the line as a whole."""
    hint: str
    excerpt: str
    """The source line with a caret under the place; ``""`` if there is none."""
    advisory: bool = False
    """True if the script may be right all the same."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run did not complete."""

    code: str
    """A stable word: ``exception``, ``tool_error``, ``not_json``, ``syntax``, ``refused``,
    ``timeout``, ``limit_<name>``, ``memory``, ``recursion``, ``system_call``, ``protocol``,
    ``crash`` ..."""
    message: str
    """What happened."""
    type: str = ""
    """Name of the exception, if one left the script."""
    line: int = 0
    """Line of the script, 1-based; 0: not known."""
    column: int = 0
    """Column, 1-based; 0: not known."""
    excerpt: str = ""
    """The source line with a caret under the place."""
    hint: str = ""
    """The way out."""
    traceback: str = ""
    """The script's own frames as Python prints them."""
    tool: str = ""
    """Tool whose error it was."""
    syscall: str = ""
    """Of a ``violation``: the system call it was stopped at; ``""`` if the kernel did not tell."""
    findings: tuple[Finding, ...] = ()
    """All reasons, where a script was refused."""
    breach: Breach | None = None
    """The limit it went over, what that allows and what was used; None if it is no limit."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The value was over `Limits.max_output_bytes`; what is in `RunResult.value` is cut."""

    bytes: int
    """JSON bytes of the whole value."""
    sha256: str
    """Digest of its JSON."""
    artifact: str
    """File that holds the whole value as JSON; empty if it could not be kept: see the warnings."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Local variables of a function of a script that waits."""

    function: str
    line: int
    names: dict[str, str]
    """Name -> `repr`, cut to 300 characters."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a decision."""

    call: str
    """``3``, or ``3.1``: what a decision names it by."""
    kind: Literal["approval", "unknown"]
    """``approval``: it was not made yet: approve or reject it. ``unknown``: it began and its end is
    not known: say what became of it."""
    tool: str
    arguments: Any
    """As validated, JSON data; as far as a journal may hold them, see docs/durability.md."""
    fingerprint: str
    """Digest of tool and arguments: a decision is about these."""
    prompt: str = ""
    """The tool author's words for the one who decides."""
    defaults: Any = None
    """What the tool's author proposes for the decision's form."""
    idempotency_key: str | None = None
    """The key of the call: what a service that was asked may know it by. The same when it is made
    again."""


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T_co]):
    """Outcome of one run; it holds everything that the run produced, whatever its status.

    ``RunResult[Invoice]`` is the result of a run with ``output_schema=Invoice``.
    """

    run_id: str
    status: Status
    value: Any = None
    """What ``run`` returned, as JSON data; cut if `cut` is set."""
    error: Failure | None = None
    """Why it did not complete; None if it did."""
    partial: tuple[Any, ...] = ()
    """What the script emitted with ``ctx.emit``, in order."""
    stdout: str = ""
    """The last 65,536 characters of what it printed."""
    stderr: str = ""
    """The same of what it wrote to standard error: with ``print(file=sys.stderr)``, `logging`,
    `warnings`, `traceback.print_exc` and ``ctx.log``."""
    calls: tuple[CallRecord, ...] = ()
    """Every tool call, in the order they were made."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    limits: Limits = dataclasses.field(default_factory=Limits)
    """The limits that were in force."""
    warnings: tuple[str, ...] = ()
    """What the caller should know although the run went on."""
    cut: Cut | None = None
    """Set if the value was too large and was cut."""
    pending: tuple[PendingCall, ...] = ()
    """Calls that wait for a decision, of a run that is ``paused``."""
    frames: tuple[Variables, ...] = ()
    """The script's functions and their variables, where a replay was stopped."""
    _read: Callable[[Any], T_co] | None = dataclasses.field(default=None, repr=False, compare=False)
    """Turns the value into an instance of `output_schema`, if that was a type."""

    @property
    def ok(self) -> bool:
        """True if the run completed."""
        return self.status == "completed"

    @property
    def attachments(self) -> tuple[AttachmentRef, ...]:
        """Files that its calls kept, in the order of the calls."""
        return tuple(ref for call in self.calls for ref in call.attachments)

    def unwrap(self) -> T_co:
        """Return the value, as an instance of `output_schema` if that was a type.

        Raises:
            RunError: If the run did not complete, or its value is truncated. It holds this result.
        """
        if not self.ok or (self.cut is not None and self._read is not None):
            raise RunError(self)
        value: Any = self.value
        return value if self._read is None else self._read(value)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-able data."""
        found = dataclasses.asdict(self)
        del found["_read"]
        return found

    def to_json(self) -> bytes:
        """All of it as JSON."""
        # Value, partial values and records are JSON data already: they came over the wire.
        return _json.checked_dumps(self)


EventKind: TypeAlias = Literal[
    "started",
    "tool_started",
    "approval_pending",
    "approval_decided",
    "progress",
    "tool_output_delta",
    "log",
    "tool_finished",
    "stdout",
    "stderr",
    "emitted",
    "warning",
    "violation",
    "finished",
]
"""``progress``, ``tool_output_delta`` (the value so far) and ``log`` are a tool's words while it
works; a ``log`` without a call is what the script logged with `logging` or ``ctx.log``, and is in
`RunResult.stderr`, too. ``finished`` is the last of a stream."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened while a run was going on, told to ``on_event``."""

    kind: EventKind
    run_id: str | None
    """None for a direct call of a tool."""
    call: CallRecord | None = None
    """The call, of the events about one."""
    text: str = ""
    """What was printed, logged or warned of; the words of an alarm."""
    value: Any = None
    """What was emitted; of ``progress`` ``{"done", "total", "message"}``, of a tool's
    ``log`` ``{"message", "data"}``; of ``tool_output_delta`` what the tool told, which is
    ``{"object", "attempt", "reset", "final", "pending"}`` of `generate_object`; the
    `ApprovalRequest` or the `Decision`, with arguments as a record has them; the `Violation`; the
    `RunResult` or `ToolResult` of ``finished``."""
