"""Numbers of events, by which a consumer drops those that a resumed run repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import RunEvent, Session, Tool, ToolContext, define_tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SOURCE = """
import asyncio
async def run(ctx, inputs):
    print('a')
    await ctx.look()
    ctx.emit(1)
    await asyncio.gather(ctx.look(), ctx.stall(), ctx.outer())
    print('b')
    return 1
"""


def tools(hanging: anyio.Event | None) -> list[Tool]:
    async def look(arguments: Any) -> int:
        return 1

    async def outer(arguments: Any, ctx: ToolContext) -> Any:
        return await ctx.call_tool("look")

    async def stall(arguments: Any) -> int:
        if hanging is not None:
            hanging.set()
            await anyio.sleep_forever()
        return 2

    schema = {"type": "object", "properties": {}}
    return [define_tool(f.__name__, "A tool.", schema, f) for f in (look, outer, stall)]


def script_events(events: list[RunEvent]) -> list[tuple[int, str, str]]:
    kinds = ("stdout", "emitted")
    return [(e.number, e.kind, e.text) for e in events if e.kind in kinds]


async def test_repeated_events_of_a_resumed_run_have_the_same_numbers(tmp_path: Path) -> None:
    hanging, first, second = anyio.Event(), list[RunEvent](), list[RunEvent]()
    async with (
        Session(tmp_path, tools=tools(hanging), toolsets=()) as session,
        anyio.create_task_group() as group,
    ):

        async def run() -> None:
            await session.program(source=SOURCE, run_id="r", on_event=first.append)

        group.start_soon(run)
        with anyio.fail_after(20):
            await hanging.wait()
        group.cancel_scope.cancel()
    async with Session(tmp_path, tools=tools(None), toolsets=()) as session:
        result = await session.resume("r", on_event=second.append)
    assert result.ok
    assert script_events(first) == [(1, "stdout", "a\n"), (3, "emitted", "")]
    assert script_events(second) == [(7, "stdout", "b\n")]
    called = {(e.number, e.call.tool) for e in [*first, *second] if e.call and not e.call.parent}
    assert called == {(2, "look"), (4, "look"), (5, "stall"), (6, "outer")}
    nested = {e.number for e in [*first, *second] if e.call and e.call.parent}
    assert nested == {6}, "calls of a tool have the number of its call"
    assert first[0].kind == "started"
    assert first[0].number == 0


async def test_events_after_the_last_reply_are_repeated_with_their_numbers(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    await ctx.look()\n    print('x')\n    ctx.emit(2)\n"
    source += "    await ctx.stall()\n"
    hanging, first, second = anyio.Event(), list[RunEvent](), list[RunEvent]()
    async with (
        Session(tmp_path, tools=tools(hanging), toolsets=()) as session,
        anyio.create_task_group() as group,
    ):

        async def run() -> None:
            await session.program(source=source, run_id="r", on_event=first.append)

        group.start_soon(run)
        with anyio.fail_after(20):
            await hanging.wait()
        group.cancel_scope.cancel()
    async with Session(tmp_path, tools=tools(None), toolsets=()) as session:
        assert (await session.resume("r", on_event=second.append)).ok
    assert (
        script_events(first) == script_events(second) == [(2, "stdout", "x\n"), (3, "emitted", "")]
    )


async def test_events_of_a_corrected_script_name_its_revision(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    async with Session(tmp_path, tools=tools(None), toolsets=()) as session:
        await session.program(source="print('a')\n1/0", run_id="r")
        await session.resume("r", source="print('b')\n1", on_event=events.append)
    printed = [(e.revision, e.number, e.text) for e in events if e.kind == "stdout"]
    assert printed == [(2, 1, "b\n")]
