"""Leases of the journal in SQLite: workers, heartbeats, other namespaces, clocks and machines."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from ptc import Session, define_tool
from ptc.errors import BusyRunError, JournalError, LeaseLostError
from ptc.journal import RunRow, Tick
from ptc.journal._process_id import ProcessId, has_ended, this_process
from ptc.journal._sqlite import SqliteJournal

pytestmark = pytest.mark.anyio

FORKED = """
import os
from ptc.journal._process_id import has_ended, this_process
mine = this_process()
pid = os.fork()
if not pid:
    print(this_process() != mine, has_ended(mine), has_ended(this_process()), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(has_ended(mine._replace(pid=pid)), has_ended(mine._replace(born="1")))
print(has_ended(mine._replace(pid=pid, pids="elsewhere")), has_ended(mine._replace(pids="")))
"""


async def test_process_identity_differs_after_fork_and_pid_reuse() -> None:
    done = await anyio.run_process([sys.executable, "-c", FORKED])
    said = [word == "True" for word in done.stdout.decode().split()]
    assert said == [True, False, False, True, True, False, False]


HOLDER = """
import sys, time
shift = float(sys.argv[3])
now, now_ns = time.time, time.time_ns
time.time = lambda: now() + shift
time.time_ns = lambda: now_ns() + int(shift * 1e9)
from pathlib import Path
import anyio
from ptc.errors import JournalError
from ptc.journal import RunRow, Tick
from ptc.journal._sqlite import SqliteJournal

async def report(work):
    try:
        print("done", await work, flush=True)
    except JournalError as error:
        print(type(error).__name__, error, flush=True)

async def main():
    journal = SqliteJournal(Path(sys.argv[1]), lease_seconds=float(sys.argv[2]))
    lease = None
    for command in sys.stdin:
        word = command.strip()
        if word == "start":
            lease = journal.start_run(RunRow("r1", "pass", "s.py", b"{}", b"{}", 7, 1.5, 1))
        elif word == "append":
            journal.append(lease, Tick(0.5))
        if word == "acquire":
            await report(journal.acquire("r1"))
        else:
            await report(journal.barrier(lease))

anyio.run(main)
"""
"""Executes commands from its standard input, and reports each outcome in a line."""


class Holder:
    """Another process with the journal."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._stdin = process, process.stdin
        self._stdout = TextReceiveStream(process.stdout)

    async def do(self, command: str) -> str:
        await self._stdin.send(f"{command}\n".encode())
        return await self.read()

    async def read(self) -> str:
        text = ""
        while not text.endswith("\n"):
            text += await self._stdout.receive()
        return text


@asynccontextmanager
async def holder(
    file: Path, *, lease: float = 30, shift: float = 0, prefix: tuple[str, ...] = ()
) -> AsyncIterator[Holder]:
    code = [sys.executable, "-c", HOLDER, str(file), str(lease), str(shift)]
    async with await anyio.open_process([*prefix, *code], stderr=None) as process:
        try:
            with anyio.fail_after(30):
                yield Holder(process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite3"


@pytest.fixture
def journal(file: Path) -> Iterator[SqliteJournal]:
    made = SqliteJournal(file, lease_seconds=30)
    yield made
    made.close_now()


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


def run_row(run_id: str = "r1") -> RunRow:
    return RunRow(run_id, "pass", "s.py", b"{}", b"{}", 7, 1.5, 1)


def workers(file: Path) -> list[Any]:
    with database(file) as db:
        return db.execute("SELECT beat, beat_at FROM workers").fetchall()


@pytest.mark.slow
async def test_wall_clock_of_another_process_expires_no_lease(
    journal: SqliteJournal, file: Path
) -> None:
    async with holder(file, shift=3_600) as ahead, holder(file, shift=-3_600) as behind:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        for other in (ahead, behind):
            said = await other.do("acquire")
            assert said.startswith("BusyRunError run 'r1' is being executed by process"), said
        journal.release(lease)
        await journal.barrier(lease)
        assert (await behind.do("acquire")).startswith("done")
        assert (await ahead.do("acquire")).startswith("BusyRunError")
        with pytest.raises(BusyRunError):
            await journal.acquire("r1")


UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")


def require_namespaces() -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*UNSHARE, "true"], check=False).returncode
    ):
        pytest.skip("new PID namespaces are not permitted")


