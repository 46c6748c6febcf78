"""A journal of every earlier schema is opened, migrated and continued by this version.

`earlier/schema_N.sql` are journals that versions of this project with these schemas have written: a
run that has completed, one that pauses before a payment, and one that failed after an effect.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, ToolContext, tool
from ptc._runs._program_row import load_result
from ptc.journal._sqlite import SqliteJournal
from ptc.journal._tables import MIGRATIONS, SCHEMA_VERSION
from ptc.testing import Recording
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


EARLIER = sorted((Path(__file__).parent / "earlier").glob("schema_*.sql"))


class Shop:
    """The tools of the recorded runs, and what was done with them."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Any]] = []
        self.keys: list[str | None] = []

    def tools(self) -> list[Any]:
        done = self.done

        @tool
        def price(item: str) -> float:
            """Return the price of an item."""
            done.append(("price", item))
            return 2.5

        @tool(side_effect=True)
        def note(text: str, ctx: ToolContext) -> str:
            """Store a note."""
            self.keys.append(ctx.idempotency_key)
            done.append(("note", text))
            return text

        @tool(side_effect=True, needs_approval=True)
        def pay(amount: float, ctx: ToolContext) -> float:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            done.append(("pay", amount))
            return amount

        return [price, note, pay]


@pytest.fixture(params=EARLIER, ids=lambda path: path.stem)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "state" / "journal.sqlite3"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as db:
        db.executescript(request.param.read_text(encoding="utf-8"))
    return file


def run_id(journal: Path, status: str) -> str:
    """The recorded run with this status."""
    with closing(sqlite3.connect(journal)) as db:
        ((found,),) = db.execute("SELECT run_id FROM runs WHERE status = ?", [status])
    return str(found)


def session(journal: Path, shop: Shop) -> Session:
    root = journal.parent.parent / "root"
    root.mkdir(exist_ok=True)
    return Session(root, tools=shop.tools(), toolsets=(), journal=journal, workers=1)


async def test_paused_run_of_an_earlier_version_is_approved_and_continued(journal: Path) -> None:
    shop, paused = Shop(), run_id(journal, "paused")
    async with session(journal, shop) as opened:
        (pending,) = await opened.pending(paused)
        assert (pending.tool, pending.arguments) == ("pay", {"amount": 10.0})
        with closing(sqlite3.connect(journal)) as db:
            ((details,),) = db.execute("SELECT details FROM pending")
        await opened.approve(paused, by="ann")
        result = await opened.resume(paused)
        assert result.value == {"paid": 10.0, "after": "after"}, result.error
        # The calls that the earlier version recorded are not repeated.
        assert shop.done == [("pay", 10.0), ("note", "after")]
        assert shop.keys[0] == json.loads(details)["key"]
        assert [call.tool for call in result.calls] == ["price", "note", "pay", "note"]


@pytest.mark.slow
async def test_failed_run_of_an_earlier_version_is_continued_with_another_script(
    journal: Path,
) -> None:
    shop, failed = Shop(), run_id(journal, "failed")
    source = "async def run(ctx, inputs):\n    return await ctx.note(text='once')\n"
    async with session(journal, shop) as opened:
        result = await opened.resume(failed, source=source)
        assert result.value == "once", result.error
        assert shop.done == []


@pytest.mark.slow
async def test_completed_run_of_an_earlier_version_is_read_and_replayed(journal: Path) -> None:
    shop, completed = Shop(), run_id(journal, "completed")
    async with session(journal, shop) as opened:
        recorded = load_result(await opened.history.run(completed))
        assert recorded is not None
        assert (recorded.status, recorded.value) == ("completed", 2.5)
        recording = await Recording.of(opened.history, completed)
        assert (await recording.replay()).value == 2.5
        assert shop.done == []
        rows = await opened.history.runs()
        assert {row.status for row in rows} == {"completed", "paused", "failed"}


def test_journals_of_earlier_schemas_are_found() -> None:
    assert [path.stem for path in EARLIER] == ["schema_11", "schema_3", "schema_5", "schema_6"]
