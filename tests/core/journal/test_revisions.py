"""Revisions and attempts of a run, in every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, ToolContext, define_tool
from ptc.errors import BusyRunError, EndedRunError, LeaseLostError, UnknownRunError
from ptc.journal._journal import CallEnd, CallRow, Journal, PendingRow, RunRow, Tick
from ptc.journal._sqlite import SqliteJournal
from ptc.journal._tables import MIGRATIONS

pytestmark = pytest.mark.anyio

_SCHEMAS = count()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Return a function that opens the same store again."""
    if request.param == "sqlite":
        return lambda: SqliteJournal(tmp_path / "journal.sqlite3")
    from ptc.journal._postgres._journal import PostgresJournal

    url, schema = request.getfixturevalue("postgres"), f"revisions_{next(_SCHEMAS)}"
    return lambda: PostgresJournal(url, schema=schema)


def run_row(run_id: str = "r", source: str = "old", revision: int = 1) -> RunRow:
    return RunRow(run_id, source, "s.py", b"{}", b'{"o":1}', 7, 5.0, 5_000, revision=revision)


def call_row(path: str, end: CallEnd | None = None) -> CallRow:
    return CallRow(path, "pay", b'{"n":1}', f"key {path}", True, 3, 1, 5, "", end)


DONE = CallEnd("succeeded", True, b"[true,[],1]", 6, 0.5)


async def test_revision_archives_the_whole_record_of_the_one_before(
    store: Callable[[], Journal],
) -> None:
    journal = store()
    lease = journal.start_run(run_row())
    journal.append(lease, call_row("1", DONE))
    journal.append(lease, Tick(0.7))
    journal.append(lease, PendingRow("2", "unknown", "pay", "f", b"{}", 9))
    journal.end_run(lease, "failed", b'{"a":1}', 8_000)
    before = await journal.load("r")
    revised = await journal.revise(run_row(source="new"))
    assert revised.epoch == lease.epoch + 1
    archived, current = await journal.load("r.1"), await journal.load("r")
    assert (archived.calls, archived.deliveries) == (before.calls, before.deliveries)
    assert archived.pending == before.pending
    assert (archived.run.source, archived.run.status) == ("old", "failed")
    assert (archived.run.result, archived.run.ended_ms) == (b'{"a":1}', 8_000)
    assert (current.run.source, current.run.status, current.run.revision) == ("new", "running", 2)
    assert (current.calls, current.deliveries, current.pending) == ((), (), ())
    journal.append(revised, call_row("1", DONE))
    await journal.barrier(revised)
    assert len((await journal.load("r")).deliveries) == 1
    assert list(await journal.find_ids("r", 5)) == ["r"]
    assert [run.run_id for run in await journal.runs()] == ["r"]
    await journal.close()


async def test_only_one_of_two_revisions_succeeds(store: Callable[[], Journal]) -> None:
    one, two = store(), store()
    lease = one.start_run(run_row())
    one.end_run(lease, "failed", b"{}", 8_000)
    await one.barrier(lease)
    first = await two.revise(run_row(source="a"))
    with pytest.raises(BusyRunError):
        await one.revise(run_row(source="b"))
    two.end_run(first, "failed", b"{}", 9_000)
    await two.barrier(first)
    with pytest.raises(BusyRunError):
        await one.revise(run_row(source="b"))
    await one.revise(run_row(source="b", revision=2))
    two.append(first, call_row("1"))
    with pytest.raises(LeaseLostError):
        await two.barrier(first)
    assert [(await one.load(f"r.{n}")).run.source for n in (1, 2)] == ["old", "a"]
    await one.close()
    await two.close()


async def test_runs_that_must_not_continue_are_not_revised(store: Callable[[], Journal]) -> None:
    journal = store()
    for status in ("completed", "violation", "rejected"):
        lease = journal.start_run(run_row(status))
        journal.end_run(lease, status, b"{}", 8_000)
        with pytest.raises(EndedRunError, match=f"has ended: {status}"):
            await journal.revise(run_row(status))
        with pytest.raises(EndedRunError, match=f"has ended: {status}"):
            await journal.acquire(status)
    with pytest.raises(UnknownRunError):
        await journal.revise(run_row("missing"))
    lease = journal.start_run(run_row())
    journal.end_run(lease, "failed", b"{}", 8_000)
    with pytest.raises(EndedRunError, match="fail again"):
        await journal.acquire("r")
    await journal.revise(run_row())
    for name in ("r.1",):
        with pytest.raises(EndedRunError, match="revision 1 of run 'r'"):
            await journal.acquire(name)
    await journal.close()


