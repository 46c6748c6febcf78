"""Partial values of running calls, for pages that another process serves."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import RunEvent, Session, ToolCall, ToolContext, tool
from ptc._calls._call import OpenCall
from ptc._calls._partial_log import PartialLog
from ptc.journal import CallRow
from ptc.models import ModelRequest

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]
SECONDS = 20


class Reports:
    """A tool that reports values and waits until it may return."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.may_end = anyio.Event()

    def as_tool(self) -> Any:
        @tool
        async def report(ctx: ToolContext) -> int:
            """Report values."""
            for value in self.values:
                ctx.output(value)
            await self.may_end.wait()
            return 7

        return report


SOURCE = "async def run(ctx, inputs):\n    return await ctx.report()\n"


async def first_call(session: Session) -> CallRow:
    """Wait for the first call of run ``r``, in the journal, and its partial value."""
    with anyio.fail_after(SECONDS):
        while True:
            if await session.history.find("r") is not None:
                calls = (await session.history.recorded("r")).calls
                if calls and calls[0].partial:
                    return calls[0]
            await anyio.sleep(0.02)


async def test_last_value_is_in_the_record_until_the_call_ends(tmp_path: Path) -> None:
    reports, file = Reports({"a": 1}, {"a": 1, "b": [2]}), tmp_path / "runs.db"
    root = tmp_path / "root"
    root.mkdir()
    async with (
        Session(root, tools=[reports.as_tool()], toolsets=(), journal=file) as session,
        Session(root, tools=(), toolsets=(), journal=file) as other,
        anyio.create_task_group() as group,
    ):
        results = []

        async def execute() -> None:
            results.append(await session.program(source=SOURCE, run_id="r"))

        group.start_soon(execute)
        call = await first_call(other)
        assert (call.partial, call.end) == (b'{"a":1,"b":[2]}', None)
        reports.may_end.set()
        with anyio.fail_after(SECONDS):
            while not results:
                await anyio.sleep(0.02)
        assert results[0].value == 7
        [call] = (await session.history.recorded("r")).calls
        assert call.partial == b""
        assert call.end is not None
        assert call.end.body == b"[true,true,7]"


async def test_subscriber_that_modifies_a_value_does_not_change_its_record(tmp_path: Path) -> None:
    value = {"rows": [1]}
    reports, received = Reports(value), list[Any]()

    def on_event(event: RunEvent) -> None:
        if event.kind == "tool_output_delta":
            event.value["rows"].append(2)
            received.append(event.value)

    async with (
        Session(tmp_path, tools=[reports.as_tool()], toolsets=(), journal=":memory:") as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(partial(session.program, source=SOURCE, run_id="r", on_event=on_event))
        assert (await first_call(session)).partial == b'{"rows":[1]}'
        reports.may_end.set()
    assert received == [{"rows": [1, 2]}]
    assert value == {"rows": [1]}


async def test_value_that_is_large_or_no_json_is_not_recorded() -> None:
    recorded: list[tuple[int, bytes]] = []
    log = PartialLog(lambda call, body: recorded.append((call.seq, body)))
    for number, value in enumerate((object(), "x" * 70_000, {"a": 1}, [2], [3]), 1):
        log.add(OpenCall(ToolCall("look", {}, seq=number)), value)
    log.forget(OpenCall(ToolCall("look", {}, seq=4)))
    with anyio.fail_after(SECONDS):
        while not recorded:
            await anyio.sleep(0.02)
    assert recorded == [(3, b'{"a":1}'), (5, b"[3]")]
    log.close()


async def test_value_of_an_interrupted_call_does_not_keep_it_from_being_repeated(
    tmp_path: Path,
) -> None:
    file, root = tmp_path / "runs.db", tmp_path / "root"
    root.mkdir()
    first, second = Reports([1]), Reports([2])
    async with anyio.create_task_group() as group:
        session = Session(root, tools=[first.as_tool()], toolsets=(), journal=file)
        async with session:
            group.start_soon(_interrupted, session)
            await first_call(session)
    second.may_end.set()
    async with Session(root, tools=[second.as_tool()], toolsets=(), journal=file) as session:
        assert (await session.resume("r")).value == 7
        [call] = (await session.history.recorded("r")).calls
        assert (call.partial, call.end is not None) == (b"", True)


async def _interrupted(session: Session) -> None:
    with pytest.raises(Exception, match="clos"):
        (await session.program(source=SOURCE, run_id="r")).unwrap()


async def answer(_: ModelRequest) -> AsyncIterator[str]:
    for part in ('{"total": 12, ', '"lines": ["tea", ', '"milk", '):
        yield part + " " * 64
    await anyio.sleep_forever()


async def test_model_streams_if_a_page_shows_the_runs_of_the_journal(tmp_path: Path) -> None:
    schema = '{"type": "object", "properties": {"total": {}, "lines": {}}}'
    source = f"""
async def run(ctx, inputs):
    return await ctx.generate_object(prompt="x", schema={schema})
"""
    file, root = tmp_path / "runs.db", tmp_path / "root"
    root.mkdir()
    async with (
        Session(root, tools=(), toolsets=(), journal=file) as page,
        Session(root, model=answer, journal=file) as session,
    ):
        await page.history.open()
        await page.history.viewers.renew()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: session.program(source=source, run_id="r"))
            call = await first_call(page)
            with anyio.fail_after(SECONDS):
                while b'"milk"' not in call.partial:
                    call = await first_call(page)
            assert b'"total":12' in call.partial
            group.cancel_scope.cancel()


@pytest.mark.parametrize("data", [{"until_ms": 1 << 50}, {"until_ms": "soon"}, {}, [1], None])
async def test_document_that_is_no_lease_means_that_nobody_watches(
    data: object, tmp_path: Path
) -> None:
    async with Session(tmp_path, tools=(), toolsets=(), journal=":memory:") as session:
        await session.history.open()
        session.history.documents.change("ptc/viewers", lambda _: data)
        assert not await session.history.viewers.are_present()
        await session.history.viewers.renew()
        document = session.history.documents.read("ptc/viewers")
        assert document is not None
        assert document.data["until_ms"] < 1 << 45, "a page replaces it"


async def test_locked_journal_delays_no_call(tmp_path: Path) -> None:
    file, root = tmp_path / "runs.db", tmp_path / "root"
    root.mkdir()
    async with Session(root, tools=(), toolsets=(), journal=file) as session:
        await session.history.open()
        with closing(sqlite3.connect(file)) as other:
            other.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(SECONDS):
                await session.history.viewers.renew()
                assert not await session.history.viewers.are_present()
            other.rollback()


async def test_nobody_watches_unless_a_page_says_so(tmp_path: Path) -> None:
    watched = []

    @tool
    async def look(ctx: ToolContext) -> None:
        """Look."""
        watched.append(await ctx.is_watched())

    source = "async def run(ctx, inputs):\n    await ctx.look()\n"
    async with Session(tmp_path, tools=[look], toolsets=(), journal=":memory:") as session:
        await session.program(source=source)
        await session.program(source=source, on_event=lambda _: None)
        await session.tool("look", {})
        await session.history.viewers.renew()
        with anyio.fail_after(SECONDS):
            while not (await session.history.viewers.are_present()):
                await anyio.sleep(0.05)
        await session.program(source=source)
    assert watched == [False, True, False, True]
