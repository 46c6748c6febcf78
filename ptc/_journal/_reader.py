"""Recorded runs, read back from the journal and checked for damage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from ..errors import JournalError
from ._database import Database
from ._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Delivery,
    PendingRow,
    RevertRow,
    RunRecord,
    RunRow,
)
from ._statements import END_COLUMNS, RUN_COLUMNS, START_COLUMNS, UNDECIDED

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
        return RunRow(*row) if row else None

    def runs(self, limit: int) -> Sequence[RunRow]:
        """As `Journal.runs`."""
        sql = f"SELECT {RUN_COLUMNS} FROM runs ORDER BY created_ms DESC, rowid DESC LIMIT ?"  # noqa: S608  # our names
        with self._db.errors("read"):
            return [RunRow(*row) for row in self._db.fetch_all(sql, (limit,))]

    def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        # A range of the index on `run_id`: `~` sorts after every character of an id.
        sql = "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT ?"
        with self._db.errors("read"):
            return [row[0] for row in self._db.fetch_all(sql, (prefix, f"{prefix}~", limit))]

    def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        with self._db.errors("read"):
            rows = self._db.fetch_all(UNDECIDED, ())
        return [(run_id, PendingRow(*row)) for run_id, *row in rows]

    def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""
        with self._db.errors("read"):
            sql = f"SELECT number, {RUN_COLUMNS} FROM runs WHERE run_id=?"  # noqa: S608  # our names
            row = self._db.fetch_one(sql, (run_id,))
            if row is None:
                raise self._db.unknown_run(run_id)
            number, run = row[0], RunRow(*row[1:])
            calls = list(self._calls(run_id, number))
            return RunRecord(
                run,
                calls=tuple(row for row, _ in calls),
                deliveries=tuple(self._deliveries(run_id, number, calls)),
                pending=tuple(self._pending(number)),
                decisions=tuple(self._decisions(number)),
                reverts=tuple(self._reverts(number)),
            )

    def _calls(self, run_id: str, number: int) -> Iterator[tuple[CallRow, int | None]]:
        """Yield calls in order, each with the position of its outcome among the deliveries."""
        sql = f"SELECT {START_COLUMNS}, {END_COLUMNS} FROM calls WHERE run=?"  # noqa: S608  # our names
        rows = self._db.fetch_all(sql, (number,))
        for row in sorted(rows, key=lambda row: [int(part) for part in row[1].split(".")]):
            path, tool, arguments, key, side_effect, *rest = row[1:10]
            call = CallRow(path, tool, arguments, key, bool(side_effect), *rest)
            status, ok, body, digest, ended, position, elapsed = row[10:]
            if status == "started":
                yield call, None
                continue
            if body is None or hashlib.sha256(body).digest() != digest:
                msg = f"the outcome of call {path} does not match its digest"
                raise self._damage(run_id, msg)
            end = CallEnd(status, bool(ok), body, ended, elapsed)
            yield call._replace(end=end), position

    def _deliveries(
        self, run_id: str, number: int, calls: Sequence[tuple[CallRow, int | None]]
    ) -> Iterator[Delivery]:
        found: dict[int, Delivery] = {}
        for row, position in calls:
            if position is not None and row.end is not None:
                found[position] = Delivery(row.path, row.end.elapsed or 0.0)
        ticks = self._db.fetch_all("SELECT place, elapsed FROM ticks WHERE run=?", (number,))
        found.update({position: Delivery(None, elapsed) for position, elapsed in ticks})
        for position in range(1, max(found, default=0) + 1):
            if position not in found:
                raise self._damage(run_id, f"message {position} is missing")
            yield found[position]

    def _damage(self, run_id: str, problem: str) -> JournalError:
        return JournalError(f"{self._db.label} is damaged: run {run_id!r}: {problem}")

    def _pending(self, number: int) -> Iterator[PendingRow]:
        sql = (
            "SELECT path, kind, tool, fingerprint, details, at_ms FROM pending WHERE run=?"
            " AND kind IN ('approval', 'unknown') ORDER BY rowid"
        )
        for row in self._db.fetch_all(sql, (number,)):
            yield PendingRow(*row)

    def _decisions(self, number: int) -> Iterator[DecisionRow]:
        sql = (
            "SELECT path, kind, action, value, decided_by, comment, at_ms FROM verdicts WHERE run=?"
            " AND kind IN ('approval', 'unknown')"
        )
        for row in self._db.fetch_all(sql, (number,)):
            yield DecisionRow(*row)

    def _reverts(self, number: int) -> Iterator[RevertRow]:
        sql = "SELECT path, status, attempt, error, at_ms FROM reverts WHERE run=? ORDER BY rowid"
        for row in self._db.fetch_all(sql, (number,)):
            yield RevertRow(*row)
