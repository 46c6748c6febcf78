"""Numbers of a queue and its workers, for health and metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import field
from typing import Protocol, runtime_checkable

from .._dataclass import dataclass

__all__ = ["Heartbeat", "ObservedJournal", "QueueSample", "TenantSample"]


@dataclass(slots=True)
class Heartbeat:
    """Times of a worker's heartbeats, by `time.monotonic`."""

    attempted: float = field(default_factory=time.monotonic)
    """End of the last attempt."""
    confirmed: float = field(default_factory=time.monotonic)
    """Start of the last attempt that the store confirmed."""


@dataclass(frozen=True, slots=True)
class TenantSample:
    """Runs of a tenant in the queue."""

    name: str
    queued: int
    running: int
    oldest_seconds: float
    """Age of the run that waits longest, from the time at which it could have started."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """State of a queue."""

    tenants: Sequence[TenantSample]
    unknown_outcomes: int
    """Calls whose outcome somebody has to decide."""
    dead: int
    """Runs that were started too often."""


@runtime_checkable
class ObservedJournal(Protocol):
    """A journal with a heartbeat and a queue."""

    heartbeat: Heartbeat

    async def sample_queue(self) -> QueueSample:
        """Read the state of the queue.

        Raises:
            JournalError: If the store cannot be reached.
        """
        ...
