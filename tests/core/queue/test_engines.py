"""A run of a queue continues on the engine that started it.

The second engine is that of processes under another name, which a worker's file of tools gives it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import OtherEngineError, Session

from .conftest import WORK, Fleet, result_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

OTHER = "other (version 1)"
STEPS = """
async def run(ctx, inputs):
    found = [await ctx.work(ms=ms) for ms in inputs['ms']]
    return len(set(found))
"""


def rename(fleet: Fleet, engine: str = OTHER) -> Path:
    """Return a file of tools whose worker has an engine of another name."""
    path = fleet.folder / f"{engine.replace(' ', '_')}.py"
    text = f"from ptc._workers import _pool\n_pool.PROCESS_ENGINE = {engine!r}\n"
    path.write_text(text + fleet.tools.read_text())
    return path


async def engine_of(fleet: Fleet, run_id: str) -> str:
    async with fleet.session() as session:
        return (await session.history.run(run_id)).engine


async def test_run_that_was_not_started_is_taken_by_any_engine(fleet: Fleet) -> None:
    fleet.start(tools=rename(fleet))
    async with fleet.session() as session:
        run_id = await session.submit(source=WORK, inputs={"ms": 1})
        assert (await session.history.run(run_id)).engine == ""
        assert (await result_of(session, run_id)).status == "completed"
    assert await engine_of(fleet, run_id) == OTHER


async def test_run_waits_for_the_engine_that_started_it(fleet: Fleet) -> None:
    first = fleet.start(tools=rename(fleet), lease=1)
    async with fleet.session() as session:
        run_id = await session.submit(source=STEPS, inputs={"ms": [1, 60_000]})
        await until(lambda: len([line for line in fleet.lines() if "start" in line]) == 2)
        first.kill()
        fleet.start(lease=1)

        async def waits_for_its_engine() -> bool:
            status = await session.queue_status()
            return dict(status.unserved) == {run_id: [f"engine {OTHER}"]}

        await until(waits_for_its_engine)
        before = await session.history.run(run_id)
        # The worker that lacks the engine goes on with other runs.
        for _ in range(3):
            other = await session.submit(source=WORK, inputs={"ms": 1})
            assert (await result_of(session, other)).status == "completed"
        assert await session.history.run(run_id) == before
        with pytest.raises(OtherEngineError, match="was started on the engine other"):
            await session.resume(run_id)
        assert await session.history.run(run_id) == before
        shown = fleet.folder / "worker1.log"
        assert run_id not in shown.read_text()


async def test_runs_of_a_killed_worker_go_to_the_next_one_with_its_engine(fleet: Fleet) -> None:
    renamed = rename(fleet)
    first = fleet.start(tools=renamed, lease=1)
    async with fleet.session() as session:
        runs = [await session.submit(source=STEPS, inputs={"ms": [100] * 25}) for _ in range(4)]
        await until(lambda: len(fleet.lines()) > 12)
        plain = fleet.start(lease=1)
        await until(lambda: worker_is_ready(fleet, 1))
        first.kill()
        runs += [await session.submit(source=STEPS, inputs={"ms": [5] * 4}) for _ in range(4)]
        for run_id in runs[4:]:
            assert (await result_of(session, run_id)).status == "completed"
        fleet.start(tools=renamed, lease=1)
        engines, interrupted = set(), 0
        for run_id in runs:
            assert (await result_of(session, run_id, 60)).status == "completed"
            engine = (await session.history.run(run_id)).engine
            pids = {int(line.split()[1]) for line in fleet.lines() if run_id in line}
            # All of its calls were made on one engine, by one worker or by two.
            assert (pids == {plain.pid}) == (engine != OTHER), (run_id, engine, pids)
            assert plain.pid not in pids or len(pids) == 1
            engines.add(engine)
            interrupted += len(pids) == 2
        assert len(engines) == 2
        assert interrupted
        assert not (await session.queue_status()).unserved


def worker_is_ready(fleet: Fleet, number: int) -> bool:
    return "worker with" in (fleet.folder / f"worker{number}.log").read_text()


async def test_run_that_received_nothing_may_change_its_engine(fleet: Fleet) -> None:
    first = fleet.start("--drain-seconds", "0", tools=rename(fleet))
    async with fleet.session() as session:
        run_id = await session.submit(source="while True: pass", limits={"timeout_ms": 4_000})
        await until(lambda: has_started(session, run_id))
        assert (await session.history.run(run_id)).engine == OTHER
        first.terminate()
        first.wait(30)
        assert (await session.history.run(run_id)).engine == ""
        fleet.start()
        assert (await result_of(session, run_id)).status == "timed_out"
        assert (await session.history.run(run_id)).engine.startswith("process")


async def has_started(session: Session, run_id: str) -> bool:
    return (await session.history.run(run_id)).status == "running"


async def test_limit_of_a_tenant_counts_runs_on_the_other_engine(fleet: Fleet) -> None:
    first = fleet.start(tools=rename(fleet), lease=1)
    async with fleet.session() as session:
        await session.set_tenant("shop", max_running=1)
        held = await session.submit(source=STEPS, inputs={"ms": [1, 60_000]}, tenant="shop")

        async def has_recorded_the_first_call() -> bool:
            return any(call.end for call in (await session.history.recorded(held)).calls)

        await until(lambda: len([line for line in fleet.lines() if "start" in line]) == 2)
        # Until its result is stored, another worker would make the first call again.
        await until(has_recorded_the_first_call)
        first.kill()
        fleet.start(lease=1)  # which has the entry of the run moved to the other engine

        async def is_moved() -> bool:
            return held in (await session.queue_status()).unserved

        await until(is_moved)
        second = fleet.start(tools=rename(fleet), lease=1)
        await until(lambda: len([line for line in fleet.lines() if "start" in line]) == 3, 60)
        waiting = await session.submit(source=WORK, inputs={"ms": 1}, tenant="shop")
        other = await session.submit(source=WORK, inputs={"ms": 1}, tenant="mill")
        assert (await result_of(session, other)).status == "completed"
        assert (await session.history.run(waiting)).status == "queued"
        second.kill()
        # The run that nobody can continue does not fill the limit for ever.
        assert (await result_of(session, waiting)).status == "completed"
        await until(is_moved)
