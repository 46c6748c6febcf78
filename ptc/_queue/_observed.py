"""The state of a running worker, as its health endpoint shows it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio

from .._session._session import Session, report_gauges
from .._telemetry._names import Metric
from ..errors import PtcError
from ..journal._sample import ObservedJournal, QueueSample
from ._health import QUERY_SECONDS, HealthServer, WorkerState
from ._worker import Outcome, Worker

__all__ = ["ObservedWorker"]

_SAMPLE_SECONDS: Final = 15.0
"""Time between two samples of the queue; exporters read more rarely."""


class ObservedWorker:
    """A worker whose health others can ask for."""

    def __init__(
        self,
        worker: Worker,
        session: Session,
        journal: ObservedJournal,
        *,
        slots: int,
        lease_seconds: float,
    ) -> None:
        """Prepare to observe a worker.

        Args:
            worker: The worker.
            session: Its session.
            journal: Its journal.
            slots: As for `Worker`.
            lease_seconds: Time without a heartbeat after which its runs are continued elsewhere.
        """
        self._worker, self._session, self._journal = worker, session, journal
        self._slots, self._lease_seconds = slots, lease_seconds
        self._outcomes: Counter[str] = Counter()
        self._warming: asyncio.Task[None] | None = None
        self._sample: tuple[float, QueueSample | None] = (0.0, None)

    def count(self, outcome: Outcome) -> None:
        """Count the end of a run."""
        self._outcomes["put back" if outcome.result is None else outcome.result.status] += 1

    def state(self) -> WorkerState:
        """Return the state. If there is no zygote, one is started."""
        if not self._session.is_warm and (self._warming is None or self._warming.done()):
            self._warming = asyncio.create_task(self._warm_up())
        now, heartbeat = time.monotonic(), self._journal.heartbeat
        return WorkerState(
            slots=self._slots,
            running=self._worker.running,
            is_draining=self._worker.is_draining,
            has_zygote=self._session.is_warm,
            lease_seconds=self._lease_seconds,
            attempt_age=now - heartbeat.attempted,
            lease_age=now - heartbeat.confirmed,
            outcomes=dict(self._outcomes),
        )

    async def _warm_up(self) -> None:
        with contextlib.suppress(PtcError):
            await self._session.warm_up()

    async def report(self) -> None:
        """Sample the queue for OpenTelemetry until cancelled, unless that is off."""
        if not report_gauges(self._session, self._read_gauges):
            return
        while True:
            with contextlib.suppress(PtcError), anyio.move_on_after(QUERY_SECONDS):
                self._sample = time.monotonic(), await self._journal.sample_queue()
            await anyio.sleep(_SAMPLE_SECONDS)

    def _read_gauges(self) -> Iterator[tuple[str, float, Mapping[str, str]]]:
        """Read the lease and, if the store has answered of late, the queue."""
        now, (sampled, queue) = time.monotonic(), self._sample
        yield Metric.LEASE_AGE, now - self._journal.heartbeat.confirmed, {}
        if queue is None or now - sampled > 3 * _SAMPLE_SECONDS:
            return
        yield Metric.QUEUE_DEPTH, sum(each.queued for each in queue.tenants), {}
        ages = (each.oldest_seconds for each in queue.tenants)
        yield Metric.QUEUE_AGE, max(ages, default=0.0), {}

    @asynccontextmanager
    async def serve(self, host: str, port: int) -> AsyncIterator[HealthServer]:
        """Serve the health endpoint while the context is open.

        Raises:
            SetupError: If the address cannot be used.
        """
        self.state()
        try:
            async with HealthServer(
                self.state, self._journal.sample_queue, host=host, port=port
            ) as server:
                yield server
        finally:
            if self._warming is not None:
                self._warming.cancel()
                await asyncio.wait([self._warming])
