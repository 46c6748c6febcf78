"""Times in the record of a run: output, calls, attempts and the usage of models."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Retry, RunEvent, Session, Tool, ToolContext, ToolError, define_tool
from ptc._runs import _event_log
from ptc.journal import EventRow, Journal, open_journal
from ptc.models import ModelUsage
from ptc.models._prices import price_of
from ptc.models._usage import report_usage

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

_SCHEMAS = count()
OBJECT = {"type": "object", "properties": {}}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Return a function that opens the same store again."""
    if request.param == "sqlite":
        return lambda: open_journal(tmp_path / "journal.sqlite3")
    from ptc.journal._postgres._journal import PostgresJournal

    url, schema = request.getfixturevalue("postgres"), f"events_{next(_SCHEMAS)}"
    return lambda: PostgresJournal(url, schema=schema)


def hanging_tool(hanging: anyio.Event | None) -> Tool:
    async def stall(arguments: Any) -> int:
        if hanging is not None:
            hanging.set()
            await anyio.sleep_forever()
        return 2

    return define_tool("stall", "Wait.", OBJECT, stall)


async def run_until_hanging(store: Callable[[], Journal], tmp_path: Path, source: str) -> None:
    """Run a script until its tool hangs, and cancel it."""
    hanging, journal = anyio.Event(), store()
    try:
        async with (
            Session(
                tmp_path, tools=[hanging_tool(hanging)], toolsets=(), journal=journal
            ) as session,
            anyio.create_task_group() as group,
        ):

            async def run() -> None:
                await session.program(source=source, run_id="r")

            group.start_soon(run)
            with anyio.fail_after(20):
                await hanging.wait()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await journal.close()


def text_of(rows: list[EventRow], kind: str = "stdout") -> str:
    return "".join(json.loads(row.body) for row in rows if row.kind == kind)


