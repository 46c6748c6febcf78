"""Runs that were: what became of them, what they wait for, and deciding about it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from .. import _json
from .._calls._recorder import Track, pending_call
from .._journal._journal import Journal, PendingKind, Recorded, RunRow, Verdict
from .._journal._sqlite import SqliteJournal
from .._records._limits import Limits
from .._records._result import PendingCall, RunResult
from .._schema._check import value_check
from .._tools._allow import AllowList
from .._tools._tool import Tool
from ..errors import JournalError, ToolError, UsageError
from ._program import Program, limits_json

__all__ = ["History", "checked_run_id", "program_of", "recorded_result"]

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_LISTED = 5
_DAY_MS = 86_400_000
_log = logging.getLogger("ptc")


class History:
    """The journal of a session, opened when it is first needed."""

    def __init__(
        self,
        place: Path | Callable[[], Path] | None,
        *,
        required: bool = True,
        tools: Mapping[str, Tool] | None = None,
        approvals_expire_ms: int | None = None,
    ) -> None:
        """Name the place.

        Args:
            place: Path of the file, or a function that returns it or raises `JournalError`. None:
                memory.
            required: False: if the file cannot be made, runs are recorded in memory, and a warning
                says so.
            tools: The session's: edited arguments are held to theirs.
            approvals_expire_ms: Age at which a request for an approval is void.
        """
        self._tools = tools or {}
        self._expiry = approvals_expire_ms
        self._place = place
        self._required = required
        self._journal: Journal | None = None
        self.warning: str | None = None
        """Why runs are recorded in memory only; None if they are where they should be."""

    @property
    def journal(self) -> Journal:
        """The journal. Raises `JournalError` if it cannot be opened."""
        if self._journal is None:
            try:
                place = self._place() if callable(self._place) else self._place
                self._journal = SqliteJournal(place)
            except JournalError as error:
                if self._required:
                    raise
                self.warning = f"runs are recorded in memory and cannot be resumed later: {error}"
                _log.warning("%s", self.warning)
                self._journal = SqliteJournal(None)
        return self._journal

    def open(self) -> None:
        """Open the journal if it is not. Raises `JournalError` if it cannot be."""
        _ = self.journal

    def close(self) -> None:
        """Write what is left and let go of the file."""
        if self._journal is not None:
            self._journal.close()

    def follow(self, program: Program, *, again: bool) -> Track:
        """The line of a run in the journal: a new one, or, `again`, that of a run that was.

        Raises:
            JournalError: If it cannot be resumed.
        """
        journal = self.journal
        if not again:
            return Track(journal, journal.begin(row_of(program)))
        # Read under the lease: another may have driven the run until now.
        lease = journal.claim(program.run_id)
        recorded = journal.load(program.run_id)
        return Track(journal, lease, recorded, approvals_expire_ms=self._expiry)

    # --- looking back -----------------------------------------------------------------------

    def runs(self, limit: int = 50) -> list[RunRow]:
        """The newest runs, newest first."""
        return list(self.journal.runs(limit))

    def run(self, run_id: str) -> RunRow:
        """A run alone. Raises `JournalError` if it is unknown."""
        self.journal.flush()
        row = self.journal.find(checked_run_id(run_id))
        # What there is to be said of one that is not there is said by who looks for all of it.
        return row if row is not None else self.journal.load(run_id).run

    def recorded(self, run_id: str) -> Recorded:
        """Everything recorded of a run. Raises `JournalError` if it is unknown or damaged."""
        return self.journal.load(checked_run_id(run_id))

    def forget(self, older_than_days: float) -> int:
        """Delete runs that ended so many days ago, and give their room back.

        Runs that are paused, or whose host died, have not ended and stay.

        Returns:
            How many they were.

        Raises:
            UsageError: If the number of days is below 0.
        """
        if not older_than_days >= 0:
            msg = f"older_than_days is 0 or more, not {older_than_days!r}"
            raise UsageError(msg)
        return self.journal.sweep(_now_ms() - int(older_than_days * _DAY_MS) + 1)

    def pending(self, run_id: str) -> tuple[PendingCall, ...]:
        """The calls of a run that wait for a decision."""
        return _undecided(self.recorded(run_id))

    def warning_of(self, run_id: str) -> str | None:
        """What a new run of the same script should know has happened already; None if nothing."""
        recorded = self.recorded(run_id)
        undone = {row.path for row in recorded.reverts if row.status == "reverted"}
        effects = [
            row
            for row in recorded.calls
            if row.start.side_effect
            and row.start.path not in undone
            and (row.end is None or row.end.status != "not_started")
        ]
        if not effects:
            return None
        lines = [
            f"An earlier run ({run_id}) already did the following, or may have. Do not do it again "
            "blindly: look at what is there, or go on from it."
        ]
        for row in effects[:_MOST_LISTED]:
            status = row.end.status if row.end is not None else "unknown"
            lines.append(f"- {row.start.tool} (call {row.start.path}, {status})")
        if len(effects) > _MOST_LISTED:
            lines.append(f"- ...and {len(effects) - _MOST_LISTED} more")
        return "\n".join(lines)

    # --- deciding ---------------------------------------------------------------------------

    def approve(
        self,
        run_id: str,
        call: str | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str = "",
        comment: str = "",
    ) -> PendingCall:
        """Approve a call that a paused run waits for; then `Session.resume` it.

        Args:
            run_id: The run.
            call: The call, as `PendingCall.call`. None: the only one.
            arguments: Other arguments to make it with. None: as asked.
            by: Who approves.
            comment: Why.

        Returns:
            What was approved.

        Raises:
            UsageError: If no such call waits, it was decided before, the request expired, or the
                arguments are not valid; then nothing is decided.
        """
        pending = self._waiting(run_id, call, "approval")
        asked = next(p for p in self.recorded(run_id).pending if p.path == pending.call)
        if self._expiry is not None and _now_ms() - asked.at_ms > self._expiry:
            msg = f"run {run_id!r}: the request of call {pending.call} expired; `retry` the run"
            raise UsageError(msg)
        if arguments is not None:
            _check_edit(pending, arguments, self._tools)
        edited = None if arguments is None else dict(arguments)
        return self._decide(run_id, pending, "approve", edited, by, comment)

    def reject(
        self, run_id: str, call: str | None = None, *, by: str = "", comment: str = ""
    ) -> PendingCall:
        """Reject a call that a paused run waits for: the script gets a `ToolError`. Final.

        Raises:
            UsageError: As `approve`.
        """
        pending = self._waiting(run_id, call, "approval")
        return self._decide(run_id, pending, "reject", None, by, comment)

    def settle(
        self,
        run_id: str,
        call: str | None,
        outcome: Literal["done", "failed", "again"],
        *,
        value: Any = None,
        by: str = "",
        comment: str = "",
    ) -> PendingCall:
        """Say what became of a call whose end is not known; then `Session.resume` the run.

        Args:
            run_id: The run.
            call: The call, as `PendingCall.call`. None: the only one.
            outcome: ``done``: it was done, with `value`. ``failed``: it was not. ``again``: make it
                again, with the same idempotency key.
            value: What the script is given, if it is done.
            by: Who says so.
            comment: Why.

        Raises:
            UsageError: As `approve`, or if the outcome is none of these.
        """
        if outcome not in ("done", "failed", "again"):
            msg = f"outcome is 'done', 'failed' or 'again', not {outcome!r}"
            raise UsageError(msg)
        pending = self._waiting(run_id, call, "unknown")
        return self._decide(run_id, pending, outcome, value, by, comment)

    def _waiting(self, run_id: str, call: str | None, kind: PendingKind) -> PendingCall:
        """The call that is meant. Raises `UsageError` if there is none, or several."""
        recorded = self.recorded(run_id)
        if recorded.run.rolled_back_ms is not None:
            msg = f"run {run_id!r} was rolled back: there is nothing to decide any more"
            raise UsageError(msg)
        decided = {v.path for v in recorded.verdicts if v.kind == kind}
        if call in decided:
            msg = f"run {run_id!r}: call {call} was decided already; decisions are final"
            raise UsageError(msg)
        found = [p for p in _undecided(recorded) if p.kind == kind]
        chosen = [p for p in found if call is None or p.call == call]
        if len(chosen) != 1:
            known = ", ".join(f"{p.call} ({p.tool})" for p in found) or "none"
            which = "name one of them" if len(chosen) > 1 else f"there is no {call or 'such call'}"
            msg = f"run {run_id!r}: {which}; calls that wait: {known}"
            raise UsageError(msg)
        return chosen[0]

    def _decide(
        self,
        run_id: str,
        pending: PendingCall,
        action: Literal["approve", "reject", "done", "failed", "again"],
        value: Any,
        by: str,
        comment: str,
    ) -> PendingCall:
        verdict = Verdict(
            path=pending.call,
            kind=pending.kind,
            action=action,
            value=_json.dumps(value, what="value"),
            by=by,
            comment=comment,
            at_ms=_now_ms(),
        )
        if not self.journal.decide(run_id, verdict):
            msg = f"run {run_id!r}: call {pending.call} was decided already; decisions are final"
            raise UsageError(msg)
        return pending


def _undecided(recorded: Recorded) -> tuple[PendingCall, ...]:
    if recorded.run.rolled_back_ms is not None:
        return ()
    decided = {(v.path, v.kind) for v in recorded.verdicts}
    rows = (p for p in recorded.pending if (p.path, p.kind) not in decided)
    return tuple(pending_call(row) for row in rows)


def _check_edit(pending: PendingCall, value: Any, tools: Mapping[str, Tool]) -> None:
    tool = tools.get(pending.tool)
    if tool is None:
        msg = f"{pending.tool} is no tool of this session: its arguments cannot be checked"
        raise UsageError(msg)
    if not isinstance(value, Mapping):
        msg = f"edited arguments are a dict, not {type(value).__name__}"
        raise UsageError(msg)
    try:
        tool.validate(value)
    except ToolError as error:
        msg = f"the edited arguments are not valid: {error.message}; nothing was decided"
        raise UsageError(msg) from None


def checked_run_id(run_id: str) -> str:
    """`run_id`, if a run may be called so. Raises `UsageError`."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        msg = f"run_id is 1-64 letters, digits, _ and -, not {run_id!r:.80}"
        raise UsageError(msg)
    return run_id


