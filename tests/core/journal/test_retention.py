"""Retention: a session deletes expired runs in the background, and only those that ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from ptc import Session, tool
from ptc._runs._retention import Retention, delete_old_runs
from ptc.journal import CallEnd, CallRow, EventRow, Journal, RunQuery, RunRow, open_journal

DAY_MS = 86_400_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@tool(side_effect=True, idempotent=True, needs_approval=True)
def pay(amount: int) -> int:
    """Pay."""
    return amount


def create(folder: Path, days: int | None) -> Session:
    (folder / "root").mkdir(exist_ok=True)
    return Session(
        folder / "root",
        tools=[pay],
        toolsets=(),
        journal=folder / "runs.sqlite3",
        retention_days=days,
        workers=1,
    )


def age(folder: Path, days: float) -> None:
    """Make all recorded runs older."""
    with sqlite3.connect(folder / "runs.sqlite3") as db:
        ms = int(days * DAY_MS)
        db.execute("UPDATE runs SET created_ms=created_ms-?, ended_ms=ended_ms-?", (ms, ms))
    db.close()


async def names(session: Session) -> set[str]:
    """Return the runs after the retention of a session has done its work."""
    async with session:
        await session.history.retention.first_pass()
        return {run.run_id for run in await session.history.runs()}


@pytest.mark.anyio
async def test_expired_runs_are_deleted_after_a_session_opens(tmp_path: Path) -> None:
    async with create(tmp_path, None) as session:
        await session.program(source="1 + 1", run_id="done")
        paused = await session.program(
            source="await ctx.pay(amount=1)", allowed_tools=["pay"], run_id="paused"
        )
        assert paused.status == "paused"
    age(tmp_path, 6.9)
    assert await names(create(tmp_path, 7)) == {"done", "paused"}
    age(tmp_path, 0.2)
    assert await names(create(tmp_path, None)) == {"done", "paused"}
    assert await names(create(tmp_path, 7)) == {"paused"}
    with sqlite3.connect(tmp_path / "runs.sqlite3") as db:
        (left,) = db.execute("SELECT count(DISTINCT run) FROM calls").fetchone()
    db.close()
    assert left <= 1


async def record(journal: Journal, run_ids: Iterable[str], body: bytes = b"1") -> None:
    """Record runs that ended one after the other, with a call and an event each."""
    for at_ms, run_id in enumerate(run_ids, 1):
        lease = journal.start_run(RunRow(run_id, "1", "s.py", b"{}", b"{}", 7, 1.5, at_ms))
        end = CallEnd("succeeded", True, body, 2, 0.0)
        journal.append(lease, CallRow("1", "look", b"{}", "key", False, 1, 1, 1, "", end))
        journal.append(lease, EventRow(1, 1, "log", 1, b"1"))
        journal.end_run(lease, "completed", b"{}", at_ms)
        await journal.barrier(lease)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        (Retention(max_runs=3), {"r5", "r6", "r7", "open"}),
        (Retention(max_bytes=25_000), {"r6", "r7", "open"}),
        (Retention(max_runs=1, max_bytes=25_000), {"r7", "open"}),
        (Retention(max_runs=0), {"open"}),
        (Retention(max_runs=9, max_bytes=10**9), {"open", *(f"r{n}" for n in range(8))}),
    ],
)
async def test_oldest_runs_beyond_a_bound_are_deleted(
    tmp_path: Path, bounds: Retention, left: set[str]
) -> None:
    journal = open_journal(tmp_path / "runs.sqlite3")
    await journal.barrier(journal.start_run(RunRow("open", "1", "s.py", b"{}", b"{}", 7, 1.5, 1)))
    await record(journal, [f"r{number}" for number in range(8)], b'"%s"' % (b"x" * 10_000))
    counts: list[int] = []
    deleted = await delete_old_runs(journal, bounds, share=0.5, on_progress=counts.append)
    assert deleted == 9 - len(left) == (counts or [0])[-1]
    assert {run.run_id for run in await journal.runs()} == left
    await journal.close()
    with sqlite3.connect(tmp_path / "runs.sqlite3") as db:
        for table in ("calls", "events"):
            rows = db.execute(f"SELECT count(DISTINCT run) FROM {table}").fetchone()  # noqa: S608
            assert rows == (len(left) - 1,)
    db.close()


@pytest.mark.anyio
async def test_cancelled_deletion_leaves_whole_runs(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "runs.sqlite3")
    await record(journal, [f"r{number:02}" for number in range(60)])
    with anyio.CancelScope() as scope:
        await delete_old_runs(
            journal, Retention(max_runs=5), share=0.5, on_progress=lambda _: scope.cancel()
        )
    left = [run.run_id for run in await journal.runs(RunQuery(limit=100))]
    assert len(left) == 40
    for run_id in left:
        record_of_run = await journal.load(run_id)
        assert len(record_of_run.calls) == record_of_run.events[1] == 1
    await journal.close()


@pytest.mark.anyio
async def test_run_whose_host_died_is_retained(tmp_path: Path) -> None:
    async with create(tmp_path, None) as session:
        await session.program(source="1", run_id="died")
    with sqlite3.connect(tmp_path / "runs.sqlite3") as db:
        db.execute("UPDATE runs SET ended_ms=NULL, created_ms=1")
    db.close()
    assert await names(create(tmp_path, 1)) == {"died"}


@pytest.mark.anyio
async def test_journal_that_cannot_be_opened_does_not_prevent_a_session(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite3").write_bytes(b"not a database, and long enough to be looked at" * 9)
    async with create(tmp_path, 1) as session:
        assert session.tool_names() == ["pay"]
