"""A journal file returns the space of deleted runs to the system, a part at a time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ptc.journal import RunRow, open_journal

_RUNS = 40
_BODY = b"x" * 40_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def run_row(name: str) -> RunRow:
    return RunRow(name, "pass", "s.py", b"{}", b"{}", seed=1, clock=1.0, created_ms=1)


def unused_pages(file: Path) -> int:
    with closing(sqlite3.connect(file)) as db:
        (pages,) = db.execute("PRAGMA freelist_count").fetchone()
    return int(pages)


@pytest.mark.anyio
async def test_each_call_returns_many_pages_of_deleted_runs(tmp_path: Path) -> None:
    file = tmp_path / "runs.sqlite3"
    journal = open_journal(file)
    for number in range(_RUNS):
        lease = journal.start_run(run_row(f"r{number}"))
        journal.end_run(lease, "completed", _BODY, 10 + number)
        await journal.barrier(lease)
    assert await journal.delete_ended(1_000, _RUNS) == _RUNS
    unused = unused_pages(file)
    assert unused > 300
    calls = 1
    while await journal.reclaim_space(whole=True):
        calls += 1
    assert unused_pages(file) == 0
    assert 1 < calls < unused / 32, "not a page for each call, and not all in one transaction"
    await journal.close()
    assert file.stat().st_size < len(_BODY) * _RUNS / 4
