"""Retention: opening a session deletes expired runs, a bounded number, and only ended ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ptc import Session, tool
from ptc._runs import _history

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
    async with session:
        return {run.run_id for run in session.history.runs()}


@pytest.mark.anyio
async def test_expired_runs_are_deleted_when_a_session_opens(tmp_path: Path) -> None:
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


@pytest.mark.anyio
async def test_one_start_deletes_a_bounded_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history, "_MOST_DELETED", 2)
    async with create(tmp_path, None) as session:
        for number in range(5):
            await session.program(source="1", run_id=f"run{number}")
    age(tmp_path, 2)
    assert await names(create(tmp_path, 1)) == {"run2", "run3", "run4"}
    assert await names(create(tmp_path, 1)) == {"run4"}
    assert await names(create(tmp_path, 1)) == set()


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