async def test_attempts_are_counted_from_the_last_pause(store: Callable[[], Journal]) -> None:
    journal = store()
    lease = journal.start_run(run_row())
    for status in ("crashed", "timed_out"):
        journal.end_run(lease, status, b"{}", 8_000)
        lease = await journal.acquire("r", max_attempts=3)
    journal.end_run(lease, "crashed", b"{}", 8_000)
    with pytest.raises(EndedRunError, match=r"started 3 times .*max_attempts is 3"):
        await journal.acquire("r", max_attempts=3)
    lease = await journal.acquire("r", max_attempts=4, options=b'{"o":2}')
    assert (await journal.load("r")).run.options == b'{"o":2}'
    journal.end_run(lease, "paused", b"{}", 8_000)
    lease = await journal.acquire("r", max_attempts=1)
    row = (await journal.load("r")).run
    assert (row.attempts, row.options) == (1, b'{"o":2}')
    await journal.close()


async def test_archived_revisions_are_deleted_with_their_run(store: Callable[[], Journal]) -> None:
    journal = store()
    lease = journal.start_run(run_row())
    journal.append(lease, call_row("1", DONE))
    journal.end_run(lease, "failed", b"{}", 100)
    lease = await journal.revise(run_row())
    journal.end_run(lease, "paused", b"{}", 200)
    assert await journal.delete_ended(10_000) == 0, "its run has not ended"
    assert (await journal.load("r.1")).calls
    lease = await journal.acquire("r")
    journal.end_run(lease, "completed", b"{}", 300)
    assert await journal.delete_ended(10_000) == 1
    for name in ("r", "r.1"):
        assert await journal.find(name) is None
    await journal.close()


async def test_repeated_effects_are_found_in_recent_failed_runs(
    store: Callable[[], Journal],
) -> None:
    journal = store()
    for name, status, ended in (("old", "failed", 10), ("bad", "crashed", 90), ("ok", "x", 95)):
        lease = journal.start_run(run_row(name))
        journal.append(lease, call_row("1", DONE))
        journal.append(lease, call_row("2", DONE._replace(status="failed", ok=False)))
        journal.end_run(lease, status, b"{}", ended)
    lease = journal.start_run(run_row("new"))
    journal.append(lease, call_row("4"))
    assert list(await journal.failed_runs(50, 5)) == ["bad"]
    assert [tuple(row) for row in await journal.repeated_effects("new", 50, 5)] == [("bad", "pay")]
    assert [tuple(row) for row in await journal.repeated_effects("new", 0, 5)] == [
        ("bad", "pay"),
        ("old", "pay"),
    ]
    assert not await journal.repeated_effects("missing", 0, 5)
    await journal.close()


@pytest.mark.slow
async def test_session_continues_a_failed_run_in_any_store(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    made: list[int] = []

    async def pay(arguments: Mapping[str, Any], ctx: ToolContext) -> int:
        made.append(arguments["n"])
        return len(made)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    own = define_tool("pay", "Pay.", schema, pay, side_effect=True)
    for number in (1, 2):
        async with Session(tmp_path, tools=[own], toolsets=(), journal=store()) as session:
            if number == 1:
                wrong = "await ctx.pay(n=1)\n1 / 0"
                failed = await session.program(source=wrong, allowed_tools=["pay"], run_id="r")
                assert failed.status == "failed"
                continue
            changed = await session.resume("r", source="await ctx.pay(n=2)")
            assert changed.error is not None
            assert changed.error.code == "unmatched_effects"
            fixed = "[await ctx.pay(n=1), await ctx.pay(n=2)]"
            assert (await session.resume("r", source=fixed)).unwrap() == [1, 2]
            assert (await session.history.run("r.2")).status == "failed"
    assert made == [1, 2]


async def test_file_of_the_version_before_revisions_is_migrated(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(";".join((*MIGRATIONS[:6], "PRAGMA user_version=6")))
        connection.execute(
            "INSERT INTO runs(run_id, source, filename, inputs, options, seed, clock, created_ms,"
            " status, result, ended_ms, epoch)"
            " VALUES('r', '', 's.py', x'7b7d', x'7b7d', 1, 0.5, 9, 'failed', x'7b7d', 100, 1)"
        )
    journal = SqliteJournal(file)
    row = (await journal.load("r")).run
    assert (row.revision, row.attempts) == (1, 1)
    assert list(await journal.failed_runs(50, 5)) == ["r"]
    await journal.close()
