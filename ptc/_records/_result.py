"""Result of a run: status, value, calls, output. Frozen data for every entry point."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from .._core import _json
from .._dataclass import dataclass
from .._facts import ModelUsage
from ..errors import RunError
from ._content import AttachmentRef
from ._display import describe_result, result_html
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
    "RunWarning",
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
    "dead",
]
"""Status of a run.

``completed``: it returned a value. ``failed``: the script raised an exception. ``rejected``: it was
rejected before a line of it ran. ``timed_out``, ``limit_exceeded``: it exceeded a limit.
``cancelled``: the session was closed. ``crashed``: its process died. ``violation``: the kernel
layer stopped it, or it violated the protocol. ``paused``: it awaits a decision
(`RunResult.pending`) and can be resumed. ``dead``: a worker of the queue started it too often
without reaching its end.
"""

CallStatus: TypeAlias = Literal["succeeded", "failed", "unknown", "not_started"]
"""``unknown``: it was interrupted, so its outcome is unknown. ``not_started``: rejected, or
cancelled before it started."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call of a run, as the host recorded it."""

    seq: int
    """Number of the call in its run, from 1."""
    tool: str
    """Name that the script called; there may be no such tool."""
    status: CallStatus
    """Status of the call."""
    arguments: str
    """JSON of the arguments of the script, truncated to 200 characters."""
    arguments_sha256: str
    """Digest of the arguments' sorted JSON."""
    duration_ms: float
    """Time from the start of the tool to its end."""
    result_bytes: int
    """JSON bytes of the value sent to the script."""
    error_code: str | None = None
    """Code of the `ToolError`, if it failed."""
    error: str | None = None
    """Its message."""
    line: int | None = None
    """Line of the script that made the call, as the worker reported it."""
    parent: str | None = None
    """Call whose tool made this one, as ``3`` or ``3.1``; None if the script did. `seq` then counts
    the calls of that tool."""
    attempts: int = 0
    """Number of attempts; 0 if the tool was never called."""
    cached: bool = False
    """True if the result came from the cache or from an equal call in progress."""
    attachments: tuple[AttachmentRef, ...] = ()
    """Files that the tool stored."""
    exit_code: int | None = None
    """Exit code, if the tool ran a command."""
    started_ms: int = 0
    """Start in milliseconds since 1970; 0 if the tool was never called."""
    usage: ModelUsage | None = None
    """Tokens that the tool spent itself, without those of the calls it made; None: no model was
    used, or the tool does not report it."""
    cost_usd: float | None = None
    """Price of `usage` in US dollars; None if the price of a model is unknown."""
    decided_arguments: str | None = None
    """JSON of the arguments that an approver replaced `arguments` with and the tool received,
    truncated as those; None if nobody edited them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason for the rejection of a script, with its location and a suggested fix."""

    code: str
    message: str
    line: int
    """1-based; 0: the script as a whole."""
    column: int
    """1-based; 0: the line as a whole."""
    hint: str
    excerpt: str
    """The source line with a caret under the column; ``""`` if there is none."""
    advisory: bool = False
    """True if the script may be correct nevertheless."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """Problem that did not stop the run. ``str(warning)`` is one line for a person."""

    code: str
    """A stable word: ``limit_clamped``, ``not_awaited``, ``task_failed``, ``value_truncated``,
    ``stdout_truncated``, ``stderr_truncated``, ``effects_made``, ``earlier_effects``,
    ``effect_not_repeated``, ``not_recorded``, ``on_event_failed`` ..."""
    message: str
    """Description of the problem."""
    path: str = ""
    """Position in a value, e.g. ``result.rows[2]``; ``""`` if it is not about a value."""
    line: int = 0
    """Line of the script, 1-based; 0: unknown, or not about one line."""

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line else ""
        path = f"{self.path}: " if self.path else ""
        return f"{line}{path}{self.message}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason that a run did not complete."""

    code: str
    """A stable word: ``exception``, ``exit``, ``tool_error``, ``not_json``, ``syntax``,
    ``refused``, ``timeout``, ``limit_<name>``, ``memory``, ``recursion``, ``system_call``,
    ``protocol``, ``crash``, ``killed`` (not by the script: its process got SIGKILL) ..."""
    message: str
    """Description of the failure."""
    type: str = ""
    """Name of the exception, if the script raised one."""
    line: int = 0
    """Line of the script, 1-based; 0: unknown. Of a violation: the line of the last call on `ctx`,
    since the worker was killed."""
    column: int = 0
    """Column, 1-based; 0: unknown."""
    excerpt: str = ""
    """The source line with a caret under the column."""
    hint: str = ""
    """Suggested fix."""
    traceback: str = ""
    """Traceback of the script, as Python prints it."""
    tool: str = ""
    """Tool that raised the error."""
    syscall: str = ""
    """System call that caused a ``violation``; ``""`` if the kernel did not report it."""
    findings: tuple[Finding, ...] = ()
    """All reasons for a rejection."""
    breach: Breach | None = None
    """Exceeded limit, its maximum and the amount used; None if no limit was exceeded."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Size and reference of a value that was truncated in `RunResult.value`."""

    bytes: int
    """JSON bytes of the whole value."""
    sha256: str
    """Digest of its JSON."""
    artifact: str
    """Reference to the whole value as JSON, ``sha256:DIGEST``; empty if it could not be stored: see
    the warnings. `Session.artifacts` and ``ptc artifact`` read it. Runs that an earlier version
    recorded have the path of a file."""


