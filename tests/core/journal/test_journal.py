"""The journal in a SQLite file: order, leases, decisions, damage."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import sqlite3
import sys
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc.errors import (
    BusyRunError,
    DamagedRunError,
    EndedRunError,
    JournalError,
    LeaseLostError,
    UnknownRunError,
)
from ptc.journal._journal import CallEnd, CallRow, DecisionRow, Delivery, PendingRow, RunRow, Tick
from ptc.journal._lease import Lease
from ptc.journal._sqlite import SqliteJournal
from ptc.journal._tables import SCHEMA_VERSION

from ..calls.cancellation_points import MODES, Outcome, cancel_at

pytestmark = pytest.mark.anyio


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed: one that is used as a context is only committed."""
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


def run_row(run_id: str = "r1", at: int = 1) -> RunRow:
    return RunRow(run_id, "pass", "s.py", b"{}", b"{}", 7, 1.5, at)


def start(path: str = "1", side_effect: bool = True) -> CallRow:
    return CallRow(path, "t", b'{"a":1}', "k", side_effect, 3, 1, 100)


def end(elapsed: float | None = 0.25, body: bytes = b"1") -> CallEnd:
    return CallEnd("succeeded", True, body, 200, elapsed)


def ended(path: str, end: CallEnd) -> CallRow:
    return start(path, False)._replace(end=end)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "journal.sqlite3"


@pytest.fixture
def journal(file: Path) -> Iterator[SqliteJournal]:
    made = SqliteJournal(file)
    yield made
    made.close_now()


@contextmanager
def closing_now(journal: SqliteJournal) -> Iterator[SqliteJournal]:
    """Close a journal after the block."""
    try:
        yield journal
    finally:
        journal.close_now()


def record_sample_run(journal: SqliteJournal) -> Lease:
    lease = journal.start_run(run_row())
    journal.append(lease, start("1"))
    journal.append(lease, ended("2", end(0.125, b"[2]")))
    journal.append(lease, Tick(0.2))
    journal.append(lease, start("1")._replace(end=end()))
    journal.append(lease, start("10"))
    return lease


async def test_appended_rows_are_read_back_in_order(journal: SqliteJournal, file: Path) -> None:
    lease = record_sample_run(journal)
    await journal.barrier(lease)
    other = SqliteJournal(file)
    for reader in (journal, other):
        found = await reader.load("r1")
        assert found.run == run_row()
        assert [row.path for row in found.calls] == ["1", "2", "10"]
        assert found.calls[0] == start("1")._replace(end=end())
        assert [row.end for row in found.calls] == [end(), end(0.125, b"[2]"), None]
        assert found.deliveries == (
            Delivery("2", 0.125),
            Delivery(None, 0.2),
            Delivery("1", 0.25),
        )
    await other.close()


async def test_many_calls_are_read_back_in_order(journal: SqliteJournal) -> None:
    lease = journal.start_run(run_row())
    for number in range(1, 178):
        path = str(number)
        journal.append(lease, ended(path, end(number / 8, b"%d" % number)))
    await journal.barrier(lease)
    found = await journal.load("r1")
    assert [d.path for d in found.deliveries] == [str(n) for n in range(1, 178)]
    assert [c.end.body for c in found.calls if c.end] == [b"%d" % n for n in range(1, 178)]


async def test_rows_before_a_barrier_survive_a_crash(tmp_path: Path) -> None:
    code = (
        "import anyio, os, sys\nsys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from tests.core.journal.test_journal import record_sample_run, SqliteJournal\n"
        "async def main():\n"
        "    journal = SqliteJournal(Path(sys.argv[1]))\n"
        "    await journal.barrier(record_sample_run(journal))\n"
        "    os.kill(os.getpid(), 9)\n"
        "anyio.run(main)\n"
    )
    file = tmp_path / "j"
    repository = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", code, str(file), repository]
    done = await anyio.run_process(command, check=False)
    assert done.returncode == -9
    journal = SqliteJournal(file)
    assert len((await journal.load("r1")).deliveries) == 3
    lease = await journal.acquire("r1")
    assert lease.epoch == 2, "its holder is dead: the lease expires at once"
    journal.append(lease, Tick(0.5))
    await journal.barrier(lease)
    assert (await journal.load("r1")).deliveries[-1] == Delivery(None, 0.5)
    await journal.close()


