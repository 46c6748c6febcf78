"""A run's line in the journal: what it did before, and what it does now.

Rule 1: a call with a side effect begins only when its start is durable.
    tests/core/runs/test_resume.py::test_a_start_that_cannot_be_written_blocks_the_effect
Rule 2: a call whose end is recorded is never made again; one whose end is not known is made again
    only if that is safe, else somebody decides.
    tests/core/runs/test_resume.py::test_what_is_done_with_a_call_whose_end_is_not_known
Rule 3: a script that does not do what it did before is stopped, and told both.
    tests/core/runs/test_resume.py::test_a_script_that_diverges_is_stopped_and_told_both_calls
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import _json
from .._journal._journal import (
    CallEnd,
    CallRow,
    CallStart,
    CallWhole,
    Delivery,
    Journal,
    Lease,
    Pending,
    PendingKind,
    Recorded,
    Spent,
    Tick,
    Verdict,
)
from .._records._result import CallStatus, PendingCall
from .._tools._approval import ApprovalRequest, Decision
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import JournalError, PtcError, ToolError
from ._call import OpenCall, bounded_arguments, idempotency_key
from ._nested import NestedCalls

__all__ = [
    "DivergenceError",
    "ParkedError",
    "Track",
    "error_of",
    "error_row",
    "pending_call",
    "read_outcome",
    "shown_decision",
    "shown_request",
]


_NEVER_MS = 1 << 62
_MOST_WARNINGS = 20


class DivergenceError(PtcError):
    """Raised when a script, run again, does not do what is recorded of it."""


class ParkedError(PtcError):
    """Raised inside the host when a call waits for a decision: it is neither made nor answered."""


class Track:
    """Writes what a run does, and says what is recorded of it."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        recorded: Recorded | None = None,
        *,
        approvals_expire_ms: int | None = None,
    ) -> None:
        """Follow a run.

        Args:
            journal: Where it is written.
            lease: The right to write.
            recorded: What is there already; None: a new run.
            approvals_expire_ms: Age at which a request that nobody decided is a rejection.
        """
        self._journal = journal
        self._lease = lease
        self._expiry = approvals_expire_ms
        rows = recorded.calls if recorded is not None else ()
        self._rows = {row.start.path: row for row in rows}
        self._verdicts = {(v.path, v.kind): v for v in (recorded.verdicts if recorded else ())}
        self._before_now = {(p.path, p.kind): p for p in (recorded.pending if recorded else ())}
        self.nested: NestedCalls = NestedCalls(recorded)
        """The calls that tools make."""
        self.deliveries: deque[Delivery] = deque(recorded.deliveries if recorded else ())
        """What the worker was sent and has not been sent again yet."""
        self.elapsed: float = max((d.elapsed for d in self.deliveries), default=0.0)
        """Where the script's clock stood."""
        self.effects: bool = any(row.start.side_effect for row in rows)
        """True if the run had a side effect."""
        self._ended = False
        self.pending: list[Pending] = []
        """Calls that wait for a decision."""
        self.warnings: list[str] = []
        """Recorded effects that a tool did not repeat when it was started again."""

    # --- what was ---------------------------------------------------------------------------

    def row(self, call: OpenCall) -> CallRow | None:
        """What is recorded of a call of the script; None if it is a new one.

        Raises:
            DivergenceError: If another call is recorded in its place.
        """
        row = self._rows.get(call.path)
        if row is None:
            return None
        arguments = bounded_arguments(call)
        if row.start.tool != call.call.name or row.start.arguments != arguments:
            msg = (
                f"call {call.path} was {row.start.tool}({_shown(row.start.arguments)}) and now is "
                f"{call.call.name}({_shown(arguments)})"
            )
            if call.call.line:
                msg += f", line {call.call.line}"
            raise DivergenceError(msg)
        end = row.end
        if end is not None and end.status == "unknown" and end.elapsed is None:
            return CallRow(row.start, None)
        return row

    def known(self, call: OpenCall) -> CallEnd | None:
        """Return the recorded outcome of this call; None if it has to be made.

        Raises:
            DivergenceError: If another call is recorded in its place.
        """
        row = self._before(call)
        if row is None or row.end is None or row.end.status == "not_started":
            return None
        call.status, call.attempt, call.known = row.end.status, row.start.attempt, True
        call.making = row.start.making
        return row.end

    def cached_results(self) -> list[CallRow]:
        """List the executions that made a cached result, the newest of each result last."""
        made = [r for r in self._rows.values() if r.start.making and r.end is not None and r.end.ok]
        return sorted(made, key=lambda row: int(row.start.making.partition(" ")[2]))

    def verdict(self, call: OpenCall, kind: PendingKind) -> Verdict | None:
        """What was decided of a call; None if nothing was, or it was about other arguments."""
        found = self._verdicts.get((call.path, kind))
        asked = self._before_now.get((call.path, kind))
        if found is None or asked is None or asked.fingerprint != call.fingerprint():
            return None
        return found

    # --- what is ----------------------------------------------------------------------------

    async def begin(self, tool: Tool, call: OpenCall) -> ToolResult | None:
        """Note that a call is about to begin; in its place the outcome that somebody decided.

        Raises:
            ParkedError: If its end is not known and nobody has decided.
            ToolError: ``journal`` if it cannot be written: then the effect must not happen.
        """
        row = self._before(call)
        if row is not None and row.start.side_effect and not _is_unstarted(row):
            call.attempt = row.start.attempt
            call.keep_key(row.start.key)
            if not tool.repeatable:
                decided = self._decided_of_unknown(tool, call)
                if decided is not None:
                    return decided
        if not tool.side_effect:
            if self._journal.behind:
                # What scripts are given faster than it can be written would fill the memory. That
                # it cannot be written is told where the run ends.
                with contextlib.suppress(JournalError):
                    await self._journal.barrier(self._lease)
            return None
        if idempotency_key(call) is None:
            msg = f"{tool.name} was not called: its arguments, or those of a tool that led to it, "
            msg += "have no JSON form, so after a failure it could not be recognized"
            raise ToolError(msg, code="not_json", tool=tool.name)
        self.effects = call.noted = True
        start = self._start(call, call.attempt + 1)
        if call.parent is not None:
            self.nested.start(start, repeatable=tool.repeatable)
        self._journal.append(self._lease, start)
        try:
            await self._journal.barrier(self._lease)
        except JournalError as error:
            msg = f"{tool.name} was not called: {error}"
            raise ToolError(msg, code="journal", tool=tool.name) from error
        return None

    def note_caller(self, call: OpenCall) -> None:
        """Record the start of a calling call before the first of its nested calls.

        So no nested row stands without the rows of its callers, and on resume a caller keeps its
        path.
        """
        if not call.noted:
            call.noted = True
            self._journal.append(self._lease, self._start(call, call.attempt))

    def _before(self, call: OpenCall) -> CallRow | None:
        """Return what is recorded of this very call."""
        if call.parent is not None:
            return self.nested.find(call.path)
        return self.row(call) if self._rows else None

    def _decided_of_unknown(self, tool: Tool, call: OpenCall) -> ToolResult | None:
        verdict = self.verdict(call, "unknown")
        if verdict is None:
            call.status = "unknown"
            if not call.may_park:
                call.known = True  # its record stands
                msg = f"{tool.name} began before and its end is not known"
                raise ToolError(msg, code="unknown_outcome", tool=tool.name)
            self.park(call, "unknown", {"arguments": _json.loads(bounded_arguments(call))})
            msg = f"{tool.name} began and its end is not known; decide what became of it"
            raise ParkedError(msg)
        if verdict.action == "again":
            # It is about this once: if that is cut off, too, somebody is asked again.
            self._verdicts.pop((call.path, "unknown"))
            self._journal.append(self._lease, Spent(call.path, call.attempt))
            return None
        call.known = True
        if verdict.action == "done":
            return ToolResult(tool.name, value=_json.loads(verdict.value))
        why = verdict.comment or "it did not succeed"
        raise ToolError(f"{tool.name} failed: {why}", code="failed", tool=tool.name)

    def ended(
        self, call: OpenCall, status: CallStatus, ok: bool, body: bytes, elapsed: float | None
    ) -> None:
        """Note what came of a call, and when the script was given it."""
        if call.started and self.nested.recorded:
            self._warn_of_unclaimed(call)
        end = CallEnd(call.path, status, ok, body, _now_ms(), elapsed)
        if call.parent is not None and self._end_nested(call, end):
            return
        if call.side_effect and call.started:
            self._journal.append(self._lease, end)
        else:
            self._journal.append(self._lease, CallWhole(self._start(call, call.attempt), end))

    def _warn_of_unclaimed(self, call: OpenCall) -> None:
        """Warn of recorded effects that a tool did not repeat after it was started again."""
        for row in self.nested.take_unclaimed(call.path)[: _MOST_WARNINGS - len(self.warnings)]:
            self.warnings.append(
                f"{call.call.name} (call {call.path}) was started again and did not repeat its "
                f"call {row.start.path} of {row.start.tool}, which is recorded as made; check "
                "whether it made another in its place. A tool that calls tools has to make the "
                "same calls when it is started again"
            )

    def _end_nested(self, call: OpenCall, end: CallEnd) -> bool:
        """Note the end of a nested call; True if its record must not be changed."""
        row = self.nested.find(call.path)
        if not call.known or row is None:
            self.nested.end(end, repeatable=call.repeatable)
            return False
        if row.end is not None:
            self.nested.serve(call.path, repeatable=call.repeatable)
            return True
        if end.status == "unknown":
            return True
        self.nested.end(end, repeatable=call.repeatable)
        return False

    def tick(self, elapsed: float) -> None:
        """Note that the script was told the time."""
        self._journal.append(self._lease, Tick(elapsed))

    def park(self, call: OpenCall, kind: PendingKind, details: Mapping[str, Any]) -> None:
        """Note that a call waits for a decision."""
        body = _json.dumps({**details, "key": idempotency_key(call)}, what="pending")
        pending = Pending(call.path, kind, call.call.name, call.fingerprint(), body, _now_ms())
        self.pending.append(pending)
        if call.parent is not None:
            self.nested.suspend(call.path)
        self._journal.append(self._lease, pending)

    def decided(self, call: OpenCall, request: ApprovalRequest, decision: Decision) -> None:
        """Note what an approver of this process decided of a gated call.

        Other arguments that may not be recorded whole are not: then he is asked again on resume.
        """
        edited = None if decision.arguments is None else dict(decision.arguments)
        if edited is not None and bounded_arguments(call, edited) != _json.dumps(
            edited, what="edited arguments", sort_keys=True
        ):
            return
        details = {**_asked(call, request), "key": idempotency_key(call)}
        path, name, at_ms = call.path, call.call.name, _now_ms()
        body = _json.dumps(details, what="pending")
        asked = Pending(path, "approval", name, call.fingerprint(), body, at_ms)
        verdict = Verdict(
            path=path,
            kind="approval",
            action="approve" if decision.approved else "reject",
            value=_json.dumps(edited, what="edited arguments"),
            by=decision.by,
            comment=decision.comment,
            at_ms=at_ms,
        )
        self._journal.append(self._lease, asked)
        self._journal.append(self._lease, verdict)

    def approval(self, call: OpenCall, request: ApprovalRequest) -> Decision:
        """What was decided of a gated call.

        Raises:
            ParkedError: If nothing was: the call waits.
        """
        verdict = self.verdict(call, "approval")
        asked = self._before_now.get((call.path, "approval"))
        expired = asked is not None and _now_ms() - asked.at_ms > (self._expiry or _NEVER_MS)
        if verdict is None and expired:
            return Decision(False, comment="the request expired")
        if verdict is None:
            self.park(call, "approval", _asked(call, request))
            msg = f"{call.call.name} waits for an approval"
            raise ParkedError(msg)
        edited = _json.loads(verdict.value)
        return Decision(
            verdict.action == "approve",
            arguments=edited if verdict.action == "approve" else None,
            by=verdict.by,
            comment=verdict.comment,
        )

    async def end(self, status: str, result: bytes) -> None:
        """Note how the run ended; durable if it had an effect, or waits for somebody.

        Raises:
            JournalError: If it cannot be written, as far as that is known.
        """
        self._ended = True
        self._journal.end(self._lease, status, result, _now_ms())
        if self.effects or status == "paused" or self._journal.behind:
            await self._journal.barrier(self._lease)
        else:
            self._journal.check(self._lease)

    def release(self) -> None:
        """Nobody drives the run any more. Nothing happens if it has ended."""
        if not self._ended:
            self._journal.release(self._lease)

    def _start(self, call: OpenCall, attempt: int) -> CallStart:
        # A call of the script is recognized by its path; most need no key.
        key = idempotency_key(call) if call.side_effect or call.parent is not None else None
        return CallStart(
            path=call.path,
            tool=call.call.name,
            arguments=bounded_arguments(call),
            key=key or "",
            side_effect=call.side_effect,
            line=call.call.line,
            attempt=attempt,
            at_ms=_now_ms(),
            making=call.making,
        )


