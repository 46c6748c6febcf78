"""Fair shares, limits, rates and priorities of tenants, on all machines together."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from ptc import Session
from ptc._cli._submit import submit
from ptc._runs._submissions import delay_of
from ptc._session._queue_session import queued_runs_of
from ptc.errors import QueueFullError, UsageError
from ptc.journal._fair_share import Demand, divide_slots

from .conftest import WORK, Fleet, result_of, until


def test_slots_go_to_the_tenants_with_the_fewest_running_runs() -> None:
    demands = {"a": Demand(4, 100), "b": Demand(1, 100), "c": Demand(0, 1), "d": Demand(9, 0)}
    assert divide_slots(6, demands) == {"a": 1, "b": 4, "c": 1}
    assert divide_slots(2, demands) == {"b": 1, "c": 1}
    assert divide_slots(0, demands) == {}
    assert divide_slots(500, demands) == {"a": 100, "b": 100, "c": 1}


@pytest.mark.anyio
async def test_submit_needs_a_journal_with_a_queue() -> None:
    async with Session(journal=":memory:") as session:
        with pytest.raises(UsageError, match="PostgreSQL"):
            await session.submit(source="1")


def test_start_of_a_run_is_a_delay_or_a_time_with_a_zone() -> None:
    soon = datetime.now(timezone(timedelta(hours=-7))) + timedelta(minutes=1)
    assert 59_000 < delay_of(0, soon) <= 60_000
    assert delay_of(0, datetime(2020, 1, 1, tzinfo=UTC)) == 0
    assert delay_of(5, None) == 5
    for delay_ms, at, message in (
        (5, soon, "not both"),
        (0, datetime(2020, 1, 1), "with a time zone"),  # the error
        (0, soon + timedelta(days=400), "more than a year"),
    ):
        with pytest.raises(UsageError, match=message):
            delay_of(delay_ms, at)


@pytest.mark.parametrize("text", ["6 o'clock", "2026-07-01T06:00"])
def test_command_refuses_a_start_without_a_time_zone(text: str) -> None:
    done = CliRunner().invoke(submit, ["report.py", "--at", text])
    assert done.exit_code == 2
    assert "write it as 2026-07-01T06:00+02:00" in done.output


def _spans(fleet: Fleet) -> list[tuple[str, float, float]]:
    """Return run, start and end of each call of `work`; a killed one ended when it started."""
    spans: dict[tuple[str, ...], tuple[str, float, float]] = {}
    for line in fleet.lines():
        word, *call, at = line.split()
        start = spans[tuple(call)][1] if word == "end" else float(at)
        spans[tuple(call)] = (call[1], start, float(at))
    return list(spans.values())


def _jobs(count: int, job: Any, **options: Any) -> list[Any]:
    return [{**job, **options}] * count


def _has_lines(fleet: Fleet, count: int) -> bool:
    return len(fleet.lines()) > count


def _peak(spans: list[tuple[str, float, float]]) -> int:
    events = sorted([(s, 1) for _, s, _ in spans] + [(e, -1) for _, _, e in spans])
    running = peak = 0
    for _, step in events:
        running += step
        peak = max(peak, running)
    return peak


@pytest.mark.slow
@pytest.mark.anyio
async def test_flood_of_one_tenant_does_not_delay_another(fleet: Fleet) -> None:
    async with fleet.session() as session:
        job: Any = {"source": WORK, "inputs": {"ms": 100}}
        await session.submit_many(_jobs(60, job, tenant="flood"))
        fleet.start("--slots", "4")
        await until(lambda: len(fleet.lines()) > 4)
        small = await session.submit_many(_jobs(4, job, tenant="small"))
        for run_id in small:
            await result_of(session, run_id)
        status = await session.queue_status()
    # The flood has most of its runs still before it.
    queued = {tenant.name: tenant.queued for tenant in status.tenants}
    assert queued["small"] == 0
    assert queued["flood"] > 20


@pytest.mark.slow
@pytest.mark.anyio
async def test_limit_holds_on_all_machines_while_workers_die(fleet: Fleet) -> None:
    job: Any = {"source": WORK, "inputs": {"ms": 60}, "tenant": "shop"}
    async with fleet.session() as session:
        limits = await session.set_tenant("shop", max_running=3)
        assert limits.max_running == 3
        ids = await session.submit_many([job] * 60)
        for _ in range(3):
            fleet.start("--slots", "4", lease=1)
        for index in range(2):
            await until(partial(_has_lines, fleet, 24 * (index + 1)))
            fleet.processes[index].kill()
        for run_id in ids:
            assert (await result_of(session, run_id)).status == "completed"
    assert _peak(_spans(fleet)) == 3


@pytest.mark.slow
@pytest.mark.anyio
async def test_rate_of_a_tenant_is_kept_on_all_machines(fleet: Fleet) -> None:
    job: Any = {"source": WORK, "inputs": {"ms": 1}, "tenant": "shop"}
    async with fleet.session() as session:
        await session.set_tenant("shop", rate_per_second=20, burst=5)
        ids = await session.submit_many([job] * 45)
        for _ in range(2):
            fleet.start("--slots", "8")
        for run_id in ids:
            await result_of(session, run_id)
    starts = sorted(start for _, start, _ in _spans(fleet))
    assert starts[-1] - starts[0] > (45 - 5) / 20 - 0.3
    most = max(sum(1 for s in starts if first <= s < first + 1) for first in starts)
    # Runs of different turns may wait for a process for different times.
    assert most <= 25 + 8


@pytest.mark.slow
@pytest.mark.anyio
async def test_higher_priority_starts_first_within_a_tenant(fleet: Fleet) -> None:
    job: Any = {"source": WORK, "inputs": {"ms": 1}}
    async with fleet.session() as session:
        low = await session.submit_many(_jobs(3, job, priority=-5))
        # Other tools: another name in the queue.
        high = await session.submit_many(_jobs(3, job, priority=5, allowed_tools=["work"]))
        fleet.start("--slots", "1")
        for run_id in [*low, *high]:
            await result_of(session, run_id)
        with pytest.raises(UsageError, match="priority must be"):
            await session.submit(**job, priority=11)
    order = [run_id for run_id, *_ in _spans(fleet)]
    assert order == [*high, *low]


@pytest.mark.slow
@pytest.mark.anyio
async def test_submit_refuses_beyond_the_length_of_the_queue(fleet: Fleet) -> None:
    async with fleet.session() as session:
        await session.set_tenant("shop", max_queued=2)
        ids = await session.submit_many([{"source": "1", "tenant": "shop"} for _ in range(2)])
        with pytest.raises(QueueFullError, match="submit again later") as caught:
            await session.submit(source="1", tenant="shop")
        assert (caught.value.tenant, caught.value.length, caught.value.limit) == ("shop", 2, 2)
        # Others, and a repeated submission, are not refused.
        await session.submit(source="1", tenant="other")
        row = await session.history.run(ids[0])
        assert row.tenant == "shop"
        await session.cancel(ids[0])
        await session.submit(source="1", tenant="shop")


@pytest.mark.slow
@pytest.mark.anyio
async def test_concurrent_submitters_do_not_exceed_the_length_of_a_tenant(fleet: Fleet) -> None:
    async with AsyncExitStack() as stack:
        # A session has four connections.
        sessions = [await stack.enter_async_context(fleet.session()) for _ in range(3)]
        await sessions[0].set_tenant("shop", max_queued=7)
        refused: list[int] = []
        job: Any = {"source": "1", "tenant": "shop"}

        async def submit(session: Session) -> None:
            try:
                await session.submit_many([job] * 2)
            except QueueFullError as error:
                refused.append(error.length)

        async with anyio.create_task_group() as group:
            for index in range(24):
                group.start_soon(submit, sessions[index % 3])
        (tenant,) = (await sessions[0].queue_status()).tenants
    assert tenant.queued == 6
    assert refused == [6] * 21


@pytest.mark.slow
@pytest.mark.anyio
async def test_repeated_submission_to_a_full_queue_is_not_refused(fleet: Fleet) -> None:
    async with fleet.session() as session:
        await session.set_tenant("shop", max_queued=1)
        for _ in range(2):
            assert await session.submit(source="1", tenant="shop", run_id="one") == "one"


@pytest.mark.slow
@pytest.mark.anyio
async def test_waiting_runs_fill_all_slots_of_all_workers(fleet: Fleet) -> None:
    source = "import asyncio\nasync def run(ctx, inputs): await asyncio.sleep(1)"
    async with fleet.session() as session:
        for _ in range(4):
            fleet.start("--slots", "16")
        await until(lambda: _live_workers(session, 4), 30)
        await anyio.sleep(1)
        started = time.monotonic()
        ids = await session.submit_many([{"source": source} for _ in range(200)])
        for run_id in ids:
            assert (await result_of(session, run_id)).status == "completed"
        # The floor is 4 s; a busy machine takes longer.
        assert time.monotonic() - started < 20


async def _live_workers(session: Session, count: int) -> bool:
    return len((await session.queue_status()).workers) == count


@pytest.mark.slow
@pytest.mark.anyio
async def test_run_of_low_priority_gains_priority_while_it_waits(fleet: Fleet) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    async with fleet.session() as session:
        run_id = await session.submit(source="1", priority=-10)
        connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
        for _ in range(30):
            # Time passes.
            await connection.execute(
                "UPDATE queue_entries SET updated=now() - interval '11s',"
                " execute_after=now() - interval '11s'"
            )
            await (await queued_runs_of(session).queue()).tidy()
        priority = await connection.fetchval("SELECT priority FROM queue_entries")
        await connection.close()
        assert priority == 10
        assert (await session.history.run(run_id)).status == "queued"


@pytest.mark.slow
@pytest.mark.anyio
async def test_run_that_a_dead_host_continued_without_the_queue_is_enqueued(fleet: Fleet) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    async with fleet.session() as session:
        run_id = await session.submit(source="6 * 7")
        connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})
        await connection.execute("UPDATE runs SET status='running', owner='gone'")
        await connection.execute("DELETE FROM queue_entries")
        await connection.close()
        fleet.start(lease=1)
        assert (await result_of(session, run_id)).value == 42