async def test_run_with_an_active_lease_holder_cannot_be_claimed(journal: SqliteJournal) -> None:
    lease = record_sample_run(journal)
    await journal.barrier(lease)
    with pytest.raises(BusyRunError, match=f"executed by process {os.getpid()}"):
        await journal.acquire("r1")
    journal.end_run(lease, "paused", b"{}", 5)
    await journal.barrier(lease)
    again = await journal.acquire("r1")
    journal.end_run(again, "completed", b'{"a":1}', 6)
    await journal.barrier(again)
    with pytest.raises(EndedRunError, match="has ended: completed"):
        await journal.acquire("r1")
    with pytest.raises(UnknownRunError, match="no run 'r2'"):
        await journal.acquire("r2")
    found = await journal.find("r1")
    assert found is not None
    assert (found.status, found.result, found.ended_ms) == ("completed", b'{"a":1}', 6)


async def test_only_one_of_many_concurrent_claims_succeeds(
    journal: SqliteJournal, file: Path
) -> None:
    lease = record_sample_run(journal)
    journal.end_run(lease, "paused", b"{}", 5)
    await journal.barrier(lease)
    won: list[Lease] = []
    lost: list[JournalError] = []
    everybody_tried = threading.Barrier(6)

    async def claim() -> None:
        mine = SqliteJournal(file)
        try:
            won.append(await mine.acquire("r1"))
        except BusyRunError as error:
            lost.append(error)
        everybody_tried.wait()  # A journal that is closed gives its leases up.
        await mine.close()

    threads = [threading.Thread(target=anyio.run, args=(claim,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)


async def test_holder_of_a_lost_lease_cannot_write(journal: SqliteJournal, file: Path) -> None:
    lease = record_sample_run(journal)
    await journal.barrier(lease)
    with database(file) as other:
        other.execute("UPDATE runs SET epoch=2")
    journal.append(lease, Tick(9.0))
    journal.end_run(lease, "completed", b"{}", 9)
    with pytest.raises(LeaseLostError, match="another process acquired run"):
        await journal.barrier(lease)
    found = await journal.load("r1")
    assert (found.run.status, len(found.deliveries)) == ("running", 3)


async def test_runs_that_have_ended_leave_nothing_in_memory(journal: SqliteJournal) -> None:
    async def record(first: int, last: int, most_bytes: int) -> None:
        """Record runs, and wait until no more than that many bytes are in use."""
        leases = (journal.start_run(run_row(f"r{number}")) for number in range(first, last))
        for lease in leases:
            journal.append(lease, Tick(0.5))
            if lease.number % 2:
                journal.end_run(lease, "completed", b"{}", 9)
            else:
                journal.release(lease)
        await journal.barrier(journal.start_run(run_row(f"last of {last}")))
        with anyio.fail_after(5):
            while gc.collect() or tracemalloc.get_traced_memory()[0] > most_bytes:
                await anyio.sleep(0.01)

    tracemalloc.start()
    try:
        await record(0, 1_000, 60_000)
        await record(1_000, 3_000, 60_000)
    finally:
        tracemalloc.stop()


async def test_first_decision_is_final_and_durable(journal: SqliteJournal, file: Path) -> None:
    lease = record_sample_run(journal)
    journal.append(lease, PendingRow("10", "approval", "t", "f", b"{}", 1))
    await journal.barrier(lease)
    yes = DecisionRow("10", "approval", "approve", b"null", "ann", "fine", 2)
    no = DecisionRow("10", "approval", "reject", b"null", "bob", "no", 3)
    other = SqliteJournal(file)
    assert await other.decide("r1", yes)
    assert not await journal.decide("r1", no)
    assert (await journal.load("r1")).decisions == (yes,)
    assert [p.path for p in (await journal.load("r1")).pending] == ["10"]
    with pytest.raises(UnknownRunError, match="no run 'r2'"):
        await journal.decide("r2", yes)
    await other.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE calls SET body=x'32' WHERE path='1'", "call 1 does not match its digest"),
        ("UPDATE calls SET arguments=x'7b7d' WHERE path='10'", "call 10 does not match its digest"),
        ("UPDATE calls SET ok=0 WHERE path='2'", "call 2 does not match its digest"),
        ("UPDATE calls SET key='other' WHERE path='2'", "call 2 does not match its digest"),
        ("UPDATE calls SET ended_ms=NULL WHERE path='2'", "the outcome of call 2 is incomplete"),
        ("UPDATE ticks SET place=0", "message 0 does not exist"),
        ("UPDATE ticks SET place=-1", "place of a tick is -1"),
        ("UPDATE runs SET created_ms=1<<62", "created_ms of a run is 4611686018427387904"),
        ("DELETE FROM calls WHERE path='2'", "message 1 is missing"),
        ("DELETE FROM ticks", "message 2 is missing"),
    ],
)
async def test_damaged_rows_are_reported_and_never_skipped(
    journal: SqliteJournal, file: Path, damage: str, message: str
) -> None:
    await journal.barrier(record_sample_run(journal))
    with database(file) as other:
        other.execute(damage)
    with pytest.raises(DamagedRunError, match=message):
        await journal.load("r1")


