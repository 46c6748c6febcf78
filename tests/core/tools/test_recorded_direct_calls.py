"""`Session(record_direct_calls=True)`: a direct call is recorded as a run of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from ptc import Allow, Effect, RunEvent, Session, SessionClosedError, ToolContext, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

booked: dict[str, str] = {}
made: list[str] = []


class Keys(BaseModel):
    api_key: str


def cancel(effect: Effect) -> None:
    booked.pop(effect.value, None)


@tool(side_effect=True, idempotent=True, revert=cancel)
async def book(seat: str) -> str:
    """Book a seat."""
    booked[seat] = seat
    return seat


@tool(side_effect=True, uses_key=True, needs_approval=True)
async def pay(ctx: ToolContext, cents: int) -> str:
    """Pay."""
    made.append(str(ctx.idempotency_key))
    return f"paid {cents}"


@tool(env=Keys)
async def leak(ctx: ToolContext, word: str) -> str:
    """Report a secret."""
    return f"{word} {ctx.env.api_key}"


@tool(side_effect=True, idempotent=True)
async def chain(ctx: ToolContext, seat: str) -> str:
    """Book a seat with another tool."""
    return str(await ctx.call_tool("book", seat=seat))


@tool(side_effect=True)
async def hang(ctx: ToolContext) -> None:
    """Never return."""
    made.append("hang")
    await anyio.sleep_forever()


SECRET = "s3cr3t-value"


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    booked.clear()
    made.clear()
    async with Session(
        tmp_path,
        tools=[book, pay, leak, chain, hang],
        toolsets=(),
        journal=":memory:",
        env={"api_key": SECRET},
        record_direct_calls=True,
    ) as opened:
        yield opened


async def test_direct_call_is_a_recorded_run_with_its_nested_calls(session: Session) -> None:
    assert (await session.tool("chain", {"seat": "4A"})).value == "4A"
    (run,) = await session.history.runs()
    assert (run.status, run.filename) == ("completed", "direct call")
    rows = (await session.history.recorded(run.run_id)).calls
    assert [(row.path, row.tool) for row in rows] == [("1", "chain"), ("1.1", "book")]
    undone = await session.rollback(run.run_id)
    assert booked == {}
    assert ("book", "reverted") in [(step.tool, step.status) for step in undone.steps]


async def test_failed_direct_call_is_recorded_with_its_error(session: Session) -> None:
    result = await session.tool("book", {"seat": 3})
    assert not result.ok
    (run,) = await session.history.runs()
    assert run.status == "failed"
    assert b"tool_error" in ((await session.history.run(run.run_id)).result or b"")


async def test_direct_call_awaiting_approval_pauses_durably_and_is_resumed(
    session: Session,
) -> None:
    paused = await session.tool("pay", {"cents": 5})
    assert paused.error is not None
    assert paused.error.code == "paused"
    run_id = str(paused.error.details["run_id"])
    assert made == []
    (waiting,) = await session.history.pending(run_id)
    assert (waiting.tool, waiting.arguments) == ("pay", {"cents": 5})
    await session.history.approve(run_id, arguments={"cents": 4}, by="ann")
    resumed = await session.resume(run_id)
    assert resumed.unwrap() == "paid 4"
    assert made == [waiting.idempotency_key]
    assert (await session.history.run(run_id)).status == "completed"


async def test_record_of_a_direct_call_has_no_secrets(session: Session) -> None:
    events: list[RunEvent] = []
    async with session.stream("leak", {"word": SECRET}) as stream:
        events = [event async for event in stream]
    (run,) = await session.history.runs()
    assert {event.run_id for event in events} == {run.run_id}
    rows = repr((run, await session.history.recorded(run.run_id)))
    assert SECRET not in rows
    assert "[secret api_key]" in rows


async def test_cancelled_direct_call_is_recorded_with_an_unknown_effect(session: Session) -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(session.tool, "hang")
            while not made:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    (run,) = await session.history.runs()
    assert run.status == "cancelled"
    (row,) = (await session.history.recorded(run.run_id)).calls
    assert row.end is not None
    assert row.end.status == "unknown"


async def test_closing_the_session_ends_a_recorded_call(tmp_path: Path) -> None:
    problems: list[BaseException] = []

    ended: list[str] = []
    started = anyio.Event()

    def note(event: RunEvent) -> None:
        ended.append(event.kind)
        started.set()

    session = Session(
        tmp_path,
        tools=[hang],
        toolsets=(),
        journal=":memory:",
        record_direct_calls=True,
        on_event=note,
    )

    async def call() -> None:
        with pytest.raises(SessionClosedError, match="closed during the call of hang") as caught:
            await session.tool("hang")
        problems.append(caught.value)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group, session:
            group.start_soon(call)
            await started.wait()
    assert len(problems) == 1
    assert ended == ["tool_started", "tool_finished"]


async def test_rules_of_a_direct_call_are_required_again_on_resume(session: Session) -> None:
    rules = [Allow("pay", cents=5)]
    paused = await session.tool("pay", {"cents": 5}, allowed_tools=rules)
    assert paused.error is not None
    run_id = str(paused.error.details["run_id"])
    await session.history.approve(run_id, by="ann")
    resumed = await session.resume(run_id, allowed_tools=rules)
    assert resumed.unwrap() == "paid 5"


async def test_programs_called_as_a_tool_are_recorded_once(session: Session) -> None:
    assert (await session.tool("program", {"source": "1 + 1"})).value == 2
    assert [run.filename for run in await session.history.runs()] == ["script.py"]
