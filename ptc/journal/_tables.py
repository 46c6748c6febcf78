"""Schema of the journal file, and its migrations."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from ..errors import JournalError

__all__ = ["MIGRATIONS", "SCHEMA_VERSION", "open_file"]

_BUSY_SECONDS = 30.0
"""Time that a write waits for writes of other processes."""

_TABLES = """
CREATE TABLE runs(
  number INTEGER PRIMARY KEY, run_id TEXT UNIQUE NOT NULL, source TEXT NOT NULL,
  filename TEXT NOT NULL, inputs BLOB NOT NULL, options BLOB NOT NULL, seed INTEGER NOT NULL,
  clock REAL NOT NULL, created_ms INTEGER NOT NULL, status TEXT NOT NULL, result BLOB,
  ended_ms INTEGER, owner TEXT, alive_ms INTEGER, epoch INTEGER NOT NULL);
CREATE TABLE calls(
  run INTEGER NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL,
  arguments BLOB NOT NULL, key TEXT NOT NULL, side_effect INTEGER NOT NULL, line INTEGER,
  attempt INTEGER NOT NULL, started_ms INTEGER NOT NULL, status TEXT NOT NULL, ok INTEGER,
  body BLOB, body_sha256 BLOB, ended_ms INTEGER, place INTEGER, elapsed REAL,
  PRIMARY KEY(run, path));
CREATE TABLE ticks(
  run INTEGER NOT NULL, place INTEGER NOT NULL, elapsed REAL NOT NULL, PRIMARY KEY(run, place));
CREATE TABLE pending(
  run INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL,
  fingerprint TEXT NOT NULL, details BLOB NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(run, path, kind));
CREATE TABLE verdicts(
  run INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL,
  value BLOB NOT NULL, decided_by TEXT NOT NULL, comment TEXT NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(run, path, kind));
"""
_ROLLBACK = """
ALTER TABLE runs ADD COLUMN rolled_back_ms INTEGER;
CREATE TABLE reverts(
  run INTEGER NOT NULL, path TEXT NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL,
  error TEXT, at_ms INTEGER NOT NULL, PRIMARY KEY(run, path));
"""
_CACHED_RESULTS = "ALTER TABLE calls ADD COLUMN making TEXT NOT NULL DEFAULT ''"
_PAUSED_RUNS = "CREATE INDEX paused_runs ON runs(status) WHERE status='paused'"
_ENDED_RUNS = "CREATE INDEX ended_runs ON runs(ended_ms) WHERE ended_ms IS NOT NULL"
_DOCUMENTS = """
CREATE TABLE documents(
  name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL, changed_ms INTEGER NOT NULL,
  key TEXT NOT NULL, PRIMARY KEY(name, version));
CREATE UNIQUE INDEX document_keys ON documents(name, key) WHERE key<>''
"""
_REVISIONS = """
ALTER TABLE runs ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1;
CREATE INDEX failed_runs ON runs(ended_ms)
  WHERE status IN ('failed', 'crashed', 'timed_out', 'limit_exceeded')
"""
_TENANTS = """
ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX newest_runs ON runs(created_ms);
CREATE INDEX runs_of_tenants ON runs(tenant, created_ms) WHERE tenant<>'';
CREATE INDEX unfinished_runs ON runs(status, created_ms) WHERE status<>'completed'
"""
_EVENTS = """
CREATE TABLE events(
  run INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, at_ms INTEGER NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY(run, number)) WITHOUT ROWID;
ALTER TABLE calls ADD COLUMN usage BLOB
"""
_WORKERS = """
CREATE TABLE workers(
  worker TEXT PRIMARY KEY, host TEXT NOT NULL, boot TEXT NOT NULL, clock TEXT NOT NULL,
  pids TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL, beat INTEGER NOT NULL,
  beat_at REAL NOT NULL, lease_seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE sightings(
  worker TEXT NOT NULL, clock TEXT NOT NULL, beat INTEGER NOT NULL, since REAL NOT NULL,
  PRIMARY KEY(worker, clock)) WITHOUT ROWID
"""
"""`runs.owner` is the id of a worker from here on, and `runs.alive_ms` is not used."""
_RETENTION: Final = """
CREATE INDEX completed_runs ON runs(created_ms) WHERE status='completed';
DROP INDEX ended_runs;
CREATE INDEX ended_runs ON runs(ended_ms, number, size_bytes)
  WHERE ended_ms IS NOT NULL AND instr(run_id, '.')=0
"""
_ENGINE: Final = "ALTER TABLE runs ADD COLUMN engine TEXT NOT NULL DEFAULT ''"
_COSTS: Final = "CREATE INDEX usage_of_calls ON calls(run) WHERE usage IS NOT NULL"
MIGRATIONS: Final = (
    *(_TABLES, _ROLLBACK, _CACHED_RESULTS, _PAUSED_RUNS, _ENDED_RUNS),
    *(_DOCUMENTS, _REVISIONS, _TENANTS, _EVENTS, _WORKERS, _RETENTION, _ENGINE, _COSTS),
)
"""Indexed by the version they start from. Never edit an entry: existing files were made with it."""
SCHEMA_VERSION: Final = len(MIGRATIONS)
"""Stored in ``PRAGMA user_version``. A newer file is rejected, an older one migrated."""


def open_file(path: Path | None, label: str) -> sqlite3.Connection:
    """Open a journal file, or create it, and migrate its tables to this version.

    Args:
        path: The file; None: memory.
        label: Name of the file in errors.

    Raises:
        JournalError: If a later version or another program made it.
        sqlite3.Error: If it is damaged or not a journal.
        OSError: If its folder cannot be created.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only the user who ran the scripts may read their inputs and results; SQLite creates the
        # files beside it with the same mode.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    db = sqlite3.connect(
        ":memory:" if path is None else path,
        timeout=_BUSY_SECONDS,
        isolation_level="IMMEDIATE",
        check_same_thread=False,
    )
    try:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if names and not names >= {"runs", "calls", "verdicts"}:
            msg = f"{label} is a database of another program; choose another file for the journal"
            raise JournalError(msg)
        # Only possible before the first table is created; in an older file, VACUUM does it. The
        # statement waits for the write lock of a file that has tables.
        if db.execute("PRAGMA page_count").fetchone() == (0,):
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _write_ahead(db)
        db.execute("PRAGMA wal_autocheckpoint=4000")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            msg = f"{label} was made by a later version of ptc; use that one"
            raise JournalError(msg)
        if version < SCHEMA_VERSION:
            _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging.

    If two processes do so at once, SQLite reports a lock to one of them without its usual wait
    (https://www.sqlite.org/c3ref/busy_handler.html: where waiting could deadlock).
    """
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _migrate(db: sqlite3.Connection) -> None:
    """Migrate the tables to `SCHEMA_VERSION` in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have migrated the file.
        (version,) = db.execute("PRAGMA user_version").fetchone()
        for step in MIGRATIONS[version:]:
            for statement in step.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
