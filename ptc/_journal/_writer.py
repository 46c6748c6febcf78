"""The writer thread of a journal: commits queued writes in batches, each with a valid lease."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, groupby
from typing import Any, Final, cast

from .._core._reactor import Signal
from ..errors import JournalError
from ._database import Database
from ._journal import Lease, LeaseLostError
from ._statements import (
    CALL,
    END_RUN,
    MANY_CALLS,
    ROWS_AT_ONCE,
    START_RUN,
    START_RUN_OWNER,
    START_RUN_STATUS,
    Write,
    lease_and_sql,
    size_of,
)

__all__ = ["LEASE_SECONDS", "Writer"]

_log = logging.getLogger("ptc")
LEASE_SECONDS: Final = 30.0
"""Time without a heartbeat after which a lease held on another machine expires."""
_HEARTBEAT_MS: Final = LEASE_SECONDS * 1000 / 6
_LINGER_SECONDS: Final = 0.05
"""Time that the writer lets writes accumulate while nobody waits for them."""
_MAX_QUEUED: Final = 20_000
"""Queued writes from which on the writer is woken at once."""
_HURRY_BYTES: Final = 8 << 20
"""The same in bytes, since arguments and results may be large."""
_BEHIND_BYTES: Final = 32 << 20
"""Queued bytes from which on callers that can wait should wait."""


class Writer:
    """Queue of writes and the thread that commits them."""

    def __init__(self, database: Database) -> None:
        """Start the thread."""
        self._db = database
        self._queue: deque[Write] = deque()
        self._queued_bytes = self._written_bytes = 0
        self._signals: list[Signal] = []
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self.leases: dict[int, int] = {}
        """Epoch of each lease that this process holds, by the number of the run."""
        self._lost: set[tuple[int, int]] = set()
        self._gaps: dict[tuple[int, int], JournalError] = {}
        self._failure: JournalError | None = None
        self._heartbeat_ms = 0
        self._closing = False
        self._thread = threading.Thread(target=self._loop, name="ptc-journal", daemon=True)
        self._thread.start()

    # --- from the event loop ----------------------------------------------------------------

    def put(self, lease: Lease, sql: str, values: tuple[Any, ...]) -> None:
        """Queue a write. Never waits."""
        size_bytes = size_of(values)
        self._queue.append(Write(lease, sql, values, size_bytes))
        self._queued_bytes += size_bytes
        if not self._wake.is_set():
            self._wake.set()
        waiting_bytes = self._queued_bytes - self._written_bytes
        if len(self._queue) > _MAX_QUEUED or waiting_bytes > _HURRY_BYTES:
            self._hurry.set()

    def clear_failure(self, lease: Lease) -> None:
        """Forget the failure of an earlier run with the same id that could not be written."""
        self._gaps.pop((lease.number, lease.epoch), None)

    @property
    def behind(self) -> bool:
        """True if over 32 MiB are queued."""
        return self._queued_bytes - self._written_bytes > _BEHIND_BYTES

    async def barrier(self, lease: Lease) -> None:
        """As `Journal.barrier`."""
        signal = Signal()
        self._wake_for(signal)
        await signal.wait()
        self.check(lease)

    def check(self, lease: Lease) -> None:
        """As `Journal.check`."""
        held = lease.number, lease.epoch
        if held in self._gaps:
            raise self._gaps[held]
        if held in self._lost:
            msg = f"another process acquired run {lease.run_id!r}: this one can no longer record it"
            raise LeaseLostError(msg)

    def flush(self) -> None:
        """As `Journal.flush`."""
        done = threading.Event()
        self._wake_for(cast("Signal", done))
        done.wait()
        if self._failure is not None:
            raise self._failure

    def _wake_for(self, signal: Signal) -> None:
        self._signals.append(signal)
        self._hurry.set()
        self._wake.set()

    def close(self) -> None:
        """Write the queue and stop the thread. Does nothing the second time."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join()

    # --- in the thread ----------------------------------------------------------------------

    def _loop(self) -> None:
        while True:
            self._wake.wait(LEASE_SECONDS / 3 if self.leases else None)
            if not self._closing:
                self._hurry.wait(_LINGER_SECONDS)
            self._wake.clear()
            self._hurry.clear()
            # Signals first: the writes that they wait for were queued before them.
            signals, self._signals = self._signals, []
            batch = [self._queue.popleft() for _ in range(len(self._queue))]
            try:
                with self._db.errors("written"):
                    self._commit(batch, durable=bool(signals) or self._closing)
                self._failure = None
            except JournalError as error:
                self._failure = error
                _log.error("runs are not recorded: %s", error)
                for write in batch:
                    self._gaps.setdefault((write.lease.number, write.lease.epoch), error)
            self._written_bytes += sum([write.size_bytes for write in batch])
            for signal in signals:
                signal.set()
            if self._closing and not self._queue:
                return

    def _commit(self, batch: Sequence[Write], *, durable: bool) -> None:
        with self._db.lock:
            self._db.set_synchronous("FULL" if durable else "NORMAL")
            connection = self._db.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._execute(batch)
                self._send_heartbeats()
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _execute(self, batch: Sequence[Write]) -> None:
        valid: dict[Lease, bool] = {}
        ends = {write.lease: write for write in batch if write.sql is END_RUN}
        for write in batch:
            if write.sql is START_RUN:
                valid[write.lease] = self._insert_run(write, ends.pop(write.lease, None))
        rest = (write for write in batch if write.sql is not START_RUN)
        for (lease, sql), writes in groupby(rest, key=lease_and_sql):
            if (sql is not END_RUN or lease in ends) and self._is_valid(lease, valid):
                self._execute_group(sql, list(writes))

    def _insert_run(self, start: Write, end: Write | None) -> bool:
        """Insert a new run, as ended if it has ended; False if its id is in use."""
        values = list(start.values)
        if end is not None:
            status, result, ended_ms, _ = end.values
            values[START_RUN_STATUS : START_RUN_STATUS + 3] = status, result, ended_ms
            values[START_RUN_OWNER] = None
        inserted = self._db.connection.execute(START_RUN, values).rowcount == 1
        if not inserted:
            self._lost.add((start.lease.number, start.lease.epoch))
        return inserted

    def _is_valid(self, lease: Lease, valid: dict[Lease, bool]) -> bool:
        """Return True if writes of this lease may be executed.

        Args:
            lease: The lease.
            valid: Leases that were checked in this transaction; extended.
        """
        if (lease.number, lease.epoch) in self._gaps:
            return False
        if lease not in valid:
            row = self._db.connection.execute(
                "SELECT epoch FROM runs WHERE number=?", (lease.number,)
            ).fetchone()
            valid[lease] = row is not None and row[0] == lease.epoch
        if not valid[lease]:
            self._lost.add((lease.number, lease.epoch))
        return valid[lease]

    def _execute_group(self, sql: str, writes: list[Write]) -> None:
        """Execute consecutive writes with the same lease and statement."""
        done = 0
        if sql is CALL:
            while len(writes) - done >= ROWS_AT_ONCE:
                rows = (write.values for write in writes[done : done + ROWS_AT_ONCE])
                self._db.connection.execute(MANY_CALLS, tuple(chain.from_iterable(rows)))
                done += ROWS_AT_ONCE
        for write in writes[done:]:
            self._db.connection.execute(sql, write.values)

    def _send_heartbeats(self) -> None:
        """Renew the leases of this process for other machines."""
        now_ms = time.time_ns() // 1_000_000
        if now_ms - self._heartbeat_ms < _HEARTBEAT_MS:
            return
        self._heartbeat_ms = now_ms
        for number, epoch in list(self.leases.items()):
            self._db.connection.execute(
                "UPDATE runs SET alive_ms=? WHERE number=? AND epoch=?", (now_ms, number, epoch)
            )
