"""A tool call that is being executed: its request, its state, and its record."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple, get_args

from .._core import _json
from .._core._clock import now_ms
from .._dataclass import dataclass
from .._facts import ModelUsage
from .._records._content import AttachmentRef
from .._records._result import CallRecord, CallStatus
from .._schema._check import Arguments
from .._schema._copy import copy_data, is_flat
from .._tools._reach import Reach
from .._tools._tool import Tool, ToolCall
from .._tools._tool_result import ToolResult
from .._tools._untrusted import UntrustedMode
from ..errors import ToolError
from ..journal._journal import CallEnd, CallRow
from ._occurrences import Occurrence, Occurrences
from ._record_filter import RecordFilter
from ._usage_record import decode_usage

__all__ = ["CallOutcome", "OpenCall"]

_NO_FILTER = RecordFilter()
_CACHED_BYTES = 1_024
"""JSON of arguments that is cached until the end of the run; longer JSON is encoded again."""
_DIGEST_CHARS = 64


class CallOutcome(NamedTuple):
    """Outcome of a call as far as it is known. Only `OpenCall` replaces it.

    A tuple: two replacements of a frozen dataclass take 4 us, a whole direct call 14.
    """

    status: CallStatus = "not_started"
    error: ToolError | None = None
    reply: ToolResult | None = None
    """Result that the function returned, if it was more than a value."""
    cached: bool = False
    """True if the result came from the cache, or from an equal call that ran at the same time."""
    recorded: bool = False
    """True if it was recorded before, or decided."""


_STATUS_ONLY = {status: CallOutcome(status) for status in get_args(CallStatus)}
"""Outcomes with a status and nothing else, as most calls have. Shared, since they are immutable."""


@dataclass(slots=True)
class OpenCall:
    """A call that is being executed: a request, completed and resolved by the host.

    Rule 1: the arguments belong to the call. Those of the request, a copy of the caller's, are
        recorded; the validated ones are approved, cached and executed. Code of a tool or an
        application, such as a validator, a predicate or an approver, receives copies, which it may
        modify or store.
        tests/core/calls/test_arguments.py::test_callback_that_modifies_arguments_changes_neither_call_nor_record
    """

    # The request. Never set again, except by `release`.
    call: ToolCall
    parent: OpenCall | None = None
    """Call of the tool that made this one; None for a call of the script or the application."""
    reach: Reach | None = None
    """Tools for this call and the calls below it; None: those of its pipeline."""
    weight: int = 0
    """Approximate memory of the arguments in bytes; 0: not counted."""
    oversized: ToolError | None = None
    """Error of arguments that were over a limit and were dropped; None: they are complete."""

    # Set by admission.
    admitted: bool = False
    """True once it was looked up, validated and identified."""
    refusal: ToolError | None = None
    """Error that ends the call before it is executed; None: it is executed."""
    siblings: Occurrences | None = None
    """Calls among which equal ones are numbered; None: it has no number."""
    tool: Tool | None = None
    """The tool, once it was looked up; None if the look-up failed."""
    side_effect: bool = False
    repeatable: bool = True
    """True if the host may repeat it."""
    arguments: Any = None
    """Validated arguments; see `copy_arguments`. None before validation."""
    digest: str = ""
    """Digest of tool and validated arguments."""
    occurrence: Occurrence | None = None
    """Number among equal calls of its caller; None: it has none."""

    approved: bool = False
    """True if it required approval and was approved."""
    decided: str | None = None
    """Arguments of its approver that it is made with, as a record shows them; None: its own."""

    # Progress.
    attempt: int = 0
    """Number of the last attempt; 0: none was made."""
    started: float = 0.0
    started_ms: int = 0
    """The same in milliseconds since 1970."""
    ended: float = 0.0
    function_called: bool = True
    """False if the last attempt was cancelled before a thread could call its function."""
    interrupted: bool = False
    """True if a time-out or a cancellation stopped it: its effect may have happened."""
    suspended: bool = False
    """True if a call that its tool made waits for a decision: its own outcome is discarded."""
    children: int = 0
    """Calls that its tool has made."""
    attempt_calls: Occurrences | None = None
    """Calls that its tool has made in this attempt: equal ones of the next are the same calls."""
    untrusted: UntrustedMode | None = None
    """Treatment of the texts of untrusted tools that its tool has called."""
    attached: list[AttachmentRef] = field(default_factory=list)
    """Files that its tool has stored so far."""
    start_row: CallRow | None = None
    """Its start as it is recorded."""
    reused_end: CallEnd | None = None
    """Its outcome as an earlier host, or an earlier revision of the script, recorded it."""
    usage: ModelUsage | None = None
    """Tokens that its attempts spent, without those of the calls that its tool made."""
    cost_usd: float | None = None
    """Price of `usage`; None if it is unknown."""
    charged: bool = False
    """True once it was charged to the budget."""
    awaited: str = ""
    """Digest of the cached result that it makes or waits for."""
    making: str = ""
    """Identity of the cached result that it makes. See `NestedCalls.current_making`."""
    effects: dict[Any, ToolResult | None] = field(default_factory=dict)
    """Results of a direct call's nested effects that must not be repeated, by `chain`; None for an
    unknown outcome. A run has its record instead."""
    completing: ToolResult | None = None
    """Result of its function while its attachments are sent and the hook runs; else None."""
    outcome: CallOutcome = _STATUS_ONLY["not_started"]
    result_bytes: int = 0
    """JSON bytes of the value that the script received."""

    record_filter: RecordFilter = _NO_FILTER
    """Redaction of its records."""
    _preview: tuple[str, str] | None = field(default=None, repr=False)
    _encoded: bytes | None = field(default=None, repr=False)
    _path: str = field(default="", repr=False)
    _identity: str | None = field(default="", repr=False)
    _key: str = field(default="", repr=False)

    # --- transitions ------------------------------------------------------------------------

    def assign(self, tool: Tool) -> None:
        """Set the tool that was looked up."""
        self.tool, self.side_effect, self.repeatable = tool, tool.side_effect, tool.repeatable

    def validate(self, tool: Tool) -> None:
        """Validate the arguments of the request. Raises the `ToolError` of invalid ones."""
        sent = self.call.arguments
        self.arguments = tool.validate(sent if is_flat(sent) else copy_data(sent))

    def replace_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Use an approver's arguments instead. The identity does not change.

        Raises:
            ToolError: If they are invalid.
        """
        self.identity()
        self.arguments, self.digest = tool.validate(copy_data(arguments)), ""

    def copy_arguments(self) -> Arguments:
        """Return a copy of the validated arguments, for code that may modify them."""
        if is_flat(self.arguments):
            return self.arguments.copy()
        if self.siblings is not None:
            # An object that cannot be copied is shared.
            self.identity()
        return copy_data(self.arguments)

    def note_edit(self, arguments: Mapping[str, Any]) -> None:
        """Note for the record that an approver decided on these arguments, if they differ."""
        encode = partial(self.record_filter.encode, arguments)
        text, digest = self.record_filter.preview(arguments, encode)
        if digest != self.preview()[1]:
            self.decided = text

    def start(self) -> None:
        """Start the first attempt of this host. Until the call ends, its outcome is unknown."""
        self._set_status("unknown")
        self.started, self.started_ms = time.perf_counter(), now_ms()

    def interrupt(self) -> None:
        """Note that the call was stopped after it had started."""
        self.interrupted = True

    def take_reply(self, reply: ToolResult) -> None:
        """Set the result that the function returned."""
        self._update(reply=reply)

    def take_cached(self, result: ToolResult) -> None:
        """Set a result from the cache."""
        self._update(cached=True, reply=result if result.tool else self.outcome.reply)

    def take_recorded(self, row: CallRow | None = None) -> None:
        """Adopt an outcome that was recorded before, or decided.

        Args:
            row: The call's record; None if the outcome was decided or is in memory.
        """
        self._update(recorded=True)
        if row is not None and row.end is not None:
            self._update(status=row.end.status)
            self.attempt, self.making = row.attempt, row.making
            self._take_times(row._replace(path=self.path, line=self.call.line), row.end)

    def leave_unknown(self) -> None:
        """Note that the call started under an earlier host, and its outcome is unknown."""
        self._set_status("unknown")

    def succeed(self) -> None:
        """Finish with a result."""
        self._set_status("succeeded")
        self.stop_clock()

    def fail(self, error: ToolError) -> None:
        """Finish with an error.

        A recorded outcome keeps its status, and so does an interrupted call: it is unknown.
        """
        status = self.outcome.status
        if self.outcome.recorded:
            status = "failed" if status == "not_started" else status
        elif not self.interrupted:
            status = "failed" if self.started else "not_started"
        self._update(status=status, error=error)

    def withdraw(self) -> None:
        """Finish a call that was cancelled before its function was called."""
        self._set_status("not_started")

    def reopen(self) -> None:
        """Prepare to execute a call that was suspended by this host."""
        self._set_status("not_started")
        self.suspended, self.started, self.ended = False, 0.0, 0.0

    def restore(self, row: CallRow, error: ToolError | None) -> None:
        """Adopt the record of a call that this host does not execute."""
        self.path, self.side_effect, self.attempt = row.path, row.side_effect, row.attempt
        self._update(status="unknown" if row.end is None else row.end.status, error=error)
        self._take_times(row, row.end)

    def _take_times(self, start: CallRow, end: CallEnd | None) -> None:
        """Adopt the recorded start, end and usage."""
        self.start_row, self.reused_end = start._replace(end=None), end
        if end is not None and end.usage:
            self.usage, self.cost_usd = decode_usage(end.usage)

    def add_usage(self, usage: ModelUsage, cost_usd: float | None = None) -> None:
        """Add tokens that an attempt spent, and their price, None if that is unknown."""
        if self.usage is None:
            self.usage, self.cost_usd = usage, cost_usd
            return
        self.usage += usage
        # A sum without one price is not the cost.
        is_known = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (cost_usd or 0.0) if is_known else None

    def fail_delivery(self, error: ToolError) -> None:
        """Note that the script receives `error` instead of the result."""
        self._update(error=error)

    def stop_clock(self) -> None:
        """Note the end of the last attempt."""
        if self.started and not self.ended:
            self.ended = time.perf_counter()

    def _set_status(self, status: CallStatus) -> None:
        if self.outcome is _STATUS_ONLY[self.outcome.status]:
            self.outcome = _STATUS_ONLY[status]
        else:
            self._update(status=status)

    def _update(self, **changes: Any) -> None:
        self.outcome = self.outcome._replace(**changes)

    # --- identity ---------------------------------------------------------------------------

    def callers(self) -> Iterator[OpenCall]:
        """Iterate over the calls that led to this one, the nearest first."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    @property
    def position(self) -> tuple[int, ...]:
        """``(3,)``, or ``(3, 1)`` for the first call that the tool of call 3 made."""
        return tuple(map(int, self.path.split(".")))

    @property
    def path(self) -> str:
        """`position` as text: ``3.1``."""
        if not self._path:
            self._path = str(self.call.seq)
        return self._path

    @path.setter
    def path(self, path: str) -> None:
        self._path = path

    @property
    def seq(self) -> int:
        """Number of the call among those of its caller."""
        return int(self.path.rpartition(".")[2])

    @property
    def was_called(self) -> bool:
        """True if its function was called in the last attempt, or interrupted in an earlier one."""
        return self.interrupted or (self.started > 0 and self.function_called)

    @property
    def may_suspend(self) -> bool:
        """True if it may be suspended for days: the tools that led to it can be started again."""
        return all(above.repeatable for above in self.callers())

    @property
    def id(self) -> str:
        """Unique in the session."""
        return f"{self.call.run_id or 'direct'}.{self.path}"

    # --- record -----------------------------------------------------------------------------

    def record(self) -> CallRecord:
        """Return the call as a frozen record."""
        arguments, digest = self.preview()
        outcome, error = self.outcome, self.outcome.error
        started_ms, duration_ms = self._times()
        above, _, seq = self.path.rpartition(".")
        return CallRecord(
            seq=int(seq),
            tool=self.call.name,
            status=outcome.status,
            arguments=arguments,
            arguments_sha256=digest,
            duration_ms=duration_ms,
            result_bytes=self.result_bytes,
            error_code=error.code if error else None,
            error=_json.plain_text(error.message, 2_000) if error else None,
            line=self.call.line,
            parent=above or None,
            attempts=self.attempt,
            cached=outcome.cached,
            attachments=self._list_attachments(),
            exit_code=outcome.reply.exit_code if outcome.reply else None,
            started_ms=started_ms,
            usage=self.usage,
            cost_usd=self.cost_usd,
            decided_arguments=self.decided,
        )

    def _times(self) -> tuple[int, float]:
        """Return the start in milliseconds since 1970 and the duration, as far as they are known.

        An outcome that was recorded before keeps its times.
        """
        row, end = self.start_row, self.reused_end
        if self.started:
            duration = (self.ended or time.perf_counter()) - self.started
            return self.started_ms, round(duration * 1000, 3)
        if row is None or not self.attempt:
            return 0, 0.0
        return row.at_ms, 0.0 if end is None else float(max(end.at_ms - row.at_ms, 0))

    def _list_attachments(self) -> tuple[AttachmentRef, ...]:
        reply = self.outcome.reply
        found = reply.attachments if reply else tuple(self.attached)
        return tuple(ref for ref in found if isinstance(ref, AttachmentRef)) if found else ()

    def encode_arguments(self) -> bytes:
        """Encode the redacted arguments as sorted JSON.

        Raises:
            JsonError: If an argument has no JSON form.
        """
        if self._encoded is not None:
            return self._encoded
        data = self.record_filter.encode(self.call.arguments)
        if len(data) <= _CACHED_BYTES:
            # A copy: orjson returns a few bytes in a block of 4 KiB, for maybe 50,000 calls.
            self._encoded = data = b"%b" % data
        return data

    def preview(self) -> tuple[str, str]:
        """Return the arguments as shown in a record, and their digest; computed once."""
        if self._preview is None:
            self._preview = self.record_filter.preview(self.call.arguments, self.encode_arguments)
        return self._preview

    def release(self) -> None:
        """Free the arguments. Texts and digests derived from them are computed first."""
        self.preview()
        if self.siblings is not None:
            self.identity()
        self.call, self.arguments = self.call._replace(arguments={}), None

    def fingerprint(self) -> str:
        """Return the digest of tool and validated arguments, 64 hex digits."""
        if not self.digest:
            self.digest = _json.sha256_of([self.call.name, self.arguments])
        return self.digest

    def identity(self) -> str | None:
        """Return the digest of tool and original arguments; None if they have no JSON form.

        The digest uses the validated arguments. For a nested call it uses those that the calling
        tool sent, which an upgrade of the called tool does not change. It is computed before an
        approver may replace the arguments.
        """
        if self._identity == "":
            data = self._encode_identity()
            self._identity = None if data is None else hashlib.sha256(data).hexdigest()
        return self._identity

    def _encode_identity(self) -> bytes | None:
        """Return the text whose digest is the identity."""
        sources = (self.arguments, self.call.arguments)
        for arguments in sources if self.parent is None else reversed(sources):
            if arguments is not None:
                with suppress(_json.JsonError):
                    return _json.dumps([self.call.name, arguments], sort_keys=True)
        return None

    def compact_identity(self) -> bytes | str:
        """Return the identity, or the text whose digest it is, if that takes less memory."""
        if self._identity == "":
            data = self._encode_identity()
            if data is not None and len(data) <= _DIGEST_CHARS:
                return data
        return self.identity() or ""

    def chain(self) -> tuple[Any, ...]:
        """Return the identity of a nested call within its direct call."""
        if self.parent is None or self.siblings is None:
            return ()
        return (*self.parent.chain(), self.identity(), self.siblings.number(self))

    def key(self) -> str | None:
        """Return the idempotency key of the logical call, computed once.

        It depends on run, calling execution, tool, arguments and number among equal calls, but not
        on other calls, retries, or hosts. None for a direct call without a key of its caller, and
        if the arguments of the call or of a caller have no JSON form.
        """
        if not self._key:
            self._key = _compute_key(self) or ""
        return self._key or None

    def adopt_key(self, key: str) -> None:
        """Use the key that an earlier host computed for this call."""
        self._key = key


def _compute_key(call: OpenCall) -> str | None:
    run_id = call.call.run_id
    if call.call.key is not None or run_id is None or call.siblings is None:
        return call.call.key
    identity = call.identity()
    if identity is None:
        return None
    run_id, above = call.siblings.key_run or run_id, None
    if call.parent is not None:
        # Calls made for a cached result belong to the result, not to its first caller.
        making = call.parent.making
        above = _json.sha256_of([run_id, "making", making]) if making else call.parent.key()
        if above is None:
            return None
    return _json.sha256_of([run_id, above, identity, call.siblings.number(call)])
