"""The journal in a SQLite file: one writer thread that commits entries in batches.

Rule 1: entries are written in the order of `append`; each batch is one transaction.
    tests/core/journal/test_journal.py::test_appended_rows_are_read_back_in_order
Rule 2: a write with a lost lease changes nothing, and the loss is reported.
    tests/core/journal/test_journal.py::test_holder_of_a_lost_lease_cannot_write
Rule 3: a damaged row or a gap is an error that names it; nothing is skipped.
    tests/core/journal/test_journal.py::test_damaged_rows_are_reported_and_never_skipped

WAL with ``synchronous=FULL`` for a batch that a caller waits for, and NORMAL for the others. With
NORMAL, a failure of the machine (not of the process) can lose the last commits, but never tears a
file (https://www.sqlite.org/pragma.html#pragma_synchronous). Such a loss covers only work without
an external effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import anyio

from .._core._clock import now_ms
from .._core._threads import complete_in_thread
from ..errors import BusyRunError, DamagedRunError
from ._continuable import archived_id, require_replayable, require_revisable
from ._database import Database
from ._documents import SqliteDocuments
from ._journal import DecisionRow, EventRow, PendingRow, RunRecord, RunRow
from ._lease import Lease
from ._reader import RunReader
from ._record import build_summary
from ._retention import delete_oldest, reclaim_space
from ._run_lists import NEWEST_RUNS, EndedRun, RunPage, RunQuery, list_runs
from ._run_writes import RunWrites
from ._sqlite_batches import SqliteBatches
from ._statements import (
    ACQUIRE,
    ACQUIRE_FOR_ROLLBACK,
    ARCHIVE,
    REVISE,
    SQL,
    TABLES_OF_RUNS,
)
from ._workers import LEASE_SECONDS, Workers
from ._writes import decision_values, run_number

__all__ = ["SqliteJournal"]


_Acquired: TypeAlias = tuple[Lease, tuple[str, bytes | None, int | None]]
"""A lease, and the status, result and end time of the run before it was acquired."""


class SqliteJournal(RunWrites):
    """A journal in a file, or in memory."""

    def __init__(self, path: Path | None, *, lease_seconds: float = LEASE_SECONDS) -> None:
        """Open the file, or create it.

        Args:
            path: The file; None: in memory, lost with the session.
            lease_seconds: Time without a heartbeat after which another process may acquire the runs
                of this one. A heartbeat is sent three times in it.

        Raises:
            JournalError: If it cannot be opened, is damaged, or was made by a later version.
        """
        self._db = Database(path)
        self._reader = RunReader(self._db)
        self._workers = Workers(self._db, float(lease_seconds))
        super().__init__(SqliteBatches(self._db, self._workers, lease_seconds))
        self.documents = SqliteDocuments(self._db)

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

        def update(run: _State, holder: tuple[Any, ...]) -> None:
            require_replayable(run_id, run.status, run.rolled_back_ms, run.attempts, max_attempts)
            self._db.connection.execute(ACQUIRE, (*holder, options, engine, run.number))

        work = partial(self._acquire, run_id, update)
        lease, _ = await self._writer.call(work, undo=self._give_back)
        return lease

    async def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        """As `Journal.acquire_for_rollback`."""

        def update(run: _State, holder: tuple[Any, ...]) -> None:
            values = (*holder, at_ms, at_ms, run.number)
            self._db.connection.execute(ACQUIRE_FOR_ROLLBACK, values)

        work = partial(self._acquire, run_id, update)
        lease, _ = await self._writer.call(work, undo=self._release_acquired)
        return lease

    async def revise(self, run: RunRow) -> Lease:
        """As `Journal.revise`."""

        def update(found: _State, holder: tuple[Any, ...]) -> None:
            require_revisable(run, found.status, found.rolled_back_ms)
            if found.revision != run.revision:
                msg = f"run {run.run_id!r} was continued by another script meanwhile; read it again"
                raise BusyRunError(msg)
            archive = archived_id(run.run_id, run.revision)
            connection, number = self._db.connection, run_number(archive)
            connection.execute(ARCHIVE, (number, archive, now_ms(), found.number))
            for table in TABLES_OF_RUNS:
                sql = f"UPDATE {table} SET run=? WHERE run=?"  # noqa: S608  # our names
                connection.execute(sql, (number, found.number))
            script = (run.source, run.filename, run.options)
            connection.execute(REVISE, (*holder, *script, found.number))

        work = partial(self._acquire, run.run_id, update)
        lease, _ = await self._writer.call(work, undo=self._release_acquired)
        return lease

    def _give_back(self, acquired: _Acquired) -> None:
        """Undo `acquire`: release the lease, and restore the state of the run."""
        lease, state = acquired
        size_bytes = len(state[1] or b"")
        self._writer.put_from_any_thread(lease, "end_run", (*state, size_bytes, lease.number))
        self._leases.held.pop(lease.number, None)

    def _release_acquired(self, acquired: _Acquired) -> None:
        lease, _ = acquired
        self._writer.put_from_any_thread(lease, "release", (0, lease.number))
        self._leases.held.pop(lease.number, None)

    def _acquire(self, run_id: str, update: Callable[[_State, tuple[Any, ...]], None]) -> _Acquired:
        """Acquire the lease of a run that no process executes, by `update` of its row."""
        with self._workers.transaction(durable=True) as connection:
            row = connection.execute(_STATE, (run_id,)).fetchone()
            if row is None:
                raise self._db.unknown_run(run_id)
            run = _state(run_id, row, self._db.label)
            holder = self._find_holder(run)
            if holder is None:
                update(run, (self._workers.id, run.epoch + 1))
            # Positions continue after the recorded messages.
            (position,) = connection.execute(_POSITION, (run.number, run.number)).fetchone()
        if holder is not None:
            # After the transaction, which may have stored that the holder was seen.
            msg = f"run {run_id!r} is being executed by {holder}; wait for its end"
            raise BusyRunError(msg)
        lease = Lease(run_id, run.number, run.epoch + 1, count(position + 1))
        self._hold(lease)
        return lease, (run.status, run.result, run.ended_ms)

    def _find_holder(self, run: _State) -> str | None:
        """Return a description of the worker that executes a run."""
        if run.owner is None:
            return None
        if run.owner == self._workers.id and run.number not in self._leases.held:
            return None  # The release could not be written.
        return self._workers.find(run.owner)

    # --- writing ----------------------------------------------------------------------------

    async def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """As `Journal.decide`."""
        # A cancelled caller would not learn that its decision was recorded.
        is_first = False
        with anyio.CancelScope(shield=True):
            is_first = await self._writer.call(partial(self._decide, run_id, decision))
        return is_first

    def _decide(self, run_id: str, decision: DecisionRow) -> bool:
        with self._db.transaction(durable=True) as connection:
            row = connection.execute("SELECT number FROM runs WHERE run_id=?", (run_id,)).fetchone()
            if row is None:
                raise self._db.unknown_run(run_id)
            done = connection.execute(SQL["decision"][0], (row[0], *decision_values(decision)))
            return done.rowcount == 1

    async def delete_ended(self, before_ms: int, limit: int = 50, *, before_number: int = 0) -> int:
        """As `Journal.delete_ended`."""
        work = partial(delete_oldest, self._db, (before_ms, before_number), limit)
        return await self._writer.call(work)

    async def reclaim_space(self, *, whole: bool = False) -> bool:
        """As `Journal.reclaim_space`."""
        return await self._writer.call(partial(reclaim_space, self._db, whole=whole))

    async def close(self) -> None:
        """As `Journal.close`."""
        with anyio.CancelScope(shield=True):
            await complete_in_thread(self.close_now)

    def close_now(self) -> None:
        """As `close`, for callers without an event loop: waits for the disk."""
        self._writer.close()
        self._workers.leave()
        self._db.close()

    # --- reading ----------------------------------------------------------------------------

    async def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        return await self._writer.call(partial(self._reader.find, run_id))

    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        """As `Journal.runs`."""

        async def fetch(sql: str, values: Sequence[Any]) -> Sequence[Any]:
            return await self._writer.call(partial(self._reader.fetch, sql, values))

        build = partial(build_summary, label=self._db.label)
        return await list_runs(query, fetch, build, mark="?", names_index=True)

    async def ended_runs(self, limit: int, before: EndedRun | None = None) -> Sequence[EndedRun]:
        """As `Journal.ended_runs`."""
        return await self._writer.call(partial(self._reader.ended_runs, limit, before))

    async def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        """As `Journal.failed_runs`."""
        return await self._writer.call(partial(self._reader.failed_runs, since_ms, limit))

    async def repeated_effects(
        self, run_id: str, since_ms: int, limit: int
    ) -> Sequence[tuple[str, str]]:
        """As `Journal.repeated_effects`."""
        work = partial(self._reader.repeated_effects, run_id, since_ms, limit)
        return await self._writer.call(work)

    async def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        return await self._writer.call(partial(self._reader.find_ids, prefix, limit))

    async def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        return await self._writer.call(self._reader.pending)

    async def events(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[EventRow]:
        """As `Journal.events`."""
        return await self._writer.call(partial(self._reader.events, run_id, after, limit))

    async def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""
        return await self._writer.call(partial(self._reader.load, run_id))


_STATE: Final = (
    "SELECT number, status, rolled_back_ms, owner, epoch, attempts, revision, result, ended_ms"
    " FROM runs WHERE run_id=?"
)
_POSITION: Final = (
    "SELECT max(coalesce((SELECT max(place) FROM calls WHERE run=?), 0),"
    " coalesce((SELECT max(place) FROM ticks WHERE run=?), 0))"
)


class _State(NamedTuple):
    """State of a run that is acquired."""

    number: int
    status: str
    rolled_back_ms: int | None
    owner: str | None
    epoch: int
    attempts: int
    revision: int
    result: bytes | None
    ended_ms: int | None


_NONE: Final = type(None)
_TYPES: Final[tuple[Any, ...]] = (
    *(int, str, (int, _NONE), (str, _NONE), int, int, int, (bytes, _NONE), (int, _NONE)),
)
"""Types of `_STATE`."""


def _state(run_id: str, row: tuple[Any, ...], label: str) -> _State:
    if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
        raise DamagedRunError(f"{label} is damaged: run {run_id!r}: its state is {row!r:.200}")
    return _State(*row)
