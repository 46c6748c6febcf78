"""Interface of a queue of runs, which workers on many machines take and execute.

A queue only has to deliver each run at least once: a run is executed under the lease of its
journal, so a second delivery finds it busy or ended and does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from .._dataclass import dataclass
from ._journal import RunRow
from ._lease import Lease

__all__ = [
    "Claim",
    "QueueStatus",
    "QueuedJournal",
    "RunQueue",
    "Submission",
    "TenantLimits",
    "TenantStatus",
    "WorkerStatus",
]


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that is to be executed by any worker that has its tools."""

    run: RunRow
    """Its status is ``queued``."""
    tools: Mapping[str, str]
    """Digest of each tool that it may call."""
    priority: int = 0
    """Runs of a tenant with a higher number start first."""
    delay_ms: int = 0
    """Time before which it does not start."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that this worker took from the queue; `RunQueue.finish` gives it back."""

    job: int
    """Number of its entry in the queue."""
    run_id: str
    tenant: str
    tries: int
    """Times that the entry was put back."""
    run: RunRow | None
    """Its row before it was taken; None: the run was deleted."""
    lease: Lease | None = None
    """Its lease. None: it has ended, another process executes it, or it was started too often."""
    damage: str = ""
    """Reason why its row cannot be read; it has no `run` and no lease then."""


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Limits of the runs of a tenant; None: there is none."""

    max_running: int | None = None
    """Runs that are executed at once, on all machines together."""
    rate_per_second: float | None = None
    """Runs that start in a second, on average."""
    burst: int = 1
    """Runs that may start at once after a pause, if there is a rate."""
    max_queued: int | None = None
    """Runs that wait; `submit` refuses further ones."""


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """Runs and limits of a tenant."""

    name: str
    limits: TenantLimits
    queued: int
    running: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker that is alive."""

    worker: str
    description: str
    slots: int
    running: int
    is_draining: bool


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """State of a queue."""

    tenants: tuple[TenantStatus, ...]
    workers: tuple[WorkerStatus, ...]
    unserved: Mapping[str, Sequence[str]]
    """Runs that no worker can execute, the oldest 100, each with the names of the tools that are
    missing or different, and ``engine NAME`` if they wait for the engine that started them."""


class RunQueue(Protocol):
    """Interface of a queue. All methods raise `JournalError` if the store cannot be reached."""

    @property
    def heartbeat_seconds(self) -> float:
        """Time between two calls of `heartbeat` of a worker."""
        ...

    # --- submitting ---------------------------------------------------------------------------

    async def submit(self, submissions: Sequence[Submission]) -> Sequence[str]:
        """Record runs and enqueue them, in one transaction.

        Returns:
            The ids of runs that were there before. Nothing is changed for them.

        Raises:
            QueueFullError: If the queue is full. Nothing is submitted.
        """
        ...

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the worker that executes a run to cancel it; False if it was not submitted."""
        ...

    async def remove(self, run_id: str) -> None:
        """Remove a run that has ended from the queue."""

    # --- working --------------------------------------------------------------------------------

    async def register(
        self, tools: Mapping[str, str], slots: int, max_attempts: int, engine: str
    ) -> None:
        """Announce a worker, its engine and the digests of its tools.

        Args:
            tools: Digest of each tool.
            slots: Runs at once.
            max_attempts: Starts of a run after which it is not started again.
            engine: Name of its engine. Runs that another family of engines started are not taken;
                see `family_of`.
        """

    async def claim(self, most: int) -> Sequence[Claim]:
        """Take up to `most` runs that this worker can execute now, and acquire their leases."""
        ...

    async def finish(self, claims: Sequence[Claim]) -> None:
        """Give runs back: those that have ended, or await a decision, leave the queue.

        Others stay in it, to be taken by any worker.
        """

    async def postpone(self, claim: Claim, delay_ms: int) -> None:
        """Give a run back that cannot be executed now; it can be taken after `delay_ms`."""

    async def heartbeat(self, jobs: Sequence[int]) -> Sequence[str]:
        """Keep the entries of running runs; return the runs that are to be cancelled."""
        ...

    async def bury(self, run_id: str, result: bytes, at_ms: int) -> bool:
        """Record that a run that no process executes is dead; False if it was continued or ended.

        Args:
            run_id: The run.
            result: JSON of the `RunResult`, with status ``dead``.
            at_ms: Time.
        """
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until the queue changes, or for `seconds`."""

    async def tidy(self) -> None:
        """Raise the priority of runs that wait long, and delete old rows.

        Several workers may call it at once; one does the work.
        """

    async def drain(self) -> None:
        """Announce that this worker takes no more runs."""

    # --- administration -------------------------------------------------------------------------

    async def set_tenant(self, name: str, **changes: Any) -> TenantLimits:
        """Change limits of a tenant, by the names of `TenantLimits`, and return all of them."""
        ...

    async def status(self) -> QueueStatus:
        """Return the state of the queue."""
        ...


@runtime_checkable
class QueuedJournal(Protocol):
    """A journal whose runs workers on many machines can take."""

    @property
    def queue(self) -> RunQueue:
        """The queue."""
        ...
