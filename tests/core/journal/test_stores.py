"""Every store keeps the promises of a journal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ptc.errors import DamagedRunError
from ptc.journal import CallEnd, CallRow, Journal, PendingRow, RunRow, open_journal
from ptc.journal._sqlite import SqliteJournal
from ptc.testing import JOURNAL_CHECKS, JOURNAL_PROCESS_CHECKS

pytestmark = pytest.mark.anyio

_SCHEMAS = count()


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_sqlite_keeps_its_promise(check: Callable[..., Any], tmp_path: Path) -> None:
    await check(lambda: open_journal(tmp_path / "journal.sqlite3"))


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the loop does not matter
@pytest.mark.parametrize("check", JOURNAL_PROCESS_CHECKS, ids=lambda check: check.__name__)
async def test_sqlite_keeps_its_promise_to_processes(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    await check(partial(SqliteJournal, tmp_path / "journal.sqlite3", lease_seconds=1))


def open_postgres(url: str, schema: str) -> Journal:
    from ptc.journal._postgres._journal import PostgresJournal

    return PostgresJournal(url, schema=schema, lease_seconds=1)


@pytest.mark.slow
@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_keeps_its_promise(check: Callable[..., Any], postgres: str) -> None:
    await check(partial(open_postgres, postgres, f"test_{next(_SCHEMAS)}"))


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the loop does not matter
@pytest.mark.parametrize("check", JOURNAL_PROCESS_CHECKS, ids=lambda check: check.__name__)
async def test_postgresql_keeps_its_promise_to_processes(
    check: Callable[..., Any], postgres: str
) -> None:
    await check(partial(open_postgres, postgres, f"test_{next(_SCHEMAS)}"))


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the driver of the test needs it
async def test_damaged_column_of_postgresql_is_reported(postgres: str) -> None:
    import asyncpg  # type: ignore[import-untyped,unused-ignore]  # optional, without types

    schema = f"test_{next(_SCHEMAS)}"
    journal = open_postgres(postgres, schema)
    lease = journal.start_run(RunRow("r1", "pass", "s.py", b"{}", b"{}", 7, 1.5, 1))
    end = CallEnd("succeeded", True, b"1", 200, 0.25)
    journal.append(lease, CallRow("1", "pay", b"{}", "key", True, 3, 1, 100, "", end))
    journal.append(lease, PendingRow("2", "approval", "pay", "digest", b"{}", 1))
    journal.end_run(lease, "paused", b"{}", 5)
    await journal.barrier(lease)
    connection = await asyncpg.connect(postgres)
    damages = {
        "runs": ["source='\\xff'", "options='[1'", "inputs='{'", "created_ms=1::bigint<<62"],
        "calls": ["arguments='x'", "body='2'", "tool='t'", "key=''", "status='?'", "ended_ms=NULL"],
        "pending": ["details='['", "at_ms=-1"],
    }
    for table, changes in damages.items():
        for change in changes:
            name = f"{schema}.{table}"
            await connection.execute(f"CREATE TABLE whole AS TABLE {name}")
            await connection.execute(f"UPDATE {name} SET {change}")  # noqa: S608  # our text
            with pytest.raises(DamagedRunError, match="is damaged: run 'r1'"):
                await journal.load("r1")
            if table == "pending":
                with pytest.raises(DamagedRunError, match="is damaged: run 'r1'"):
                    await journal.pending()
            await connection.execute(f"DELETE FROM {name}")  # noqa: S608  # our names
            await connection.execute(
                f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM whole"  # noqa: S608  # our names
            )
            await connection.execute("DROP TABLE whole")
    assert len((await journal.load("r1")).calls) == 1
    await connection.close()
    await journal.close()
