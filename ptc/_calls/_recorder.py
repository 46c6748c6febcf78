"""Recorder of a run: its earlier record, and what it adds to the journal.

Rule 1: a call with a side effect starts only when its start is durable.
    tests/core/runs/test_resume.py::test_effect_is_blocked_if_its_start_cannot_be_recorded
Rule 2: a call with a recorded outcome is never repeated; one with an unknown outcome is repeated
    only if that is safe, else somebody decides.
    tests/core/runs/test_resume.py::test_recorded_decision_about_an_interrupted_call_is_used_on_resume
Rule 3: a script that diverges from its record is stopped, and the error has both calls.
    tests/core/runs/test_resume.py::test_diverging_script_is_stopped_and_both_calls_are_reported
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any

from .._core import _json
from .._core._clock import now_ms
from .._records._result import CallStatus, PendingCall, RunWarning
from .._tools._approval import ApprovalRequest, Decision
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import JournalError, PtcError, ToolError
from ..journal._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Delivery,
    EventCount,
    EventRow,
    Journal,
    PendingKind,
    PendingRow,
    RunRecord,
    Tick,
    UsedDecision,
)
from ..journal._lease import Lease
from ._call import OpenCall
from ._earlier import EarlierCalls
from ._nested import NestedCalls
from ._partial_log import PartialLog
from ._rows import encode_arguments, pending_call, request_details
from ._usage_record import encode_usage

__all__ = ["DivergenceError", "RunRecorder", "SuspendedError"]


_MAX_WARNINGS = 20


class DivergenceError(PtcError):
    """Raised when a script that is run again diverges from its record."""


class SuspendedError(PtcError):
    """Raised inside the host when a call is suspended until a decision: it has no outcome."""


class RunRecorder:
    """Record of a run: looks up earlier calls, and records those of this host."""

    def __init__(
        self,
        journal: Journal,
        lease: Lease,
        recorded: RunRecord | None = None,
        *,
        approvals_expire_ms: int | None = None,
        earlier: EarlierCalls | None = None,
    ) -> None:
        """Load the record of a run.

        Args:
            journal: Journal of the run.
            lease: Exclusive right to record the run.
            recorded: Earlier record; None: a new run.
            approvals_expire_ms: Age at which a new request for approval expires.
            earlier: Calls of earlier revisions of the script. None: there were none.
        """
        self._journal = journal
        self._lease = lease
        self._expiry = approvals_expire_ms
        self._run_id = lease.run_id
        rows = recorded.calls if recorded is not None else ()
        self._rows = {row.path: row for row in rows}
        self._decisions = {(v.path, v.kind): v for v in (recorded.decisions if recorded else ())}
        self._pending_before = {(p.path, p.kind): p for p in (recorded.pending if recorded else ())}
        self.earlier: EarlierCalls | None = earlier
        """Calls of earlier revisions of the script; None: there were none."""
        if earlier is not None:
            earlier.claim(rows)
        self.nested: NestedCalls = NestedCalls(recorded, earlier)
        """The calls that tools make."""
        self.deliveries: deque[Delivery] = deque(recorded.deliveries if recorded else ())
        """Recorded messages to the worker that have not been replayed yet."""
        self.elapsed: float = max((d.elapsed for d in self.deliveries), default=0.0)
        """Time of the script's clock, in seconds."""
        self.effects: bool = any(row.side_effect for row in rows)
        """True if the run had a side effect."""
        self.events: EventCount = recorded.events if recorded else EventCount()
        """Recorded output of the script."""
        self._ended = self._interrupted = False
        self.partials: PartialLog = PartialLog(self._record_partial)
        """Partial values of running calls."""
        self.pending: list[PendingRow] = []
        """Calls that this host has suspended until a decision."""
        self.warnings: list[RunWarning] = []
        """Warnings of recorded effects that a tool did not repeat when it was started again."""

    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Return the calls that this host has suspended until a decision."""
        return tuple(pending_call(row, self._run_id) for row in self.pending)

    def all_warnings(self) -> list[RunWarning]:
        """Return the warnings of effects that were not repeated, by tools or by the script."""
        waits = bool(self.pending) or self.earlier is None
        return [*self.warnings, *(() if waits or self.earlier is None else self.earlier.warnings())]

    # --- replay -----------------------------------------------------------------------------

    def row(self, call: OpenCall) -> CallRow | None:
        """Return the record of a call of the script; None if it is a new call.

        Raises:
            DivergenceError: If another call is recorded at its position.
        """
        row = self._rows.get(call.path)
        if row is None:
            return None
        arguments = encode_arguments(call)
        if row.tool != call.call.name or row.arguments != arguments:
            msg = (
                f"call {call.path} was {row.tool}({_truncate(row.arguments)}) and now "
                f"is {call.call.name}({_truncate(arguments)})"
            )
            if call.call.line:
                msg += f", line {call.call.line}"
            raise DivergenceError(msg)
        end = row.end
        if end is not None and end.status == "unknown" and end.elapsed is None:
            return row._replace(end=None)
        return row

    def find_outcome(self, call: OpenCall) -> CallEnd | None:
        """Return the recorded outcome of this call; None if it has to be made.

        Raises:
            DivergenceError: If another call is recorded at its position.
        """
        row = self._find(call)
        if row is None or row.end is None or row.end.status == "not_started":
            return None
        call.take_recorded(row)
        self.note_edit(call)
        if self.earlier is not None:
            self._take_earlier(self.earlier, call, row)
        return row.end

    def _take_earlier(self, earlier: EarlierCalls, call: OpenCall, row: CallRow) -> None:
        """Copy the record of a call of an earlier revision, with the calls below it."""
        own = self._rows.get(call.path)
        if call.parent is None:
            is_earlier = own is None or _is_unstarted(own)
        else:
            is_earlier = call.path in self.nested.adopted
        if not is_earlier or row.end is None:
            return
        for below in earlier.below(call.path):
            self.nested.add_below(below)
            self._journal.append(self._lease, below)

    def hold_new_effect(self, earlier: EarlierCalls, call: OpenCall) -> None:
        """Suspend a new effect while the script has not made all effects of earlier revisions.

        Raises:
            SuspendedError: If it has to wait.
        """
        if not call.side_effect:
            return
        row = self._find(call)
        if row is not None and not _is_unstarted(row):
            return
        # A call within an effect that has started is a part of it.
        if call.may_suspend and not earlier.allows_new:
            earlier.held.append(call.path)
            if call.parent is not None:
                self.nested.note_suspension(call.path)
            msg = f"{call.call.name} waits for the effects that are recorded"
            raise SuspendedError(msg)
        earlier.note_new_effect()

    def cached_results(self) -> list[CallRow]:
        """List the executions that made a cached result, the newest of each result last."""
        made = [r for r in self._rows.values() if r.making and r.end is not None and r.end.ok]
        return sorted(made, key=lambda row: int(row.making.partition(" ")[2]))

    def find_decision(self, call: OpenCall, kind: PendingKind) -> DecisionRow | None:
        """Return the recorded decision on a call; None if there is none for these arguments."""
        if not self._decisions:
            return None
        found = self._decisions.get((call.path, kind))
        pending = self._pending_before.get((call.path, kind))
        if found is None or pending is None or pending.fingerprint != call.fingerprint():
            return None
        return found

    def note_edit(self, call: OpenCall) -> None:
        """Note the arguments that an approver decided, on a call whose outcome is recorded."""
        row = self._decisions.get((call.path, "approval"))
        if row is not None and row.edited is not None:
            call.note_edit(_json.loads(row.edited))

    # --- record -----------------------------------------------------------------------------

    async def record_start(self, tool: Tool, call: OpenCall) -> ToolResult | None:
        """Record that a call is about to start, or return the outcome that somebody decided.

        Raises:
            SuspendedError: If its outcome is unknown and nobody has decided.
            ToolError: ``journal`` if it cannot be recorded: then the effect must not happen.
        """
        row = self._find(call)
        if row is not None and row.side_effect and not _is_unstarted(row):
            call.attempt = row.attempt
            call.adopt_key(row.key)
            if not tool.repeatable:
                decided = self._resolve_unknown(tool, call)
                if decided is not None:
                    # Its start is that of the interrupted call.
                    call.start_row = row._replace(path=call.path, line=call.call.line, end=None)
                    return decided
        if not tool.side_effect:
            if self._journal.behind:
                # Deliveries faster than the journal would fill the memory.
                await self.make_durable()
            return None
        if call.key() is None:
            msg = f"{tool.name} was not called: its arguments, or those of a tool that led to it, "
            msg += "have no JSON form, so the call could not be identified after a failure"
            raise ToolError(msg, code="not_json", tool=tool.name)
        self.effects = True
        call.start_row = row = self._row_of(call, call.attempt + 1)
        if call.parent is not None:
            self.nested.note_start(row, repeatable=tool.repeatable)
        self._journal.append(self._lease, row)
        try:
            await self._journal.barrier(self._lease)
        except JournalError as error:
            msg = f"{tool.name} was not called: {error}"
            raise ToolError(msg, code="journal", tool=tool.name) from error
        return None

    async def make_durable(self) -> None:
        """Wait until all that was recorded is durable, or the journal has failed.

        The end of the run reports that the journal cannot be written.
        """
        with contextlib.suppress(JournalError):
            await self._journal.barrier(self._lease)

    def record_caller(self, call: OpenCall) -> None:
        """Record the start of a calling call before the first of its nested calls.

        So each nested row has the rows of its callers, and on resume a caller keeps its path.
        """
        if call.start_row is None:
            call.start_row = self._row_of(call, call.attempt)
            self._journal.append(self._lease, call.start_row)

    def _record_partial(self, call: OpenCall, body: bytes) -> None:
        row = call.start_row = call.start_row or self._row_of(call, call.attempt)
        self._journal.append(self._lease, row._replace(partial=body))

    def _find(self, call: OpenCall) -> CallRow | None:
        """Return the record of this call."""
        if call.parent is not None:
            return self.nested.find(call.path)
        row = self.row(call) if self._rows else None
        if self.earlier is not None and (row is None or _is_unstarted(row)):
            # Nothing was done at this position, so an outcome of an earlier revision counts.
            return self.earlier.find(call) or row
        return row

    def _resolve_unknown(self, tool: Tool, call: OpenCall) -> ToolResult | None:
        """Return the decided outcome of an interrupted call; None if it is to be repeated."""
        row = self.find_decision(call, "unknown")
        if row is None and self.earlier is not None:
            row = self.earlier.find_decision(call)
        if row is None:
            call.leave_unknown()
            if not call.may_suspend:
                call.take_recorded()
                msg = f"{tool.name} started before and its outcome is unknown"
                raise ToolError(msg, code="unknown_outcome", tool=tool.name)
            approval = self._decisions.get((call.path, "approval"))
            edited = None if approval is None else approval.edited
            shown = encode_arguments(call) if edited is None else edited
            self.suspend(call, "unknown", {"arguments": _json.loads(shown)})
            msg = f"{tool.name} started and its outcome is unknown; record its outcome"
            raise SuspendedError(msg)
        if row.action == "again":
            # Valid once: if the repeated call is interrupted, a new decision is needed.
            self._decisions.pop((call.path, "unknown"), None)
            self._journal.append(self._lease, UsedDecision(call.path, call.attempt))
            return None
        call.take_recorded()
        if row.action == "done":
            return ToolResult(tool.name, value=_json.loads(row.value))
        why = row.comment or "it did not succeed"
        raise ToolError(f"{tool.name} failed: {why}", code="failed", tool=tool.name)

    def record_end(
        self, call: OpenCall, status: CallStatus, ok: bool, body: bytes, elapsed: float | None
    ) -> None:
        """Record the outcome of a call, and the time of its delivery to the script."""
        self.partials.forget(call)
        if call.started and self.nested.recorded:
            self._warn_of_unclaimed(call)
        usage = b"" if call.usage is None else encode_usage(call.usage, call.cost_usd)
        end = CallEnd(status, ok, body, now_ms(), elapsed, usage)
        if call.parent is not None and self._finish_nested(call, end):
            return
        if call.reused_end is not None:
            # The time of a call is that of its execution.
            end = end._replace(at_ms=call.reused_end.at_ms)
        row = call.start_row
        if row is None:
            row = self._row_of(call, call.attempt, end)
        else:
            row = row._replace(attempt=call.attempt, end=end)
        self._journal.append(self._lease, row)

    def _warn_of_unclaimed(self, call: OpenCall) -> None:
        """Warn of recorded effects that a tool did not repeat after it was started again."""
        for row in self.nested.take_unclaimed(call.path)[: _MAX_WARNINGS - len(self.warnings)]:
            message = (
                f"{call.call.name} (call {call.path}) was started again and did not repeat its "
                f"call {row.path} of {row.tool}, which is recorded as made; check "
                "whether it made another call instead. A tool that calls tools must make the "
                "same calls when it is started again"
            )
            self.warnings.append(RunWarning("effect_not_repeated", message))

    def _finish_nested(self, call: OpenCall, end: CallEnd) -> bool:
        """Note the end of a nested call; True if its record must not change."""
        row = self.nested.find(call.path)
        if not call.outcome.recorded or row is None:
            self.nested.note_end(call.path, end, repeatable=call.repeatable)
            return False
        if row.end is not None:
            self.nested.note_return(call.path, repeatable=call.repeatable)
            return call.path not in self.nested.adopted
        if end.status == "unknown":
            return True
        self.nested.note_end(call.path, end, repeatable=call.repeatable)
        return False

    def tick(self, elapsed: float) -> None:
        """Record a time that was sent to the script."""
        self._journal.append(self._lease, Tick(elapsed))

    def record_event(self, row: EventRow) -> None:
        """Record output of the script."""
        self._journal.append(self._lease, row)
        self.events = EventCount(
            row.number,
            self.events.rows + 1,
            self.events.bytes + len(row.body),
            row.kind != "left_out",
        )

    def suspend(self, call: OpenCall, kind: PendingKind, details: Mapping[str, Any]) -> None:
        """Record that a call is suspended until a decision."""
        more = {"key": call.key(), "line": call.call.line}
        before, at_ms = self._pending_before.get((call.path, kind)), now_ms()
        if before is not None and before.fingerprint == call.fingerprint():
            # The same request: its age and its expiry do not start again with each resumption.
            at_ms, more["expire_ms"] = before.at_ms, _json.loads(before.details).get("expire_ms")
        elif kind == "approval":
            more["expire_ms"] = self._expiry
        body = _json.dumps({**details, **more}, what="pending")
        pending = PendingRow(call.path, kind, call.call.name, call.fingerprint(), body, at_ms)
        self.pending.append(pending)
        if call.parent is not None:
            self.nested.note_suspension(call.path)
        self._journal.append(self._lease, pending)

    def record_decision(self, call: OpenCall, request: ApprovalRequest, decision: Decision) -> None:
        """Record the decision of an approver of this process.

        A decision with arguments that cannot be recorded whole is not recorded: on resume, the
        approver is asked again.
        """
        edited = None if decision.arguments is None else dict(decision.arguments)
        if edited is not None and encode_arguments(call, edited) != _json.dumps(
            edited, what="edited arguments", sort_keys=True
        ):
            return
        details = {**request_details(call, request), "key": call.key()}
        path, name, at_ms = call.path, call.call.name, now_ms()
        body = _json.dumps(details, what="pending")
        pending = PendingRow(path, "approval", name, call.fingerprint(), body, at_ms)
        row = DecisionRow(
            path=path,
            kind="approval",
            action="approve" if decision.approved else "reject",
            value=_json.dumps(edited, what="edited arguments"),
            by=decision.by,
            comment=decision.comment,
            at_ms=at_ms,
        )
        self._journal.append(self._lease, pending)
        self._journal.append(self._lease, row)

    def read_approval(self, call: OpenCall, request: ApprovalRequest) -> Decision:
        """Return the recorded decision on a call that requires approval.

        Raises:
            SuspendedError: If there is none: the call is suspended.
        """
        row = self.find_decision(call, "approval")
        pending = self._pending_before.get((call.path, "approval"))
        if row is None and pending is not None:
            expires_ms = pending_call(pending, self._run_id).expires_ms
            if expires_ms is not None and now_ms() > expires_ms:
                return Decision(False, comment="the request expired")
        if row is None:
            self.suspend(call, "approval", request_details(call, request))
            msg = f"{call.call.name} is awaiting approval"
            raise SuspendedError(msg)
        edited = _json.loads(row.value)
        return Decision(
            row.action == "approve",
            arguments=edited if row.action == "approve" else None,
            by=row.by,
            comment=row.comment,
        )

    @property
    def epoch(self) -> int:
        """Fencing token of the run."""
        return self._lease.epoch

    def interrupt(self) -> None:
        """Record no end of the run: it is stopped here, to be continued by another host."""
        self._interrupted = True

    async def end_run(self, status: str, result: bytes) -> None:
        """Record the end of the run, durably if it had an effect or is paused.

        Raises:
            JournalError: If the journal is known to have failed.
        """
        self.partials.close()
        if self._interrupted and status == "cancelled":
            return
        self._ended = True
        self._journal.end_run(self._lease, status, result, now_ms())
        if self.effects or status == "paused" or self._journal.behind:
            await self._journal.barrier(self._lease)
        else:
            self._journal.check(self._lease)

    def release_lease(self) -> None:
        """Release the lease of a run that has not ended."""
        self.partials.close()
        if not self._ended:
            self._journal.release(self._lease)

    def _row_of(self, call: OpenCall, attempt: int, end: CallEnd | None = None) -> CallRow:
        # A call of the script is identified by its path; most need no key.
        key = call.key() if call.side_effect or call.parent is not None else None
        return CallRow(
            path=call.path,
            tool=call.call.name,
            arguments=encode_arguments(call),
            key=key or "",
            side_effect=call.side_effect,
            line=call.call.line,
            attempt=attempt,
            # A call without an effect started before its start is recorded.
            at_ms=call.started_ms or now_ms(),
            making=call.making,
            end=end,
        )


def _is_unstarted(row: CallRow) -> bool:
    return row.end is not None and row.end.status == "not_started"


def _truncate(arguments: bytes) -> str:
    text = arguments.decode(errors="replace")
    return text if len(text) <= 200 else text[:199] + "…"
