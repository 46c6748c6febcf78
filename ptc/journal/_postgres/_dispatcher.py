"""PgQueuer in the schema of a journal: its settings, its tables, and its queries.

PgQueuer delivers each entry of the queue at least once: it takes entries with SKIP LOCKED, and
takes those again whose worker sends no heartbeat. Importing it takes 0.2 s, so this module is
imported when the queue is used.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability

from ._tables import MIGRATION_LOCK

__all__ = ["Dispatcher"]

_INSTALLED: Final = "SELECT to_regclass('queue_entries') IS NOT NULL"


class Dispatcher:
    """Builds the queries of PgQueuer for the connections of a journal."""

    def __init__(self, schema: str) -> None:
        # Every field is named, since PgQueuer reads those that are not from the environment. The
        # schema is that of the connection: PgQueuer would write it in lower case.
        self.channel = f"ptc_queue_{schema}"
        self._settings = DBSettings(
            prefix="",
            db_schema=None,
            channel=self.channel,  # type: ignore[arg-type,unused-ignore]  # a text
            function="queue_changed",
            statistics_table="queue_statistics",
            queue_status_type="queue_status",
            queue_table="queue_entries",
            queue_table_log="queue_log",
            trigger="queue_trigger",
            schedules_table="queue_schedules",
            # The log is for people; a run is recorded in its own tables.
            durability=Durability.balanced,
            widen_id=False,
        )
        self._environment = QueryBuilderEnvironment(self._settings)
        self._builder = QueryQueueBuilder(self._settings)

    def queries(self, connection: Any) -> Queries:
        """Return the queries, executed by a connection and in its transaction."""
        return Queries(AsyncpgDriver(connection), qbe=self._environment, qbq=self._builder)

    async def install(self, connection: Any) -> None:
        """Create the tables, or upgrade those of another version of PgQueuer."""
        used = version("pgqueuer")
        if await connection.fetchval("SELECT version FROM queue_version") == used:
            return
        # Of the session: the steps of an upgrade cannot share a transaction.
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        try:
            queries = self.queries(connection)
            if not await connection.fetchval(_INSTALLED):
                await queries.install(create_schema=False)
            elif await connection.fetchval("SELECT version FROM queue_version") != used:
                await queries.upgrade()
            async with connection.transaction():
                await connection.execute("DELETE FROM queue_version")
                await connection.execute("INSERT INTO queue_version VALUES($1)", used)
        finally:
            await connection.execute("SELECT pg_advisory_unlock($1)", MIGRATION_LOCK)
