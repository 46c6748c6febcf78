"""Interface and rows of a journal, the durable record of runs.

A run is its script, its inputs, and the messages its worker was sent, in order (`Delivery`). A
worker that receives the same messages does the same again, so these rows *are* the run: no state of
a worker is ever stored.

The rest of ptc depends only on `Journal`, so that any store can implement it that guarantees the
following. `ptc.testing.JOURNAL_CHECKS` and `JOURNAL_PROCESS_CHECKS` check it.

1. `append` never waits; entries are stored in that order or not at all.
2. After `barrier`, everything appended before it survives a failure of the machine.
3. Every write carries its `Lease`, whose epoch is a fencing token: once another process has
   acquired the run, writes and barriers with the old lease fail with `LeaseLostError` and change
   nothing.
4. `decide` stores the first decision about a call and no other.
5. A live process keeps its leases without the help of its caller, and the lease of a process that
   is dead or frozen expires. No clock of a machine decides which of both is the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from .._dataclass import dataclass
from .._records._result import CallStatus
from ._documents import Documents
from ._lease import Lease
from ._run_lists import NEWEST_RUNS, EndedRun, RunPage, RunQuery

__all__ = [
    "REPLAYABLE",
    "REVISABLE",
    "CallEnd",
    "CallRow",
    "DecisionRow",
    "Delivery",
    "Entry",
    "EventCount",
    "EventRow",
    "Journal",
    "PendingKind",
    "PendingRow",
    "RevertRow",
    "RevertStatus",
    "RunRecord",
    "RunRow",
    "Tick",
    "UsedDecision",
]

REPLAYABLE: Final = (
    *("queued", "running", "paused", "cancelled", "crashed", "timed_out", "limit_exceeded"),
)
"""Statuses of a run that its own script can continue: nothing in its record makes it stop."""
REVISABLE: Final = (*REPLAYABLE, "failed", "dead")
"""Statuses of a run that another script can continue."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """Request and state of a run."""

    run_id: str
    source: str
    filename: str
    inputs: bytes
    """JSON."""
    options: bytes
    """JSON: further options that the session needs to run it again."""
    seed: int
    clock: float
    """Start of the script's clock, in seconds since 1970."""
    created_ms: int
    status: str = "running"
    """``queued``, ``running``, ``paused``, or as `RunResult.status`."""
    result: bytes | None = None
    """JSON of the `RunResult`; None until the run has ended or is paused."""
    ended_ms: int | None = None
    rolled_back_ms: int | None = None
    """Start of its rollback; None: it was not rolled back."""
    revision: int = 1
    """Number of its script: 1, and one more for each corrected script. The record of revision 1 of
    run ``r`` is the run ``r.1`` once there is another; see `Journal.revise`."""
    attempts: int = 1
    """Times that this revision was started since it was last paused."""
    tenant: str = ""
    """Owner of the run, for limits and lists; ``""``: none was named."""
    size_bytes: int = 0
    """Approximate size of the record with those of its earlier revisions, as counted when the run
    last ended or paused."""
    engine: str = ""
    """Name and version of the engine that started it; ``""``: none has, or that is unknown."""


class CallEnd(NamedTuple):
    """Outcome of a call."""

    status: CallStatus
    ok: bool
    """True if `body` is the value, False if it is an error."""
    body: bytes
    """JSON, as sent to the script, or as it would have been sent."""
    at_ms: int
    elapsed: float | None
    """Seconds on the script's clock when it was sent; None: it was not sent."""
    usage: bytes = b""
    """JSON of the `ptc.models.ModelUsage` of the call itself; ``b""`` if it used no model."""


class CallRow(NamedTuple):
    """A recorded call: its start and, if it has ended, its outcome. A later row replaces it.

    A tuple, as `CallEnd` is, since one is created for each call of a run, and a frozen dataclass of
    ten fields takes two microseconds.
    """

    path: str
    """``3``, or ``3.1`` for the first call that the tool of call 3 made."""
    tool: str
    arguments: bytes
    """Sorted JSON of the arguments as sent, or of their size and digest if they are large; a replay
    must match it."""
    key: str
    """Its idempotency key; ``""`` if none was needed. Each call that a tool makes has one."""
    side_effect: bool
    line: int | None
    attempt: int
    at_ms: int
    making: str = ""
    """Identity of the cached result that it produces; ``""`` if it produces none."""
    end: CallEnd | None = None
    """None: it has started, and its outcome is unknown."""
    partial: bytes = b""
    """JSON of the last partial value that it reported, as `RunEvent.value` of
    ``tool_output_delta``; ``b""`` if there is none, or if it has ended."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A timer message that the script received."""

    elapsed: float