async def test_file_that_is_truncated_or_not_a_journal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, and long enough to be looked at\n" * 99)
    with pytest.raises(JournalError, match="cannot be opened: file is not a database"):
        SqliteJournal(tmp_path / "text")
    with pytest.raises(JournalError, match="cannot be opened"):
        SqliteJournal(tmp_path)
    whole = SqliteJournal(tmp_path / "whole")
    for number in range(200):
        whole.start_run(run_row(f"r{number}"))
    await whole.close()
    size = (tmp_path / "whole").stat().st_size
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[: size // 2])
    with (
        pytest.raises(JournalError, match=r"cannot be (opened|read)"),
        closing_now(SqliteJournal(tmp_path / "cut")) as cut,
    ):
        await cut.load("r7")


VERSION_1 = """
CREATE TABLE runs(
  number INTEGER PRIMARY KEY, run_id TEXT UNIQUE NOT NULL, source TEXT NOT NULL,
  filename TEXT NOT NULL, inputs BLOB NOT NULL, options BLOB NOT NULL, seed INTEGER NOT NULL,
  clock REAL NOT NULL, created_ms INTEGER NOT NULL, status TEXT NOT NULL, result BLOB,
  ended_ms INTEGER, owner TEXT, alive_ms INTEGER, epoch INTEGER NOT NULL);
CREATE TABLE calls(
  run INTEGER NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL,
  arguments BLOB NOT NULL, key TEXT NOT NULL, side_effect INTEGER NOT NULL, line INTEGER,
  attempt INTEGER NOT NULL, started_ms INTEGER NOT NULL, status TEXT NOT NULL, ok INTEGER,
  body BLOB, body_sha256 BLOB, ended_ms INTEGER, place INTEGER, elapsed REAL,
  PRIMARY KEY(run, path));
CREATE TABLE ticks(
  run INTEGER NOT NULL, place INTEGER NOT NULL, elapsed REAL NOT NULL, PRIMARY KEY(run, place));
CREATE TABLE pending(
  run INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, tool TEXT NOT NULL,
  fingerprint TEXT NOT NULL, details BLOB NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(run, path, kind));
CREATE TABLE verdicts(
  run INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, action TEXT NOT NULL,
  value BLOB NOT NULL, decided_by TEXT NOT NULL, comment TEXT NOT NULL, at_ms INTEGER NOT NULL,
  PRIMARY KEY(run, path, kind));
INSERT INTO runs VALUES(
  7, 'old', 'pass', 's.py', x'7b7d', x'7b7d', 1, 0.5, 9, 'completed', x'7b7d', 12, NULL, 10, 1);
INSERT INTO ticks VALUES(7, 1, 0.25);
PRAGMA user_version=1;
"""
"""A file as the first version made it."""


async def test_file_of_an_earlier_version_is_migrated_without_loss(
    file: Path,
) -> None:
    file.parent.mkdir()
    with database(file) as db:
        db.executescript(VERSION_1)
    together = threading.Barrier(6)
    opened: list[SqliteJournal] = []

    def open_it() -> None:
        together.wait()
        opened.append(SqliteJournal(file))

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6, "one brought it up, the others found it so"
    for number, journal in enumerate(opened):
        old = await journal.load("old")
        assert (old.run.status, old.run.ended_ms, old.run.rolled_back_ms) == ("completed", 12, None)
        assert old.deliveries == (Delivery(None, 0.25),)
        lease = journal.start_run(run_row(f"new{number}"))
        journal.append(lease, Tick(0.5))
        await journal.close()
    with database(file) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (7,)


def test_failed_migration_changes_nothing(file: Path) -> None:
    file.parent.mkdir()
    with database(file) as db:
        db.executescript(VERSION_1)
        db.execute("CREATE TABLE reverts(mine TEXT)")
    with pytest.raises(JournalError, match="cannot be opened: table reverts already exists"):
        SqliteJournal(file)
    with database(file) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
    assert "rolled_back_ms" not in columns, "the first half of it was taken back"


@pytest.mark.parametrize("version", [0, 5, SCHEMA_VERSION + 1])
def test_database_of_another_program_is_refused_and_left_unchanged(
    tmp_path: Path, version: int
) -> None:
    with database(tmp_path / "j") as db:
        db.execute("CREATE TABLE notes(text)")
        db.execute(f"PRAGMA user_version={version}")
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(JournalError, match="is a database of another program; choose another"):
        SqliteJournal(tmp_path / "j")
    assert (tmp_path / "j").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["j"]


def test_journal_of_a_later_version_is_refused(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "j").close_now()
    with database(tmp_path / "j") as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    with pytest.raises(JournalError, match="made by a later version"):
        SqliteJournal(tmp_path / "j")


async def test_sweep_deletes_old_finished_runs_only(journal: SqliteJournal) -> None:
    for number in (1, 2, 3):
        lease = journal.start_run(run_row(f"r{number}", number))
        journal.append(lease, ended("1", end()))
        if number < 3:
            journal.end_run(lease, "completed", b"{}", number * 1_000)
        await journal.barrier(lease)
    assert [run.run_id for run in await journal.runs()] == ["r3", "r2", "r1"]
    assert await journal.delete_ended(1_500) == 1
    assert [run.run_id for run in await journal.runs()] == ["r3", "r2"]
    assert len((await journal.load("r2")).calls) == 1


async def test_journal_files_are_private_to_their_user(file: Path) -> None:
    before = os.umask(0)
    try:
        journal = SqliteJournal(file)
    finally:
        os.umask(before)
    try:
        await journal.barrier(journal.start_run(run_row()))
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    finally:
        await journal.close()
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}, modes


