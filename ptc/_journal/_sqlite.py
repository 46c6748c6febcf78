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

import hashlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import JournalError
from ._database import Database
from ._documents import Documents
from ._journal import DecisionRow, Entry, Lease, PendingRow, RunRecord, RunRow
from ._process_id import is_gone, this_process
from ._reader import RunReader
from ._statements import (
    ACQUIRE,
    ACQUIRE_FOR_ROLLBACK,
    DECISION,
    END_RUN,
    RELEASE,
    START_RUN,
    decision_values,
    entry_statements,
    run_values,
)
from ._writer import LEASE_SECONDS, Writer

__all__ = ["SqliteJournal"]


class SqliteJournal:
    """A journal in a file, or in memory."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or create it.

        Args:
            path: The file; None: in memory, lost with the session.

        Raises:
            JournalError: If it cannot be opened, is damaged, or was made by a later version.
        """
        self._positions: dict[int, int] = {}
        self._closed = False
        self._db = Database(path)
        self._reader = RunReader(self._db)
        self._writer = Writer(self._db)
        self.documents = Documents(self._db)

    # --- leases -----------------------------------------------------------------------------

    def start_run(self, run: RunRow) -> Lease:
        """As `Journal.start_run`; never waits. A caller that chose the id checks `find` first."""
        lease = Lease(run.run_id, _number(run.run_id), 1)
        if lease.number in self._writer.leases:
            msg = f"run {run.run_id!r} is being executed by this session; wait for its end"
            raise JournalError(msg)
        self._writer.clear_failure(lease)
        self._positions[lease.number] = 0
        self._writer.leases[lease.number] = 1
        # The lease of this write is not checked, since it inserts the row: see `Writer._execute`.
        values = (lease.number, *run_values(run), this_process(), _now_ms())
        self._writer.put(lease, START_RUN, values)
        return lease

    def acquire(self, run_id: str) -> Lease:
        """As `Journal.acquire`."""
        return self._acquire(run_id, ACQUIRE, (), _check_resumable)

    def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        """As `Journal.acquire_for_rollback`."""
        self.flush()
        return self._acquire(run_id, ACQUIRE_FOR_ROLLBACK, (at_ms, at_ms), lambda *_: None)

    def _acquire(
        self,
        run_id: str,
        sql: str,
        values: tuple[Any, ...],
        check: Callable[[str, str, int | None], None],
    ) -> Lease:
        """Acquire the lease of a run that no process executes, if `check` does not raise."""
        connection = self._db.connection
        with self._db.errors("written"), self._db.lock:
            self._db.set_synchronous("FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = connection.execute(
                    "SELECT number, status, rolled_back_ms, owner, alive_ms, epoch FROM runs"
                    " WHERE run_id=?",
                    (run_id,),
                ).fetchone()
                if row is None:
                    raise self._db.unknown_run(run_id)
                number, status, rolled_back_ms, owner, alive_ms, epoch = row
                check(run_id, status, rolled_back_ms)
                _check_expired(run_id, owner, alive_ms)
                holder = (this_process(), _now_ms(), epoch + 1)
                connection.execute(sql, (*holder, *values, number))
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        # Positions continue after the recorded messages.
        (position,) = self._db.fetch_one(
            "SELECT max(coalesce((SELECT max(place) FROM calls WHERE run=?), 0),"
            " coalesce((SELECT max(place) FROM ticks WHERE run=?), 0))",
            (number, number),
        )
        self._positions[number] = position
        self._writer.leases[number] = epoch + 1
        return Lease(run_id, number, epoch + 1)

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        """As `Journal.end_run`."""
        ended_ms = None if status == "paused" else at_ms
        self._writer.put(lease, END_RUN, (status, result, ended_ms, lease.number))
        self._writer.leases.pop(lease.number, None)

    def release(self, lease: Lease) -> None:
        """As `Journal.release`."""
        self._writer.put(lease, RELEASE, (lease.number,))
        self._writer.leases.pop(lease.number, None)

    # --- writing ----------------------------------------------------------------------------

    def append(self, lease: Lease, entry: Entry) -> None:
        """As `Journal.append`."""
        next_position = partial(self._next_position, lease.number)
        for sql, values in entry_statements(lease.number, entry, next_position):
            self._writer.put(lease, sql, values)

    def _next_position(self, run: int) -> int:
        position = self._positions[run] = self._positions[run] + 1
        return position

    @property
    def behind(self) -> bool:
        """As `Journal.behind`: over 32 MiB."""
        return self._writer.behind

    async def barrier(self, lease: Lease) -> None:
        """As `Journal.barrier`."""
        await self._writer.barrier(lease)

    def check(self, lease: Lease) -> None:
        """As `Journal.check`."""
        self._writer.check(lease)

    def flush(self) -> None:
        """As `Journal.flush`."""
        self._writer.flush()

    def decide(self, run_id: str, decision: DecisionRow) -> bool:
        """As `Journal.decide`."""
        connection = self._db.connection
        with self._db.errors("written"), self._db.lock:
            self._db.set_synchronous("FULL")
            with connection:
                row = connection.execute(
                    "SELECT number FROM runs WHERE run_id=?", (run_id,)
                ).fetchone()
                if row is None:
                    raise self._db.unknown_run(run_id)
                done = connection.execute(DECISION, (row[0], *decision_values(decision)))
                return done.rowcount == 1

    def delete_ended(self, before_ms: int, limit: int | None = None) -> int:
        """As `Journal.delete_ended`."""
        self.flush()
        connection = self._db.connection
        deleted = 0
        while limit is None or deleted < limit:
            # The lock is released between batches: other users of the file write meanwhile.
            most = _BATCH if limit is None else min(_BATCH, limit - deleted)
            with self._db.errors("written"), self._db.lock, connection:
                count = _delete_batch(connection, before_ms, most)
            deleted += count
            if count < most:
                break
        if limit is None:
            with self._db.errors("written"), self._db.lock:
                connection.execute("VACUUM")
        return deleted

    def close(self) -> None:
        """As `Journal.close`."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        self._db.close()

    # --- reading ----------------------------------------------------------------------------

    def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        return self._reader.find(run_id)

    def runs(self, limit: int = 50) -> Sequence[RunRow]:
        """As `Journal.runs`."""
        self.flush()
        return self._reader.runs(limit)

    def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        self.flush()
        return self._reader.find_ids(prefix, limit)

    def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        self.flush()
        return self._reader.pending()

    def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""
        self.flush()
        return self._reader.load(run_id)


_BATCH = 50
"""Runs that one transaction deletes."""


def _delete_batch(connection: sqlite3.Connection, before_ms: int, most: int) -> int:
    rows = connection.execute(
        "SELECT number FROM runs WHERE ended_ms IS NOT NULL AND ended_ms < ? "
        "ORDER BY ended_ms LIMIT ?",
        (before_ms, most),
    ).fetchall()
    for row in rows:
        for table in ("calls", "ticks", "pending", "verdicts", "reverts"):
            connection.execute(f"DELETE FROM {table} WHERE run=?", row)  # noqa: S608  # from the line above
        connection.execute("DELETE FROM runs WHERE number=?", row)
    return len(rows)


def _check_resumable(run_id: str, status: str, rolled_back_ms: int | None) -> None:
    if rolled_back_ms is not None:
        msg = f"run {run_id!r} was rolled back; start a new run of its script with `retry`"
        raise JournalError(msg)
    if status not in ("running", "paused", "cancelled"):
        msg = f"run {run_id!r} has ended: {status}; start a new run of its script with `retry`"
        raise JournalError(msg)


def _check_expired(run_id: str, owner: str | None, alive_ms: int | None) -> None:
    """Raise `JournalError` if another process holds a valid lease."""
    silent = _now_ms() - (alive_ms or 0) > LEASE_SECONDS * 1000
    if owner is not None and not silent and not is_gone(owner):
        process = owner.split("|")[2]
        msg = f"run {run_id!r} is being executed by process {process}; wait for its end"
        raise JournalError(msg)


def _number(run_id: str) -> int:
    """Derive the run's number in the tables from its id, so that no write has to return it."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