@dataclass(frozen=True, slots=True)
class Variables:
    """Local variables of one function of a suspended script."""

    function: str
    line: int
    names: dict[str, str]
    """Name -> `repr`, truncated to 300 characters."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that awaits a decision."""

    call: str
    """``3``, or ``3.1``: the name of the call in a decision."""
    kind: Literal["approval", "unknown"]
    """``approval``: it has not started: approve or reject it. ``unknown``: it was interrupted:
    record its outcome with `settle`."""
    tool: str
    arguments: Any
    """Validated arguments as JSON data, without those that a journal must not store, see
    docs/durability.md."""
    fingerprint: str
    """Digest of the tool and the arguments that a decision applies to."""
    prompt: str = ""
    """Message of the tool's author to the approver."""
    defaults: Any = None
    """Defaults of the tool's author for the decision's form."""
    idempotency_key: str | None = None
    """Key of the call, by which an external service may recognize it; a repeated call has the same
    key."""
    run_id: str = ""
    """Its run."""
    line: int | None = None
    """Line of the script that made the call; None if a tool made it."""
    requested_ms: int = 0
    """Time of the request, in milliseconds since 1970."""
    expires_ms: int | None = None
    """Time at which an approval counts as rejected; None: never."""


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T_co]):
    """Outcome of one run; it holds everything that the run produced, whatever its status.

    ``RunResult[Invoice]`` is the result of a run with ``output_schema=Invoice``.
    """

    run_id: str
    status: Status
    value: Any = None
    """Value that ``run`` returned, as JSON data; truncated if `cut` is set."""
    error: Failure | None = None
    """Reason that it did not complete; None if it did."""
    partial: tuple[Any, ...] = ()
    """Values that the script emitted with ``ctx.emit``, in order."""
    stdout: str = ""
    """Standard output of the script: the last 65,536 characters. The warning ``stdout_truncated``
    has the number of those that were dropped; subscribers receive all text while it is printed."""
    stderr: str = ""
    """Standard error, likewise (``stderr_truncated``): ``print(file=sys.stderr)``, `logging`,
    `warnings`, `traceback.print_exc` and ``ctx.log``."""
    calls: tuple[CallRecord, ...] = ()
    """Every tool call, in order."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    limits: Limits = dataclasses.field(default_factory=Limits)
    """The limits that were in force."""
    warnings: tuple[RunWarning, ...] = ()
    """Problems that did not stop the run."""
    cut: Cut | None = None
    """Set if the value was too large and was truncated."""
    pending: tuple[PendingCall, ...] = ()
    """Calls that await a decision, if the run is ``paused``."""
    attached: tuple[AttachmentRef, ...] = ()
    """Files that the script attached with ``ctx.attach``, in order."""
    progress: dict[str, Any] | None = None
    """Latest report of ``ctx.progress``: ``{"done", "total", "message"}``."""
    frames: tuple[Variables, ...] = ()
    """Functions of the script and their variables, if a replay was stopped."""
    _read: Callable[[Any], T_co] | None = dataclasses.field(default=None, repr=False, compare=False)
    """Turns the value into an instance of `output_schema`, if that was a type."""

    def __repr__(self) -> str:
        return describe_result(self)

    def _repr_html_(self) -> str:
        """Return the display of a notebook."""
        return result_html(self)

    @property
    def ok(self) -> bool:
        """True if the run completed."""
        return self.status == "completed"

    @property
    def attachments(self) -> tuple[AttachmentRef, ...]:
        """Files that its calls stored, in the order of the calls, then those of the script."""
        return (*(ref for call in self.calls for ref in call.attachments), *self.attached)

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
        """Return the whole result as JSON."""
        # Value, partial values and records arrived over the wire, so they are JSON data already.
        return _json.dumps_unchecked(self)


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
    "webhook",
    "finished",
]
"""``progress``, ``tool_output_delta`` (the value so far) and ``log`` are reports of a running tool;
``progress`` without a call was reported by the script with ``ctx.progress``;
a ``log`` without a call was logged by the script with `logging` or ``ctx.log``, and is also in
`RunResult.stderr`. ``webhook``: a notification was delivered, or given up; only the session's
subscriber receives it, since the run may have ended. ``finished`` is the last event of a stream."""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Event of a run, passed to ``on_event``."""

    kind: EventKind
    run_id: str | None
    """None for a direct call of a tool."""
    call: CallRecord | None = None
    """The call, if the event is about one."""
    text: str = ""
    """Text that was printed or logged, of a warning, or of an alarm."""
    value: Any = None
    """Data of the event. ``emitted``: the value. ``warning``: the `RunWarning`.
    ``progress``: ``{"done", "total", "message"}``. ``log`` of a tool: ``{"message", "data"}``.
    ``tool_output_delta``: the value that the tool
    reported, for `generate_object` ``{"object", "attempt", "reset", "final", "pending"}``.
    ``approval_pending``: the `ApprovalRequest`; ``approval_decided``: the `Decision`; both with the
    arguments as recorded. ``violation``: the `Violation`. ``webhook``: the `WebhookDelivery`.
    ``finished``: the `RunResult` or `ToolResult`. Its lists and dicts are copies: a subscriber that
    modifies them changes neither the run nor its record."""
    number: int = 0
    """Of `Session.follow`: position in the record; pass the last one as `after` to continue.
    Otherwise: number of the script's message that caused the event, from 1: text, a value, a
    report, a warning, or a call, whose events all have its number. A resumed run repeats events
    that it may have delivered before, with the same numbers: drop a pair of `revision` and number
    that you have processed, or of these and `call`. 0: not caused by a message, as the start and
    end of a run."""
    revision: int = 1
    """Number of the script: 1, and one more for each that continued the run."""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able data; a `value` without a JSON form is None."""
        value = self.value
        to_dict = getattr(value, "to_dict", None)
        return {
            "kind": self.kind,
            "run_id": self.run_id,
            "number": self.number,
            "revision": self.revision,
            "call": None if self.call is None else dataclasses.asdict(self.call),
            "text": self.text,
            "value": _json.data_of(value if to_dict is None else to_dict()),
        }

    def to_json(self) -> bytes:
        """Return `to_dict` as JSON, for a log or a stream of events."""
        return _json.dumps(self.to_dict())
