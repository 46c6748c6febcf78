"""SQL statements of the journal, and the values they take."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Entry,
    Lease,
    RevertRow,
    RunRow,
    Tick,
    UsedDecision,
)

__all__ = ["Write", "decision_values", "entry_statements", "lease_and_sql", "run_values"]

RUN_COLUMNS: Final = (
    "run_id, source, filename, inputs, options, seed, clock, created_ms, status, result, ended_ms,"
    " rolled_back_ms"
)
START_COLUMNS: Final = (
    "run, path, tool, arguments, key, side_effect, line, attempt, started_ms, making"
)
END_COLUMNS: Final = "status, ok, body, body_sha256, ended_ms, place, elapsed"

START_RUN: Final = (
    f"INSERT INTO runs(number, {RUN_COLUMNS}, owner, alive_ms, epoch)"  # our names
    " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,1) ON CONFLICT DO NOTHING"
)
START_RUN_STATUS: Final = 9
"""Index of the status among the values of `START_RUN`; the result and the end time follow."""
START_RUN_OWNER: Final = 13
"""Index of the lease holder among the values of `START_RUN`."""
END_RUN: Final = "UPDATE runs SET status=?, result=?, ended_ms=?, owner=NULL WHERE number=?"
RELEASE: Final = "UPDATE runs SET owner=NULL WHERE number=?"
ACQUIRE: Final = (
    "UPDATE runs SET owner=?, alive_ms=?, epoch=?, status='running', result=NULL, ended_ms=NULL"
    " WHERE number=?"
)
ACQUIRE_FOR_ROLLBACK: Final = (
    "UPDATE runs SET owner=?, alive_ms=?, epoch=?, rolled_back_ms=coalesce(rolled_back_ms, ?),"
    " ended_ms=coalesce(ended_ms, ?),"
    " status=CASE WHEN status IN ('running', 'paused') THEN 'cancelled' ELSE status END"
    " WHERE number=?"
)
_CALL_VALUES: Final = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
CALL: Final = (
    f"INSERT OR REPLACE INTO calls({START_COLUMNS}, {END_COLUMNS})"  # noqa: S608  # our names
    f" VALUES {_CALL_VALUES}"
)
_NOT_ENDED: Final = ("started", None, None, None, None, None, None)
"""Values of `END_COLUMNS` for a call without an outcome."""
ROWS_AT_ONCE: Final = 50
"""Calls in one statement: sqlite3 releases the interpreter lock for each statement, and acquiring
it from a busy event loop takes longer than the insert."""
MANY_CALLS: Final = CALL + f",{_CALL_VALUES}" * (ROWS_AT_ONCE - 1)
"""`CALL` for `ROWS_AT_ONCE` calls."""
TICK: Final = "INSERT INTO ticks VALUES(?,?,?)"
PENDING: Final = "INSERT OR REPLACE INTO pending VALUES(?,?,?,?,?,?,?)"
DECISION: Final = "INSERT OR IGNORE INTO verdicts VALUES(?,?,?,?,?,?,?,?)"
UNDECIDED: Final = (
    "SELECT r.run_id, p.path, p.kind, p.tool, p.fingerprint, p.details, p.at_ms"
    " FROM runs r JOIN pending p ON p.run=r.number"
    " WHERE r.status='paused' AND r.rolled_back_ms IS NULL AND p.kind IN ('approval', 'unknown')"
    " AND NOT EXISTS (SELECT 1 FROM verdicts v"
    " WHERE v.run=p.run AND v.path=p.path AND v.kind=p.kind)"
    " ORDER BY p.at_ms, p.rowid"
)
"""Reads paused runs only, by the index `paused_runs`, however many runs there are."""
REVERT: Final = "INSERT OR REPLACE INTO reverts VALUES(?,?,?,?,?,?)"
SPENT: Final = tuple(
    f"UPDATE OR REPLACE {table} SET kind=? WHERE run=? AND path=? AND kind='unknown'"  # noqa: S608  # our names
    for table in ("verdicts", "pending")
)
"""The used decision stays in the file for audits; `load` does not return it."""


class Write(NamedTuple):
    """One statement for the writer."""

    lease: Lease
    sql: str
    values: tuple[Any, ...]
    size_bytes: int
    """Approximate size: bodies and texts only."""


def size_of(values: tuple[Any, ...]) -> int:
    """Return the bytes of the bodies and texts among `values`."""
    return sum([len(value) for value in values if isinstance(value, bytes | str)])


def lease_and_sql(write: Write) -> tuple[Lease, str]:
    """Return the lease and the statement of a write, to group by."""
    return write.lease, write.sql


def entry_statements(
    run: int, entry: Entry, next_position: Callable[[], int]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Convert an entry to statements with their values.

    Args:
        run: Number of the run.
        entry: The entry.
        next_position: Returns the position of the next message to the worker.
    """
    if isinstance(entry, CallRow):
        *start, end = entry
        yield CALL, (run, *start, *_end_values(end, next_position))
    elif isinstance(entry, Tick):
        yield TICK, (run, next_position(), entry.elapsed)
    elif isinstance(entry, DecisionRow):
        yield DECISION, (run, *decision_values(entry))
    elif isinstance(entry, RevertRow):
        yield REVERT, (run, entry.path, entry.status, entry.attempt, entry.error, entry.at_ms)
    elif isinstance(entry, UsedDecision):
        for sql in SPENT:
            yield sql, (f"unknown {entry.attempt}", run, entry.path)
    else:
        request = (entry.kind, entry.tool, entry.fingerprint, entry.details, entry.at_ms)
        yield PENDING, (run, entry.path, *request)


def _end_values(end: CallEnd | None, next_position: Callable[[], int]) -> tuple[Any, ...]:
    if end is None:
        return _NOT_ENDED
    position = None if end.elapsed is None else next_position()
    digest = hashlib.sha256(end.body).digest()
    return (end.status, end.ok, end.body, digest, end.at_ms, position, end.elapsed)


def run_values(run: RunRow) -> tuple[Any, ...]:
    """Return the values of `RUN_COLUMNS`."""
    return (
        run.run_id,
        run.source,
        run.filename,
        run.inputs,
        run.options,
        run.seed,
        run.clock,
        run.created_ms,
        run.status,
        run.result,
        run.ended_ms,
        run.rolled_back_ms,
    )


def decision_values(decision: DecisionRow) -> tuple[Any, ...]:
    """Return the values of `DECISION` after the run's number."""
    return (
        decision.path,
        decision.kind,
        decision.action,
        decision.value,
        decision.by,
        decision.comment,
        decision.at_ms,
    )
