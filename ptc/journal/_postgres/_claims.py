"""Rounds in which a worker takes runs: fair shares and limits of tenants, and leases.

Rule 1: the limits of a tenant hold on all machines together, also while workers die.
    tests/core/queue/test_limits.py::test_limit_holds_on_all_machines_while_workers_die
Rule 2: a run that an engine has started is never acquired for another one.
    tests/core/queue/test_engines.py::test_run_waits_for_the_engine_that_started_it
Rule 3: a damaged row is reported with its claim, and fails no round.
    tests/core/queue/test_damaged_runs.py::test_damaged_runs_are_buried_alone
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

from ..._records._engine_names import family_of
from ...errors import DamagedRunError
from .._fair_share import Demand, divide_slots
from .._journal import RunRow
from .._lease import Lease
from .._queue import Claim
from .._record import build_run
from . import _queue_statements as sql
from ._run_rows import decode_run
from ._statements import POSITION
from ._toolsets import digest_of, encode_tools, missing_tools, read_tools, with_engine

__all__ = ["ClaimRounds"]


class ClaimRounds:
    """Takes runs from the queue for one worker."""

    def __init__(
        self, worker: str, lease_seconds: float, label: str, held: Callable[[], Collection[int]]
    ) -> None:
        """Prepare the rounds.

        Args:
            worker: Id of the worker.
            lease_seconds: Time without a heartbeat after which its runs are taken by others.
            label: Name of the store, for errors.
            held: Returns the numbers of the runs whose leases this worker holds.
        """
        self._worker, self._lease_seconds, self._label = worker, lease_seconds, label
        self._held = held
        self._tools: dict[str, str] = {}
        self._engine = ""
        self._most_attempts = 1
        self._served: dict[str, bool] = {}
        """True for each set of tools that this worker has."""
        self._toolsets: dict[str, dict[str, str]] = {}
        """The sets of tools that it has met, by digest."""
        self.next_seconds = 0.0
        """Time until a run may start that its tenant's rate held back in the last round."""

    def register(
        self, tools: Mapping[str, str], max_attempts: int, engine: str
    ) -> Mapping[str, str]:
        """Set what the worker has, as `RunQueue.register`; return its tools with its engine."""
        self._tools, self._served = with_engine(tools, engine), {}
        self._engine, self._most_attempts = engine, max_attempts
        return self._tools

    async def claim(self, connection: Any, queries: Any, most: int) -> Sequence[Claim]:
        """Take up to `most` runs, in one transaction."""
        self.next_seconds = 0.0
        demand = await self._demand(connection, most)
        tenants = sorted(
            {tenant_of(name) for name, (_, stale, ready) in demand.items() if stale or ready}
        )
        if not tenants:
            return []
        # A worker that is frozen in this transaction must not keep others from their work.
        async with connection.transaction():
            await connection.execute(sql.SHORT_TIMEOUTS)
            locked = {row["name"]: row for row in await connection.fetch(sql.LOCK_TENANTS, tenants)}
            demand = await self._demand(connection, most)
            demand = {name: each for name, each in demand.items() if tenant_of(name) in locked}
            shares = await self._shares(connection, demand, locked, most)
            jobs = await self._dequeue(queries, demand, shares, most)
            await self._spend(connection, locked, jobs, demand)
            claims = await self._start(connection, jobs)
        return claims

    async def _demand(self, connection: Any, most: int) -> dict[str, tuple[int, int, int]]:
        """Return running, stale and ready runs by entrypoint.

        Of runs that this worker does not serve, those that run count for the limits of tenants.
        """
        rows = await connection.fetch(sql.DEMAND, most, self._lease_seconds)
        await self._learn(connection, {row[0].rpartition("/")[2] for row in rows})
        return {
            name: (running, stale, ready)
            if self._served[name.rpartition("/")[2]]
            else (running, 0, 0)
            for name, running, stale, ready in map(tuple, rows)
        }

    async def _learn(self, connection: Any, digests: set[str]) -> None:
        unknown = digests - self._served.keys()
        if not unknown:
            return
        found = {row[0]: row[1] for row in await connection.fetch(sql.TOOLSETS, list(unknown))}
        for digest in unknown:
            tools = self._toolsets[digest] = read_tools(found.get(digest, ""))
            self._served[digest] = not missing_tools(tools, self._tools)

    async def _shares(
        self,
        connection: Any,
        demand: Mapping[str, tuple[int, int, int]],
        limits: Mapping[str, Any],
        most: int,
    ) -> dict[str, int]:
        """Return the number of new runs to take, by entrypoint."""
        free = most - min(most, sum(stale for _, stale, _ in demand.values()))
        demands = {}
        for tenant, row in limits.items():
            own = [each for name, each in demand.items() if tenant_of(name) == tenant]
            running = sum(each[0] for each in own)
            ready = sum(each[2] for each in own)
            if row["max_running"] is not None:
                ready = min(ready, max(0, row["max_running"] - running))
            if row["rate_per_second"] is not None and ready > int(row["tokens"]):
                ready = int(row["tokens"])
                wait = (1 - row["tokens"] % 1) / row["rate_per_second"]
                self.next_seconds = min(self.next_seconds or wait, wait)
            demands[tenant] = Demand(running, ready)
        shares: dict[str, int] = {}
        for tenant, share in divide_slots(free, demands).items():
            names = [name for name, each in demand.items() if tenant_of(name) == tenant and each[2]]
            if len(names) == 1:
                shares[names[0]] = share
            else:
                rows = await connection.fetch(sql.BY_PRIORITY, names, share)
                shares |= {row[0]: row[1] for row in rows}
        return shares

    async def _dequeue(
        self,
        queries: Any,
        demand: Mapping[str, tuple[int, int, int]],
        shares: Mapping[str, int],
        most: int,
    ) -> list[Any]:
        from pgqueuer.ports.repository import EntrypointExecutionParameter

        # A limit counts the running ones too. Without new ones, it lets the stale ones be taken.
        limits = {
            name: EntrypointExecutionParameter(concurrency_limit=running + shares.get(name, 0))
            for name, (running, stale, _) in demand.items()
            if stale or shares.get(name)
        }
        if not limits:
            return []
        jobs: list[Any] = await queries.dequeue(
            batch_size=most,
            entrypoints=limits,
            queue_manager_id=uuid.UUID(self._worker),
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=self._lease_seconds),
        )
        return jobs

    async def _spend(
        self,
        connection: Any,
        limits: Mapping[str, Any],
        jobs: Sequence[Any],
        demand: Mapping[str, tuple[int, int, int]],
    ) -> None:
        """Take the tokens of the runs that start from the tenants that have a rate."""
        rated = {name: row["tokens"] for name, row in limits.items() if row["rate_per_second"]}
        if not rated or not jobs:
            return
        taken = Counter(tenant_of(job.entrypoint) for job in jobs)
        stale = Counter[str]()
        for name, (_, stalled, _) in demand.items():
            stale[tenant_of(name)] += stalled
        spent = {
            name: tokens - max(0, taken[name] - stale[name])
            for name, tokens in rated.items()
            if taken[name]
        }
        await connection.execute(sql.SPEND, list(spent), list(spent.values()))

    async def _start(self, connection: Any, jobs: Sequence[Any]) -> list[Claim]:
        """Acquire the leases of runs that were taken."""
        if not jobs:
            return []
        by_run = {(job.payload or b"").decode(errors="replace"): job for job in jobs}
        rows = await connection.fetch(
            sql.START,
            *(list(by_run), self._worker, self._most_attempts, list(self._held())),
            *(self._engine, family_of(self._engine)),
        )
        claims, damaged = [], []
        for number, epoch, status, *values in map(tuple, rows):
            job = by_run.pop(values[0])
            run = self._read(values)
            if isinstance(run, str):
                damaged.append(number)
                claims.append(_claim_of(job, run))
                continue
            position = 0
            if status != "queued":
                position = await connection.fetchval(POSITION, number)
            lease = Lease(run.run_id, number, epoch, count(position + 1))
            claims.append(_claim_of(job, replace(run, status=status), lease))
        if damaged:
            await connection.execute(sql.GIVE_UP, damaged, self._worker)
        if by_run:
            # Ended, executed elsewhere, started too often, or deleted.
            rows = await connection.fetch(sql.ROWS, list(by_run))
            found = {row[0]: self._read(tuple(row)) for row in rows}
            for name in await self._sort_out(connection, by_run, found):
                del by_run[name]
            claims += [_claim_of(job, found.get(name)) for name, job in by_run.items()]
        return claims

    async def _sort_out(
        self, connection: Any, jobs: Mapping[str, Any], runs: Mapping[str, RunRow | str]
    ) -> list[str]:
        """Give the runs back that another engine has started; return their ids.

        Their entries require that engine from now on, so this happens once to a run.
        """
        moved = []
        toolsets = {}
        for run_id, run in runs.items():
            if isinstance(run, str) or not self._is_foreign(run):
                continue
            tenant, _, digest = jobs[run_id].entrypoint.rpartition("/")
            tools = with_engine(self._toolsets[digest], run.engine)
            toolsets[digest_of(tools)] = encode_tools(tools)
            moved.append((run_id, f"{tenant}/{digest_of(tools)}", digest_of(tools)))
        if moved:
            await connection.execute(sql.INSERT_TOOLSETS, [*toolsets], [*toolsets.values()])
            ids = [jobs[run_id].id for run_id, _, _ in moved]
            await connection.execute(sql.SORT, *map(list, zip(*moved, strict=True)), ids)
        return [run_id for run_id, _, _ in moved]

    def _is_foreign(self, run: RunRow) -> bool:
        is_open = run.status in ("running", "paused") and run.rolled_back_ms is None
        is_other = bool(run.engine) and family_of(run.engine) != family_of(self._engine)
        return is_open and is_other

    def _read(self, row: Sequence[Any]) -> RunRow | str:
        """Return the row of a run, or the reason why it cannot be read."""
        try:
            return build_run(decode_run(row), self._label)
        except DamagedRunError as error:
            return str(error)


def tenant_of(entrypoint: str) -> str:
    """Return the tenant in a name of the queue, which is tenant, slash, and digest of tools."""
    return entrypoint.rpartition("/")[0]


def _claim_of(job: Any, run: RunRow | str | None, lease: Lease | None = None) -> Claim:
    """Build a claim; `run` may be the reason why its row cannot be read."""
    row, damage = (None, run) if isinstance(run, str) else (run, "")
    tenant, run_id = tenant_of(job.entrypoint), (job.payload or b"").decode(errors="replace")
    return Claim(job.id, run_id, tenant, job.attempts, row, lease, damage)