@pytest.mark.slow
@pytest.mark.parametrize("proc", [(), ("--mount-proc",)], ids=["outer proc", "own proc"])
async def test_live_holder_in_another_pid_namespace_keeps_its_lease(
    journal: SqliteJournal, file: Path, proc: tuple[str, ...]
) -> None:
    require_namespaces()
    async with holder(file, lease=1.2, prefix=(*UNSHARE, *proc)) as other:
        assert (await other.do("start")).startswith("done")
        with pytest.raises(BusyRunError, match=r"executed by process \d+ on "):
            await journal.acquire("r1")
        # And the other way round.
        await journal.barrier(journal.start_run(run_row("r2")))
        with database(file) as db:
            db.execute("UPDATE runs SET run_id='r3' WHERE run_id='r1'")
            db.execute("UPDATE runs SET run_id='r1' WHERE run_id='r2'")
        assert (await other.do("acquire")).startswith("BusyRunError")
        other.process.kill()
        await other.process.wait()
        # Nobody here can see whether it has ended.
        with anyio.fail_after(10):
            while True:
                try:
                    assert (await journal.acquire("r3")).epoch == 2
                    break
                except BusyRunError:
                    await anyio.sleep(0.05)


@pytest.mark.slow
async def test_lease_of_a_killed_process_expires_at_once(
    journal: SqliteJournal, file: Path
) -> None:
    async with holder(file) as other:
        assert (await other.do("start")).startswith("done")
        other.process.kill()
        await other.process.wait()
        assert (await journal.acquire("r1")).epoch == 2


@pytest.mark.slow
async def test_frozen_holder_that_lost_a_run_passes_no_barrier(
    journal: SqliteJournal, file: Path
) -> None:
    async with holder(file, lease=0.6) as other:
        assert (await other.do("start")).startswith("done")
        other.process.send_signal(signal.SIGSTOP)
        while True:
            try:
                lease = await journal.acquire("r1")
                break
            except BusyRunError:
                await anyio.sleep(0.02)
        other.process.send_signal(signal.SIGCONT)
        # Also without a new entry: its start may have been written before it was frozen.
        assert (await other.do("barrier")).startswith("LeaseLostError another process acquired")
        assert (await other.do("append")).startswith("LeaseLostError")
        await journal.barrier(lease)
        assert (await journal.load("r1")).deliveries == ()


async def test_frozen_holder_whose_run_nobody_acquired_continues(file: Path) -> None:
    journal = SqliteJournal(file, lease_seconds=1)
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    with database(file) as db:
        db.execute("DELETE FROM workers")  # Another worker found it expired, and went away.
    before = workers(file)
    with anyio.fail_after(10):
        while workers(file) == before:
            await anyio.sleep(0.02)
    journal.append(lease, Tick(0.5))
    await journal.barrier(lease)
    other = SqliteJournal(file)
    with pytest.raises(BusyRunError):
        await other.acquire("r1")
    await other.close()
    await journal.close()


async def test_one_heartbeat_renews_all_leases_and_changes_no_run(file: Path) -> None:
    journal = SqliteJournal(file, lease_seconds=0.3)
    leases = [journal.start_run(run_row(f"r{number}")) for number in range(20)]
    for lease in leases:
        await journal.barrier(lease)
    [(beat, _)] = workers(file)
    with database(file) as db:
        version = db.execute("SELECT * FROM runs ORDER BY number").fetchall()
        with anyio.fail_after(10):
            while workers(file)[0][0] < beat + 2:
                await anyio.sleep(0.02)
        assert db.execute("SELECT * FROM runs ORDER BY number").fetchall() == version
    await journal.close()
    assert workers(file) == [], "a journal that is closed gives its leases up"
    other = SqliteJournal(file)
    assert (await other.acquire("r7")).epoch == 2
    await other.close()


async def set_holder(journal: SqliteJournal, file: Path, **columns: Any) -> None:
    """Record a run whose holder is a process elsewhere."""
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    names = ", ".join(f"{name}=?" for name in columns)
    with database(file) as db:
        db.execute(f"UPDATE workers SET {names}", tuple(columns.values()))  # noqa: S608  # our names
        db.execute("UPDATE workers SET worker='other'")
        db.execute("UPDATE runs SET owner='other'")
    journal._leases.held.clear()


async def test_holder_on_another_machine_expires_by_observation(
    journal: SqliteJournal, file: Path
) -> None:
    # Its clock is far ahead, as after a long time without a restart.
    elsewhere = {"host": "b", "boot": "x", "clock": "x 1", "pids": "x 2", "beat_at": 9e9}
    await set_holder(journal, file, **elsewhere, lease_seconds=30.0)
    for seen_ago in (0, 0, 29, 31):
        with database(file) as db:
            db.execute("UPDATE sightings SET since=since-?", (seen_ago,))
        short_lived = SqliteJournal(file)
        if seen_ago < 31:
            with pytest.raises(BusyRunError, match=r"executed by process \d+ on b"):
                await short_lived.acquire("r1")
        else:
            assert (await short_lived.acquire("r1")).epoch == 2
        await short_lived.close()
        if seen_ago == 29:
            with database(file) as db:  # A heartbeat: the time starts anew.
                db.execute("UPDATE workers SET beat=beat+1 WHERE worker='other'")
            for _ in range(2):
                with pytest.raises(BusyRunError):
                    await journal.acquire("r1")
    with database(file) as db:
        assert db.execute("SELECT * FROM sightings").fetchall() == []


