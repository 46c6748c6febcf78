"""A worker: takes runs from the queue of a journal, and executes them in a session.

Rule 1: a run leaves the queue only after its end, or its pause, is in the journal.
    tests/core/queue/test_worker.py::test_run_of_a_killed_worker_is_finished_by_another
Rule 2: a worker that drains takes no run, and puts those back that it could not finish.
    tests/core/queue/test_worker.py::test_drained_worker_finishes_its_runs_and_takes_no_more
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from .._core._clock import now_ms
from .._dataclass import dataclass
from .._records._result import RunResult
from .._runs._submissions import dead_result
from .._session._queue_session import queued_runs_of
from .._session._session import Session
from ..errors import DamagedRunError, JournalError, OtherEngineError, PtcError, UsageError
from ..journal._queue import Claim, RunQueue

__all__ = ["Outcome", "Worker"]

_log = logging.getLogger("ptc")
_POLL_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 1.0
"""Pause after an error of the store."""
_SHORT_SECONDS: Final = 0.05
_GATHER_SECONDS: Final = 0.01
"""Time in which a busy worker gathers ends and free slots, so that one request serves several."""
_BUSY_MS: Final = 1_000
_MOST_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a run on a worker, for its log."""

    claim: Claim
    result: RunResult | None
    """None: the run goes on elsewhere."""
    note: str
    seconds: float


