"""The journal in PostgreSQL.

A host is a worker with an id of its own and one heartbeat, by the clock of the server: neither the
clock of a machine nor the number of a process decides whether a run is being executed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

import anyio

from ..._core._clock import now_ms
from ..._core._threads import complete_in_thread
from ...errors import BusyRunError, JournalError, UsageError
from .._address import describe_address
from .._continuable import archived_id, require_replayable, require_revisable
from .._journal import DecisionRow, EventRow, PendingRow, RunRecord, RunRow
from .._lease import Lease
from .._record import build_summary
from .._run_lists import NEWEST_RUNS, EndedRun, RunPage, RunQuery, list_runs
from .._run_writes import RunWrites
from .._sample import Heartbeat, QueueSample
from .._writes import decision_values, run_number
from ._batches import PostgresBatches
from ._documents import PostgresDocuments
from ._embedded import EmbeddedServer
from ._notifications import Notifications, RunWatch
from ._queue import PostgresQueue
from ._queue_statements import NO_CANCEL
from ._reader import PostgresReader
from ._sample import read_sample
from ._server import Server
from ._statements import (
    ACQUIRE,
    ACQUIRE_FOR_ROLLBACK,
    ARCHIVE,
    DECIDE,
    DELETE,
    HEARTBEAT,
    IS_DECIDED,
    LOCK_NUMBER,
    LOCK_RUN,
    POSITION,
    RELEASE_FAILED,
    REVISE,
    STATE,
    TABLES_OF_RUNS,
    TAKE_BACK,
)
from ._tables import migrate

__all__ = ["PostgresJournal"]

_T = TypeVar("_T")
LEASE_SECONDS: Final = 15.0
"""Time without a heartbeat after which another worker may acquire the runs of a worker."""


class PostgresJournal(RunWrites):
    """A journal in a schema of a PostgreSQL database, shared by many machines."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "ptc",
        lease_seconds: float = LEASE_SECONDS,
        embedded: EmbeddedServer | None = None,
    ) -> None:
        """Connect, and create or migrate the tables. Waits for the server.

        Args:
            url: Address, as ``postgresql://user:password@host:5432/database``.
            schema: Schema of the tables, created if it is missing.
            lease_seconds: Time without a heartbeat after which another worker may resume the runs
                of this one. A heartbeat is sent three times in it.
            embedded: Server of the address, released when the journal is closed.

        Raises:
            UsageError: If `schema` is no identifier, or `url` is malformed.
            JournalError: If the server cannot be reached, or a later version made the tables.
        """
        if not schema.isidentifier() or len(schema) > 63:
            msg = f"schema must be an identifier of at most 63 characters, not {schema!r:.80}"
            raise UsageError(msg)
        label = f"{embedded.label if embedded else describe_address(url)}, schema {schema}"
        self.worker: str = uuid.uuid4().hex
        """Id of this journal object as a holder of leases."""
        self._lease_seconds = lease_seconds
        self._embedded = embedded
        self._closed = False
        self._acquiring: set[str] = set()
        self._server = Server(url, schema, label)
        try:
            self._server.wait(self._prepare(schema, label))
        except BaseException:
            self._server.close()
            raise
        self._reader = PostgresReader(self._server)
        self._notifications = Notifications(self._server, schema)
        batches = PostgresBatches(
            self._server, self.worker, lease_seconds / 3, self._notifications.note
        )
        super().__init__(batches)
        self.documents: PostgresDocuments = PostgresDocuments(self._server)
        self.queue: PostgresQueue = PostgresQueue(
            self._server,
            schema,
            self.worker,
            lease_seconds,
            call=self._call,
            hold=self._hold,
            held=lambda: self._leases.held,
        )
        """Runs that any worker may take."""
        self.heartbeat: Heartbeat = Heartbeat()
        """Times of its heartbeats."""
        self._heart = self._server.spawn(self._beat())

    @property
    def server(self) -> Server:
        """Connections to the server."""
        return self._server

    async def _prepare(self, schema: str, label: str) -> None:
        await self._server.run(partial(migrate, schema=schema, label=label), "opened")
        await self._server.run(self._send_heartbeat, "opened")

    async def _send_heartbeat(self, connection: Any) -> None:
        description = f"{socket.gethostname()}, process {os.getpid()}"
        await connection.execute(HEARTBEAT, self.worker, self._lease_seconds, description)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            started = time.monotonic()
            # Without it the leases expire. The next write of a run finds out if another has it.
            with contextlib.suppress(JournalError):
                await self._server.run(self._send_heartbeat, "written")
                self.heartbeat.confirmed = started
                await self._server.run(self._release_failed, "written")
            self.heartbeat.attempted = time.monotonic()

    async def sample_queue(self) -> QueueSample:
        """Read the state of the queue, for metrics.

        Raises:
            JournalError: If the server cannot be reached.
        """
        return await self._server.call(self._server.run(read_sample, "read"))

    async def _release_failed(self, connection: Any) -> None:
        """Release the leases of runs whose end could not be written while the server was away.

        The heartbeat is that of all runs of this worker, so nobody else could resume them.
        """
        if leases := self._leases.unreleased():
            numbers, epochs = zip(*leases, strict=True)
            await connection.execute(RELEASE_FAILED, self.worker, numbers, epochs)
            self._leases.note_released(leases)

    # --- leases -----------------------------------------------------------------------------

    async def acquire(
        self,
        run_id: str,
        *,
        max_attempts: int | None = None,
        options: bytes | None = None,
        engine: str = "",
    ) -> Lease:
        """As `Journal.acquire`."""

        def why_not(row: Any) -> None:
            require_replayable(
                run_id, row["status"], row["rolled_back_ms"], row["attempts"], max_attempts
            )

        values = max_attempts, options, engine
        work = partial(self._acquire, run_id, ACQUIRE, *values, why_not=why_not)
        return await self._call(work, undo=self.release)

    async def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        """As `Journal.acquire_for_rollback`."""
        work = partial(self._acquire, run_id, ACQUIRE_FOR_ROLLBACK, at_ms)
        return await self._call(work, undo=self.release)

    async def revise(self, run: RunRow) -> Lease:
        """As `Journal.revise`."""
        archive = archived_id(run.run_id, run.revision)

        seen: list[int] = []

        async def revise(connection: Any) -> Lease:
            async with connection.transaction():
                row = await connection.fetchrow(LOCK_RUN, run.run_id)
                if row is None:
                    raise self._server.unknown_run(run.run_id)
                status, rolled_back_ms, revision, alive, number, owner, epoch = row
                is_mine = owner == self.worker and number not in self._leases.held
                if is_mine and seen == [epoch - 1] and revision == run.revision + 1:
                    # The connection was lost after the commit.
                    lease = Lease(run.run_id, number, epoch)
                    self._hold(lease)
                    return lease
                if (alive and not is_mine) or revision != run.revision:
                    raise await self._why_busy(connection, run.run_id)
                require_revisable(run, status, rolled_back_ms)
                seen[:] = [epoch]
                moved = run_number(archive)
                await connection.execute(ARCHIVE, number, moved, archive, now_ms())
                for table in TABLES_OF_RUNS:
                    sql = f"UPDATE {table} SET run=$2 WHERE run=$1"  # noqa: S608  # our names
                    await connection.execute(sql, number, moved)
                script = (run.source.encode(), run.filename, run.options)
                epoch = await connection.fetchval(REVISE, number, self.worker, *script)
                if status == "cancelled":
                    await connection.execute(NO_CANCEL, [run.run_id])
            lease = Lease(run.run_id, number, epoch)
            self._hold(lease)
            return lease

        return await self._call(lambda: self._alone(run.run_id, revise), undo=self.release)

    async def _acquire(
        self,
        run_id: str,
        sql: str,
        *values: Any,
        why_not: Callable[[Any], None] = lambda row: None,
    ) -> Lease:
        holder = run_id, self.worker

        async def acquire(connection: Any) -> Lease:
            row = await connection.fetchrow(sql, *holder, *values)
            is_held = run_number(run_id) in self._leases.held
            if row is None and not is_held and await connection.fetchval(TAKE_BACK, *holder):
                # It was acquired when the connection was lost, or its end could not be written.
                row = await connection.fetchrow(sql, *holder, *values)
            if row is None:
                state = await connection.fetchrow(STATE, run_id)
                if state is None:
                    raise self._server.unknown_run(run_id)
                if state["owner"] is None or state["rolled_back_ms"] is not None:
                    why_not(state)
                raise await self._why_busy(connection, run_id)
            number, epoch = row
            self._notifications.note([number])
            # Positions continue after the recorded messages.
            position = await connection.fetchval(POSITION, number)
            lease = Lease(run_id, number, epoch, count(position + 1))
            self._hold(lease)
            return lease

        return await self._alone(run_id, acquire)

    async def _alone(self, run_id: str, acquire: Callable[[Any], Coroutine[Any, Any, _T]]) -> _T:
        """Acquire a run, unless another task of this session is doing so."""
        if run_id in self._acquiring:
            msg = f"run {run_id!r} is being acquired by this session; wait for its end"
            raise BusyRunError(msg)
        self._acquiring.add(run_id)
        try:
            return await self._server.run(acquire, "written")
        finally:
            self._acquiring.discard(run_id)

    async def _why_busy(self, connection: Any, run_id: str) -> JournalError:
        row = await connection.fetchrow(STATE, run_id)
        owner = None if row is None else row["owner"]
        if owner == self.worker:
            msg = f"run {run_id!r} is being executed by this session; wait for its end"
            return BusyRunError(msg)
        place = (row["description"] if row is not None else None) or owner or "another session"
        return BusyRunError(f"run {run_id!r} is being executed by {place}; wait for its end")

    # --- writing ----------------------------------------------------------------------------

    async def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """As `Journal.decide`."""
        values = decision_values(decision)

        tries = 0

        async def decide(connection: Any) -> bool:
            nonlocal tries
            tries += 1
            async with connection.transaction():
                # Under this lock, the worker that lets the run go sees the decision, or the
                # decision finds the run gone from the queue.
                number = await connection.fetchval(LOCK_NUMBER, run_id)
                if number is None:
                    raise self._server.unknown_run(run_id)
                if tries > 1 and await connection.fetchval(IS_DECIDED, number, *values):
                    return True  # The connection was lost after the commit.
                if await connection.fetchval(DECIDE, number, *values) is None:
                    return False
                await self.queue.enqueue_decided(connection, run_id)
                self._notifications.note([run_number(run_id)])
                return True

        return await self._call(lambda: self._server.run(decide, "written"))

    async def delete_ended(self, before_ms: int, limit: int = 50, *, before_number: int = 0) -> int:
        """As `Journal.delete_ended`."""

        async def delete(connection: Any) -> int:
            count: int = await connection.fetchval(DELETE, before_ms, before_number, limit)
            return count

        return await self._call(lambda: self._server.run(delete, "written"))

    async def reclaim_space(self, *, whole: bool = False) -> bool:  # of the protocol
        """As `Journal.reclaim_space`: the autovacuum of the server does it."""
        return False

    async def close(self) -> None:
        """As `Journal.close`."""
        with anyio.CancelScope(shield=True):
            await complete_in_thread(self.close_now)

    def close_now(self) -> None:
        """As `close`, for callers without an event loop: waits for the server."""
        if self._closed:
            return
        self._closed = True
        try:
            self._writer.close()
            self._server.wait(self._notifications.flush())
            self._server.close()
        finally:
            if self._embedded is not None:
                self._embedded.release()

    # --- reading ----------------------------------------------------------------------------

    async def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        return await self._call(lambda: self._reader.find(run_id))

    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        """As `Journal.runs`."""

        async def fetch(sql: str, values: Sequence[Any]) -> Sequence[Any]:
            return await self._call(lambda: self._reader.fetch(sql, values))

        build = partial(build_summary, label=self._server.label)
        return await list_runs(query, fetch, build, mark="$", names_index=False)

    async def ended_runs(self, limit: int, before: EndedRun | None = None) -> Sequence[EndedRun]:
        """As `Journal.ended_runs`."""
        return await self._call(lambda: self._reader.ended_runs(limit, before))

    async def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        """As `Journal.failed_runs`."""
        return await self._call(lambda: self._reader.failed_runs(since_ms, limit))

    async def repeated_effects(
        self, run_id: str, since_ms: int, limit: int
    ) -> Sequence[tuple[str, str]]:
        """As `Journal.repeated_effects`."""
        return await self._call(lambda: self._reader.repeated_effects(run_id, since_ms, limit))

    async def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        return await self._call(lambda: self._reader.find_ids(prefix, limit))

    async def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        return await self._call(self._reader.pending)

    async def events(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[EventRow]:
        """As `Journal.events`."""
        return await self._call(lambda: self._reader.events(run_id, after, limit))

    async def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""
        return await self._call(lambda: self._reader.load(run_id))

    def watch(self, run_id: str) -> RunWatch:
        """Watch a run: the watch reports writes of all processes."""
        return self._notifications.watch(run_number(run_id))

    async def _call(
        self,
        start: Callable[[], Coroutine[Any, Any, _T]],
        *,
        undo: Callable[[_T], object] | None = None,
    ) -> _T:
        """Run a coroutine of the server after the writes that are queued."""
        if self._closed:
            raise JournalError(f"{self._server.label} is closed")
        await self._writer.call(lambda: None)
        return await self._server.call(start(), undo)
