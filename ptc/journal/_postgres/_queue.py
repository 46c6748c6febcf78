"""The queue of runs in PostgreSQL: PgQueuer delivers them, and the journal's leases guard them.

Rule 1: a submitted run and its entry in the queue are stored in one transaction.
    tests/core/queue/test_queue.py::test_submitted_run_is_queued_with_its_entry
Rule 2: a decision about a paused run enqueues it in the transaction of the decision.
    tests/core/queue/test_worker.py::test_decision_continues_the_run_on_any_worker
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from ...errors import QueueFullError
from .._lease import Lease
from .._queue import (
    Claim,
    QueueStatus,
    Submission,
    TenantLimits,
    TenantStatus,
    WorkerStatus,
)
from .._writes import run_number, run_values
from . import _queue_statements as sql
from ._claims import ClaimRounds
from ._run_rows import encode_run
from ._server import Server
from ._toolsets import digest_of, encode_tools, missing_tools, read_tools

__all__ = ["PostgresQueue"]

_T = TypeVar("_T")
_MOST_QUEUED: Final = 100_000
"""Runs that may wait, of all tenants together. Submissions at one instant may exceed it by a few: a
lock for all of them would cost more than it is worth."""
_SOON: Final = 0.01
_UNFINISHED: Final = ("queued", "running")


class PostgresQueue:
    """As `RunQueue`; owned by a `PostgresJournal`."""

    def __init__(
        self,
        server: Server,
        schema: str,
        worker: str,
        lease_seconds: float,
        *,
        call: Callable[..., Awaitable[Any]],
        hold: Callable[[Lease], None],
        held: Callable[[], Collection[int]],
    ) -> None:
        """Prepare the queue; nothing is read.

        Args:
            server: The connections.
            schema: Schema of the tables.
            worker: Id of the journal object as a holder of leases.
            lease_seconds: Time without a heartbeat after which others take its runs.
            call: Calls a coroutine of the server after the queued writes of the journal.
            hold: Notes a lease that the queue acquired.
            held: Returns the numbers of the runs whose leases the journal holds.
        """
        self._server, self._schema, self._worker = server, schema, worker
        self._lease_seconds = lease_seconds
        self.heartbeat_seconds: float = lease_seconds / 3
        self._call_server = call
        self._hold = hold
        self._dispatcher: Any = None
        self._installing = asyncio.Lock()
        self._rounds = ClaimRounds(worker, lease_seconds, server.label, held)
        self._changed: asyncio.Event | None = None

    async def _run(self, use: Callable[[Any], Awaitable[_T]]) -> _T:
        async def prepared() -> _T:
            await self._prepare()
            return await self._server.run(use, "written")

        result: _T = await self._call_server(prepared)
        return result

    async def _prepare(self) -> None:
        """Create the tables of PgQueuer, in the thread of the connections."""
        if self._dispatcher is not None:
            return
        async with self._installing:
            if self._dispatcher is None:
                from ._dispatcher import Dispatcher

                dispatcher = Dispatcher(self._schema)
                await self._server.run(dispatcher.install, "opened")
                self._dispatcher = dispatcher

    # --- submitting ---------------------------------------------------------------------------

    async def submit(self, submissions: Sequence[Submission]) -> Sequence[str]:
        """As `RunQueue.submit`."""
        return await self._run(lambda connection: self._submit(connection, submissions))

    async def _submit(self, connection: Any, submissions: Sequence[Submission]) -> Sequence[str]:
        toolsets = {digest_of(each.tools): encode_tools(each.tools) for each in submissions}
        async with connection.transaction():
            await self._add_names(connection, submissions, toolsets)
            runs = [each.run for each in submissions]
            values = [encode_run((run_number(run.run_id), *run_values(run))) for run in runs]
            rows = await connection.fetch(sql.INSERT_RUNS, *map(list, zip(*values, strict=True)))
            inserted = {row[0] for row in rows}
            new = {each.run.run_id: each for each in submissions if each.run.run_id in inserted}
            if new:
                await self._check_length(connection, new.values())
                await connection.execute(
                    sql.INSERT_SUBMISSIONS,
                    [run_number(run_id) for run_id in new],
                    list(new),
                    [_entrypoint(each) for each in new.values()],
                    [each.run.tenant for each in new.values()],
                    [digest_of(each.tools) for each in new.values()],
                    [each.priority for each in new.values()],
                    [each.delay_ms for each in new.values()],
                )
                await self._enqueue(
                    connection,
                    [
                        (run_id, _entrypoint(each), each.priority, each.delay_ms)
                        for run_id, each in new.items()
                    ],
                )
        return [each.run.run_id for each in submissions if each.run.run_id not in inserted]

    async def _add_names(
        self, connection: Any, submissions: Sequence[Submission], toolsets: Mapping[str, str]
    ) -> None:
        tenants = sorted({each.run.tenant for each in submissions})
        await connection.execute(
            sql.INSERT_TOOLSETS, *map(list, zip(*sorted(toolsets.items()), strict=True))
        )
        await connection.execute(
            "INSERT INTO tenants(name) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING",
            tenants,
        )

    async def _check_length(self, connection: Any, submissions: Collection[Submission]) -> None:
        """Refuse new runs beyond the length of the queue, in their transaction."""
        counts = Counter(each.run.tenant for each in submissions)
        limits = await connection.fetch(
            "SELECT name, max_queued FROM tenants WHERE name=ANY($1::text[])", list(counts)
        )
        most = {row["name"]: row["max_queued"] for row in limits if row["max_queued"] is not None}
        if most:
            # Others that submit for these tenants wait, so that their counts see this transaction.
            # Not the rows, which the rounds of workers lock.
            await connection.execute(sql.LOCK_LENGTHS, list(most))
        checks = [(None, len(submissions), _MOST_QUEUED)]
        checks += [(name, counts[name], limit) for name, limit in most.items()]
        for tenant, count, limit in checks:
            length = await connection.fetchval(sql.QUEUED, tenant, limit)
            if length + count > limit:
                place = "the queue" if tenant is None else f"the queue of tenant {tenant!r}"
                msg = f"{place} has {length:,} runs and may have {limit:,}; submit again later"
                raise QueueFullError(msg, tenant=tenant, length=length, limit=limit)

    async def _enqueue(self, connection: Any, entries: Sequence[tuple[str, str, int, int]]) -> None:
        """Enqueue runs that are not in the queue: id, entrypoint, priority and delay."""
        await self._dispatcher.queries(connection).enqueue(
            [entrypoint for _, entrypoint, _, _ in entries],
            [run_id.encode() for run_id, _, _, _ in entries],
            [priority for _, _, priority, _ in entries],
            [timedelta(milliseconds=delay_ms) for _, _, _, delay_ms in entries],
            [run_id for run_id, _, _, _ in entries],
            on_conflict="skip",
        )

    async def enqueue_decided(self, connection: Any, run_id: str) -> None:
        """Enqueue a run about which a decision was made, in the transaction of the decision."""
        row = await connection.fetchrow(
            "SELECT entrypoint, priority FROM submissions WHERE run_id=$1", run_id
        )
        if row is not None:
            await self._prepare()
            await self._enqueue(connection, [(run_id, row[0], row[1], 0)])

    async def request_cancel(self, run_id: str) -> bool:
        """As `RunQueue.request_cancel`."""

        async def request(connection: Any) -> bool:
            done = await connection.fetchval(
                "UPDATE submissions SET cancel=TRUE WHERE run_id=$1 RETURNING 1", run_id
            )
            return done is not None

        return await self._run(request)

    async def remove(self, run_id: str) -> None:
        """As `RunQueue.remove`."""

        async def remove(connection: Any) -> None:
            jobs = [row[0] for row in await connection.fetch(sql.REMOVE, run_id)]
            await self._end_jobs(connection, jobs, "canceled")

        await self._run(remove)

    async def _end_jobs(self, connection: Any, jobs: Sequence[int], status: str) -> None:
        if jobs:
            builder = self._dispatcher.queries(connection).qbq
            await connection.execute(
                builder.build_log_job_query(), list(jobs), [status] * len(jobs), [None] * len(jobs)
            )

    # --- working --------------------------------------------------------------------------------

    async def register(
        self, tools: Mapping[str, str], slots: int, max_attempts: int, engine: str
    ) -> None:
        """As `RunQueue.register`."""
        text = encode_tools(self._rounds.register(tools, max_attempts, engine))

        async def register(connection: Any) -> None:
            await connection.execute(sql.ANNOUNCE, self._worker, text, slots)

        await self._run(register)

    async def drain(self) -> None:
        """As `RunQueue.drain`."""
        await self._run(lambda connection: connection.execute(sql.DRAIN, self._worker))

    async def claim(self, most: int) -> Sequence[Claim]:
        """As `RunQueue.claim`."""

        async def take(connection: Any) -> Sequence[Claim]:
            return await self._rounds.claim(connection, self._dispatcher.queries(connection), most)

        claims: Sequence[Claim] = await self._run(take)
        for claim in claims:
            if claim.lease is not None:
                self._hold(claim.lease)
        return claims

    async def finish(self, claims: Sequence[Claim]) -> None:
        """As `RunQueue.finish`."""
        jobs = {claim.run_id: claim.job for claim in claims}

        async def finish(connection: Any) -> None:
            async with connection.transaction():
                rows = await connection.fetch(sql.ENDS, list(jobs), self._worker)
                states = {row["run_id"]: row for row in rows}
                paused = [name for name, row in states.items() if row["status"] == "paused"]
                decided = set[str]()
                if paused:
                    found = await connection.fetch(sql.DECIDED, paused)
                    decided = {row[0] for row in found}
                again = [name for name, row in states.items() if _is_unfinished(row)]
                if again:
                    await connection.execute(sql.RELEASE, again, self._worker)
                for run_id in {*again, *decided}:
                    await self._retry(connection, jobs[run_id], 0)
                ended = [
                    job
                    for run_id, job in jobs.items()
                    if run_id not in decided
                    and (run_id not in states or states[run_id]["status"] not in _UNFINISHED)
                ]
                await self._end_jobs(connection, ended, "successful")
                stopped = [name for name, row in states.items() if row["status"] == "cancelled"]
                if stopped:
                    await connection.execute(sql.NO_CANCEL, stopped)

        await self._run(finish)

    async def postpone(self, claim: Claim, delay_ms: int) -> None:
        """As `RunQueue.postpone`."""

        async def postpone(connection: Any) -> None:
            await self._retry(connection, claim.job, delay_ms)

        await self._run(postpone)

    async def _retry(self, connection: Any, job: int, delay_ms: int) -> None:
        query = self._dispatcher.queries(connection).qbq.build_retry_job_query()
        await connection.execute(query, job, timedelta(milliseconds=delay_ms), None)

    async def heartbeat(self, jobs: Sequence[int]) -> Sequence[str]:
        """As `RunQueue.heartbeat`."""

        async def beat(connection: Any) -> Sequence[str]:
            await self._dispatcher.queries(connection).update_heartbeat(list(jobs))
            return [row[0] for row in await connection.fetch(sql.CANCELS, list(jobs))]

        return await self._run(beat) if jobs else []

    async def tidy(self) -> None:
        """As `RunQueue.tidy`."""

        async def tidy(connection: Any) -> None:
            async with connection.transaction():
                if not await connection.fetchval(sql.TRY_TIDY):
                    return
                for statement in sql.TIDY:
                    await connection.execute(statement)
                lost = await connection.fetch(sql.LOST)
                if lost:
                    await self._enqueue(connection, [(row[0], row[1], row[2], 0) for row in lost])

        await self._run(tidy)

    async def bury(self, run_id: str, result: bytes, at_ms: int) -> bool:
        """As `RunQueue.bury`."""

        async def bury(connection: Any) -> bool:
            return await connection.fetchval(sql.BURY, run_id, result, at_ms) is not None

        return await self._run(bury)

    async def wait(self, seconds: float) -> None:
        """As `RunQueue.wait`."""
        if self._rounds.next_seconds:
            seconds = min(seconds, max(_SOON, self._rounds.next_seconds))
        await self._call_server(lambda: self._wait(seconds))

    async def _wait(self, seconds: float) -> None:
        await self._prepare()
        if self._changed is None:
            self._changed = asyncio.Event()
            changed = self._changed
            self._server.listen(self._dispatcher.channel, lambda _: changed.set())
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return
        self._changed.clear()

    # --- administration -------------------------------------------------------------------------

    async def set_tenant(self, name: str, **changes: Any) -> TenantLimits:
        """As `RunQueue.set_tenant`."""
        columns = [key for key in TenantLimits.__slots__ if key in changes]
        assert len(columns) == len(changes)  # noqa: S101  # the caller names fields
        sets = ", ".join(f"{key}=${index}" for index, key in enumerate(columns, 2))
        update = f"UPDATE tenants SET {sets} WHERE name=$1"  # noqa: S608  # our names

        async def change(connection: Any) -> TenantLimits:
            async with connection.transaction():
                await connection.execute(
                    "INSERT INTO tenants(name) VALUES($1) ON CONFLICT DO NOTHING", name
                )
                if columns:
                    await connection.execute(update, name, *[changes[key] for key in columns])
                row = await connection.fetchrow(
                    "SELECT max_running, rate_per_second, burst, max_queued FROM tenants"
                    " WHERE name=$1",
                    name,
                )
            return TenantLimits(*row)

        return await self._run(change)

    async def status(self) -> QueueStatus:
        """As `RunQueue.status`."""

        async def read(connection: Any) -> QueueStatus:
            tenants = [
                TenantStatus(row[0], TenantLimits(*row[1:5]), row[5], row[6])
                for row in await connection.fetch(sql.TENANTS)
            ]
            rows = await connection.fetch(sql.WORKERS)
            workers = [WorkerStatus(row[0], row[1], row[2] or 0, row[5], row[3]) for row in rows]
            known = await connection.fetch("SELECT digest, tools FROM toolsets")
            announced = [read_tools(row["tools"]) for row in rows if not row["draining"]]
            served = [
                row[0]
                for row in known
                if any(not missing_tools(read_tools(row[1]), tools) for tools in announced)
            ]
            unserved = {}
            for run_id, text in map(tuple, await connection.fetch(sql.UNSERVED, served, 100)):
                lacks = [missing_tools(read_tools(text), tools) for tools in announced]
                unserved[run_id] = min(lacks, key=len, default=sorted(read_tools(text)))
            return QueueStatus(tuple(tenants), tuple(workers), unserved)

        return await self._run(read)


def _entrypoint(submission: Submission) -> str:
    return f"{submission.run.tenant}/{digest_of(submission.tools)}"


def _is_unfinished(row: Any) -> bool:
    """True if no process executes a run that has not ended."""
    return row["status"] in _UNFINISHED and (row["own"] or not row["alive"])
