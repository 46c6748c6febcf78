"""A damaged value in any column of the journal is reported as damage, whoever reads it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ptc import Effect, Session, Tool, ToolContext, define_tool
from ptc.errors import PtcError
from ptc.testing import Recording

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote, pytest.mark.slow]

SOURCE = """
import asyncio
async def run(ctx, inputs):
    await ctx.look(n=1)
    await asyncio.sleep(0.001)
    await ctx.pay(n=2)
    await ctx.ask(n=3)
    await ctx.ask(n=4)
    return inputs
"""
TABLES = (
    *("runs", "calls", "ticks", "pending", "verdicts", "reverts", "workers", "sightings"),
    "documents",
)
WRONG = (
    *(None, "x", "", b"x", b"", b"\xff\x00", -1, 0, 7, 2**62, 1.5, -1.0, "1.5", "1", float("inf")),
    *(b"{}", b"[]", b"null", b"3", b'"x"'),
)
TRUNCATED = object()
SEED = 19


def make_tools() -> list[Tool]:
    async def look(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return {"n": arguments["n"]}

    async def change(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        ctx.documents.change("list", lambda found: [arguments["n"]])
        return arguments["n"]

    async def undo(effect: Effect) -> None: ...

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return [
        define_tool("look", "Look.", schema, look),
        define_tool("pay", "Pay.", schema, change, side_effect=True, idempotent=True, revert=undo),
        define_tool("ask", "Ask.", schema, change, side_effect=True, needs_approval=True),
    ]


def open_session(folder: Path) -> Session:
    return Session(
        folder, tools=make_tools(), toolsets=(), journal=folder / "j", journal_in_root=True
    )


async def record(folder: Path) -> None:
    """Record runs that use each table."""
    async with open_session(folder) as session:
        names = ["look", "pay", "ask"]
        for run_id in ("waiting", "decided", "undone"):
            result = await session.program(
                source=SOURCE, allowed_tools=names, inputs={"a": [1]}, run_id=run_id
            )
            assert result.status == "paused", result
        await session.approve("decided", by="ann", comment="fine")
        await session.rollback("undone")
        failing = "async def run(ctx, inputs):\n    await ctx.pay(n=2)\n    raise ValueError(1)\n"
        await session.program(source=failing, allowed_tools=names, run_id="failed")
    with closing(sqlite3.connect(folder / "j")) as db, db:
        place = ("h", "b", "c", "p", 1, "1", 1, 1.0, 30.0)
        db.execute("INSERT INTO workers VALUES('w',?,?,?,?,?,?,?,?,?)", place)
        db.execute("INSERT INTO sightings VALUES('w', 'c', 1, 1.0)")
        db.execute("UPDATE runs SET owner='w' WHERE run_id='decided'")
        for table in TABLES:
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], table  # noqa: S608


def uses(session: Session) -> dict[str, Callable[[], Awaitable[Any]]]:
    history = session.history

    found: dict[str, Callable[[], Awaitable[Any]]] = {
        "runs": history.runs,
        "pending": session.pending,
        "export": partial(Recording.of, history, "failed"),
        "approve": partial(session.approve, "waiting", by="ann"),
        "rollback": partial(session.rollback, "failed", dry_run=True),
        "undone": partial(session.rollback, "undone"),
        "retry": partial(session.retry, "failed"),
        "again": partial(session.program, source=SOURCE, run_id="failed"),
        "resume": partial(session.resume, "decided"),
    }
    for run_id in ("waiting", "decided", "undone", "failed"):
        found[f"recorded {run_id}"] = partial(history.recorded, run_id)
    return found


async def read_everything(folder: Path) -> list[str]:
    """Use a journal in each way, and return the errors that do not belong to ptc."""
    wrong = []
    async with open_session(folder) as session:
        for name, use in uses(session).items():
            try:
                result = await use()
                error = getattr(result, "error", None)
                if getattr(result, "status", "") == "crashed" or "Error" in str(
                    getattr(error, "type", "")
                ):
                    kind = getattr(error, "type", "")
                    if kind in ("AttributeError", "TypeError", "KeyError", "OverflowError"):
                        wrong.append(f"{name}: result {error}")
            except PtcError:
                continue
            except Exception as error:  # noqa: BLE001  # this is what is looked for
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    return wrong


def damage(file: Path, table: str, column: str, value: object) -> None:
    """Set a column of all rows, unless that breaks a constraint."""
    half = f"substr({column}, 1, length({column})/2)" if value is TRUNCATED else "?"
    sql = f"UPDATE {table} SET {column}={half}"  # noqa: S608  # our names
    values = () if value is TRUNCATED else (value,)
    with closing(sqlite3.connect(file)) as db, suppress(sqlite3.IntegrityError), db:
        db.execute(sql, values)


# The loop does not matter; the zygote of the module needs it.
@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
async def test_any_damaged_column_is_an_error_of_the_journal(tmp_path: Path) -> None:
    random = Random(SEED)
    whole = tmp_path / "whole"
    whole.mkdir()
    await record(whole)
    original = (whole / "j").read_bytes()
    folder = tmp_path / "damaged"
    folder.mkdir()
    found: Counter[str] = Counter()
    with closing(sqlite3.connect(whole / "j")) as db:
        columns = [
            (table, row[1]) for table in TABLES for row in db.execute(f"PRAGMA table_info({table})")
        ]
    for table, column in columns:
        for value in (*random.sample(WRONG, 3), TRUNCATED):
            for suffix in ("-wal", "-shm"):
                folder.joinpath(f"j{suffix}").unlink(missing_ok=True)
            (folder / "j").write_bytes(original)
            damage(folder / "j", table, column, value)
            for problem in await read_everything(folder):
                found[f"{table}.{column}={value!r}: {problem}"] += 1
    assert not found, "\n".join(found)