@pytest.mark.parametrize(
    ("host", "is_local", "expires"),
    [(None, True, True), (None, False, False), ("b", True, False)],
    ids=["restarted", "network", "another host"],
)
async def test_lease_expires_at_once_after_a_certain_restart_only(
    journal: SqliteJournal,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str | None,
    is_local: bool,
    expires: bool,
) -> None:
    monkeypatch.setattr("ptc.journal._process_id._is_local", lambda file: is_local)
    place = {"host": host or this_process().host, "boot": "b1", "clock": "b1 1", "pids": "b1 2"}
    await set_holder(journal, file, **place)
    if expires:
        assert (await journal.acquire("r1")).epoch == 2
    else:
        with pytest.raises(BusyRunError):
            await journal.acquire("r1")


async def test_run_whose_release_was_lost_can_be_acquired(
    journal: SqliteJournal, file: Path
) -> None:
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    with database(file) as db:
        db.execute("ALTER TABLE ticks RENAME TO gone")
    journal.append(lease, Tick(0.5))
    journal.release(lease)
    with pytest.raises(JournalError, match="no such table"):
        await journal.barrier(lease)
    with database(file) as db:
        db.execute("ALTER TABLE gone RENAME TO ticks")
    await journal.barrier(journal.start_run(run_row("r2")))  # The next batch gives it up.
    other = SqliteJournal(file)
    assert (await other.acquire("r1")).epoch == 2
    with pytest.raises(BusyRunError):
        await other.acquire("r2")
    await other.close()


async def test_rows_of_workers_that_ended_are_deleted(journal: SqliteJournal, file: Path) -> None:
    await set_holder(journal, file, pid=2**22 + 1)
    other = SqliteJournal(file)
    await other.barrier(other.start_run(run_row("r2")))
    assert len(workers(file)) == 1
    await other.close()


async def test_damaged_worker_is_reported(file: Path) -> None:
    for change in ("pid='x'", "host=x'00'", "beat_at='soon'", "lease_seconds=x'00'", "beat=0.5"):
        name = change.replace("'", "").replace("=", "_").replace(".", "_")
        mine = SqliteJournal(file.with_name(name))
        await set_holder(mine, file.with_name(name), pid=1)
        with database(file.with_name(name)) as db:
            db.execute(f"UPDATE workers SET {change}")  # noqa: S608  # our text
        with pytest.raises(JournalError, match="is damaged: worker 'other'"):
            await mine.acquire("r1")
        await mine.close()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_deleted_or_replaced_file_stops_the_runs(
    journal: SqliteJournal, file: Path, suffix: str, replaced: bool
) -> None:
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    path = Path(f"{file}{suffix}")
    away = path.with_name("away")
    path.rename(away)
    if replaced:
        path.write_bytes(away.read_bytes())
    with pytest.raises(JournalError, match="was deleted or replaced while runs are") as caught:
        await journal.barrier(lease)
    assert not isinstance(caught.value, LeaseLostError)
    with pytest.raises(JournalError, match="put the file back, or restart"):
        await journal.acquire("r1")
    away.replace(path)
    again = journal.start_run(run_row("r2"))
    await journal.barrier(again)
    with pytest.raises(JournalError, match="deleted or replaced"):
        await journal.barrier(lease)


async def test_heartbeat_notices_that_the_file_was_deleted(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SqliteJournal(file, lease_seconds=0.3)
    lease = journal.start_run(run_row())
    await journal.barrier(lease)
    file.unlink()
    with anyio.fail_after(10):
        while "deleted or replaced" not in caplog.text:
            await anyio.sleep(0.02)
    with pytest.raises(JournalError, match="deleted or replaced"):
        await journal.barrier(lease)
    await journal.close()


async def test_run_whose_journal_was_deleted_starts_no_effect(tmp_path: Path) -> None:
    paid: list[int] = []

    async def pay(arguments: Any) -> None:
        paid.append(arguments["n"])
        (tmp_path / "j").unlink()

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [define_tool("pay", "Pay.", schema, pay, side_effect=True, idempotent=True)]
    source = "async def run(ctx, inputs):\n    await ctx.pay(n=1)\n    await ctx.pay(n=2)\n"
    async with Session(
        tmp_path, tools=tools, toolsets=(), journal=tmp_path / "j", journal_in_root=True
    ) as session:
        result = await session.program(source=source, allowed_tools=["pay"])
    assert paid == [1]
    assert result.error is not None
    assert "pay was not called" in result.error.message
    assert "was deleted or replaced while runs are being recorded" in result.error.message


def test_process_in_an_unknown_namespace_has_not_ended() -> None:
    assert not has_ended(ProcessId("h", "", "", "", os.getpid(), ""))
