"""Statements on a PostgreSQL server, for tests."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

__all__ = ["execute_sql"]


def execute_sql(database: str, sql: str, *values: Any) -> None:
    """Execute a statement, in a thread of its own: the test may have an event loop in this one."""
    import asyncpg

    async def execute() -> None:
        connection = await asyncpg.connect(database)
        await connection.execute(sql, *values)
        await connection.close()

    thread = threading.Thread(target=asyncio.run, args=(execute(),))
    thread.start()
    thread.join()
