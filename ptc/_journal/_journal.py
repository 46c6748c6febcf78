"""Interface and rows of a journal, the durable record of runs.

A run is its script, its inputs, and the messages its worker was sent, in order (`Delivery`). A
worker that receives the same messages does the same again, so these rows *are* the run: no state of
a worker is ever stored.

The rest of ptc depends only on `Journal`; `_sqlite.SqliteJournal` is its one implementation. A
database server can implement it too if it guarantees the following:

1. `append` never waits; entries are stored in that order or not at all.
2. After `barrier`, everything appended before it survives a failure of the machine.
3. Every write carries its `Lease`, whose epoch is a fencing token: once another process has
   acquired the run, writes with the old lease fail with `LeaseLostError` and change nothing.
4. `decide` stores the first decision about a call and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from .._records._result import CallStatus
from ..errors import JournalError
from ._documents import Documents

__all__ = [
    "CallEnd",
    "CallRow",
    "DecisionRow",
    "Delivery",
    "Entry",
    "Journal",
    "Lease",
    "LeaseLostError",
    "PendingKind",
    "PendingRow",
    "RevertRow",
    "RevertStatus",
    "RunRecord",
    "RunRow",
    "Tick",
    "UsedDecision",
]


class LeaseLostError(JournalError):
    """Raised when another process acquired the run, so this one can no longer record it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right to write to a run, until another process acquires it."""

    run_id: str
    number: int
    """Number of the run in its journal."""
    epoch: int
    """Fencing token: counts the acquisitions of the run, from 1."""


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
    """``running``, ``paused``, or as `RunResult.status`."""
    result: bytes | None = None
    """JSON of the `RunResult`; None until the run has ended or is paused."""
    ended_ms: int | None = None
    rolled_back_ms: int | None = None
    """Start of its rollback; None: it was not rolled back."""


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


Entry: TypeAlias = CallRow | Tick | PendingRow | DecisionRow | UsedDecision | RevertRow


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


class Journal(Protocol):
    """Interface of a journal. Methods may block for a moment; none waits for a disk."""

    @property
    def documents(self) -> Documents: ...  # named data beside the runs

    def start_run(self, run: RunRow) -> Lease:
        """Create a run and acquire its lease. Raises `JournalError` if its id is in use."""
        ...

    def acquire(self, run_id: str) -> Lease:
        """Acquire the free or expired lease of a run, to resume it.

        Raises:
            JournalError: If there is no such run, it has ended, was rolled back, or another process
                executes it.
        """
        ...

    def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        """Acquire the free or expired lease of a run, whatever its status, to roll it back.

        The run can never be resumed after this. If it had not ended, it becomes ``cancelled``.

        Raises:
            JournalError: If there is no such run, or another process executes it.
        """
        ...

    def append(self, lease: Lease, entry: Entry) -> None:
        """Append an entry to a run. Never waits; the next `barrier` or `check` reports a failure.

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
            JournalError: If it cannot be written.
        """

    def check(self, lease: Lease) -> None:
        """Raise the errors of `barrier` that are known so far. Never waits."""

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """Record the result of a run that ended or is paused, and release its lease."""

    def release(self, lease: Lease) -> None:
        """Release the lease of a run that was interrupted and can be resumed."""

    def flush(self) -> None:
        """Wait until the writer has tried to write all appended entries.

        Raises:
            JournalError: If the last batch could not be written. `check` and `barrier` report
                earlier failures to the runs concerned.
        """

    def load(self, run_id: str) -> RunRecord:
        """Load the record of a run. Raises `JournalError` if it is unknown or damaged."""
        ...

    def find(self, run_id: str) -> RunRow | None:
        """Return the row of a run without its calls; None if there is no such run."""

    def runs(self, limit: int = 50) -> Sequence[RunRow]:
        """List the newest runs, newest first."""
        ...

    def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """List the ids of runs that start with `prefix`, in their order."""
        ...

    def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """List the undecided calls of all paused runs, oldest first, each with its run's id."""
        ...

    def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """Record a decision durably; False if there was one already. Raises as `load`."""
        ...

    def delete_ended(self, before_ms: int, limit: int | None = None) -> int:
        """Delete runs that ended before a time, and return their number.

        Args:
            before_ms: The time, in ms since 1970.
            limit: Runs to delete at most, of the oldest; then the space is not reclaimed, which
                would take the time of writing the whole file. None: all.
        """
        ...

    def close(self) -> None:
        """Write all queued entries and close the file."""
