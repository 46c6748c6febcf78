"""What a journal holds and what is asked of one: the seam that a store stands behind.

A run is its script, its inputs, and the messages its worker was sent, in the order they were sent
(`Delivery`). A worker given the same messages does the same again, so these rows *are* the run:
nothing of a worker's state is ever kept.

Everything above this module speaks to a `Journal`; `_sqlite.SqliteJournal` is the one there is. A
server's database can stand here instead if it gives these promises:

1. `append` never waits; what was appended is kept in that order or not at all.
2. After `barrier`, everything appended before it outlives the machine.
3. Every write names its `Lease`; once another has claimed the run, writes of the old lease fail
   with `LeaseLostError` and change nothing.
4. `decide` keeps the first decision about a call and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from .._records._result import CallStatus
from ..errors import JournalError

__all__ = [
    "CallEnd",
    "CallRow",
    "CallStart",
    "CallWhole",
    "Delivery",
    "Entry",
    "Journal",
    "Lease",
    "LeaseLostError",
    "Pending",
    "PendingKind",
    "Recorded",
    "RevertRow",
    "RevertStatus",
    "RunRow",
    "Spent",
    "Tick",
    "Verdict",
]


class LeaseLostError(JournalError):
    """Raised when another has taken the run over: what this one does is no longer recorded."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write about a run, until another claims it."""

    run_id: str
    number: int
    """The run's number in its journal."""
    epoch: int
    """Which claim of the run this is, from 1."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it was asked for, and what has come of it."""

    run_id: str
    source: str
    filename: str
    inputs: bytes
    """JSON."""
    options: bytes
    """JSON: what else the session needs to run it again."""
    seed: int
    clock: float
    """Seconds since 1970 that the script's clock began with."""
    created_ms: int
    status: str = "running"
    """``running``, ``paused``, or as `RunResult.status`."""
    result: bytes | None = None
    """JSON of the `RunResult`, once there is one."""
    ended_ms: int | None = None
    rolled_back_ms: int | None = None
    """When somebody began to undo it; None: nobody did."""


class CallStart(NamedTuple):
    """A call as it was made.

    A tuple, as `CallEnd` is: one is made for each call of a run, and a frozen dataclass of ten
    fields takes two microseconds.
    """

    path: str
    """``3``, or ``3.1`` for the first call that the tool of call 3 made."""
    tool: str
    arguments: bytes
    """Sorted JSON of the arguments as they were sent, or of their size and digest where they are
    large; a replay is held to it."""
    key: str
    """Its idempotency key; ``""`` where none was needed. Each call that a tool makes has one."""
    side_effect: bool
    line: int | None
    attempt: int
    at_ms: int
    making: str = ""
    """Identity of the cached result that it makes; ``""`` if it makes none."""


class CallEnd(NamedTuple):
    """What came of a call."""

    path: str
    status: CallStatus
    ok: bool
    """True if `body` is the value, False if it is an error."""
    body: bytes
    """JSON, as the script was or would have been given it."""
    at_ms: int
    elapsed: float | None
    """Seconds on the script's clock when it was given it; None: it was not."""


class CallWhole(NamedTuple):
    """A call without a side effect, written in one piece when it has ended."""

    start: CallStart
    end: CallEnd


@dataclass(frozen=True, slots=True)
class Tick:
    """The script was told that its clock moved on."""

    elapsed: float


@dataclass(frozen=True, slots=True)
class Spent:
    """The decision to make a call again was used; if its end is unknown again, it is asked anew."""

    path: str
    attempt: int
    """The try whose end was not known."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A call that waits for a decision."""

    path: str
    kind: Literal["approval", "unknown"]
    """``approval``: it was not made yet. ``unknown``: it began and its end is not known."""
    tool: str
    fingerprint: str
    details: bytes
    """JSON: arguments, prompt, defaults."""
    at_ms: int


