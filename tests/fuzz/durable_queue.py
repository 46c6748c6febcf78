"""The processes of the deaths `queue`: workers that take runs, and a desk that decides about them.

A worker executes runs of the queue. The desk submits runs, approves and rejects calls, records the
outcomes of interrupted ones, cancels some runs and resumes those that stopped. Each of them may be
killed at a step of its journal or at any time, and is replaced.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial, wraps
from random import Random
from typing import Any, TextIO

import anyio
import anyio.to_thread

from ptc import Limits, Session
from ptc._queue._worker import Worker
from ptc._runs._program_row import load_result
from ptc.errors import EndedRunError, JournalError, SetupError, UnknownRunError
from ptc.journal._journal import CallRow, RunRow
from ptc.journal._writes import run_number
from tests.fuzz.durable_host import Place, check_rows, comparable, decide
from tests.fuzz.durable_ledger import Ledger
from tests.fuzz.durable_mutants import MUTANTS
from tests.fuzz.durable_steps import Steps, watch
from tests.fuzz.durable_world import CORRECTIONS, TOOLS, program, save_programs, tools

__all__ = ["LIMITED", "MOST_RUNNING", "TENANTS", "prepare", "serve_desk", "serve_worker"]

SLOTS = 4
MOST_RUNNING = 2
LIMITED = "limited"
"""A tenant with at most `MOST_RUNNING` runs at once."""
TENANTS = ("", "", "", LIMITED)
_CANCELLED = 0.25
"""Share of the runs that are cancelled once."""
_QUEUE_STEPS = ("claim", "finish", "postpone", "heartbeat", "register", "tidy")
_ROUND_STEPS = ("_dequeue", "_start", "_spend")


def prepare(place: Place) -> None:
    """Create the folders of the processes."""
    ledger = Ledger(place.folder / "runs")
    (place.folder / "runs").mkdir()
    (place.folder / "root").mkdir()
    save_programs(place.folder / "root", tools(ledger, Steps.step))


def serve_worker(place: Place, kill_at: int | None) -> None:
    """Execute runs until the process is killed."""
    _run_watched(place, kill_at, _work)


def serve_desk(place: Place, kill_at: int | None, requests: TextIO, answers: TextIO) -> None:
    """Submit the requested runs, and report their ends."""
    _run_watched(place, kill_at, partial(_decide, requests=requests, answers=answers))


def _run_watched(place: Place, kill_at: int | None, main: Callable[[Place, Ledger], Any]) -> None:
    if place.mutant:
        MUTANTS[place.mutant]()
    ledger = Ledger(place.folder / "runs")
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
    logging.getLogger("ptc").setLevel(logging.CRITICAL)
    _note_writes(ledger)
    watch()
    _watch_queue()
    plan = {} if kill_at is None else {kill_at: _die}
    Steps.reset(plan)
    anyio.run(main, place, ledger)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _watch_queue() -> None:
    """Make the operations of the queue steps, some of them in the middle of a transaction."""
    from ptc.journal._postgres._claims import ClaimRounds
    from ptc.journal._postgres._queue import PostgresQueue

    for owner, names in ((PostgresQueue, _QUEUE_STEPS), (ClaimRounds, _ROUND_STEPS)):
        for name in names:
            _replace(owner, name, _stepping)


def _stepping(inner: Any) -> Any:
    @wraps(inner)
    async def call(*args: Any, **options: Any) -> Any:
        Steps.step()
        found = await inner(*args, **options)
        Steps.step()
        return found

    return call


def _note_writes(ledger: Ledger) -> None:
    """Note leases, and the starts and ends of calls that were stored, in the ledger."""
    from ptc.journal._postgres._batches import PostgresBatches
    from ptc.journal._postgres._journal import PostgresJournal
    from ptc.journal._postgres._queue import PostgresQueue

    _replace(PostgresBatches, "commit", partial(_noted_commit, ledger))
    _replace(PostgresQueue, "claim", partial(_noted_claim, ledger))
    _replace(PostgresJournal, "acquire", partial(_noted_lease, ledger, words=()))
    _replace(PostgresJournal, "revise", partial(_noted_lease, ledger, words=("revise",)))


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrap(getattr(owner, name)))


def _noted_commit(ledger: Ledger, inner: Any) -> Any:
    def commit(self: Any, batch: Any, leases: Any, *args: Any, **options: Any) -> None:
        inner(self, batch, leases, *args, **options)
        for write in batch:
            if write.kind == "call" and leases.is_whole(write.lease):
                row = CallRow(*write.values[1:10])
                status, ok = write.values[10:12]
                key = row.key or row.path
                if row.side_effect and status == "started":
                    ledger.note(write.values[0], "start", key, write.lease.epoch)
                elif ok:
                    ledger.note(write.values[0], "end", key, row.path)

    return commit


def _noted_claim(ledger: Ledger, inner: Any) -> Any:
    async def claim(self: Any, most: int) -> Any:
        claims = await inner(self, most)
        for each in claims:
            if each.lease is not None:
                ledger.note(each.lease.number, "lease", each.lease.epoch, os.getpid())
        return claims

    return claim


def _noted_lease(ledger: Ledger, inner: Any, words: Sequence[str]) -> Any:
    @wraps(inner)
    async def acquire(self: Any, *args: Any, **options: Any) -> Any:
        lease = await inner(self, *args, **options)
        ledger.note(lease.number, "lease", lease.epoch, os.getpid())
        for word in words:
            ledger.note(lease.number, word)
        return lease

    return acquire


@asynccontextmanager
async def _session(place: Place, ledger: Ledger) -> AsyncIterator[Session]:
    journal = await anyio.to_thread.run_sync(place.open)
    try:
        async with Session(
            place.folder / "root",
            tools=tools(ledger, Steps.step),
            toolsets=(),
            journal=journal,
            workers=1,
            max_attempts=10_000,
            max_concurrent_runs=32,
            engine=place.engine,
        ) as session:
            yield session
    finally:
        await journal.close()


async def _work(place: Place, ledger: Ledger) -> None:
    async with _session(place, ledger) as session:
        worker = Worker(session, slots=SLOTS, on_outcome=lambda outcome: None)
        async with anyio.create_task_group() as group:
            group.start_soon(_drain_on_signal, worker)
            await worker.run()
            group.cancel_scope.cancel()


async def _drain_on_signal(worker: Worker) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        await signals.__anext__()
        await worker.drain()
        await worker.release()


# --- the desk -----------------------------------------------------------------------------------


async def _decide(place: Place, ledger: Ledger, *, requests: TextIO, answers: TextIO) -> None:
    async with _session(place, ledger) as session, anyio.create_task_group() as group:
        await session.set_tenant(LIMITED, max_running=MOST_RUNNING)
        desk = Desk(session, ledger, answers)
        group.start_soon(desk.watch_limits)
        while line := await anyio.to_thread.run_sync(requests.readline):
            group.start_soon(desk.follow, json.loads(line))
        group.cancel_scope.cancel()


class Desk:
    """Submits runs and does for them what people do, until they end."""

    def __init__(self, session: Session, ledger: Ledger, answers: TextIO) -> None:
        self._session = session
        self._history = session.history
        self._ledger = ledger
        self._answers = answers
        self._chance = Random()

    async def follow(self, request: dict[str, Any]) -> None:
        """Submit a run, and report its end or the error."""
        run_id: str = request["run"]
        try:
            with anyio.fail_after(request["seconds"]):
                found = await self._follow(run_id, request["program"], request["tenant"])
        except Exception as error:  # noqa: BLE001  # reported to the fuzzer
            found = {"error_text": f"{type(error).__name__}: {error}"}
            found["trace"] = traceback.format_exc()
            if isinstance(error, TimeoutError):
                found["trace"] += await self._state(run_id)
        self._answer({"run": run_id, **found})

    def _answer(self, found: dict[str, Any]) -> None:
        print(json.dumps(found), file=self._answers, flush=True)  # a pipe

    async def _follow(self, run_id: str, name: str, tenant: str) -> dict[str, Any]:
        if await self._history.find(run_id) is None or self._chance.random() < 0.5:
            # Submitted again, a run is not changed.
            await self._submit(run_id, name, tenant)
        cancel_at = self._chance.random() * 0.6 if self._chance.random() < _CANCELLED else None
        while True:
            row = await self._history.run(run_id)
            with suppress(JournalError, SetupError):  # it is busy, or a worker goes on with it
                found = await self._look(row, name)
                if found is not None:
                    return found
                if cancel_at is not None and self._is_due(cancel_at):
                    cancel_at = None
                    await self._cancel(run_id)
            await anyio.sleep(0.04)

    def _is_due(self, chance: float) -> bool:
        return self._chance.random() < 0.02 + chance / 10

    async def _submit(self, run_id: str, name: str, tenant: str) -> None:
        await self._session.submit(
            **program(name),
            allowed_tools=TOOLS,
            limits=Limits(max_tool_calls=5_000),
            tenant=tenant,
            run_id=run_id,
        )

    async def _look(self, row: RunRow, name: str) -> dict[str, Any] | None:
        run_id = row.run_id
        if row.status == "paused":
            await decide(self._session, run_id, self._ledger.of_run(run_id))
        elif row.status == "cancelled":
            self._ledger.note(run_number(run_id), "cancelled", row.ended_ms)
            await self._session.resume(run_id)
        elif row.status == "crashed":
            await self._session.resume(run_id)
        elif row.status == "failed" and row.revision == 1 and name in CORRECTIONS:
            await self._session.resume(run_id, source=CORRECTIONS[name])
        elif row.status not in ("queued", "running"):
            return await self._outcome(row)
        return None

    async def _cancel(self, run_id: str) -> None:
        self._ledger.note(run_number(run_id), "cancel")
        with suppress(EndedRunError):
            await self._session.cancel(run_id)

    async def _outcome(self, row: RunRow) -> dict[str, Any]:
        result = load_result(row)
        assert result is not None, row.status
        await check_rows(self._session, row.run_id, result)
        calls = (await self._history.recorded(row.run_id)).calls
        return {
            **comparable(result),
            "retried": [call.path for call in calls if call.tool in ("again", "owe")],
        }

    async def _state(self, run_id: str) -> str:
        with suppress(UnknownRunError):
            row = await self._history.run(run_id)
            pending = await self._history.pending(run_id)
            queue = await self._session.queue_status()
            return f"{row.status}, attempts {row.attempts}, pending {pending}, {queue}"
        return "it is unknown"

    async def watch_limits(self) -> None:
        """Report if a tenant has more runs at once than it may have."""
        while True:
            await anyio.sleep(0.2)
            with suppress(JournalError):
                status = await self._session.queue_status()
                counts = {each.name: [each.queued, each.running] for each in status.tenants}
                self._answer({"counts": counts})
