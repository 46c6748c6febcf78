"""Recorded runs, read from the tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._journal import EventRow, PendingRow, RunRecord, RunRow
from .._record import RecordRows, build_events, build_pending, build_record, build_run
from .._run_lists import EndedRun
from .._writes import RUN_COLUMNS
from ._run_rows import decode_run
from ._server import Server
from ._statements import ENDED, EVENTS, FAILED, REPEATED, TABLES, UNDECIDED

__all__ = ["PostgresReader"]


class PostgresReader:
    """Reads runs from the tables of a journal, in the thread of the connections."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def find(self, run_id: str) -> RunRow | None:
        """As `Journal.find`."""
        sql = f"SELECT {RUN_COLUMNS} FROM runs WHERE run_id=$1"  # noqa: S608  # our names
        row = await self._fetch("fetchrow", sql, run_id)
        return None if row is None else self._run(row)

    async def fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return [tuple(row) for row in await self._fetch("fetch", sql, *values)]

    async def ended_runs(self, limit: int, before: EndedRun | None) -> Sequence[EndedRun]:
        """As `Journal.ended_runs`."""
        follows = ""
        values: tuple[int, ...] = (limit,)
        if before is not None:
            follows, values = " AND (ended_ms, number)<($2::bigint, $3)", (limit, *before[:2])
        return [EndedRun(*row) for row in await self.fetch(ENDED.format(follows), values)]

    async def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        """As `Journal.failed_runs`."""
        sql = FAILED.format("run_id")
        return [row[0] for row in await self._fetch("fetch", sql, since_ms, limit)]

    async def repeated_effects(
        self, run_id: str, since_ms: int, limit: int
    ) -> Sequence[tuple[str, str]]:
        """As `Journal.repeated_effects`."""
        rows = await self._fetch("fetch", REPEATED, since_ms, limit, run_id)
        return [(row[0], row[1]) for row in rows]

    async def find_ids(self, prefix: str, limit: int) -> Sequence[str]:
        """As `Journal.find_ids`."""
        sql = (
            "SELECT run_id FROM runs WHERE starts_with(run_id, $1) AND strpos(run_id, '.')=0"
            " ORDER BY run_id LIMIT $2"
        )
        return [row[0] for row in await self._fetch("fetch", sql, prefix, limit)]

    async def pending(self) -> Sequence[tuple[str, PendingRow]]:
        """As `Journal.pending`."""
        rows = await self._fetch("fetch", UNDECIDED)
        label = self._server.label
        return [build_pending(run_id, row, label) for run_id, *row in map(tuple, rows)]

    async def events(self, run_id: str, after: int, limit: int) -> Sequence[EventRow]:
        """As `Journal.events`."""
        rows = await self._fetch("fetch", EVENTS, run_id, after, limit)
        if not rows and await self.find(run_id) is None:
            raise self._server.unknown_run(run_id)
        return build_events(run_id, map(tuple, rows), self._server.label)

    async def load(self, run_id: str) -> RunRecord:
        """As `Journal.load`."""

        async def load(connection: Any) -> RecordRows:
            # One snapshot: another process may be writing.
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                sql = f"SELECT number, {RUN_COLUMNS} FROM runs WHERE run_id=$1"  # noqa: S608  # our names
                row = await connection.fetchrow(sql, run_id)
                if row is None:
                    raise self._server.unknown_run(run_id)
                tables = [await connection.fetch(sql, row[0]) for sql in TABLES]
                return RecordRows(decode_run(tuple(row)[1:]), *(map(tuple, t) for t in tables))

        rows = await self._server.run(load, "read")
        return build_record(rows, self._server.label)

    def _run(self, row: Any) -> RunRow:
        return build_run(decode_run(tuple(row)), self._server.label)

    async def _fetch(self, method: str, sql: str, *values: Any) -> Any:
        async def fetch(connection: Any) -> Any:
            return await getattr(connection, method)(sql, *values)

        return await self._server.run(fetch, "read")
