"""Gauges of the pool, the queue and the lease, and the cost of runs."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, define_tool
from ptc._queue._observed import ObservedWorker
from ptc._queue._worker import Worker
from ptc._session._session import report_gauges
from ptc.errors import JournalError
from ptc.journal._sample import Heartbeat, QueueSample, TenantSample
from ptc.models import ModelUsage
from ptc.models._usage import report_usage

from .recorded import Recorded

pytestmark = pytest.mark.anyio
OBJECT = {"type": "object", "properties": {}}
SOURCE = "async def run(ctx, inputs): return await ctx.ask()"


async def test_pool_has_its_size_and_its_idle_and_busy_workers(tmp_path: Path) -> None:
    recorded, started, go = Recorded(), anyio.Event(), anyio.Event()

    async def ask(arguments: Any) -> int:
        started.set()
        await go.wait()
        return 1

    tools = [define_tool("ask", "Wait.", OBJECT, ask)]
    async with Session(
        tmp_path, tools=tools, toolsets=(), journal=":memory:", workers=2,
        telemetry=recorded.telemetry,
    ) as session:  # fmt: skip
        assert recorded.points("ptc.pool.size") == [({}, 2)]
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: session.program(source=SOURCE))
            with anyio.fail_after(20):
                await started.wait()
            states = {
                attributes["ptc.pool.state"]: value
                for attributes, value in recorded.points("ptc.pool.workers")
            }
            assert states["busy"] >= 1
            assert states.keys() == {"busy", "idle"}
            go.set()
        async with Session(
            tmp_path, toolsets=(), journal=":memory:", workers=3, telemetry=recorded.telemetry
        ):
            assert recorded.points("ptc.pool.size") == [({}, 5)]


async def test_session_that_is_closed_has_no_gauges_and_is_not_held(tmp_path: Path) -> None:
    recorded = Recorded()
    session = Session(tmp_path, toolsets=(), journal=":memory:", telemetry=recorded.telemetry)
    async with session:
        assert recorded.points("ptc.pool.size") == [({}, 4)]
    assert recorded.points("ptc.pool.size") == []
    reference = weakref.ref(session)
    del session
    gc.collect()
    assert reference() is None


async def test_cost_of_runs_is_added_up(tmp_path: Path) -> None:
    recorded = Recorded()

    async def ask(arguments: Any) -> int:
        report_usage(ModelUsage(requests=1, input_tokens=10), cost=0.25)
        return 1

    tools = [define_tool("ask", "Ask a model.", OBJECT, ask)]
    async with Session(
        tmp_path, tools=tools, toolsets=(), journal=":memory:", telemetry=recorded.telemetry
    ) as session:
        for _ in range(2):
            assert (await session.program(source=SOURCE)).ok
    assert recorded.points("ptc.cost") == [({}, 0.5)]


class Store:
    """The part of a journal that a worker observes."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat()
        self.fails = False

    async def sample_queue(self) -> QueueSample:
        if self.fails:
            raise JournalError("the store cannot be reached")
        return QueueSample([TenantSample("a", 3, 1, 12.0), TenantSample("b", 4, 0, 2.0)], 0, 0)


async def test_worker_reports_its_lease_and_the_queue(tmp_path: Path) -> None:
    recorded, store = Recorded(), Store()
    async with Session(
        tmp_path, toolsets=(), journal=":memory:", telemetry=recorded.telemetry
    ) as session:
        worker = Worker(session, slots=1, on_outcome=lambda _: None)
        observed = ObservedWorker(worker, session, store, slots=1, lease_seconds=10)
        async with anyio.create_task_group() as group:
            group.start_soon(observed.report)
            with anyio.fail_after(10):
                while not recorded.points("ptc.queue.depth"):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert recorded.points("ptc.queue.depth") == [({}, 7)]
        assert recorded.points("ptc.queue.age") == [({}, 12.0)]
        store.heartbeat.confirmed = time.monotonic() - 5
        ((_, age),) = recorded.points("ptc.lease.age")
        assert 5 <= age < 6


async def test_queue_of_a_store_that_does_not_answer_is_missing(tmp_path: Path) -> None:
    recorded, store = Recorded(), Store()
    store.fails = True
    async with Session(
        tmp_path, toolsets=(), journal=":memory:", telemetry=recorded.telemetry
    ) as session:
        worker = Worker(session, slots=1, on_outcome=lambda _: None)
        observed = ObservedWorker(worker, session, store, slots=1, lease_seconds=10)
        with anyio.move_on_after(0.05):
            await observed.report()
        assert recorded.points("ptc.lease.age")
        assert recorded.points("ptc.queue.depth") == []


async def test_source_that_is_off_costs_nothing(tmp_path: Path) -> None:
    class Source:
        def read(self) -> Iterator[tuple[str, float, Mapping[str, str]]]:
            yield "ptc.lease.age", 1.0, {}

    async with Session(tmp_path, toolsets=(), journal=":memory:", telemetry=False) as session:
        assert not report_gauges(session, Source().read)