def row_of(program: Program) -> RunRow:
    """A program as a journal keeps it."""
    schema = program.schema
    options = {
        "tools": {name: tool.parameter_names for name, tool in program.tools.items()},
        "rules": program.ruled,
        "schema": schema if isinstance(schema, Mapping) else None,
        "typed": schema is not None and not isinstance(schema, Mapping),
    }
    data = _json.checked_dumps(options) if schema is None else _json.dumps(options)
    return RunRow(
        run_id=program.run_id,
        source=program.source,
        filename=program.filename,
        inputs=program.inputs_json,
        options=b'%b,"limits":%b}' % (data[:-1], limits_json(program.limits)),
        seed=program.seed,
        clock=program.clock,
        created_ms=int(program.clock * 1000),
    )


def program_of(
    row: RunRow,
    select: Callable[[AllowList], dict[str, Tool]],
    allowed_tools: AllowList | None = None,
    output_schema: Any = None,
) -> Program:
    """A recorded run as a program again.

    Args:
        row: The run.
        select: Gives the tools of an allow-list.
        allowed_tools: In place of the recorded names.
        output_schema: In place of the recorded one.

    Raises:
        UsageError: If a part of it was code and is not given again, or a tool is gone.
    """
    options = _json.loads(row.options)
    if options["rules"] and allowed_tools is None:
        msg = f"run {row.run_id!r} had rules on arguments: give allowed_tools again"
        raise UsageError(msg)
    if options["typed"] and output_schema is None:
        msg = f"run {row.run_id!r} had a type as its output_schema: give it again"
        raise UsageError(msg)
    schema = options["schema"] if output_schema is None else output_schema
    # A limit that this version does not know was another's.
    known = asdict(Limits())
    limits = {key: value for key, value in options["limits"].items() if key in known}
    return Program(
        run_id=row.run_id,
        source=row.source,
        filename=row.filename,
        inputs_json=row.inputs,
        tools=select(list(options["tools"]) if allowed_tools is None else allowed_tools),
        limits=Limits(**limits),
        check_value=value_check(schema) if schema is not None else None,
        clock=row.clock,
        seed=row.seed,
        schema=schema,
        ruled=options["rules"],
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@cache
def _results() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


def recorded_result(row: RunRow) -> RunResult | None:
    """What a recorded run came to; None if it has not ended."""
    return None if row.result is None else _results().validate_json(row.result)