def test_concurrent_creation_of_one_file_succeeds_for_all(tmp_path: Path) -> None:
    for turn in range(8):
        together = threading.Barrier(6)
        opened: list[SqliteJournal] = []

        def open_it(
            file: Path = tmp_path / str(turn),
            together: threading.Barrier = together,
            opened: list[SqliteJournal] = opened,
        ) -> None:
            together.wait()
            opened.append(SqliteJournal(file))

        threads = [threading.Thread(target=open_it) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for journal in opened:
            journal.close_now()
        assert len(opened) == 6


async def test_two_processes_write_one_file(journal: SqliteJournal, file: Path) -> None:
    other = SqliteJournal(file)
    leases = [(j, j.start_run(run_row(f"r{n}"))) for n, j in enumerate((journal, other) * 20)]
    for number in range(50):
        for writer, lease in leases:
            writer.append(lease, Tick(number))
    for writer, lease in leases:
        await writer.barrier(lease)
    found = [await journal.load(lease.run_id) for _, lease in leases]
    assert all(len(record.deliveries) == 50 for record in found)
    await other.close()


async def test_copy_of_the_file_is_a_usable_journal(journal: SqliteJournal, tmp_path: Path) -> None:
    lease = record_sample_run(journal)
    journal.end_run(lease, "paused", b"{}", 5)
    await journal.barrier(lease)
    await journal.close()
    shutil.copy(tmp_path / "deep" / "journal.sqlite3", tmp_path / "copy")
    copy = SqliteJournal(tmp_path / "copy")
    assert (await copy.acquire("r1")).epoch == 2
    await copy.close()


async def test_write_failure_is_raised_at_the_barrier_and_logged(
    journal: SqliteJournal, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lease = record_sample_run(journal)
    await journal.barrier(lease)
    with database(file) as other:
        other.execute("DROP TABLE ticks")
    journal.append(lease, Tick(1.0))
    with pytest.raises(JournalError, match="cannot be written: no such table"):
        await journal.barrier(lease)
    assert "runs are not recorded" in caplog.text


async def test_value_that_sqlite_cannot_hold_is_an_error_and_later_runs_are_recorded(
    journal: SqliteJournal,
) -> None:
    # It ended the thread that writes, and every later barrier waited for ever.
    lease = journal.start_run(run_row())
    journal.append(lease, DecisionRow("1", "approval", "approve", b"null", "ann", "\ud800", 2))
    with anyio.fail_after(10):
        with pytest.raises(JournalError, match="surrogates not allowed"):
            await journal.barrier(lease)
        other = journal.start_run(run_row("r2"))
        await journal.barrier(other)
    assert (await journal.load("r2")).run == run_row("r2")


async def test_in_memory_journal_records_runs() -> None:
    journal = SqliteJournal(None)
    await journal.barrier(record_sample_run(journal))
    assert hashlib.sha256((await journal.load("r1")).run.source.encode()).hexdigest()
    await journal.close()


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from ptc.errors import JournalError
from ptc.journal._journal import CallEnd, CallRow, RunRow, Tick
from ptc.journal._sqlite import SqliteJournal

def run(name):
    return RunRow(name, "pass", "s.py", b"{}", b"{}", 7, 1.5, 1)

def call(number, size):
    end = CallEnd("succeeded", True, b"1" * size, 200, 0.25)
    return CallRow(str(number), "t", b"{}", "k", True, 3, 1, 100, end=end)

async def main():
    journal = SqliteJournal(Path(sys.argv[1]))
    first = journal.start_run(run("first"))
    journal.append(first, call(1, 10))
    await journal.barrier(first)
    room = max(p.stat().st_size for p in Path(sys.argv[1]).parent.iterdir()) + 8_192
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    journal.append(first, call(2, 200_000))
    for _ in range(2):
        try:
            await journal.barrier(first)
        except JournalError as error:
            print("refused:", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    # There is room again: what the first run adds now would stand after a gap.
    journal.append(first, call(3, 10))
    try:
        await journal.barrier(first)
    except JournalError:
        print("still refused")
    journal.release(first)
    second = journal.start_run(run("second"))
    journal.append(second, call(1, 10))
    await journal.barrier(second)
    for name in ("first", "second"):
        print(name, [row.path for row in (await journal.load(name)).calls])
    await journal.close()

asyncio.run(main())
"""


async def test_full_disk_stops_the_recording_of_one_run_only(file: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", FULL_DISK, str(file)], check=False)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.stderr.decode()
    assert len(lines) == 5
    assert all(line.startswith(f"refused: {file} cannot be written: ") for line in lines[:2])
    assert lines[2:] == ["still refused", "first ['1']", "second ['1']"]


async def test_of_two_runs_with_one_id_only_the_first_is_recorded(
    journal: SqliteJournal, file: Path
) -> None:
    other = SqliteJournal(file)
    first, second = journal.start_run(run_row()), other.start_run(run_row())
    with pytest.raises(BusyRunError, match="is being executed by this session"):
        journal.start_run(run_row())
    journal.append(first, Tick(0.5))
    await journal.barrier(first)
    other.append(second, Tick(0.25))
    third = other.start_run(run_row("r3"))
    with pytest.raises(LeaseLostError):
        await other.barrier(second)
    await other.barrier(third)
    other.release(second)
    await other.close()
    assert (await journal.load("r1")).deliveries == (Delivery(None, 0.5),)


async def test_run_started_and_finished_at_once_is_recorded_normally(
    journal: SqliteJournal,
) -> None:
    for name in ("a", "b"):
        lease = journal.start_run(run_row(name))
        journal.append(lease, ended("1", end()))
        if name == "b":
            await journal.barrier(lease)
        journal.end_run(lease, "completed", b"[1]", 55)
    for name in ("a", "b"):
        found = await journal.load(name)
        assert (found.run.status, found.run.result, found.run.ended_ms) == ("completed", b"[1]", 55)
        assert len(found.calls) == 1
        with pytest.raises(EndedRunError, match="has ended: completed"):
            await journal.acquire(name)


async def record_paused_run(journal: SqliteJournal, run_id: str = "r1") -> None:
    lease = journal.start_run(run_row(run_id))
    journal.append(lease, start())
    journal.end_run(lease, "paused", b"[5]", 5)
    await journal.find(run_id)  # in the file, with all that was appended before


@pytest.mark.parametrize("locked", [False, True])
async def test_cancelled_acquire_leaves_the_run_as_it_was(
    journal: SqliteJournal, file: Path, anyio_backend: str, locked: bool
) -> None:
    await record_paused_run(journal)
    before = await journal.find("r1")
    other = SqliteJournal(file)

    async def acquire() -> Lease:
        return await journal.acquire("r1")

    async def unlock() -> None:
        await anyio.sleep(0.02)
        journal._db.lock.release()

    reached = 0
    outcomes: list[Outcome] = []
    for mode, number in product(MODES[anyio_backend], range(1, 5)):
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                if locked:  # The thread waits, so that it acquires after the cancellation.
                    journal._db.lock.acquire()
                    group.start_soon(unlock)
                outcomes.append(await cancel_at(number, mode, acquire))
        out = outcomes[-1]
        if out.value is not None:
            with pytest.raises(BusyRunError):
                await other.acquire("r1")
            journal.end_run(out.value, "paused", b"[5]", 5)
        else:
            reached += 1
        assert await journal.find("r1") == before
        assert not journal._leases.held
        # Of the same process: a lease that was left would count as held.
        lease = await other.acquire("r1")
        other.end_run(lease, "paused", b"[5]", 5)
        assert await other.find("r1") == before
    assert reached >= len(MODES[anyio_backend])
    await other.close()


async def test_cancelled_acquire_for_rollback_leaves_no_lease(
    journal: SqliteJournal, file: Path
) -> None:
    await record_paused_run(journal)
    with journal._db.lock, anyio.move_on_after(0.01) as scope:
        await journal.acquire_for_rollback("r1", 7)
    assert scope.cancelled_caught
    await journal.find("r1")
    other = SqliteJournal(file)
    assert (await other.acquire_for_rollback("r1", 8)).run_id == "r1"
    await other.close()


async def test_each_error_has_its_class(journal: SqliteJournal, file: Path) -> None:
    decision = DecisionRow("1", "approval", "approve", b"null", "ann", "", 2)
    for unknown in (
        journal.acquire("none"),
        journal.acquire_for_rollback("none", 1),
        journal.load("none"),
        journal.decide("none", decision),
    ):
        with pytest.raises(UnknownRunError, match="there is no run 'none'"):
            await unknown
    lease = journal.start_run(run_row())
    with pytest.raises(BusyRunError, match="by this session"):
        journal.start_run(run_row())
    for busy in (journal.acquire("r1"), journal.acquire_for_rollback("r1", 1)):
        with pytest.raises(BusyRunError, match="by process"):
            await busy
    journal.end_run(lease, "completed", b"{}", 5)
    with pytest.raises(EndedRunError, match="has ended: completed"):
        await journal.acquire("r1")
    journal.release(await journal.acquire_for_rollback("r1", 6))
    with pytest.raises(EndedRunError, match="was rolled back"):
        await journal.acquire("r1")
    lease = journal.start_run(run_row("r2"))
    journal.append(lease, ended("1", end()))
    await journal.barrier(lease)
    with database(file) as other:
        other.execute("UPDATE calls SET body=x'32'")
    with pytest.raises(DamagedRunError, match="run 'r2': call 1"):
        await journal.load("r2")
    with database(file) as other:
        other.execute("UPDATE runs SET epoch=epoch+1")
    journal.append(lease, Tick(1.0))
    with pytest.raises(LeaseLostError):
        await journal.barrier(lease)


async def test_calls_on_a_closed_journal_raise_at_once(journal: SqliteJournal) -> None:
    await record_paused_run(journal)
    lease = journal.start_run(run_row("r2"))
    await journal.close()
    await journal.close()
    decision = DecisionRow("1", "approval", "approve", b"null", "ann", "", 2)
    closed = pytest.raises(JournalError, match=r"journal\.sqlite3 is closed")
    with anyio.fail_after(20):
        for call in (
            journal.acquire("r1"),
            journal.acquire_for_rollback("r1", 1),
            journal.barrier(lease),
            journal.decide("r1", decision),
            journal.delete_ended(9_999),
            journal.find("r1"),
            journal.find_ids("r", 3),
            journal.load("r1"),
            journal.pending(),
            journal.runs(),
        ):
            with closed:
                await call
        with closed:
            journal.start_run(run_row("r3"))
        with pytest.raises(JournalError, match="closed database"):
            journal.documents.read("a")
        journal.append(lease, Tick(0.5))
        journal.end_run(lease, "completed", b"{}", 5)
        with closed:
            journal.check(lease)


async def test_calls_during_the_close_end_all(journal: SqliteJournal) -> None:
    await record_paused_run(journal)
    lease = journal.start_run(run_row("r2"))
    outcomes: list[str] = []

    async def call(function: Callable[[], Awaitable[object]]) -> None:
        try:
            await function()
            outcomes.append("done")
        except JournalError as error:
            assert "is closed" in str(error)  # noqa: PT017  # both outcomes are right
            outcomes.append("closed")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(200):
                journal.append(lease, Tick(number))
                group.start_soon(call, partial(journal.barrier, lease))
                group.start_soon(call, partial(journal.load, "r1"))
                if number == 100:
                    group.start_soon(journal.close)
                await anyio.lowlevel.checkpoint()
    assert len(outcomes) == 400
    assert "done" in outcomes
    with pytest.raises(JournalError, match="is closed"):
        await journal.runs()


async def test_entries_after_the_close_are_reported_as_not_recorded(file: Path) -> None:
    journal = SqliteJournal(file)
    lease = journal.start_run(run_row())
    journal.append(lease, Tick(0.5))
    await journal.close()
    journal.check(lease)
    journal.append(lease, Tick(0.75))
    with pytest.raises(JournalError, match="is closed"):
        journal.check(lease)
    with closing_now(SqliteJournal(file)) as other:
        assert (await other.load("r1")).deliveries == (Delivery(None, 0.5),)


async def test_reads_wait_for_no_write_lock_of_another_process(
    journal: SqliteJournal, file: Path
) -> None:
    await record_paused_run(journal)
    with closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(20):  # The lock would be waited for during 30 s.
            assert len((await journal.load("r1")).calls) == 1
            assert [run.run_id for run in await journal.runs()] == ["r1"]
            assert await journal.pending() == []


async def test_record_is_loaded_in_one_state_while_another_process_appends(
    journal: SqliteJournal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = record_sample_run(journal)
    await journal.barrier(lease)
    other = SqliteJournal(file)
    fetch_all = other._db.fetch_all

    def append_and_read(sql: str, values: tuple[Any, ...]) -> list[Any]:
        if "FROM ticks" in sql:  # The calls were read: these rows would be a gap before the tick.
            with database(file) as third:
                third.execute("UPDATE calls SET place=4 WHERE path='10'")
                third.execute("INSERT INTO ticks(run, place, elapsed) VALUES(?, 5, 0.5)", values)
        return fetch_all(sql, values)

    monkeypatch.setattr(other._db, "fetch_all", append_and_read)
    assert len((await other.load("r1")).deliveries) == 3
    await other.close()


async def test_barrier_syncs_a_batch_that_was_committed_before_it(
    journal: SqliteJournal, file: Path
) -> None:
    lease = journal.start_run(run_row())
    await journal.find("r1")  # Committed without a sync: no barrier waits for it.
    wal = file.with_name(f"{file.name}-wal")
    written = wal.stat().st_size
    await journal.barrier(lease)
    synced = wal.stat().st_size
    assert synced > written, "only a commit that changes the file syncs it"
    await journal.barrier(lease)
    assert wal.stat().st_size == synced, "nothing is left to sync"
