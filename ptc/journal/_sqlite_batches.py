"""Batches of writes in SQLite: each is one transaction, and each write has a valid lease."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby

from ._database import Database
from ._lease import Lease
from ._leases import Leases
from ._statements import MANY_CALLS, ROWS_AT_ONCE, SQL
from ._workers import Workers
from ._writer import UnstorableError
from ._writes import SIZE_BYTES, START_STATUS, Kind, Write

__all__ = ["SqliteBatches"]


class SqliteBatches:
    """Commits batches; see `BatchStore`."""

    def __init__(self, database: Database, workers: Workers, lease_seconds: float) -> None:
        self._db = database
        self._workers = workers
        self.label = database.label
        self.heartbeat_seconds = lease_seconds / 3
        self._unsynced = False
        """True if a failure of the machine could lose the last commit."""
        self._failed = False
        """True if a batch was lost, and with it perhaps the release of a lease."""

    def commit(
        self, batch: Sequence[Write], leases: Leases, waiting: Sequence[Lease], *, durable: bool
    ) -> None:
        """As `BatchStore.commit`."""
        must_sync = durable and self._unsynced
        if not batch and not must_sync and not (leases.held and self._workers.is_due()):
            if waiting:  # A read alone waits for no lock of another process.
                self._check_waiting(leases, waiting)
            return
        try:
            # A commit that changes nothing would not sync the ones before it.
            with (
                self._workers.transaction(durable=durable, beat=must_sync and not batch),
                _errors_of_values(self._db.label),
            ):
                valid = self._execute(batch, leases)
                self._lose_invalid(leases, waiting, valid)
                if self._failed:
                    self._release_unrecorded(leases)
        except BaseException:
            self._failed = True
            raise
        self._unsynced = not durable
        self._failed = False

    def _check_waiting(self, leases: Leases, waiting: Sequence[Lease]) -> None:
        with self._db.errors("read"), self._db.lock:
            self._db.check_file()
            self._lose_invalid(leases, waiting, {})

    def _lose_invalid(
        self, leases: Leases, waiting: Sequence[Lease], valid: dict[Lease, bool]
    ) -> None:
        """Note each lease that was lost. Somebody else may acquire a run that was released."""
        held = [each for each in waiting if leases.held.get(each.number) == each.epoch]
        for lease in {**valid, **dict.fromkeys(held)}:
            if not (valid[lease] if lease in valid else self._is_valid(lease)):
                leases.lose(lease)

    def _release_unrecorded(self, leases: Leases) -> None:
        """Release the runs whose end was in a batch that could not be written."""
        execute = self._db.connection.execute
        owned = execute("SELECT number FROM runs WHERE owner=?", (self._workers.id,)).fetchall()
        for (number,) in owned:
            if number not in leases.held:
                execute("UPDATE runs SET owner=NULL WHERE number=?", (number,))

    def _execute(self, batch: Sequence[Write], leases: Leases) -> dict[Lease, bool]:
        """Execute the writes, and return the validity of their leases."""
        valid: dict[Lease, bool] = {}
        ends = {write.lease: write for write in batch if write.kind == "end_run"}
        for write in batch:
            if write.kind == "start_run":
                valid[write.lease] = self._insert_run(write, ends.pop(write.lease, None))
        rest = (write for write in batch if write.kind != "start_run")
        for (lease, kind), writes in groupby(rest, key=_lease_and_kind):
            if kind == "end_run" and lease not in ends:
                continue  # written with its start
            if not leases.is_whole(lease):
                continue
            if lease not in valid:
                valid[lease] = self._is_valid(lease)
            if valid[lease]:
                self.execute_group(kind, list(writes))
        return valid

    def _insert_run(self, start: Write, end: Write | None) -> bool:
        """Insert a new run, as ended if it has ended; False if its id is in use."""
        values, owner = list(start.values), self._workers.id
        if end is not None:
            *values[START_STATUS : START_STATUS + 3], values[SIZE_BYTES], _ = end.values
        (sql,) = SQL["start_run"]
        holder = owner if end is None else None
        return self._db.connection.execute(sql, (*values, holder)).rowcount == 1

    def _is_valid(self, lease: Lease) -> bool:
        row = self._db.connection.execute(
            "SELECT epoch FROM runs WHERE number=?", (lease.number,)
        ).fetchone()
        return row is not None and row[0] == lease.epoch

    def execute_group(self, kind: Kind, writes: list[Write]) -> None:
        """Execute consecutive writes of one kind with the same lease."""
        done = 0
        if kind == "call":
            while len(writes) - done >= ROWS_AT_ONCE:
                rows = (write.values for write in writes[done : done + ROWS_AT_ONCE])
                self._db.connection.execute(MANY_CALLS, tuple(chain.from_iterable(rows)))
                done += ROWS_AT_ONCE
        for write in writes[done:]:
            for sql in SQL[kind]:
                self._db.connection.execute(sql, write.values)


@contextmanager
def _errors_of_values(label: str) -> Iterator[None]:
    try:
        yield
    except (UnicodeEncodeError, OverflowError, sqlite3.InterfaceError) as error:
        msg = f"{label} cannot be written: {error}"
        raise UnstorableError(msg) from error


def _lease_and_kind(write: Write) -> tuple[Lease, Kind]:
    return write.lease, write.kind
