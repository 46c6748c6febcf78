"""Recorded runs, read from the tables in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._database import Database
from ._journal import EventRow, PendingRow, RunRecord, RunRow
from ._record import RecordRows, build_events, build_pending, build_record, build_run
from ._run_lists import EndedRun
from ._statements import ENDED, EVENTS, FAILED, REPEATED, UNDECIDED
from ._writes import CALL_COLUMNS, RUN_COLUMNS

__all__ = ["RunReader"]


class RunReader:
    """Reads runs from the tables of a journal."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        sql = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id=?"  # noqa: S608  # our names
        with self._db.errors("read"):
            row = self._db.fetch_one(sql, (run_id,))
        return build_run(row, self._db.label) if row else None

    def fetch(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """Return all rows of a query."""
        with self._db.errors("read"):
            return self._db.fetch_all(sql, tuple(values))

    def ended_runs(self, limit: int, before: EndedRun | None) -> Sequence[EndedRun]:
        """As `Journal.ended_runs`."""
        follows = ""
        values: tuple[int, ...] = (limit,)
        if before is not None:
            follows, values = " AND (ended_ms, number)<(?2, ?3)", (limit, *before[:2])
        return [EndedRun(*row) for row in self.fetch(ENDED.format(follows), values)]

    def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        # A range of the index on `run_id`: `~` sorts after every character of an id.
        sql = (
            "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? AND instr(run_id, '.')=0"
            " ORDER BY run_id LIMIT ?"
        )
        with self._db.errors("read"):
            return [row[0] for row in self._db.fetch_all(sql, (prefix, f"{prefix}~", limit))]

    def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        """As `Journal.failed_runs`."""
        with self._db.errors("read"):
            sql = FAILED.format("run_id")
            return [row[0] for row in self._db.fetch_all(sql, (since_ms, limit))]

    def repeated_effects(self, run_id: str, since_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """As `Journal.repeated_effects`."""
        with self._db.errors("read"):
            return self._db.fetch_all(REPEATED, (since_ms, limit, run_id, limit))

    def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        with self._db.errors("read"):
            rows = self._db.fetch_all(UNDECIDED, ())
        return [build_pending(run_id, row, self._db.label) for run_id, *row in rows]

    def events(self, run_id: str, after: int, limit: int) -> Sequence[EventRow]:
        """As `Journal.events`."""
        with self._db.errors("read"):
            rows = self._db.fetch_all(EVENTS, (run_id, after, limit))
        if not rows and self.find(run_id) is None:
            raise self._db.unknown_run(run_id)
        return build_events(run_id, rows, self._db.label)

    def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""
        with self._db.errors("read"), self._db.snapshot():
            sql = f"SELECT number, {RUN_COLUMNS} FROM runs WHERE run_id=?"  # noqa: S608  # our names
            row = self._db.fetch_one(sql, (run_id,))
            if row is None:
                raise self._db.unknown_run(run_id)
            rows = [self._db.fetch_all(sql, (row[0],)) for sql in _TABLES]
        return build_record(RecordRows(row[1:], *rows), self._db.label)


_TABLES: tuple[str, ...] = (
    f"SELECT {CALL_COLUMNS} FROM calls WHERE run=?",  # noqa: S608  # our names
    "SELECT place, elapsed FROM ticks WHERE run=?",
    "SELECT path, kind, tool, fingerprint, details, at_ms FROM pending WHERE run=?"
    " AND kind IN ('approval', 'unknown') ORDER BY rowid",
    "SELECT path, kind, action, value, decided_by, comment, at_ms FROM verdicts WHERE run=?"
    " AND kind IN ('approval', 'unknown')",
    "SELECT path, status, attempt, error, at_ms FROM reverts WHERE run=? ORDER BY rowid",
    "SELECT coalesce(max(number), 0), count(*), coalesce(sum(length(body)), 0),"
    " coalesce(max(kind='left_out'), 0) FROM events WHERE run=?",
)
"""Queries for the fields of `RecordRows` after the run."""
