"""Batches of writes in PostgreSQL: each is one statement, fenced by the epochs of its leases.

One statement without a transaction around it: a host that is frozen in the middle of a transaction
would hold the locks of its runs, and nobody could resume them.

A batch with writes that a run has few of, such as a request for an approval, is a transaction of
several statements: the end of the run must come after them, and a used decision replaces an earlier
row of the same table, which one statement cannot do. The server ends it when its host is frozen for
a second.

Each batch is durable when it is stored: a server that is killed loses the commits that it has not
synced, and the rows that follow would be stored after a gap. A host stores at most 20 batches a
second that nobody waits for, so that costs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from .._lease import Lease
from .._leases import Leases
from .._writes import (
    CALL_COLUMNS,
    EVENT_COLUMNS,
    RUN_COLUMNS,
    SIZE_BYTES,
    START_STATUS,
    Kind,
    Write,
)
from ._run_rows import encode_run
from ._server import Server

__all__ = ["PostgresBatches"]

_RUN_TYPES: Final = (
    *("bigint", "text", "bytea", "text", "bytea", "bytea", "bigint", "float8", "bigint", "text"),
    *("bytea", "bigint", "bigint", "int", "int", "text", "bigint", "text"),
)
_CALL_TYPES: Final = (
    *("bigint", "text", "text", "bytea", "text", "bool", "int", "int", "bigint", "text"),
    *("text", "bool", "bytea", "bytea", "bigint", "int", "float8", "bytea"),
)
_TICK_TYPES: Final = ("bigint", "int", "float8")
_EVENT_TYPES: Final = ("bigint", "bigint", "text", "bigint", "bytea")
_END_TYPES: Final = ("text", "bytea", "bigint", "bigint", "bigint")
_LEASE_TYPES: Final = ("bigint", "int")
_START = f"number, {RUN_COLUMNS}"
_CALL_NAMES: Final = CALL_COLUMNS.split(", ")


def _arrays(types: Sequence[str], first: int) -> str:
    return ", ".join(f"${first + index}::{kind}[]" for index, kind in enumerate(types))


_STARTS_AT: Final = 2
_LEASES_AT: Final = _STARTS_AT + len(_RUN_TYPES)
_CALLS_AT: Final = _LEASES_AT + len(_LEASE_TYPES)
_TICKS_AT: Final = _CALLS_AT + len(_CALL_TYPES)
_EVENTS_AT: Final = _TICKS_AT + len(_TICK_TYPES)
_ENDS_AT: Final = _EVENTS_AT + len(_EVENT_TYPES)
_UPDATES: Final = ", ".join(f"{name}=excluded.{name}" for name in _CALL_NAMES[2:])

_BATCH: Final = f"""
WITH starts({_START}) AS (
  SELECT * FROM unnest({_arrays(_RUN_TYPES, _STARTS_AT)})
), inserted AS (
  INSERT INTO runs({_START}, owner, epoch)
  SELECT {_START}, CASE WHEN status='running' THEN $1 END, 1 FROM starts
  ON CONFLICT DO NOTHING RETURNING number
), repeated AS (
  SELECT r.number FROM runs r JOIN starts s ON r.number=s.number AND r.run_id=s.run_id
  WHERE r.epoch=1 AND r.seed=s.seed AND r.created_ms=s.created_ms FOR SHARE OF r
), held AS (
  SELECT r.number FROM runs r
  JOIN unnest({_arrays(_LEASE_TYPES, _LEASES_AT)}) AS l(number, epoch)
  ON r.number=l.number AND r.epoch=l.epoch FOR SHARE OF r
), valid AS (
  SELECT number FROM inserted UNION SELECT number FROM repeated UNION SELECT number FROM held
), called AS (
  INSERT INTO calls({CALL_COLUMNS})
  SELECT c.* FROM unnest({_arrays(_CALL_TYPES, _CALLS_AT)}) AS c({CALL_COLUMNS})
  JOIN valid ON valid.number=c.run
  ON CONFLICT (run, path) DO UPDATE SET {_UPDATES}
), ticked AS (
  INSERT INTO ticks(run, place, elapsed)
  SELECT t.* FROM unnest({_arrays(_TICK_TYPES, _TICKS_AT)}) AS t(run, place, elapsed)
  JOIN valid ON valid.number=t.run ON CONFLICT DO NOTHING
), reported AS (
  INSERT INTO events({EVENT_COLUMNS})
  SELECT e.* FROM unnest({_arrays(_EVENT_TYPES, _EVENTS_AT)}) AS e({EVENT_COLUMNS})
  JOIN valid ON valid.number=e.run ON CONFLICT DO NOTHING
), ended AS (
  UPDATE runs SET status=e.status, result=e.result, ended_ms=e.ended_ms, owner=NULL,
    size_bytes=runs.size_bytes+e.added
  FROM unnest({_arrays(_END_TYPES, _ENDS_AT)}) AS e(status, result, ended_ms, added, number)
  JOIN valid USING (number) WHERE runs.number=e.number
)
SELECT number FROM valid
"""  # noqa: S608  # our names
"""A lease is valid if its run was inserted, or was inserted by an attempt whose connection broke,
or has the epoch of the lease. The lock of the row makes `acquire` wait until the batch is stored.
"""

_OTHERS: Final[dict[Kind, tuple[str, ...]]] = {
    "release": ("UPDATE runs SET owner=NULL, size_bytes=size_bytes+$1 WHERE number=$2",),
    "pending": (
        "INSERT INTO pending(run, path, kind, tool, fingerprint, details, at_ms)"
        " VALUES($1,$2,$3,$4,$5,$6,$7) ON CONFLICT (run, path, kind) DO UPDATE SET"
        " tool=excluded.tool, fingerprint=excluded.fingerprint, details=excluded.details,"
        " at_ms=excluded.at_ms",
    ),
    "decision": ("INSERT INTO verdicts VALUES($1,$2,$3,$4,$5,$6,$7,$8) ON CONFLICT DO NOTHING",),
    "revert": (
        "INSERT INTO reverts(run, path, status, attempt, error, at_ms) VALUES($1,$2,$3,$4,$5,$6)"
        " ON CONFLICT (run, path) DO UPDATE SET status=excluded.status, attempt=excluded.attempt,"
        " error=excluded.error, at_ms=excluded.at_ms",
    ),
    # The used decision stays in the table for audits; `load` does not return it.
    "used": tuple(
        statement
        for table in ("verdicts", "pending")
        for statement in (
            f"DELETE FROM {table} WHERE kind=$1 AND run=$2 AND path=$3"  # noqa: S608  # our names
            f" AND EXISTS (SELECT 1 FROM {table} WHERE run=$2 AND path=$3 AND kind='unknown')",
            f"UPDATE {table} SET kind=$1 WHERE run=$2 AND path=$3 AND kind='unknown'",  # noqa: S608
        )
    ),
}
"""Statements for the writes that a run has few of."""
_EPOCHS: Final = "SELECT number, epoch FROM runs WHERE number=ANY($1::bigint[])"
_FENCE: Final = "SELECT number FROM runs WHERE number=$1 AND epoch=$2 FOR SHARE"


class PostgresBatches:
    """Commits batches; see `BatchStore`."""

    def __init__(
        self,
        server: Server,
        worker: str,
        heartbeat_seconds: float,
        note: Callable[[set[int]], None],
    ) -> None:
        self._server = server
        self._worker = worker
        self._note = note
        self.label = server.label
        self.heartbeat_seconds = heartbeat_seconds

    def commit(
        self, batch: Sequence[Write], leases: Leases, waiting: Sequence[Lease], *, durable: bool
    ) -> None:
        """As `BatchStore.commit`; `_journal` sends the heartbeats."""
        writes = [write for write in batch if leases.is_whole(write.lease)]
        began = time.monotonic()
        if writes:
            store = partial(self._store, writes=writes, leases=leases)
            self._server.wait(self._server.run(store, "written"))
            self._note({write.lease.number for write in writes})
        written = {write.lease for write in writes}
        unchecked = set(waiting) - written
        while unchecked or time.monotonic() - began > self.heartbeat_seconds:
            # After a long time, because this process was stopped or the reply took long, the
            # leases of the writes may have expired as well.
            began = time.monotonic()
            verify = partial(_verify, leases, unchecked or written)
            self._server.wait(self._server.run(verify, "read"))
            unchecked = set()

    async def _store(self, connection: Any, *, writes: Sequence[Write], leases: Leases) -> None:
        frequent = _Frequent(writes)
        rare = [write for write in writes if write.kind in _OTHERS]
        if not rare:
            await self._store_frequent(connection, frequent, leases)
            return
        async with connection.transaction():
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout='1s'")
            # Before the ends of runs, which give the leases up.
            valid = await self._store_frequent(connection, frequent.without_ends(), leases)
            for write in rare:
                lease = write.lease
                if not leases.is_whole(lease):
                    continue  # The run that has its id may have its epoch.
                if lease.number not in valid:
                    known = await connection.fetchval(_FENCE, lease.number, lease.epoch)
                    if known is None:
                        leases.lose(lease)
                        continue
                    valid.add(lease.number)
                for sql in _OTHERS[write.kind]:
                    await connection.execute(sql, *write.values)
            await self._store_frequent(connection, frequent.only_ends(), leases)

    async def _store_frequent(self, connection: Any, rows: _Frequent, leases: Leases) -> set[int]:
        if rows.is_empty():
            return set()
        found = await connection.fetch(_BATCH, self._worker, *rows.arguments())
        valid = {row[0] for row in found}
        for lease in rows.leases:
            if lease.number not in valid:
                leases.lose(lease)
        return valid


class _Frequent:
    """The writes of a batch that one statement stores."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self.leases = dict.fromkeys(write.lease for write in writes)
        self.starts = {w.lease: encode_run(w.values) for w in writes if w.kind == "start_run"}
        # Of several states of a call in one batch, the last one.
        self.calls = {w.values[:2]: w.values for w in writes if w.kind == "call"}
        self.ticks = {w.values[:2]: w.values for w in writes if w.kind == "tick"}
        # Of several events with one number, the first one.
        self.events = {w.values[:2]: w.values for w in reversed(writes) if w.kind == "event"}
        self.ends = {w.lease: w.values for w in writes if w.kind == "end_run"}
        for lease in self.starts.keys() & self.ends.keys():
            # The statement cannot update a row that it inserts.
            start, end = self.starts[lease], self.ends.pop(lease)
            *start[START_STATUS : START_STATUS + 3], start[SIZE_BYTES], _ = end

    def without_ends(self) -> _Frequent:
        """Return the same writes without the ends of runs."""
        rest = _Frequent(())
        rest.leases, rest.starts = self.leases, self.starts
        rest.calls, rest.ticks, rest.events = self.calls, self.ticks, self.events
        return rest

    def only_ends(self) -> _Frequent:
        """Return the ends of runs."""
        rest = _Frequent(())
        rest.leases, rest.ends = dict.fromkeys(self.ends), self.ends
        return rest

    def is_empty(self) -> bool:
        """True if there is nothing to store."""
        return not (self.starts or self.calls or self.ticks or self.events or self.ends)

    def arguments(self) -> list[list[Any]]:
        """Return the arrays of `_BATCH`."""
        held = [(lease.number, lease.epoch) for lease in self.leases if lease not in self.starts]
        return [
            *_columns(list(self.starts.values()), len(_RUN_TYPES)),
            *_columns(held, len(_LEASE_TYPES)),
            *_columns(list(self.calls.values()), len(_CALL_TYPES)),
            *_columns(list(self.ticks.values()), len(_TICK_TYPES)),
            *_columns(list(self.events.values()), len(_EVENT_TYPES)),
            *_columns(list(self.ends.values()), len(_END_TYPES)),
        ]


async def _verify(leases: Leases, unchecked: Iterable[Lease], connection: Any) -> None:
    """Note which leases were lost."""
    # Somebody else may acquire a run that was released.
    held = [lease for lease in unchecked if leases.held.get(lease.number) == lease.epoch]
    rows = await connection.fetch(_EPOCHS, [lease.number for lease in held])
    epochs = dict(map(tuple, rows))
    for lease in held:
        if epochs.get(lease.number) != lease.epoch:
            leases.lose(lease)


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width