async def test_output_is_recorded_with_its_time_and_numbers(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    source = """
import logging
async def run(ctx, inputs):
    print('a')
    print('b')
    ctx.emit({'n': 1})
    ctx.progress(1, 4, 'one')
    ctx.progress(2, 4, 'two')
    print('c')
    ctx.log('careful')
    return 1
"""
    events, journal, before = list[RunEvent](), store(), time.time_ns() // 1_000_000
    async with Session(tmp_path, toolsets=(), journal=journal) as session:
        (await session.program(source=source, run_id="r", on_event=events.append)).unwrap()
    rows = list(await journal.events("r"))
    await journal.close()
    found = [(row.kind, json.loads(row.body)) for row in rows]
    assert ("emitted", {"n": 1}) in found
    report = {"done": 2, "total": 4, "message": "two", "left_out": 1}
    assert ("progress", report) in found
    assert text_of(rows) == "a\nb\nc\n"
    assert "careful" in text_of(rows, "log")
    numbers = [row.number for row in rows]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= {event.number for event in events}
    assert numbers[-1] == max(event.number for event in events)
    after = time.time_ns() // 1_000_000
    assert all(before <= row.at_ms <= after and row.revision == 1 for row in rows)


async def test_run_without_output_has_no_events(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    journal = store()
    async with Session(tmp_path, toolsets=(), journal=journal) as session:
        (await session.program(source="async def run(ctx, inputs): return 1", run_id="r")).unwrap()
    assert list(await journal.events("r")) == []
    await journal.close()


async def test_resumed_run_records_each_message_once(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    source = """
async def run(ctx, inputs):
    print('a')
    await ctx.stall()
    print('b')
    ctx.emit(1)
    return 1
"""
    await run_until_hanging(store, tmp_path, source)
    journal = store()
    assert text_of(list(await journal.events("r"))) == "a\n"
    async with Session(
        tmp_path, tools=[hanging_tool(None)], toolsets=(), journal=journal
    ) as session:
        (await session.resume("r")).unwrap()
    rows = list(await journal.events("r"))
    assert text_of(rows) == "a\nb\n"
    assert [row.kind for row in rows] == ["stdout", "stdout", "emitted"]
    assert [row.number for row in await journal.events("r", rows[0].number, 1)] == [rows[1].number]
    await journal.close()


async def test_message_that_a_killed_host_did_not_record_is_recorded_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def store() -> Journal:
        return open_journal(tmp_path / "journal.sqlite3")

    source = "async def run(ctx, inputs):\n    print('a')\n    await ctx.stall()\n    print('b')\n"
    with monkeypatch.context() as patch:
        patch.setattr(_event_log.EventLog, "flush", lambda self: None)
        await run_until_hanging(store, tmp_path, source)
    journal = store()
    assert list(await journal.events("r")) == []
    async with Session(
        tmp_path, tools=[hanging_tool(None)], toolsets=(), journal=journal
    ) as session:
        assert (await session.resume("r")).ok
    assert text_of(list(await journal.events("r"))) == "a\nb\n"
    await journal.close()


async def test_flood_is_bounded_and_the_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_event_log, "MOST_BYTES", 50_000)
    source = """
async def run(ctx, inputs):
    for number in range(3000):
        print('x' * 100)
        ctx.progress(number, 3000)
"""
    journal = open_journal(tmp_path / "journal.sqlite3")
    async with Session(tmp_path, toolsets=(), journal=journal) as session:
        assert (await session.program(source=source, run_id="r")).ok
    rows = list(await journal.events("r"))
    await journal.close()
    assert sum(len(row.body) for row in rows) < 51_000
    assert [row.kind for row in rows].count("left_out") == 1
    assert rows[-1].kind == "left_out"
    assert "50,000 bytes" in json.loads(rows[-1].body)["reason"]
    assert len([row for row in rows if row.kind == "progress"]) < 50


async def test_recorded_call_has_its_start_its_attempts_and_its_usage(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    tries = []

    async def slow(arguments: Any, ctx: ToolContext) -> int:
        tries.append(time.time_ns() // 1_000_000)
        await anyio.sleep(0.1)
        report_usage(ModelUsage(requests=1, input_tokens=10, output_tokens=2))
        await ctx.call_tool("inner")
        if len(tries) < 3:
            raise ToolError("again", code="busy", retryable=True)
        return 1

    async def inner(arguments: Any) -> int:
        report_usage(ModelUsage(requests=1, input_tokens=5))
        return 1

    retry = Retry(max_retries=3, backoff_ms=1)
    tools = [
        define_tool("slow", "Read.", OBJECT, slow, retry=retry),
        define_tool("inner", "Read.", OBJECT, inner),
    ]
    journal, source = store(), "async def run(ctx, inputs): return await ctx.slow()"
    async with Session(tmp_path, tools=tools, toolsets=(), journal=journal) as session:
        result = await session.program(source=source, run_id="r")
    assert result.ok
    record = await journal.load("r")
    await journal.close()
    call, called = record.calls[0], result.calls[0]
    assert call.path == "1"
    assert call.end is not None
    assert call.attempt == called.attempts == len(tries) == 3
    assert abs(call.at_ms - tries[0]) <= 20
    assert abs(called.started_ms - tries[0]) <= 20
    assert call.end.at_ms - call.at_ms >= 300
    assert called.duration_ms >= 300
    assert called.usage == ModelUsage(requests=3, input_tokens=30, output_tokens=6)
    assert ModelUsage(**json.loads(call.end.usage)) == called.usage
    assert {each.usage for each in result.calls if each.parent == "1"} == {
        ModelUsage(requests=1, input_tokens=5)
    }


async def test_list_of_runs_has_the_cost_if_all_prices_are_known(
    store: Callable[[], Journal], tmp_path: Path
) -> None:
    async def ask(arguments: Any) -> int:
        cost = arguments.get("cost")
        report_usage(ModelUsage(requests=1, input_tokens=10), cost=cost)
        report_usage(ModelUsage(requests=1, input_tokens=10), cost=cost)
        return 1

    schema = {"type": "object", "properties": {"cost": {"type": "number"}}}
    tools = [define_tool("ask", "Ask a model.", schema, ask), hanging_tool(None)]
    journal = store()
    sources = {
        "priced": "await ctx.ask(cost=0.00001); await ctx.ask(cost=0.5)",
        "partly": "await ctx.ask(cost=0.5); await ctx.ask()",
        "free": "await ctx.stall()",
    }
    async with Session(tmp_path, tools=tools, toolsets=(), journal=journal) as session:
        for name, calls in sources.items():
            source = f"async def run(ctx, inputs): {calls}"
            result = await session.program(source=source, run_id=name)
            assert result.ok, result.error
            if name == "priced":
                assert [call.cost_usd for call in result.calls] == [0.00002, 1.0]
        costs = {run.run_id: run.cost_usd for run in await session.history.runs()}
    await journal.close()
    assert costs == {"priced": pytest.approx(1.00002), "partly": None, "free": None}


def test_price_of_a_known_model_is_found() -> None:
    pytest.importorskip("genai_prices", reason="pip install 'ptc-host[models]'")
    usage = ModelUsage(requests=1, input_tokens=1_000_000)
    assert price_of("openai:gpt-4o", usage) == 2.5
    assert price_of("openai:no-such-model", usage) is None
    assert price_of("scripted", usage) is None
