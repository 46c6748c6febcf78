"""Sessions while another process holds the write lock of the journal, or its record is damaged."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from ptc import (
    BusyRunError,
    DamagedRunError,
    EndedRunError,
    JournalError,
    Session,
    UnknownRunError,
    tool,
)
from ptc._runs._retention import Retention, RetentionTask

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PAY = """
async def run(ctx, inputs):
    return await ctx.pay(await ctx.look())
"""
ONE = "def run(ctx, inputs):\n    return 1\n"


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


@tool
async def look() -> int:
    """Return the cents."""
    return 5


def options(root: Path) -> dict[str, Any]:
    journal = root.parent / f"{root.name}.sqlite3"
    return {"root": root, "tools": [look, pay], "toolsets": (), "workers": 1, "journal": journal}


async def pause(session: Session, run_id: str) -> None:
    result = await session.program(source=PAY, allowed_tools=["look", "pay"], run_id=run_id)
    assert result.status == "paused"


HOLDER = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
os.write(1, b"held\\n")
sys.stdin.readline()
db.execute("ROLLBACK")
"""


@asynccontextmanager
async def another_process_writes(file: Path) -> AsyncIterator[anyio.abc.Process]:
    """Hold the write lock of the file in another process, until it is sent a line."""
    process = await anyio.open_process(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stderr=None
    )
    async with process:
        assert process.stdout is not None
        assert await process.stdout.receive() == b"held\n"
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.slow
async def test_event_loop_runs_while_another_process_locks_the_journal(tmp_path: Path) -> None:
    made = options(tmp_path)
    done: dict[str, Any] = {}
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(anyio.current_time())
            await anyio.sleep(0.01)

    start = end = 0.0
    async with Session(**made) as session, anyio.create_task_group() as clock:
        await session.warm_up()
        for run_id in ("a", "b"):
            await pause(session, run_id)
        await session.approve("b", by="ann")

        async def program() -> None:
            result = await session.program(source=ONE, run_id="c")
            done["program"] = result.unwrap()

        async def approve() -> None:
            done["approve"] = (await session.approve("a", by="ann")).tool

        async def resume() -> None:
            done["resume"] = (await session.resume("b")).unwrap()

        async def pending() -> None:
            done["pending"] = [call.run_id for call in await session.pending()]

        clock.start_soon(tick)
        async with another_process_writes(made["journal"]) as holder:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    await pending()  # A read, which needs no lock.
                    for work in (program, approve, resume, pending):
                        group.start_soon(work)
                    start = anyio.current_time()
                    await anyio.sleep(2)
                    assert not {"approve", "resume"} & done.keys(), "they wait for the lock"
                    assert holder.stdin is not None
                    await holder.stdin.send(b"\n")
                end = anyio.current_time()
        clock.cancel_scope.cancel()
    assert done["pending"] in (["a"], [])
    assert (done["program"], done["approve"], done["resume"]) == (1, "pay", 5)
    during = [at for at in ticks if start <= at <= end]
    # SQLite waits in one piece until the lock is released: a blocked loop would tick twice.
    assert len(during) >= 20


@pytest.mark.slow
async def test_event_loop_runs_while_lists_and_retention_wait_for_a_lock(tmp_path: Path) -> None:
    made = options(tmp_path)
    async with Session(**made) as session:
        for run_id in ("old", "new"):
            await session.program(source=ONE, run_id=run_id)
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(anyio.current_time())
            await anyio.sleep(0.01)

    start = end = 0.0
    async with Session(**made) as session, anyio.create_task_group() as clock:
        await session.history.runs()
        retention = RetentionTask(session.history.open, Retention(max_runs=1))
        retention.after_deletion = session.artifacts.delete_with_runs
        clock.start_soon(tick)
        async with another_process_writes(made["journal"]) as holder:
            start = anyio.current_time()
            retention.start()
            listed = await session.history.runs(5, statuses=["completed"], tool="pay", since="1h")
            assert list(listed) == []
            await anyio.sleep(1.5)
            async with Session(**made) as other:
                rows = await other.history.runs(1, statuses=["completed"], until="0s")
                assert len(rows) == 1
                assert rows.next_cursor is not None, "nothing is deleted during the lock"
            assert holder.stdin is not None
            await holder.stdin.send(b"\n")
            with anyio.fail_after(60):
                await retention.first_pass()
            end = anyio.current_time()
        assert [run.run_id for run in await session.history.runs()] == ["new"]
        await retention.close()
        clock.cancel_scope.cancel()
    during = [at for at in ticks if start <= at <= end]
    gaps = [after - before for before, after in itertools.pairwise(during)]
    assert len(during) >= 20
    assert max(gaps) < 1, "the lock was held for longer"


async def test_failed_resume_of_a_damaged_record_releases_its_lease(tmp_path: Path) -> None:
    made = options(tmp_path)
    async with Session(**made) as session:
        await pause(session, "r")
        await session.approve("r", by="ann")
        with closing(sqlite3.connect(made["journal"])) as db, db:
            db.execute("CREATE TABLE whole AS SELECT * FROM calls")
            db.execute("UPDATE calls SET status='succeeded', body=x'32', body_sha256=x'00'")
        for _ in range(2):
            with pytest.raises(DamagedRunError, match="run 'r': call 1"):
                await session.resume("r")
        with closing(sqlite3.connect(made["journal"])) as db, db:
            db.execute("INSERT OR REPLACE INTO calls SELECT * FROM whole")
        assert (await session.resume("r")).unwrap() == 5


async def test_session_reports_each_error_of_a_run_with_its_class(tmp_path: Path) -> None:
    made = options(tmp_path)
    async with Session(**made) as session:
        for call in (session.resume, session.retry, session.pending, session.rollback):
            with pytest.raises(UnknownRunError, match="there is no run 'none'"):
                await call("none")
        assert (await session.program(source=ONE, run_id="r")).unwrap() == 1
        with pytest.raises(EndedRunError, match="has ended: completed"):
            await session.resume("r")
        await session.rollback("r")
        with pytest.raises(EndedRunError, match="was rolled back"):
            await session.resume("r")
        await pause(session, "p")
        async with Session(**made) as other:
            lease = await other.history.journal.acquire("p")
            with pytest.raises(BusyRunError, match="is being executed by process"):
                await session.resume("p")
            other.history.journal.release(lease)


async def test_journal_of_a_closed_session_reports_that_it_is_closed(tmp_path: Path) -> None:
    async with Session(**options(tmp_path)) as session:
        await pause(session, "r")
    history = session.history
    for call in (
        history.approve("r", by="ann"),
        history.pending(),
        history.recorded("r"),
        history.runs(),
    ):
        with anyio.fail_after(20), pytest.raises(JournalError, match="is closed"):
            await call


async def test_session_cancelled_while_it_opens_the_journal_leaves_it_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(**options(tmp_path))
    await session.__aenter__()
    with session.history._store._opening:  # The thread that opens the file waits.
        with anyio.move_on_after(0.01) as scope:
            await session.history.open()
        assert scope.cancelled_caught
        await session.aclose()
    with anyio.fail_after(20):
        while session.history._store._journal is None:
            await anyio.sleep(0.001)
        while True:
            try:
                await session.history.runs()
            except JournalError as error:
                assert "is closed" in str(error)  # noqa: PT017  # the loop waits for it
                break
