"""Schema of the journal in PostgreSQL, and its migrations.

The columns are those of the file of SQLite (`.._tables`). A worker holds the leases of its runs
with one heartbeat, by the clock of the server.
"""

from __future__ import annotations

from typing import Any, Final

from ...errors import JournalError

__all__ = ["MIGRATION_LOCK", "SCHEMA_VERSION", "migrate"]

_TABLES: Final = """
CREATE TABLE runs(
  number BIGINT PRIMARY KEY, run_id TEXT UNIQUE NOT NULL, source BYTEA NOT NULL,
  filename TEXT NOT NULL, inputs BYTEA NOT NULL, options BYTEA NOT NULL, seed BIGINT NOT NULL,
  clock DOUBLE PRECISION NOT NULL, created_ms BIGINT NOT NULL, status TEXT NOT NULL, result BYTEA,
  ended_ms BIGINT, rolled_back_ms BIGINT, owner TEXT, epoch INTEGER NOT NULL,
  sequence BIGINT GENERATED ALWAYS AS IDENTITY) WITH (fillfactor=80);
CREATE INDEX paused_runs ON runs(status) WHERE status='paused';
CREATE INDEX owned_runs ON runs(owner) WHERE owner IS NOT NULL;
CREATE INDEX ended_runs ON runs(ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX newest_runs ON runs(created_ms DESC, sequence DESC);
CREATE TABLE calls(
  run BIGINT NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL, arguments BYTEA NOT NULL,
  key TEXT NOT NULL, side_effect BOOLEAN NOT NULL, line INTEGER, attempt INTEGER NOT NULL,
  started_ms BIGINT NOT NULL, making TEXT NOT NULL, status TEXT NOT NULL, ok BOOLEAN, body BYTEA,
  body_sha256 BYTEA, ended_ms BIGINT, place INTEGER, elapsed DOUBLE PRECISION,
  PRIMARY KEY(run, path)) WITH (fillfactor=80);
CREATE TABLE ticks(
  run BIGINT NOT NULL, place INTEGER NOT NULL, elapsed DOUBLE PRECISION NOT NULL,
  PRIMARY KEY(run, place));
CREATE TABLE pending(
  run BIGINT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL,
  fingerprint TEXT NOT NULL, details BYTEA NOT NULL, at_ms BIGINT NOT NULL,
  sequence BIGINT GENERATED ALWAYS AS IDENTITY, PRIMARY KEY(run, path, kind));
CREATE TABLE verdicts(
  run BIGINT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL,
  value BYTEA NOT NULL, decided_by TEXT NOT NULL, comment TEXT NOT NULL, at_ms BIGINT NOT NULL,
  PRIMARY KEY(run, path, kind));
CREATE TABLE reverts(
  run BIGINT NOT NULL, path TEXT NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL,
  error TEXT, at_ms BIGINT NOT NULL, sequence BIGINT GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY(run, path));
CREATE TABLE documents(
  name TEXT NOT NULL, version INTEGER NOT NULL, body BYTEA NOT NULL, changed_ms BIGINT NOT NULL,
  key TEXT NOT NULL, PRIMARY KEY(name, version));
CREATE UNIQUE INDEX document_keys ON documents(name, key) WHERE key<>'';
CREATE TABLE workers(
  worker TEXT PRIMARY KEY, alive TIMESTAMPTZ NOT NULL, lease_seconds DOUBLE PRECISION NOT NULL,
  description TEXT NOT NULL);
"""
_REVISIONS: Final = """
ALTER TABLE runs ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1;
CREATE INDEX failed_runs ON runs(ended_ms)
  WHERE status IN ('failed', 'crashed', 'timed_out', 'limit_exceeded');
"""
_TENANTS: Final = """
ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT 0;
CREATE INDEX runs_of_tenants ON runs(tenant, created_ms) WHERE tenant<>'';
CREATE INDEX unfinished_runs ON runs(status, created_ms) WHERE status<>'completed';
"""
_EVENTS: Final = """
CREATE TABLE events(
  run BIGINT NOT NULL, number BIGINT NOT NULL, kind TEXT NOT NULL, at_ms BIGINT NOT NULL,
  body BYTEA NOT NULL, PRIMARY KEY(run, number));
ALTER TABLE calls ADD COLUMN usage BYTEA;
"""
_ARTIFACTS: Final = """
CREATE TABLE artifacts(
  digest TEXT COLLATE "C" PRIMARY KEY, size BIGINT NOT NULL, media_type TEXT NOT NULL,
  upload UUID NOT NULL, stored_ms BIGINT NOT NULL);
CREATE INDEX old_artifacts ON artifacts(stored_ms);
CREATE TABLE artifact_parts(
  upload UUID NOT NULL, part INTEGER NOT NULL, data BYTEA NOT NULL, PRIMARY KEY(upload, part));
ALTER TABLE artifact_parts ALTER COLUMN data SET STORAGE EXTERNAL;
"""
_QUEUE: Final = """
CREATE TABLE toolsets(digest TEXT PRIMARY KEY, tools TEXT NOT NULL);
CREATE TABLE tenants(
  name TEXT PRIMARY KEY, max_running INTEGER, rate_per_second DOUBLE PRECISION,
  burst INTEGER NOT NULL DEFAULT 1, max_queued INTEGER,
  tokens DOUBLE PRECISION NOT NULL DEFAULT 0,
  refilled TIMESTAMPTZ NOT NULL DEFAULT '-infinity');
CREATE TABLE submissions(
  run BIGINT PRIMARY KEY REFERENCES runs(number) ON DELETE CASCADE, run_id TEXT UNIQUE NOT NULL,
  entrypoint TEXT NOT NULL, tenant TEXT NOT NULL, toolset TEXT NOT NULL,
  priority INTEGER NOT NULL, not_before TIMESTAMPTZ, cancel BOOLEAN NOT NULL DEFAULT FALSE);
CREATE TABLE queue_version(version TEXT NOT NULL);
ALTER TABLE workers ADD COLUMN tools TEXT;
ALTER TABLE workers ADD COLUMN slots INTEGER;
ALTER TABLE workers ADD COLUMN draining BOOLEAN NOT NULL DEFAULT FALSE;
"""
"""Beside the tables of PgQueuer, which `_queue` creates."""
_RETENTION: Final = """
CREATE INDEX completed_runs ON runs(created_ms) WHERE status='completed';
DROP INDEX ended_runs;
CREATE INDEX ended_runs ON runs(ended_ms, number) INCLUDE (size_bytes)
  WHERE ended_ms IS NOT NULL AND strpos(run_id, '.')=0;
"""
_ENGINE: Final = "ALTER TABLE runs ADD COLUMN engine TEXT NOT NULL DEFAULT ''"
_COSTS: Final = "CREATE INDEX usage_of_calls ON calls(run) WHERE usage IS NOT NULL"
_MIGRATIONS: Final = (
    *(_TABLES, _REVISIONS, _TENANTS, _EVENTS, _ARTIFACTS, _QUEUE, _RETENTION, _ENGINE, _COSTS),
)
"""Indexed by the version they start from. Never edit an entry: existing schemas were made with it.
"""
SCHEMA_VERSION: Final = len(_MIGRATIONS)
MIGRATION_LOCK: Final = 5_207_390_182
"""Number of the advisory lock under which one process migrates."""


async def migrate(connection: Any, schema: str, label: str) -> None:
    """Create the tables in `schema`, or migrate them to this version.

    Raises:
        JournalError: If a later version of ptc made them.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        await connection.execute(f'SET LOCAL search_path="{schema}"')
        await connection.execute("CREATE TABLE IF NOT EXISTS journal(version INTEGER NOT NULL)")
        version = await connection.fetchval("SELECT version FROM journal") or 0
        if version > SCHEMA_VERSION:
            msg = f"{label} was made by a later version of ptc; use that one"
            raise JournalError(msg)
        for step in _MIGRATIONS[version:]:
            await connection.execute(step)
        if version < SCHEMA_VERSION:
            await connection.execute("DELETE FROM journal")
            await connection.execute("INSERT INTO journal VALUES($1)", SCHEMA_VERSION)