PendingKind: TypeAlias = Literal["approval", "unknown"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about a pending call.

    Appended, it is that of an approver in this process; of two the first counts.
    """

    path: str
    kind: PendingKind
    action: Literal["approve", "reject", "done", "failed", "again"]
    """Of an approval ``approve`` or ``reject``; of an unknown end ``done`` with a value,
    ``failed``, or ``again``."""
    value: bytes
    """JSON: edited arguments, the value, or null."""
    by: str
    comment: str
    at_ms: int


RevertStatus: TypeAlias = Literal["started", "reverted", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class RevertRow:
    """How far the undoing of a call is; a later one takes its place."""

    path: str
    status: RevertStatus
    """``started``: it may have been done; nobody knows."""
    attempt: int
    error: str | None
    at_ms: int


Entry: TypeAlias = CallStart | CallEnd | CallWhole | Tick | Pending | Verdict | Spent | RevertRow


class Delivery(NamedTuple):
    """A message that the worker was sent."""

    path: str | None
    """The call of the script whose outcome it was; None: a `Tick`."""
    elapsed: float


class CallRow(NamedTuple):
    """A call as it is recorded: `CallStart` and, if it came to one, its end."""

    start: CallStart
    end: CallEnd | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Everything that is recorded of a run, checked."""

    run: RunRow
    calls: tuple[CallRow, ...]
    deliveries: tuple[Delivery, ...]
    pending: tuple[Pending, ...]
    verdicts: tuple[Verdict, ...]
    reverts: tuple[RevertRow, ...] = ()


class Journal(Protocol):
    """What sessions ask of a journal. Methods may block for a moment; none waits for a disk."""

    def begin(self, run: RunRow) -> Lease:
        """Note a new run. Raises `JournalError` if its id is taken."""

    def claim(self, run_id: str) -> Lease:
        """Take a run that nobody drives over.

        Raises:
            JournalError: If there is no such run, it has ended, was rolled back, or somebody drives
                it.
        """

    def discard(self, run_id: str, at_ms: int) -> Lease:
        """Take a run over to roll it back, whatever has become of it: it cannot be claimed again.

        If it had not ended it is ``cancelled``.

        Raises:
            JournalError: If there is no such run, or somebody drives it.
        """

    def append(self, lease: Lease, entry: Entry) -> None:
        """Add to a run. Never waits; a failure is told by the next `barrier` or `check`.

        What could not be written is lost, and so is all that the run adds after it: what is kept of
        a run has no gap. Other runs are not concerned.
        """

    @property
    def behind(self) -> bool:
        """True if so much is kept in memory that who can wait should, at a `barrier`."""
        ...

    async def barrier(self, lease: Lease) -> None:
        """Wait until all that was appended is durable.

        Raises:
            LeaseLostError: If another has taken the run over.
            JournalError: If it cannot be written.
        """

    def check(self, lease: Lease) -> None:
        """Raise as `barrier` would, of what has been tried already. Never waits."""

    def end(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """Note how a run ended or that it is paused, and give the lease back."""

    def release(self, lease: Lease) -> None:
        """Give the lease of a run back that has not ended: it was cut off, and can be resumed."""

    def flush(self) -> None:
        """Wait until the writer has tried all that was appended.

        Raises:
            JournalError: If the last of it could not be written. What was lost before is told to
                the runs that it was of, by `check` and `barrier`.
        """

    def load(self, run_id: str) -> Recorded:
        """Everything recorded of a run. Raises `JournalError` if it is unknown or damaged."""

    def find(self, run_id: str) -> RunRow | None:
        """The run alone; None if there is none."""

    def runs(self, limit: int = 50) -> Sequence[RunRow]:
        """The newest runs, newest first."""

    def decide(self, run_id: str, verdict: Verdict) -> bool:
        """Note a decision, durably; False if there was one already. Raises as `load`."""

    def sweep(self, before_ms: int) -> int:
        """Forget runs that ended before a time, and give the room back; how many they were."""

    def close(self) -> None:
        """Write what is left and let go of the file."""