@dataclass(frozen=True, slots=True)
class UsedDecision:
    """The decision to repeat a call was used; if it is interrupted again, a new one is needed."""

    path: str
    attempt: int
    """The attempt that was interrupted."""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A call that awaits a decision."""

    path: str
    kind: Literal["approval", "unknown"]
    """``approval``: it has not started. ``unknown``: it started, and its outcome is unknown."""
    tool: str
    fingerprint: str
    details: bytes
    """JSON: arguments, prompt, defaults."""
    at_ms: int


PendingKind: TypeAlias = Literal["approval", "unknown"]


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision about a pending call.

    One that is appended was made by an approver in this process. Of two decisions about a call, the
    first counts.
    """

    path: str
    kind: PendingKind
    action: Literal["approve", "reject", "done", "failed", "again"]
    """For an approval, ``approve`` or ``reject``; for an unknown outcome, ``done`` with a value,
    ``failed``, or ``again``."""
    value: bytes
    """JSON: edited arguments, the value, or null."""
    by: str
    comment: str
    at_ms: int

    @property
    def edited(self) -> bytes | None:
        """JSON of the arguments that an approver replaced those of the call with, or None."""
        return self.value if self.action == "approve" and self.value != b"null" else None


RevertStatus: TypeAlias = Literal["started", "reverted", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class RevertRow:
    """State of the undo of a call; a later row replaces an earlier one."""

    path: str
    status: RevertStatus
    """``started``: its outcome is unknown until another row replaces this one."""
    attempt: int
    error: str | None
    at_ms: int


class EventRow(NamedTuple):
    """Output of a script, with its time: printed or logged text, a value, or progress.

    Several messages of a script may be one row. Each message belongs to the first row of its kind
    whose number is not below its own.
    """

    number: int
    """`RunEvent.number` of the last message in the row."""
    revision: int
    """Number of the script. A store takes it from the row of the run."""
    kind: str
    """``stdout``, ``stderr``, ``log``, ``emitted``, ``progress``; ``left_out``: this message and
    those after it are not recorded."""
    at_ms: int
    """Time of the first message in the row."""
    body: bytes
    """JSON: the text, the emitted value, ``{"done", "total", "message"}`` of the last report with
    the number of earlier ones that were ``"left_out"``, or the ``{"reason"}``."""


Entry: TypeAlias = CallRow | Tick | PendingRow | DecisionRow | UsedDecision | RevertRow | EventRow


class EventCount(NamedTuple):
    """Number and size of the events of a run."""

    last: int = 0
    """Number of the last one; 0: there is none."""
    rows: int = 0
    bytes: int = 0
    """Bytes of the bodies."""
    complete: bool = True
    """False: further events are not recorded; the last one says why."""


_NO_EVENTS: Final = EventCount()


class Delivery(NamedTuple):
    """A recorded message to the worker."""

    path: str | None
    """The script's call whose outcome it carried; None: a `Tick`."""
    elapsed: float


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The whole record of a run, checked for damage."""

    run: RunRow
    calls: tuple[CallRow, ...]
    deliveries: tuple[Delivery, ...]
    pending: tuple[PendingRow, ...]
    decisions: tuple[DecisionRow, ...]
    reverts: tuple[RevertRow, ...] = ()
    events: EventCount = _NO_EVENTS
    """Its `EventRow` records, which `Journal.events` lists."""


class Journal(Protocol):
    """Interface of a journal.

    Methods that are not asynchronous return at once: they queue an entry for the store. The others
    wait for the store without blocking the event loop. All may raise `JournalError` if the store
    cannot be reached, beside the errors named at each.
    """

    @property
    def documents(self) -> Documents:
        """Named data beside the runs."""
        ...

    # --- leases -----------------------------------------------------------------------------

    def start_run(self, run: RunRow) -> Lease:
        """Create a run and acquire its lease.

        If the id is in use in the store, the next `barrier` or `check` raises `LeaseLostError`.

        Raises:
            BusyRunError: If this journal object holds a lease of a run with this id.
        """
        ...

    async def acquire(
        self,
        run_id: str,
        *,
        max_attempts: int | None = None,
        options: bytes | None = None,
        engine: str = "",
    ) -> Lease:
        """Acquire the free or expired lease of a run, to resume it with its script.

        Args:
            run_id: The run. Its status is one of `REPLAYABLE`.
            max_attempts: Starts after which it is not started again. A pause starts the count
                anew. None: any number.
            options: New options of the run; None: the recorded ones.
            engine: Engine that executes it, which is recorded if no other one has started it.

        Raises:
            UnknownRunError: If there is no such run.
            BusyRunError: If another process executes it.
            EndedRunError: If it has ended, was rolled back, or was started too often.
        """
        ...

    async def revise(self, run: RunRow) -> Lease:
        """Archive the record of a run, and acquire its lease, to execute another script.

        In one transaction, the record and its calls become the run ``ID.N``, where N is the old
        revision, and the run starts anew with the source, file name and options of `run`. The
        archived run can be read like any other, and is deleted with the run.

        Args:
            run: The run, with the revision that is archived. Its status is one of `REVISABLE`.

        Raises:
            UnknownRunError: If there is no such run.
            BusyRunError: If another process executes it, or has revised it.
            EndedRunError: If it cannot be continued, or was rolled back.
        """
        ...

    async def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        """Acquire the free or expired lease of a run, whatever its status, to roll it back.

        The run can never be resumed after this. If it had not ended, it becomes ``cancelled``.

        Raises:
            UnknownRunError: If there is no such run.
            BusyRunError: If another process executes it.
        """
        ...

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """Record the result of a run that ended or is paused, and release its lease."""

    def release(self, lease: Lease) -> None:
        """Release the lease of a run that was interrupted and can be resumed."""

    # --- writing ----------------------------------------------------------------------------

    def append(self, lease: Lease, entry: Entry) -> None:
        """Append an entry to a run. The next `barrier` or `check` reports a failure.

        After an entry that could not be written, all further entries of that run are dropped, so
        that its record has no gap. Other runs are not affected.
        """

    @property
    def behind(self) -> bool:
        """True if callers that can wait should wait at a `barrier`, to bound the queue."""
        ...

    async def barrier(self, lease: Lease) -> None:
        """Wait until all appended entries are durable.

        Raises:
            LeaseLostError: If another process acquired the run.
            JournalError: If an entry of the run could not be written.
        """

    def check(self, lease: Lease) -> None:
        """Raise the errors of `barrier` that are known so far."""

    async def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """Record a decision durably; False if there was one already.

        Raises:
            UnknownRunError: If there is no such run.
        """
        ...

    async def delete_ended(self, before_ms: int, limit: int = 50, *, before_number: int = 0) -> int:
        """Delete the oldest runs that ended before a time, and return their number.

        Their archived records are deleted with them. One transaction: call it with a small `limit`
        and again until it deletes fewer, so that others can write between the batches.

        Args:
            before_ms: The time, in ms since 1970.
            limit: Runs to delete at most.
            before_number: Also delete the runs with a lower number that ended at that time.
        """
        ...

    async def reclaim_space(self, *, whole: bool = False) -> bool:
        """Return some unused space of the store to the system.

        Args:
            whole: True: all of it, however long one call takes. False: a part for each call, and
                only as long as a quarter of the store is unused, since new runs use it again.

        Returns:
            True if another call would return more.
        """
        ...

    # --- reading ----------------------------------------------------------------------------
    # A read sees every entry that was appended before it through the same object.

    async def load(self, run_id: str) -> RunRecord:
        """Load the record of a run.

        Raises:
            UnknownRunError: If there is no such run.
            DamagedRunError: If a row of it is damaged or missing.
        """
        ...

    async def events(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[EventRow]:
        """List the recorded events of a run, by number.

        Args:
            run_id: The run.
            after: Number of the last event that is known.
            limit: Number of events at most.

        Raises:
            UnknownRunError: If there is no such run.
            DamagedRunError: If a row is damaged.
        """
        ...

    async def find(self, run_id: str) -> RunRow | None:
        """Return the row of a run without its calls; None if there is no such run."""

    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        """List runs, newest first, without the records of earlier revisions.

        Raises:
            UsageError: If `RunQuery.after` is not a cursor.
        """
        ...

    async def ended_runs(self, limit: int, before: EndedRun | None = None) -> Sequence[EndedRun]:
        """List the runs that ended, the last one first, without earlier revisions.

        Args:
            limit: Runs at most.
            before: Only the runs that follow this one in the list.
        """
        ...

    async def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """List the ids of runs that start with `prefix`, in order, without earlier revisions."""
        ...

    async def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        """List the ids of runs that stopped without completing, newest first.

        Args:
            since_ms: Earliest end, in ms since 1970.
            limit: Number of runs at most.
        """
        ...

    async def repeated_effects(
        self, run_id: str, since_ms: int, limit: int
    ) -> Sequence[tuple[str, str]]:
        """List the calls with a side effect that a run repeats.

        Args:
            run_id: The run.
            since_ms: Earliest end, in ms since 1970, of the runs of `failed_runs` that made calls
                with the same arguments.
            limit: Number of calls at most, and of such runs.

        Returns:
            The id of the failed run, the newest first, and the tool of each call.
        """
        ...

    async def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """List the undecided calls of all paused runs, oldest first, each with its run's id."""
        ...

    async def close(self) -> None:
        """Write all queued entries, and release the store with all leases."""
