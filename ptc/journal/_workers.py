"""Workers of a journal in SQLite: each journal object that holds leases, and its heartbeat.

Rule 1: the wall clock decides nothing. On one machine, a lease expires by its monotonic clock.
    tests/core/journal/test_workers.py::test_wall_clock_of_another_process_expires_no_lease
Rule 2: a holder whose clock cannot be read from here loses its leases when its heartbeat was seen
    unchanged for the time of a lease. The file has the time of the first look.
    tests/core/journal/test_workers.py::test_holder_on_another_machine_expires_by_observation

The clock is ``CLOCK_MONOTONIC``: it stands still while the machine is suspended, and so do all the
processes that could send a heartbeat. A worker without a row has no leases, so that a lease expires
by the deletion of a row.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from ..errors import JournalError
from ._database import Database
from ._process_id import ProcessId, has_ended, is_of_earlier_boot, this_process

__all__ = ["LEASE_SECONDS", "Workers"]

LEASE_SECONDS: Final = 30.0
"""Time without a heartbeat after which another worker may acquire the runs of a worker."""
_COLUMNS: Final = "host, boot, clock, pids, pid, born, beat, beat_at, lease_seconds"
_BEAT: Final = (
    f"INSERT INTO workers(worker, {_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?)"  # our names
    " ON CONFLICT(worker) DO UPDATE SET beat=beat+1, beat_at=excluded.beat_at"
)


class _Holder(NamedTuple):
    """A worker as it is stored."""

    process: ProcessId
    beat: int
    """Counts the heartbeats."""
    beat_at: float
    """Time of the last heartbeat, by the monotonic clock of its process."""
    lease_seconds: float


class Workers:
    """The worker of one journal object, and its view of the others."""

    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._db = database
        self._lease_seconds = lease_seconds
        self.id: Final = uuid.uuid4().hex
        """Id of this journal object as a holder of leases."""
        self._beat_at: float | None = None
        """Time of the last heartbeat; None: it may have no row."""

    @contextmanager
    def transaction(self, *, durable: bool, beat: bool = False) -> Iterator[sqlite3.Connection]:
        """Execute the block as one write of this worker, with a heartbeat if it is due.

        Args:
            durable: As for `Database.transaction`.
            beat: Send a heartbeat in any case.
        """
        try:
            with self._db.transaction(durable=durable) as connection:
                if beat or self.is_due():
                    self._beat(connection)
                yield connection
        except BaseException:
            self._beat_at = None
            raise

    def is_due(self) -> bool:
        """True if the next write of this worker must have a heartbeat."""
        return self._beat_at is None or time.monotonic() - self._beat_at > self._lease_seconds / 6

    def _beat(self, connection: sqlite3.Connection) -> None:
        is_new, self._beat_at = self._beat_at is None, time.monotonic()
        process = this_process()
        connection.execute(_BEAT, (self.id, *process, 1, self._beat_at, self._lease_seconds))
        if is_new:
            for (worker,) in connection.execute("SELECT worker FROM workers").fetchall():
                self.find(worker)  # Deletes those that are gone.

    def find(self, worker: str) -> str | None:
        """Return a description of a worker; None if it can no longer hold leases.

        The caller has a transaction, which it commits whatever the outcome.
        """
        connection = self._db.connection
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM workers WHERE worker=?",  # noqa: S608  # our names
            (worker,),
        ).fetchone()
        if row is None:
            return None
        holder = self._holder(worker, row)
        if worker == self.id:
            return f"process {holder.process.pid}"
        silent = self._silence(worker, holder)
        if silent > holder.lease_seconds:
            connection.execute("DELETE FROM workers WHERE worker=?", (worker,))
            connection.execute("DELETE FROM sightings WHERE worker=?", (worker,))
            return None
        text = f"process {holder.process.pid} on {holder.process.host}"
        if silent > holder.lease_seconds / 2 or not holder.process.clock:
            left = holder.lease_seconds - silent
            text += f", which gave no sign of life for {silent:.0f} s: its lease expires in "
            text += f"{left:.0f} s"
        return text

    def _holder(self, worker: str, row: tuple[object, ...]) -> _Holder:
        *process, beat, beat_at, lease_seconds = row
        holder = _Holder(ProcessId(*process), beat, beat_at, lease_seconds)  # type: ignore[arg-type]  # checked below
        types = (str, str, str, str, int, str)
        valid = all(map(isinstance, process, types)) and isinstance(beat, int)
        if not valid or not isinstance(beat_at, float) or not isinstance(lease_seconds, float):
            msg = f"{self._db.label} is damaged: worker {worker!r:.80}"
            raise JournalError(msg)
        return holder

    def _silence(self, worker: str, holder: _Holder) -> float:
        """Return the seconds without a sign of life of another worker."""
        process, mine = holder.process, this_process()
        if has_ended(process) or is_of_earlier_boot(process, self._db.path):
            return float("inf")
        now = time.monotonic()
        if process.clock and process.clock == mine.clock:
            return now - holder.beat_at
        return now - self._first_seen(worker, holder.beat, mine.clock, now)

    def _first_seen(self, worker: str, beat: int, clock: str, now: float) -> float:
        """Return the time at which a process with this clock first saw this heartbeat.

        The time is stored, because the processes of the command line are short.
        """
        connection = self._db.connection
        seen = connection.execute(
            "SELECT since FROM sightings WHERE worker=? AND clock=? AND beat=?",
            (worker, clock, beat),
        ).fetchone()
        if seen is not None and isinstance(seen[0], float) and seen[0] <= now:
            return seen[0]
        connection.execute(
            "INSERT OR REPLACE INTO sightings(worker, clock, beat, since) VALUES(?,?,?,?)",
            (worker, clock, beat, now),
        )
        return now

    def leave(self) -> None:
        """Give up all leases. The journal is being closed."""
        if self._beat_at is None:
            return
        with suppress(JournalError), self._db.transaction(durable=False) as connection:
            connection.execute("DELETE FROM workers WHERE worker=?", (self.id,))
