"""Recorded runs: results, pending decisions, and the decisions about them."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import anyio

from .._calls._recorder import RunRecorder
from .._calls._rows import pending_call
from .._core import _json
from .._core._arguments import path_of, require, require_range
from .._journal._documents import Documents
from .._journal._journal import DecisionRow, Journal, PendingKind, RunRecord, RunRow
from .._journal._location import check_journal, default_journal
from .._journal._sqlite import SqliteJournal
from .._records._result import PendingCall, RunWarning
from .._tools._tool import Tool
from ..errors import JournalError, ToolError, UsageError
from ._program import Program
from ._program_row import row_of
from ._webhook import Webhook, decided_notification, pending_notification
from ._webhook_sender import WebhookSender

__all__ = ["History", "validate_run_id"]

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_EFFECTS_SHOWN = 5
_NAME_CHARS = 200
_DAY_MS = 86_400_000
_MAX_EXPIRY_MS = 100 * 365 * _DAY_MS
_MOST_RETENTION_DAYS = 36_500
_MOST_DELETED = 1_000
"""Expired runs that one start deletes: a large journal must not delay it."""
_log = logging.getLogger("ptc")


class History:
    """The journal of a session, opened on first use."""

    def __init__(
        self,
        path: Path | Callable[[], Path] | None,
        *,
        required: bool = True,
        tools: Mapping[str, Tool] | None = None,
        approvals_expire_ms: int | None = None,
        retention_days: int | None = None,
        webhook: Webhook | None = None,
    ) -> None:
        """Configure the journal without opening it.

        Args:
            path: Path of the file, or a function that returns it or raises `JournalError`. None:
                memory.
            required: False: if the file cannot be created, runs are recorded in memory, with a
                warning.
            tools: Tools of the session; edited arguments are validated against them.
            approvals_expire_ms: Age at which an approval request expires.
            retention_days: Age at which runs that ended expire; see `delete_expired`.
            webhook: Address that is notified of pending calls and decisions.

        Raises:
            UsageError: If the signing key of `webhook` is missing or wrong.
        """
        self.webhook: WebhookSender | None = None if webhook is None else WebhookSender(webhook)
        """Sends the notifications; None: there are none."""
        self._tools = tools or {}
        self._expiry = approvals_expire_ms
        self._retention = retention_days
        self._path = path
        self._required = required
        self._journal: Journal | None = None
        self._opening = threading.Lock()
        self.warning: str | None = None
        """Reason that runs are recorded in memory only; None if they are in the file."""

    @classmethod
    def of_session(
        cls,
        root: Path,
        journal: str | Path | None,
        *,
        in_root: bool,
        tools: Mapping[str, Tool],
        providers: Iterable[str] = (),
        approvals_expire_ms: int | None,
        retention_days: int | None = None,
        webhook: Webhook | None,
    ) -> Self:
        """Configure the journal of a session; the arguments are those of `Session`.

        Args:
            root: As for `Session`.
            journal: As for `Session`.
            in_root: ``journal_in_root`` of `Session`.
            tools: Tools of the session.
            providers: Sources of tools that are not known yet, and may have side effects.
            approvals_expire_ms: As for `Session`.
            retention_days: As for `Session`.
            webhook: Address that is notified of pending calls and decisions.

        Raises:
            UsageError: If an argument is wrong, or a tool could change the journal.
        """
        require("journal_in_root", in_root, bool, "True or False")
        effects = [name for name, tool in tools.items() if tool.side_effect]
        writers = [] if in_root else [*effects, *providers]
        path: Path | Callable[[], Path] | None = None
        if journal is None:
            path = partial(default_journal, root, writers)
        elif journal != ":memory:":
            path = path_of("journal", journal)
            check_journal(root, path, writers)
        if approvals_expire_ms is not None:
            require_range("approvals_expire_ms", approvals_expire_ms, _MAX_EXPIRY_MS)
        if retention_days is not None:
            require_range("retention_days", retention_days, _MOST_RETENTION_DAYS)
        return cls(
            path,
            required=journal is not None,
            tools=tools,
            approvals_expire_ms=approvals_expire_ms,
            retention_days=retention_days,
            webhook=webhook,
        )

    @property
    def is_durable(self) -> bool:
        """True if runs are recorded in a file, as far as is known."""
        return self._path is not None and self.warning is None

    @property
    def journal(self) -> Journal:
        """The journal. Raises `JournalError` if it cannot be opened."""
        if self._journal is None:
            # Tools in threads use its documents.
            with self._opening:
                self._journal = self._journal or self._create()
        return self._journal

    def _create(self) -> Journal:
        try:
            path = self._path() if callable(self._path) else self._path
            return SqliteJournal(path)
        except JournalError as error:
            if self._required:
                raise
            self.warning = f"runs are recorded in memory and cannot be resumed later: {error}"
            _log.warning("%s", self.warning)
            return SqliteJournal(None)

    @property
    def documents(self) -> Documents:
        """Named JSON data of tools, such as todo lists. Raises as `journal`."""
        return self.journal.documents

    def open(self) -> None:
        """Open the journal if it is not open. Raises `JournalError` on failure."""
        _ = self.journal

    def close(self) -> None:
        """Write all pending entries and close the file. Waits for notifications a few seconds."""
        if self.webhook is not None:
            self.webhook.close()
        if self._journal is not None:
            self._journal.close()

    def start_record(self, program: Program) -> RunRecorder:
        """Create the record of a new run. Raises `JournalError` if its id is in use."""
        return RunRecorder(
            self.journal,
            self.journal.start_run(row_of(program)),
            approvals_expire_ms=self._expiry,
        )

    def resume_record(self, program: Program) -> RunRecorder:
        """Continue the record of a run. Raises `JournalError` if it cannot be resumed."""
        # Read under the lease: another process may have executed the run until now.
        lease = self.journal.acquire(program.run_id)
        recorded = self.journal.load(program.run_id)
        return RunRecorder(self.journal, lease, recorded, approvals_expire_ms=self._expiry)

    # --- reading ----------------------------------------------------------------------------

    def runs(self, limit: int = 50) -> list[RunRow]:
        """List the newest runs, newest first."""
        return list(self.journal.runs(limit))

    def run(self, run_id: str) -> RunRow:
        """Return the row of a run. Raises `JournalError` if it is unknown."""
        self.journal.flush()
        row = self.journal.find(validate_run_id(run_id))
        # `load` raises the error for an unknown run.
        return row if row is not None else self.journal.load(run_id).run

    def recorded(self, run_id: str) -> RunRecord:
        """Load the whole record of a run. Raises `JournalError` if it is unknown or damaged."""
        return self.journal.load(validate_run_id(run_id))

    def forget(self, older_than_days: float) -> int:
        """Delete runs that ended at least so many days ago, and reclaim their disk space.

        Runs that are paused, or whose host died, have not ended and are retained.

        Returns:
            The number of deleted runs.

        Raises:
            UsageError: If the number of days is below 0.
        """
        if not older_than_days >= 0:
            msg = f"older_than_days must be 0 or more, not {older_than_days!r}"
            raise UsageError(msg)
        return self.journal.delete_ended(_now_ms() - int(older_than_days * _DAY_MS) + 1)

    async def delete_expired(self) -> int:
        """Delete the oldest expired runs, up to `_MOST_DELETED`, if the session has a retention.

        The space in the file is used again by later runs. A failure is logged: old records must
        not prevent new work.

        Returns:
            The number of deleted runs.
        """
        if self._retention is None:
            return 0
        before = _now_ms() - self._retention * _DAY_MS
        try:
            journal = self.journal
            return await anyio.to_thread.run_sync(journal.delete_ended, before, _MOST_DELETED)
        except JournalError as error:
            _log.warning("expired runs were not deleted: %s", error)
            return 0

    def find_ids(self, prefix: str, limit: int = 20) -> list[str]:
        """List the ids of runs that start with `prefix`, in alphabetical order."""
        return list(self.journal.find_ids(prefix, limit))

    def pending(self, run_id: str | None = None) -> tuple[PendingCall, ...]:
        """List the calls that await a decision.

        Args:
            run_id: Their run. None: all paused runs, the oldest request first. An index finds
                those, so the number of recorded runs does not matter.
        """
        if run_id is not None:
            return self._undecided(self.recorded(run_id))
        rows = self.journal.pending()
        return tuple(pending_call(row, run) for run, row in rows)

    def notify_pending(self, calls: Iterable[PendingCall]) -> None:
        """Notify the webhook of calls that a run paused for. Never waits."""
        if self.webhook is not None:
            for call in calls:
                self.webhook.send(pending_notification(call, self._tools.get(call.tool)))

    def warning_of(self, run_id: str) -> RunWarning | None:
        """Describe the side effects of a run for a new run of its script; None if it had none."""
        recorded = self.recorded(run_id)
        undone = {row.path for row in recorded.reverts if row.status == "reverted"}
        effects = [
            row
            for row in recorded.calls
            if row.side_effect
            and row.path not in undone
            and (row.end is None or row.end.status != "not_started")
        ]
        if not effects:
            return None
        lines = [
            f"An earlier run ({run_id}) made the following calls with side effects, or may have. "
            "Do not repeat them blindly: check the current state, or continue from it."
        ]
        for row in effects[:_MAX_EFFECTS_SHOWN]:
            status = row.end.status if row.end is not None else "unknown"
            lines.append(f"- {row.tool} (call {row.path}, {status})")
        if len(effects) > _MAX_EFFECTS_SHOWN:
            lines.append(f"- ...and {len(effects) - _MAX_EFFECTS_SHOWN} more")
        return RunWarning("earlier_effects", "\n".join(lines))

    # --- deciding ---------------------------------------------------------------------------

    def approve(
        self,
        run_id: str,
        call: str | None = None,
        *,
        by: str,
        arguments: Mapping[str, Any] | None = None,
        comment: str = "",
    ) -> PendingCall:
        """Approve a pending call of a paused run. Then call `Session.resume`.

        Args:
            run_id: The run.
            call: The call, as `PendingCall.call`. None: the only pending one.
            by: Name of the approver, for the record; must not be empty.
            arguments: Edited arguments to make the call with. None: the requested ones.
            comment: Reason.

        Returns:
            The approved call.

        Raises:
            UsageError: If no such call is pending, it was decided before, the request expired, or
                the arguments are not valid. No decision is recorded then.
        """
        pending = self._find_pending(run_id, call, "approval")
        if pending.expires_ms is not None and _now_ms() > pending.expires_ms:
            msg = f"run {run_id!r}: the request of call {pending.call} expired; `retry` the run"
            raise UsageError(msg)
        if arguments is not None:
            _validate_edit(pending, arguments, self._tools)
        edited = None if arguments is None else dict(arguments)
        return self._decide(run_id, pending, "approve", edited, by, comment)

    def reject(
        self, run_id: str, call: str | None = None, *, by: str, comment: str = ""
    ) -> PendingCall:
        """Reject a pending call of a paused run: the script receives a `ToolError`. Final.

        Raises:
            UsageError: As `approve`.
        """
        pending = self._find_pending(run_id, call, "approval")
        return self._decide(run_id, pending, "reject", None, by, comment)

    def settle(
        self,
        run_id: str,
        call: str | None,
        outcome: Literal["done", "failed", "again"],
        *,
        by: str,
        value: Any = None,
        comment: str = "",
    ) -> PendingCall:
        """Record the outcome of an interrupted call. Then call `Session.resume`.

        Args:
            run_id: The run.
            call: The call, as `PendingCall.call`. None: the only pending one.
            outcome: ``done``: it succeeded, with `value`. ``failed``: it failed. ``again``: repeat
                it, with the same idempotency key.
            by: Name of the decider, for the record; must not be empty.
            value: Value that the script receives, if the call is done.
            comment: Reason.

        Raises:
            UsageError: As `approve`, or if `outcome` is not one of these.
        """
        if outcome not in ("done", "failed", "again"):
            msg = f"outcome must be 'done', 'failed' or 'again', not {outcome!r}"
            raise UsageError(msg)
        pending = self._find_pending(run_id, call, "unknown")
        return self._decide(run_id, pending, outcome, value, by, comment)

    def _find_pending(self, run_id: str, call: str | None, kind: PendingKind) -> PendingCall:
        """Return the pending call. Raises `UsageError` unless there is exactly one."""
        recorded = self.recorded(run_id)
        if recorded.run.rolled_back_ms is not None:
            msg = f"run {run_id!r} was rolled back: its calls no longer need a decision"
            raise UsageError(msg)
        decided = [v for v in recorded.decisions if v.kind == kind and call in (None, v.path)]
        candidates = [p for p in self._undecided(recorded) if p.kind == kind]
        matches = [p for p in candidates if call is None or p.call == call]
        if not matches and decided:
            raise UsageError(_decided_before(run_id, max(decided, key=lambda v: v.at_ms)))
        if len(matches) != 1:
            names = ", ".join(f"{p.call} ({p.tool})" for p in candidates) or "none"
            several = len(matches) > 1
            problem = "name one call" if several else f"there is no pending {call or 'call'}"
            msg = f"run {run_id!r}: {problem}; pending calls: {names}"
            raise UsageError(msg)
        return matches[0]

    def _decide(
        self,
        run_id: str,
        pending: PendingCall,
        action: Literal["approve", "reject", "done", "failed", "again"],
        value: Any,
        by: str,
        comment: str,
    ) -> PendingCall:
        validate_decider(by)
        decision = DecisionRow(
            path=pending.call,
            kind=pending.kind,
            action=action,
            value=_json.dumps(value, what="value"),
            by=by,
            comment=comment,
            at_ms=_now_ms(),
        )
        if not self.journal.decide(run_id, decision):
            # Somebody else decided since the call was read. Of two decisions, the first counts.
            same = (pending.call, pending.kind)
            earlier = (v for v in self.recorded(run_id).decisions if (v.path, v.kind) == same)
            raise UsageError(_decided_before(run_id, next(earlier, decision)))
        if self.webhook is not None:
            self.webhook.send(decided_notification(pending, decision))
        return pending

    def _undecided(self, recorded: RunRecord) -> tuple[PendingCall, ...]:
        if recorded.run.rolled_back_ms is not None:
            return ()
        decided = {(v.path, v.kind) for v in recorded.decisions}
        rows = (p for p in recorded.pending if (p.path, p.kind) not in decided)
        return tuple(pending_call(row, recorded.run.run_id) for row in rows)


_DONE = {
    "approve": "approved",
    "reject": "rejected",
    "done": "recorded as done",
    "failed": "recorded as failed",
    "again": "approved to be made again",
}


def _decided_before(run_id: str, decision: DecisionRow) -> str:
    """Describe an earlier decision to somebody who makes another one."""
    when = datetime.fromtimestamp(decision.at_ms / 1000).astimezone().isoformat(" ", "seconds")
    by = f" by {decision.by}" if decision.by else ""
    return (
        f"run {run_id!r}: call {decision.path} was {_DONE[decision.action]}{by} at {when}; "
        "decisions are final"
    )


def validate_decider(by: str) -> str:
    """Return `by` if it is a name. Raises `UsageError`."""
    if not isinstance(by, str) or not by.strip() or not by.isprintable() or len(by) > _NAME_CHARS:
        msg = (
            f"by must name who decides, in 1-{_NAME_CHARS} printable characters, not {by!r:.80}; "
            "the record of the decision shows it"
        )
        raise UsageError(msg)
    return by


def _validate_edit(pending: PendingCall, value: Any, tools: Mapping[str, Tool]) -> None:
    tool = tools.get(pending.tool)
    if tool is None:
        msg = f"{pending.tool} is not a tool of this session: its arguments cannot be validated"
        raise UsageError(msg)
    if not isinstance(value, Mapping):
        msg = f"edited arguments must be a dict, not {type(value).__name__}"
        raise UsageError(msg)
    try:
        tool.validate(value)
    except ToolError as error:
        msg = f"the edited arguments are not valid: {error.message}; no decision was recorded"
        raise UsageError(msg) from None


def validate_run_id(run_id: str) -> str:
    """Return `run_id` if it is well-formed. Raises `UsageError`."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        msg = f"run_id must be 1-64 letters, digits, _ and -, not {run_id!r:.80}"
        raise UsageError(msg)
    return run_id


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
