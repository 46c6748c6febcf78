"""Leases as the tables of a store show them, read without the code under test."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

__all__ = ["left_in_postgres", "left_in_sqlite"]

_AGE = "extract(epoch FROM clock_timestamp() - w.alive)::float8"
_HOLDER = " FROM runs r JOIN workers w ON w.worker=r.owner WHERE r.status='running' AND r.run_id="


def left_in_sqlite(file: Path, run_id: str) -> float | None:
    """Return the seconds until the lease of a run expires; None if nobody holds it."""
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        sql = f"SELECT w.beat_at, w.lease_seconds{_HOLDER}?"  # our names
        row = connection.execute(sql, (run_id,)).fetchone()
    return None if row is None else row[0] + row[1] - time.monotonic()


async def left_in_postgres(url: str, schema: str, run_id: str) -> float | None:
    """As `left_in_sqlite`, by the clock of the server."""
    import asyncpg

    connection = await asyncpg.connect(url, server_settings={"search_path": schema})
    try:
        left: float | None = await connection.fetchval(
            f"SELECT w.lease_seconds - {_AGE}{_HOLDER}$1",
            run_id,
        )
    finally:
        await connection.close()
    return left
