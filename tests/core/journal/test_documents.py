"""Documents in the file of a journal: versions, keys, transactions, migration."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ptc import JournalError, Session, ToolContext, UsageError, tool
from ptc.journal._documents import Document, Documents
from ptc.journal._sqlite import SqliteJournal
from ptc.journal._tables import MIGRATIONS
from ptc.testing import tool_context

from .test_journal import closing_now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


@pytest.fixture
def documents(file: Path) -> Iterator[Documents]:
    with closing_now(SqliteJournal(file)) as journal:
        yield journal.documents


def added(item: Any) -> Any:
    return lambda old: [*([] if old is None else old.data), item]


def test_change_counts_versions_and_outlives_the_process(documents: Documents, file: Path) -> None:
    assert documents.read("a") is None
    first = documents.change("a", added(1))
    assert (first.name, first.version, first.data) == ("a", 1, [1])
    assert documents.change("a", added({"x": None})).version == 2
    documents.change("b/c", lambda old: old)
    with closing_now(SqliteJournal(file)) as again:
        found = again.documents.read("a")
        assert found is not None
        assert (found.version, found.data) == (2, [1, {"x": None}])
        assert (again.documents.names(), again.documents.names("b/")) == (["a", "b/c"], ["b/c"])


def test_repeated_change_returns_its_own_version(documents: Documents) -> None:
    own = documents.change("a", added(1), key="k")
    documents.change("a", added(2), key="other")

    def fail(old: Document | None) -> Any:
        pytest.fail("called again")

    assert documents.change("a", fail, key="k") == own
    found = documents.read("a")
    assert found is not None
    assert (found.version, found.data) == (2, [1, 2])
    # A key belongs to one document, and the empty one to none.
    assert documents.change("b", added(1), key="k").version == 1
    assert [documents.change("c", added(n)).version for n in range(3)] == [1, 2, 3]


def test_failed_change_changes_nothing(documents: Documents) -> None:
    documents.change("a", added(1))

    def fail(old: Document | None) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        documents.change("a", fail, key="k")
    with pytest.raises(UsageError, match="document 'a'"):
        documents.change("a", lambda old: object())
    with pytest.raises(UsageError, match="at most 1,048,576 are stored"):
        documents.change("a", lambda old: "x" * 1_048_576)
    found = documents.read("a")
    assert found is not None
    assert (found.version, found.data) == (1, [1])
    assert documents.change("a", added(2), key="k").version == 2


@pytest.mark.parametrize("name", ["", "a b", "../a", "a\n", "ä", "x" * 129, "-a"])
def test_invalid_name_is_refused(documents: Documents, name: str) -> None:
    with pytest.raises(UsageError, match="a document's name has letters"):
        documents.change(name, added(1))


def test_concurrent_changes_are_applied_one_after_another(file: Path) -> None:
    together = threading.Barrier(4)

    def work() -> None:
        with closing_now(SqliteJournal(file)) as journal:
            together.wait(20)
            for number in range(10):
                journal.documents.change("a", added(number))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing_now(SqliteJournal(file)) as journal:
        found = journal.documents.read("a")
    assert found is not None
    assert (found.version, sorted(found.data)) == (40, sorted([*range(10)] * 4))


def test_closing_waits_for_the_change_of_another_thread(file: Path) -> None:
    """SQLite crashes the process if a connection is closed while it is used."""
    journal, outcome = SqliteJournal(file), []

    def change() -> None:
        outcome.append(journal.documents.change("list", added("a")).data)

    with closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        tasks = [threading.Thread(target=change), threading.Thread(target=journal.close_now)]
        tasks[0].start()
        until = time.monotonic() + 20
        while journal._db.lock.acquire(blocking=False):  # until the change waits for the file
            journal._db.lock.release()
            assert time.monotonic() < until
        tasks[1].start()
        tasks[1].join(0.5)
        assert tasks[0].is_alive()
        other.rollback()
    for task in tasks:
        task.join(20)
        assert not task.is_alive()
    assert outcome == [["a"]]
    with pytest.raises(JournalError):
        journal.documents.read("list")


def test_old_versions_are_deleted(documents: Documents, file: Path) -> None:
    for number in range(130):
        documents.change("a", added(number), key=f"k{number}")
    with closing(sqlite3.connect(file)) as db:
        rows = db.execute("SELECT min(version), max(version), count(*) FROM documents").fetchone()
    assert rows == (31, 130, 100)


def test_journal_of_the_version_before_is_migrated(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(";".join((*MIGRATIONS[:5], "PRAGMA user_version=5")))
    with closing_now(SqliteJournal(file)) as journal:
        assert journal.documents.change("a", added(1)).version == 1


def test_damaged_document_is_reported(documents: Documents, file: Path) -> None:
    documents.change("a", added(1))
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE documents SET body=?", (b"[1",))
    with pytest.raises(JournalError, match="document 'a', version 1, is damaged"):
        documents.read("a")


@tool(side_effect=True, idempotent=False, uses_key=True)
def note(ctx: ToolContext, text: str) -> int:
    """Add a note."""
    return ctx.documents.change("notes", added(text)).version


@pytest.mark.anyio
@pytest.mark.shared_zygote
async def test_tools_of_a_session_share_the_documents_of_its_journal(
    tmp_path: Path, file: Path
) -> None:
    async with Session(tmp_path / ".", tools=[note], toolsets=(), journal=":memory:") as session:
        assert await session.call(note, text="a") == 1
        assert await session.call(note, text="a") == 2
        source = "[await ctx.note('x'), await ctx.note('x')]"
        result = await session.program(source=source, allowed_tools=["note"])
        found = session.history.documents.read("notes")
    assert result.value == [3, 4]
    assert found is not None
    assert found.data == ["a", "a", "x", "x"]


def test_function_is_tested_without_a_session() -> None:
    with tool_context():
        assert [note("a"), note("b")] == [1, 2]
    with tool_context(idempotency_key="k"):
        assert [note("a"), note("b")] == [1, 1]