class Worker:
    """Executes runs of a queue, up to a number at once."""

    def __init__(
        self, session: Session, *, slots: int, on_outcome: Callable[[Outcome], object]
    ) -> None:
        """Prepare the worker; nothing is started.

        Args:
            session: An open session, whose `max_concurrent_runs` is at least `slots`.
            slots: Runs at once.
            on_outcome: Receives the end of each run.
        """
        self._session = session
        self._queued_runs = queued_runs_of(session)
        self._slots = slots
        self._on_outcome = on_outcome
        self._active: dict[str, Claim] = {}
        self._finished: list[Claim] = []
        self._draining = False
        self._failure: PtcError | None = None
        self._waiting: anyio.CancelScope | None = None
        self._giving = anyio.Lock()
        self._free = anyio.Event()
        self._done = anyio.Event()

    @property
    def running(self) -> int:
        """Number of runs that are executed."""
        return len(self._active)

    @property
    def is_draining(self) -> bool:
        """True if it takes no more runs."""
        return self._draining

    async def run(self) -> None:
        """Take and execute runs until `drain` is called and they have ended.

        Raises:
            UsageError: If the journal has no queue.
            PtcError: If this machine cannot execute runs. Those that were taken are put back.
        """
        queue = await self._queued_runs.queue()
        await self._session.warm_up()
        history, tools = self._session.history, self._queued_runs.digests
        await queue.register(tools, self._slots, history.max_attempts, self._session.engine)
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(self._beat, queue)
            helpers.start_soon(self._give_back, queue)
            async with anyio.create_task_group() as runs:
                await self._take(queue, runs)
            await self._give_back_once(queue)
            helpers.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def drain(self) -> None:
        """Take no more runs; `run` returns when those that are executed have ended."""
        self._stop_taking()
        queue = await self._queued_runs.queue()
        await queue.drain()

    async def release(self) -> None:
        """Stop the runs that are executed, so that other workers continue them."""
        self._stop_taking()
        while self._active:
            for run_id in list(self._active):
                # One that waits for its process is not found yet.
                self._queued_runs.interrupt(run_id)
            await anyio.sleep(_SHORT_SECONDS)

    def _stop_taking(self) -> None:
        self._draining = True
        self._free.set()
        if self._waiting is not None:
            self._waiting.cancel()

    async def _take(self, queue: RunQueue, runs: TaskGroup) -> None:
        claims: Sequence[Claim] = ()
        while not self._draining:
            free = self._slots - len(self._active)
            if free <= 0:
                self._free = anyio.Event()
                await self._free.wait()
                continue
            if claims and free < self._slots / 2:
                await anyio.sleep(_GATHER_SECONDS)
                free = self._slots - len(self._active)
            try:
                claims = await queue.claim(free)
                for claim in claims:
                    # After a loss of connection, a worker may take a run that it executes.
                    self._active.setdefault(claim.run_id, claim)
                    runs.start_soon(self._execute, queue, claim)
                if not claims and not self._draining:
                    with anyio.CancelScope() as self._waiting:
                        await queue.wait(_POLL_SECONDS)
                    self._waiting = None
            except JournalError as error:
                _log.warning("no run is taken: %s", error)
                await anyio.sleep(_PAUSE_SECONDS)

    async def _execute(self, queue: RunQueue, claim: Claim) -> None:
        started = time.perf_counter()
        result, note, delay_ms = None, "", None
        try:
            result, note, delay_ms = await self._outcome(queue, claim)
        except PtcError as error:
            # This machine is the problem, not the run.
            note, self._failure = str(error), error
            self._stop_taking()
        finally:
            if self._active.get(claim.run_id) is claim:
                del self._active[claim.run_id]
            self._free.set()
        if delay_ms is None:
            self._finished.append(claim)
            self._done.set()
        else:
            await self._postpone(queue, claim, delay_ms)
        self._on_outcome(Outcome(claim, result, note, time.perf_counter() - started))

    async def _outcome(
        self, queue: RunQueue, claim: Claim
    ) -> tuple[RunResult | None, str, int | None]:
        """Execute a run; return its result, a note, and a delay if it is to be taken again."""
        if claim.damage:
            return await self._bury_damaged(queue, claim, claim.damage)
        if claim.lease is None:
            return await self._refuse(queue, claim)
        try:
            return await self._queued_runs.execute(claim), "", None
        except DamagedRunError as error:
            return await self._bury_damaged(queue, claim, str(error))
        except OtherEngineError:
            # The session has changed its engine: the worker starts again with the new one.
            raise
        except UsageError as error:
            if claim.tries >= _MOST_TRIES:
                return await self._bury(queue, claim, str(error))
            return None, str(error), _BUSY_MS * 2**claim.tries
        except JournalError as error:
            return None, str(error), _BUSY_MS

    async def _refuse(
        self, queue: RunQueue, claim: Claim
    ) -> tuple[RunResult | None, str, int | None]:
        """Handle a run whose lease was not acquired."""
        run = claim.run
        if run is None:
            return None, "was deleted", None
        if run.status not in ("queued", "running", "paused"):
            return None, f"had ended: {run.status}", None
        most = self._session.history.max_attempts
        if run.status == "running" and run.attempts >= most:
            reason = (
                f"it was started {run.attempts} times, and each time its worker died before the "
                "end of the run"
            )
            return await self._bury(queue, claim, reason)
        return None, "is executed elsewhere", _BUSY_MS

    async def _bury(
        self, queue: RunQueue, claim: Claim, reason: str
    ) -> tuple[RunResult | None, str, int | None]:
        hint = (
            f"continue it with a corrected script: `ptc resume {claim.run_id} --script FILE`; or "
            "run its script again (`ptc run`, or `Session.retry`)"
        )
        result = await self._record_dead(queue, claim, reason, hint)
        return (result, "", None) if result else (None, "is executed elsewhere", _BUSY_MS)

    async def _bury_damaged(
        self, queue: RunQueue, claim: Claim, reason: str
    ) -> tuple[RunResult | None, str, int | None]:
        """Bury a run that cannot be read. If it has ended, it leaves the queue."""
        hint = "restore its record from a backup of the database, or submit the script again"
        result = await self._record_dead(queue, claim, reason, hint)
        return result, "" if result else reason, None

    async def _record_dead(
        self, queue: RunQueue, claim: Claim, reason: str, hint: str
    ) -> RunResult | None:
        """Record that a run is dead; None if it has ended or is executed elsewhere."""
        result = dead_result(claim.run_id, f"the run is dead: {reason}", hint)
        dead = await queue.bury(claim.run_id, result.to_json(), now_ms())
        return result if dead else None

    async def _postpone(self, queue: RunQueue, claim: Claim, delay_ms: int) -> None:
        try:
            await queue.postpone(claim, delay_ms)
        except JournalError as error:
            # Without heartbeats, the queue delivers it again.
            _log.warning("run %s was not put back: %s", claim.run_id, error)

    async def _give_back(self, queue: RunQueue) -> None:
        while True:
            await self._done.wait()
            if self._active:
                await anyio.sleep(_GATHER_SECONDS)
            self._done = anyio.Event()
            await self._give_back_once(queue)

    async def _give_back_once(self, queue: RunQueue) -> None:
        try:
            async with self._giving:
                claims, self._finished = self._finished, []
                if claims:
                    await queue.finish(claims)
        except JournalError as error:
            # Without heartbeats, the queue delivers them again.
            _log.warning("some runs were not taken out of the queue: %s", error)

    async def _beat(self, queue: RunQueue) -> None:
        while True:
            await anyio.sleep(queue.heartbeat_seconds)
            try:
                jobs = [claim.job for claim in self._active.values()]
                for run_id in await queue.heartbeat(jobs):
                    self._queued_runs.stop(run_id)
                await queue.tidy()
            except JournalError as error:
                _log.warning("no heartbeat was sent: %s", error)
