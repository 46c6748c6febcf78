"""A journal of every earlier schema is opened, migrated and read by this version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ptc.journal._sqlite import SqliteJournal
from ptc.journal._tables import MIGRATIONS, SCHEMA_VERSION
from tests.core.journal.test_journal import VERSION_1

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION))
async def test_journal_of_an_earlier_schema_keeps_its_runs(schema: int, tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(VERSION_1)  # a run, recorded by the first version
        db.executescript(";".join((*MIGRATIONS[1:schema], f"PRAGMA user_version={schema}")))
    journal = SqliteJournal(file)
    try:
        old = await journal.load("old")
        assert (old.run.status, old.run.ended_ms) == ("completed", 12)
    finally:
        await journal.close()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        with closing(sqlite3.connect(":memory:")) as new:
            new.executescript(";".join(MIGRATIONS))
            assert columns(db) == columns(new)


def columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    """The tables of a database with the names of their columns."""
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in names}
