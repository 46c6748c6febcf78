"""The tables of a journal's file: as they were, as they are, and the way from one to the other."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

from ..errors import JournalError

__all__ = ["SCHEMA_VERSION", "open_file"]

SCHEMA_VERSION: Final = 3
"""Of the tables, in ``PRAGMA user_version``. A newer file is refused, an older one migrated."""
_BUSY_SECONDS = 30.0
"""How long a write waits for those of other processes."""

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
_MIGRATIONS: Final = (_TABLES, _ROLLBACK, _CACHED_RESULTS)
"""By the version they start from. What is here is never changed: files were made with it."""


def open_file(path: Path | None, place: str) -> sqlite3.Connection:
    """Open a journal's file, or make it, with the tables of this version.

    Args:
        path: The file; None: memory.
        place: What errors call it.

    Raises:
        JournalError: If a later version made it.
        sqlite3.Error: If it is damaged or no journal.
        OSError: If its folder cannot be made.
    """
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What scripts were given and what tools answered is for the user who ran them; sqlite gives
        # the files beside it the same mode.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db = sqlite3.connect(
        ":memory:" if path is None else path,
        timeout=_BUSY_SECONDS,
        isolation_level="IMMEDIATE",
        check_same_thread=False,
    )
    try:
        _write_ahead(db)
        db.execute("PRAGMA wal_autocheckpoint=4000")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            msg = f"{place} was made by a later version of ptc; use that one"
            raise JournalError(msg)
        if version < SCHEMA_VERSION:
            _migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection) -> None:
    """Have the file write ahead.

    Of two that make it at once sqlite tells one that it is locked, without the wait it has for all
    else (https://www.sqlite.org/c3ref/busy_handler.html: where waiting could deadlock).
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
    """Bring the tables to `SCHEMA_VERSION`, all of the way or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        # Under the lock: another process may have been first.
        (version,) = db.execute("PRAGMA user_version").fetchone()
        for step in _MIGRATIONS[version:]:
            for statement in step.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
