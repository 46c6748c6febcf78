"""Recorded runs: results, pending decisions, and the decisions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import anyio

from .._calls._earlier import EarlierCalls
from .._calls._recorder import RunRecorder
from .._calls._rows import pending_call, require_intact
from .._core import _json
from .._core._arguments import require_range
from .._core._clock import now_ms
from .._core._threads import complete_in_thread
from .._records._result import PendingCall, RunWarning
from .._tools._tool import Tool
from .._workers._choose import require_same_engine
from ..errors import UsageError
from ..journal._documents import Documents
from ..journal._journal import DecisionRow, EventRow, Journal, PendingKind, RunRecord, RunRow
from ..journal._lease import Lease
from ..journal._run_lists import RunPage
from ..journal._viewers import Viewers
from ._decided import describe_decision, describe_other_decision, validate_decider
from ._edit import validate_edit
from ._effect_warnings import EffectWarnings
from ._lazy_journal import JournalSource, LazyJournal
from ._program import Program
from ._program_row import row_of
from ._retention import DAY_MS, Retention, RetentionTask, delete_old_runs
from ._revisions import load_earlier
from ._run_id import validate_recorded_id, validate_run_id
from ._run_query import Moment, create_query
from ._webhook import Webhook, decided_notification, pending_notification
from ._webhook_sender import WebhookSender

__all__ = ["MAX_ATTEMPTS", "History"]

_MAX_EXPIRY_MS = 100 * 365 * DAY_MS
_MOST_ATTEMPTS = 1_000_000
MAX_ATTEMPTS = 5
"""Default of `max_attempts`."""


class History:
    """The journal of a session, opened on first use."""

    def __init__(
        self,
        store: LazyJournal,
        *,
        tools: Mapping[str, Tool] | None = None,
        approvals_expire_ms: int | None = None,
        retention: Retention | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        webhook: Webhook | None = None,
    ) -> None:
        """Configure the history of a journal without opening it.

        Args:
            store: The journal; `close` closes it.
            tools: Tools of the session; edited arguments are validated against them.
            approvals_expire_ms: Age at which an approval request expires.
            retention: Bounds of the runs that ended; `retention` deletes the others.
            max_attempts: Starts of a run, without its end or a pause, after which it is not
                started again.
            webhook: Address that is notified of pending calls and decisions.

        Raises:
            UsageError: If the signing key of `webhook` is missing or wrong.
        """
        self.webhook: WebhookSender | None = None if webhook is None else WebhookSender(webhook)
        """Sends the notifications; None: there are none."""
        self._tools = tools or {}
        self.effects: EffectWarnings = EffectWarnings(self.open, self._tools)
        """Warnings of effects that a run may repeat."""
        self._expiry = approvals_expire_ms
        self.max_attempts = max_attempts
        """Starts of a run, without its end or a pause, after which it is not started again."""
        self._store = store
        self.viewers: Viewers = Viewers(lambda: self.documents)
        """Pages that show the runs."""
        self.retention: RetentionTask = RetentionTask(self.open, retention or Retention())
        """Deletes expired runs in the background, once it is started."""

    @classmethod
    def of_session(
        cls,
        root: Path,
        journal: JournalSource | None,
        *,
        in_root: bool,
        tools: Mapping[str, Tool],
        providers: Iterable[str] = (),
        approvals_expire_ms: int | None,
        retention: Retention | None = None,
        max_attempts: int = MAX_ATTEMPTS,
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
            retention: Bounds of the runs that ended.
            max_attempts: As for `Session`.
            webhook: Address that is notified of pending calls and decisions.

        Raises:
            UsageError: If an argument is wrong, or a tool could change the journal.
        """
        effects = [name for name, tool in tools.items() if tool.side_effect]
        store = LazyJournal.of_session(
            root, journal, in_root=in_root, writers=[*effects, *providers]
        )
        if approvals_expire_ms is not None:
            require_range("approvals_expire_ms", approvals_expire_ms, _MAX_EXPIRY_MS)
        require_range("max_attempts", max_attempts, _MOST_ATTEMPTS)
        return cls(
            store,
            tools=tools,
            approvals_expire_ms=approvals_expire_ms,
            retention=retention,
            max_attempts=max_attempts,
            webhook=webhook,
        )

    @property
    def is_durable(self) -> bool:
        """True if runs are recorded in a file, as far as is known."""
        return self._store.is_durable

    @property
    def warning(self) -> str | None:
        """Reason that runs are recorded in memory only; None if they are in the file."""
        return self._store.warning

    @property
    def journal(self) -> Journal:
        """As `LazyJournal.journal`."""
        return self._store.journal

    @property
    def documents(self) -> Documents:
        """Named JSON data of tools, such as todo lists. Raises as `journal`."""
        return self.journal.documents

    async def open_documents(self) -> Documents:
        """Return `documents` once the journal is open. Raises as `open`."""
        await self.open()
        return self.documents

    async def open(self) -> Journal:
        """As `LazyJournal.open`."""
        return await self._store.open()

    async def close(self) -> None:
        """Write all pending entries and close the file. Waits for notifications a few seconds."""
        self._store.refuse()
        with anyio.CancelScope(shield=True):
            try:
                await self.retention.close()
                if self.webhook is not None:
                    await complete_in_thread(self.webhook.close)
            finally:
                await self._store.close()

    def start_record(self, program: Program) -> RunRecorder:
        """Create the record of a new run. Raises `JournalError` if its id is in use."""
        return RunRecorder(
            self.journal,
            self.journal.start_run(row_of(program)),
            approvals_expire_ms=self._expiry,
        )

    async def resume_record(
        self, program: Program, engine: str, *, new_options: bool = False
    ) -> RunRecorder:
        """Continue the record of a run with its script.

        Args:
            program: The program as recorded.
            engine: Name of the engine that executes it.
            new_options: True: record the limits and the tools of `program`.

        Raises:
            JournalError: If the run cannot be resumed.
        """
        # Read under the lease: another process may have executed the run until now.
        journal = await self.open()
        lease = await journal.acquire(
            program.run_id,
            max_attempts=self.max_attempts,
            options=row_of(program).options if new_options else None,
            engine=engine,
        )
        return await self._recorder(journal, lease, program, engine)

    async def leased_record(self, program: Program, lease: Lease, *, is_new: bool) -> RunRecorder:
        """Continue the record of a run whose lease the queue acquired; `is_new`: it is empty."""
        journal = await self.open()
        if is_new:
            return RunRecorder(journal, lease, approvals_expire_ms=self._expiry)
        return await self._recorder(journal, lease, program)

    async def revise_record(self, program: Program, _engine: str) -> RunRecorder:
        """Archive the record of a run, and continue it with another script or other limits.

        Raises:
            JournalError: If the run cannot be continued.
        """
        journal = await self.open()
        row = row_of(program)
        lease = await journal.revise(replace(row, revision=program.revision - 1))
        return await self._recorder(journal, lease, program)

    async def _recorder(
        self, journal: Journal, lease: Lease, program: Program, engine: str = ""
    ) -> RunRecorder:
        """Load the record of a run and those of its earlier revisions, or release the lease."""
        try:
            recorded = await journal.load(program.run_id)
            require_intact(recorded)
            if engine and recorded.run.engine:
                # Another engine may have started it since `program` was read.
                require_same_engine(program.run_id, recorded.run.engine, engine)
            records = await load_earlier(journal, recorded.run)
        except BaseException:
            journal.release(lease)
            raise
        earlier = None
        if records:
            earlier = EarlierCalls(
                records, reads=program.reads, allow_unmatched=program.allow_unmatched
            )
        return RunRecorder(
            journal, lease, recorded, approvals_expire_ms=self._expiry, earlier=earlier
        )

    # --- reading ----------------------------------------------------------------------------

    async def runs(
        self,
        limit: int = 50,
        *,
        statuses: Iterable[str] = (),
        tool: str | None = None,
        tenant: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        after: str | None = None,
    ) -> RunPage:
        """List recorded runs, newest first.

        Args:
            limit: Runs of a page at most.
            statuses: Only runs with one of these statuses.
            tool: Only runs with a call of this tool, recorded or pending.
            tenant: Only runs of this tenant.
            since: Only runs that started since then: a `datetime`, a `timedelta` before now, or
                text such as ``2h``, ``3d`` or ``2026-11-23T14:00``.
            until: Only runs that started before then.
            after: `RunPage.next_cursor` of the page before, with the same filters.

        Returns:
            A sequence of `RunSummary`, with the cursor of the next page.

        Raises:
            UsageError: If an argument is wrong, such as an unknown status.
        """
        query = create_query(statuses, tool, tenant, since, until, limit, after)
        journal = await self.open()
        return await journal.runs(query)

    async def find(self, run_id: str) -> RunRow | None:
        """Return the row of a run; None if there is no such run."""
        journal = await self.open()
        return await journal.find(validate_recorded_id(run_id))

    async def run(self, run_id: str) -> RunRow:
        """Return the row of a run. Raises `UnknownRunError` if there is no such run."""
        row = await self.find(run_id)
        # `load` raises the error for an unknown run.
        return row if row is not None else (await self.recorded(run_id)).run

    async def recorded(self, run_id: str) -> RunRecord:
        """Load the whole record of a run. Raises `JournalError` if it is unknown or damaged."""
        journal = await self.open()
        return await journal.load(validate_recorded_id(run_id))

    async def events(self, run_id: str, after: int = 0, limit: int = 1_000) -> list[EventRow]:
        """List the recorded output of a run, as `Journal.events`."""
        journal = await self.open()
        return list(await journal.events(validate_recorded_id(run_id), after, limit))

    async def forget(
        self,
        older_than_days: float | None = None,
        *,
        max_runs: int | None = None,
        max_bytes: int | None = None,
        on_progress: Callable[[int], object] = lambda deleted: None,
    ) -> int:
        """Delete the oldest runs that have ended, and reclaim their disk space.

        Runs that are paused, or whose host died, have not ended and are retained. If this is
        cancelled, the runs that were deleted before stay deleted, and the others are whole.

        Args:
            older_than_days: Delete the runs that ended at least so many days ago.
            max_runs: Delete all but the last so many.
            max_bytes: Delete all but the last ones whose records take so many bytes in all.
            on_progress: Called with the number of runs that were deleted so far.

        Returns:
            The number of deleted runs.

        Raises:
            UsageError: If no bound is passed, or one is below 0.
        """
        retention = Retention.of_command(older_than_days, max_runs, max_bytes)
        return await delete_old_runs(
            await self.open(), retention, share=0.5, whole=True, on_progress=on_progress
        )

    async def find_ids(self, prefix: str, limit: int = 20) -> list[str]:
        """List the ids of runs that start with `prefix`, in alphabetical order."""
        journal = await self.open()
        return list(await journal.find_ids(prefix, limit))

    async def pending(self, run_id: str | None = None) -> tuple[PendingCall, ...]:
        """List the calls that await a decision.

        Args:
            run_id: Their run. None: all paused runs, the oldest request first. An index finds
                those, so the number of recorded runs does not matter.
        """
        if run_id is not None:
            return self._undecided(await self.recorded(run_id))
        journal = await self.open()
        rows = await journal.pending()
        return tuple(pending_call(row, run) for run, row in rows)

    def notify_pending(self, calls: Iterable[PendingCall]) -> None:
        """Notify the webhook of calls that a run paused for. Never waits."""
        if self.webhook is not None:
            for call in calls:
                self.webhook.send(pending_notification(call, self._tools.get(call.tool)))

    async def warning_of(self, run_id: str) -> RunWarning | None:
        """Describe the side effects of a run for a new run of its script; None if it had none."""
        return await self.effects.warning_of(validate_run_id(run_id))

    # --- deciding ---------------------------------------------------------------------------

    async def approve(
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
        pending = await self._find_pending(run_id, call, "approval")
        if pending.expires_ms is not None and now_ms() > pending.expires_ms:
            msg = (
                f"run {run_id!r}: the request of call {pending.call} expired; run its script again "
                "(`ptc run`, or `Session.retry`)"
            )
            raise UsageError(msg)
        if arguments is not None:
            validate_edit(pending, arguments, self._tools, await self.recorded(run_id))
        edited = None if arguments is None else dict(arguments)
        return await self._decide(run_id, pending, "approve", edited, by, comment)

    async def reject(
        self, run_id: str, call: str | None = None, *, by: str, comment: str = ""
    ) -> PendingCall:
        """Reject a pending call of a paused run: the script receives a `ToolError`. Final.

        Raises:
            UsageError: As `approve`.
        """
        pending = await self._find_pending(run_id, call, "approval")
        return await self._decide(run_id, pending, "reject", None, by, comment)

    async def settle(
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
        pending = await self._find_pending(run_id, call, "unknown")
        return await self._decide(run_id, pending, outcome, value, by, comment)

    async def _find_pending(self, run_id: str, call: str | None, kind: PendingKind) -> PendingCall:
        """Return the pending call. Raises `UsageError` unless there is exactly one."""
        recorded = await self.recorded(run_id)
        if recorded.run.rolled_back_ms is not None:
            msg = f"run {run_id!r} was rolled back: its calls no longer need a decision"
            raise UsageError(msg)
        decided = [v for v in recorded.decisions if v.kind == kind and call in (None, v.path)]
        candidates = [p for p in self._undecided(recorded) if p.kind == kind]
        matches = [p for p in candidates if call is None or p.call == call]
        if not matches and decided:
            raise UsageError(describe_decision(run_id, max(decided, key=lambda v: v.at_ms)))
        others = (p for p in self._undecided(recorded) if call in (None, p.call))
        if not matches and (other := next(others, None)) is not None:
            raise UsageError(describe_other_decision(run_id, other))
        if len(matches) != 1:
            names = ", ".join(f"{p.call} ({p.tool})" for p in candidates) or "none"
            several = len(matches) > 1
            problem = "name one call" if several else f"there is no pending {call or 'call'}"
            msg = f"run {run_id!r}: {problem}; pending calls: {names}"
            raise UsageError(msg)
        return matches[0]

    async def _decide(
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
            at_ms=now_ms(),
        )
        journal = await self.open()
        if not await journal.decide(run_id, decision):
            # Somebody else decided since the call was read. Of two decisions, the first counts.
            same = (pending.call, pending.kind)
            recorded = await self.recorded(run_id)
            earlier = (v for v in recorded.decisions if (v.path, v.kind) == same)
            raise UsageError(describe_decision(run_id, next(earlier, decision)))
        if self.webhook is not None:
            self.webhook.send(decided_notification(pending, decision))
        return pending

    def _undecided(self, recorded: RunRecord) -> tuple[PendingCall, ...]:
        if recorded.run.rolled_back_ms is not None:
            return ()
        decided = {(v.path, v.kind) for v in recorded.decisions}
        rows = (p for p in recorded.pending if (p.path, p.kind) not in decided)
        return tuple(pending_call(row, recorded.run.run_id) for row in rows)
