"""Subscribers own the data of their events: what they do with it changes no run and no record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Decision, RunEvent, Session, ToolContext, tool
from ptc._runs._event_log import EventLog

from ..pools import pool_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

TALKS = """
async def run(ctx, inputs):
    ctx.emit({"rows": [1]})
    ctx.progress(1, 2, "half")
    return {"rows": [1]}
"""


def spoil(value: Any, what: Any) -> None:
    """Modify an object, and the lists and objects in it."""
    for item in list(value.values()) if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            spoil(item, what)
    if isinstance(value, dict):
        value["spoiled"] = what
    else:
        value.append(what)


def spoiler(kind: str, what: Any) -> tuple[Callable[[RunEvent], None], list[Any]]:
    """A subscriber that modifies the data of events of one kind, and the data that it received."""
    spoiled: list[Any] = []

    def on_event(event: RunEvent) -> None:
        if event.kind == kind:
            spoil(event.value, what)
            spoiled.append(event.value)

    return on_event, spoiled


@pytest.mark.both_loops
@pytest.mark.parametrize("what", ["text", object()], ids=["JSON", "no JSON"])
@pytest.mark.parametrize("kind", ["emitted", "progress"])
async def test_subscriber_that_modifies_a_message_of_a_script_changes_no_record(
    tmp_path: Path, kind: str, what: Any
) -> None:
    # Regression: `program` raised TypeError for an object without a JSON form.
    on_event, spoiled = spoiler(kind, what)
    async with Session(tmp_path, toolsets=(), journal=":memory:", workers=1) as session:
        result = await session.program(source=TALKS, on_event=on_event)
        recorded = [event async for event in session.follow(result.run_id)]
    assert len(spoiled) == 1
    half = {"done": 1, "total": 2, "message": "half"}
    assert result.status == "completed", result.error
    assert result.warnings == ()
    assert (result.partial, result.progress) == (({"rows": [1]},), half)
    values = {event.kind: event.value for event in recorded}
    assert (values["emitted"], values["progress"]) == ({"rows": [1]}, half)


async def test_value_that_a_tool_modifies_later_does_not_change_its_events(tmp_path: Path) -> None:
    @tool
    async def report(ctx: ToolContext) -> int:
        """Report a list as it grows."""
        rows: list[int] = []
        for row in range(3):
            rows.append(row)
            ctx.output(rows)
            ctx.log("row", rows=rows)
        return len(rows)

    async with (
        Session(tmp_path, tools=[report], toolsets=()) as session,
        session.stream("report") as stream,
    ):
        events = [event async for event in stream]
    outputs = [event.value for event in events if event.kind == "tool_output_delta"]
    logs = [event.value["data"]["rows"] for event in events if event.kind == "log"]
    assert outputs == logs == [[0], [0, 1], [0, 1, 2]]


async def test_subscriber_that_modifies_a_result_does_not_change_that_of_the_caller(
    tmp_path: Path,
) -> None:
    spoiled: list[str] = []

    def on_event(event: RunEvent) -> None:
        if event.kind == "finished":
            spoil(event.value.value, "text")
            spoil(event.value.progress, "text")
            spoil(event.value.partial[0], "text")
            spoiled.append(event.value.run_id)

    async with Session(tmp_path, toolsets=(), workers=1, on_event=on_event) as session:
        result = await session.program(source=TALKS)
    assert spoiled == [result.run_id]
    assert (result.value, result.partial) == ({"rows": [1]}, ({"rows": [1]},))
    assert result.progress == {"done": 1, "total": 2, "message": "half"}


async def test_subscriber_that_modifies_a_request_changes_no_later_request(tmp_path: Path) -> None:
    asked: list[Any] = []

    def on_event(event: RunEvent) -> None:
        if event.kind == "approval_pending":
            spoil(event.value.defaults, "text")

    async def approver(request: Any) -> Decision:
        asked.append(request.defaults)
        return Decision(approved=True)

    @tool(needs_approval=True, approval_defaults={"rows": [1]})
    async def act() -> int:
        """Act."""
        return 1

    async with Session(
        tmp_path, tools=[act], toolsets=(), approver=approver, on_event=on_event
    ) as session:
        await session.tool("act")
        await session.tool("act")
    assert asked == [{"rows": [1]}] * 2


async def test_runs_whose_record_fails_leave_no_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Regression: a worker that is reused was not given up if the last flush raised an error.
    def flush(_: EventLog) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(EventLog, "flush", flush)
    async with Session(
        tmp_path, toolsets=(), journal=":memory:", workers=1, reuse_workers=True
    ) as session:
        await session.warm_up()
        workers = pool_of(session)._workers
        most = len(workers) + 1
        for _ in range(5):
            with pytest.raises(OSError, match="disk is full"):
                await session.program(source="1")
        with anyio.fail_after(20):
            while len(workers) > most:
                await anyio.sleep(0.01)
