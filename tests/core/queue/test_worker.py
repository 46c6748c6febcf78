"""Workers execute submitted runs: real processes, on a real PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import anyio
import pytest

from ptc import Session
from tests.core.postgres import execute_sql

from .conftest import WORK, Fleet, result_of, until

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

DOUBLE = "def run(ctx, inputs): return inputs['n'] * 2"
PAY = "async def run(ctx, inputs): return await ctx.pay(cents=5)"


async def test_submitted_run_is_executed_once(fleet: Fleet) -> None:
    fleet.start("--slots", "2")
    async with fleet.session() as session:
        run_id = await session.submit(source=DOUBLE, inputs={"n": 21}, run_id="one")
        assert await session.submit(source=DOUBLE, inputs={"n": 21}, run_id="one") == run_id
        result = await result_of(session, run_id)
        assert (result.status, result.value) == ("completed", 42)
        # A later submission of the same run changes nothing.
        await session.submit(source=DOUBLE, inputs={"n": 21}, run_id="one")
        assert (await session.history.run(run_id)).status == "completed"


async def test_run_of_a_killed_worker_is_finished_by_another(fleet: Fleet) -> None:
    source = "async def run(ctx, inputs):\n    return [await ctx.work(ms=150) for _ in range(10)]"
    workers = [fleet.start("--slots", "10") for _ in range(2)]
    async with fleet.session() as session:
        ids = await session.submit_many([{"source": source} for _ in range(20)])
        ended = f"end {workers[0].pid} "
        await until(lambda: sum(line.startswith(ended) for line in fleet.lines()) > 15)
        workers[0].kill()
        killed = time.monotonic()
        results = [await result_of(session, run_id) for run_id in ids]
        assert time.monotonic() - killed < 2 + 5 + 2
    assert [result.status for result in results] == ["completed"] * 20
    assert {len(result.value) for result in results} == {10}
    moved = [r for r in results if len(set(r.value)) == 2]
    assert moved
    # No finished call is repeated, except those whose end was not recorded yet.
    finished = [line.split() for line in fleet.lines() if line.startswith("end")]
    assert len(finished) <= 200 + 20
    # A continued run has a higher epoch.
    assert {line[3] for line in finished} == {"1", "2"}


async def test_decision_continues_the_run_on_any_worker(fleet: Fleet) -> None:
    first = fleet.start()
    async with fleet.session() as session:
        run_id = await session.submit(source=PAY, allowed_tools=["pay"])
        paused = await result_of(session, run_id)
        assert paused.status == "paused"
        first.terminate()
        first.wait(20)
        fleet.start()
        await session.approve(run_id, by="ann")
        await until(lambda: _has_status(session, run_id, "completed"))
        # Decided again, it is not enqueued again.
        assert (await session.queue_status()).tenants[0].queued == 0
    (paid,) = fleet.lines()
    assert paid.startswith("pay 5 ")


async def _has_status(session: Session, run_id: str, status: str) -> bool:
    return (await session.history.run(run_id)).status == status


async def test_run_that_kills_its_workers_is_dead(fleet: Fleet) -> None:
    source = "async def run(ctx, inputs): await ctx.die()"
    fleet.start("--set", "max_attempts=2", lease=1)
    async with fleet.session() as session:
        run_id = await session.submit(source=source)
        for _ in range(2):
            with anyio.fail_after(30):
                while fleet.processes[-1].poll() is None:
                    await anyio.sleep(0.05)
            fleet.start("--set", "max_attempts=2", lease=1)
        result = await result_of(session, run_id)
        assert result.status == "dead"
        assert result.error is not None
        assert "started 2 times" in result.error.message
        assert f"ptc resume {run_id} --script" in result.error.hint
        other = await session.submit(source=DOUBLE, inputs={"n": 1})
        assert (await result_of(session, other)).value == 2
        # A corrected script continues it.
        fixed = await session.resume(run_id, source=DOUBLE.replace("inputs['n']", "4"))
        assert fixed.value == 8


async def test_drained_worker_finishes_its_runs_and_takes_no_more(fleet: Fleet) -> None:
    worker = fleet.start("--slots", "1")
    async with fleet.session() as session:
        ids = await session.submit_many([{"source": WORK, "inputs": {"ms": 400}} for _ in range(3)])
        await until(lambda: fleet.lines())
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
        statuses = [(await session.history.run(run_id)).status for run_id in ids]
        assert sorted(statuses) == ["completed", "queued", "queued"]


async def test_worker_puts_runs_back_that_do_not_end_in_time(fleet: Fleet) -> None:
    source = "async def run(ctx, inputs):\n    await ctx.work(ms=1)\n    await ctx.hang()"
    worker = fleet.start("--drain-seconds", "0")
    async with fleet.session() as session:
        run_id = await session.submit(source=source)
        await until(lambda: "hang" in fleet.lines())
        worker.send_signal(signal.SIGTERM)
        stopped = time.monotonic()
        assert worker.wait(20) == 0
        assert time.monotonic() - stopped < 5
        row = await session.history.run(run_id)
        assert (row.status, row.attempts) == ("running", 0)
        fleet.start(lease=2)
        # Put back, it is taken at once, and not after the lease.
        await until(lambda: fleet.lines().count("hang") == 2, 6)
    assert len([line for line in fleet.lines() if line.endswith("hang")]) == 2


@pytest.mark.parametrize("state", ["queued", "paused", "running"])
async def test_run_is_cancelled_in_any_state(fleet: Fleet, state: str) -> None:
    source = {
        "queued": DOUBLE,
        "paused": PAY,
        "running": "async def run(ctx, inputs):\n    await ctx.hang()\n    await ctx.work(ms=1)",
    }[state]
    if state != "queued":
        fleet.start(lease=1)
    async with fleet.session() as session:
        run_id = await session.submit(
            source=source, inputs={"n": 1}, allowed_tools=["pay", "hang", "work"]
        )
        await until(lambda: _has_status(session, run_id, state))
        if state == "running":
            await until(lambda: "hang" in fleet.lines())
        assert await session.cancel(run_id) == (state != "running")
        await until(lambda: _has_status(session, run_id, "cancelled"), 5)
        if state == "queued":
            fleet.start(lease=1)
            marker = await session.submit(source=DOUBLE, inputs={"n": 1})
            await result_of(session, marker)
        assert await _has_status(session, run_id, "cancelled")
        assert not [line for line in fleet.lines() if line != "hang"]


async def test_worker_without_the_tools_does_not_take_the_run(fleet: Fleet) -> None:
    changed = fleet.folder / "changed.py"
    changed.write_text(fleet.tools.read_text().replace("def work(ms: int,", "def work(ms: float,"))
    fleet.start(tools=changed)
    async with fleet.session() as session:
        run_id = await session.submit(source=WORK, inputs={"ms": 1}, allowed_tools=["work"])
        served = await session.submit(source=DOUBLE, inputs={"n": 1}, allowed_tools=["pay"])
        assert (await result_of(session, served)).value == 2
        status = await session.queue_status()
        assert dict(status.unserved) == {run_id: ["work"]}
        assert await _has_status(session, run_id, "queued")
        fleet.start()
        assert (await result_of(session, run_id)).status == "completed"


async def test_delayed_run_does_not_start_early(fleet: Fleet) -> None:
    fleet.start()
    async with fleet.session() as session:
        warm = await session.submit(source=DOUBLE, inputs={"n": 1})
        await result_of(session, warm)
        submitted = time.time()
        source = "import time\ndef run(ctx, inputs): return time.time()"
        run_id = await session.submit(source=source, delay_ms=1_500)
        result = await result_of(session, run_id)
    # The clock of the script starts with the run.
    assert 1.4 <= result.value - submitted < 4


async def test_workers_survive_a_restart_of_the_database(fleet: Fleet, postgres: str) -> None:
    worker = fleet.start("--slots", "4")
    async with fleet.session() as session:
        ids = await session.submit_many([{"source": WORK, "inputs": {"ms": 30}} for _ in range(40)])
        await until(lambda: len(fleet.lines()) > 4)
        await anyio.to_thread.run_sync(
            execute_sql,
            postgres,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND backend_type='client backend'",
        )
        results = [await result_of(session, run_id) for run_id in ids]
    assert {result.status for result in results} == {"completed"}
    assert worker.poll() is None


async def test_commands_submit_limit_list_and_cancel(fleet: Fleet) -> None:
    script = fleet.folder / "double.py"
    script.write_text(DOUBLE)

    def ptc(*arguments: str) -> str:
        command = [sys.executable, "-m", "ptc", *arguments, "--journal", fleet.url]
        return subprocess.run(
            [*command, "--root", str(fleet.folder)], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()

    run_id = ptc("submit", str(script), "--input", "n=4", "--tenant", "shop", "--no-config")
    assert ptc("tenant", "shop", "--max-running", "2").startswith("shop: max_running: 2")
    # No worker is there, so none has its tools.
    assert ptc("queue").splitlines()[0] == "shop\t1\t0\t2"
    assert ptc("queue").splitlines()[1].startswith(run_id)
    assert run_id in ptc("runs")
    at = "2020-01-01T06:00:00+02:00"
    early = ptc(
        "submit", str(script), "--input", "n=1", "--tenant", "shop", "--no-config", "--at", at
    )
    assert ptc("cancel", early) == f"{early} cancelled"
    assert "queued" in ptc("show", run_id)
    assert ptc("cancel", run_id[:8]) == f"{run_id} cancelled"
    assert ptc("queue") == "shop\t0\t0\t2"