def _is_unstarted(row: CallRow) -> bool:
    return row.end is not None and row.end.status == "not_started"


def _asked(call: OpenCall, request: ApprovalRequest) -> dict[str, Any]:
    return {
        "arguments": _json.loads(bounded_arguments(call, request.arguments)),
        "prompt": _shown_prompt(call, request),
        "defaults": dict(request.defaults),
    }


def _shown_prompt(call: OpenCall, request: ApprovalRequest) -> str:
    """The author's words, which may be made of the arguments, without a secret."""
    return call.redactor.text(request.prompt) if call.redactor else request.prompt


def shown_request(call: OpenCall, request: ApprovalRequest) -> ApprovalRequest:
    """`request` as those may see it who watch and do not decide: no secret, no content."""
    arguments = _json.loads(bounded_arguments(call, request.arguments))
    return replace(request, arguments=arguments, prompt=_shown_prompt(call, request))


def shown_decision(call: OpenCall, decision: Decision) -> Decision:
    """The same of `decision`."""
    if not isinstance(decision.arguments, Mapping):
        # Other arguments that are none are refused in a moment.
        return replace(decision, arguments=None)
    arguments = _json.loads(bounded_arguments(call, decision.arguments))
    return replace(decision, arguments=arguments)


def _shown(arguments: bytes) -> str:
    text = arguments.decode(errors="replace")
    return text if len(text) <= 200 else text[:199] + "…"


def read_outcome(tool: str, end: CallEnd) -> ToolResult:
    """Return a recorded value as data. Raises the `ToolError` if the call failed."""
    _, _, value = _json.loads(end.body)
    if end.ok:
        return ToolResult(tool, value=value)
    raise error_of(value, tool)


def error_row(error: ToolError) -> dict[str, Any]:
    """A tool's failure as the script is told it, and as it is recorded.

    Whatever a tool says, something can be said: it is cut, and made text where it is none.
    """
    details: Any = error.details
    try:
        size = len(_json.dumps(details, what="details"))
        if size > _DETAILS_BYTES:
            details = {"left_out": f"details has {size:,} bytes, over {_DETAILS_BYTES:,}"}
    except _json.JsonError as refused:
        details = {"left_out": _json.plain_text(refused, _MESSAGE_CHARS)}
    return {
        "message": _json.plain_text(error.message, _MESSAGE_CHARS),
        "code": _json.plain_text(error.code, _CODE_CHARS),
        "tool": error.tool,
        "retryable": bool(error.retryable),
        "details": details,
    }


_MESSAGE_CHARS = 65_536
_CODE_CHARS = 256
_DETAILS_BYTES = 1 << 20
"""JSON bytes of the details of one error."""


def error_of(row: Mapping[str, Any], tool: str) -> ToolError:
    """`error_row` read back."""
    return ToolError(
        row["message"],
        code=row["code"],
        tool=row.get("tool") or tool,
        retryable=row["retryable"],
        details=row["details"],
    )


def pending_call(row: Pending) -> PendingCall:
    """A recorded `Pending` as it is told."""
    details = _json.loads(row.details)
    return PendingCall(
        call=row.path,
        kind=row.kind,
        tool=row.tool,
        arguments=details.get("arguments"),
        fingerprint=row.fingerprint,
        idempotency_key=details.get("key"),
        prompt=details.get("prompt", ""),
        defaults=details.get("defaults"),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
