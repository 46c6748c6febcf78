"""Decisions about pending calls through a session."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import (
    ApprovalRequest,
    BlockingSession,
    Decision,
    JournalError,
    PendingCall,
    Retry,
    RunResult,
    Session,
    ToolContext,
    UsageError,
    tool,
)
from ptc.journal._statements import UNDECIDED

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PAY = "async def run(ctx, inputs):\n    return await ctx.pay(inputs['cents'])\n"


@tool(
    side_effect=True,
    idempotent=True,
    needs_approval=True,
    approval_prompt=lambda arguments: f"Pay {arguments['cents']}?",
)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


def options(root: Path, **more: Any) -> dict[str, Any]:
    journal = root.parent / f"{root.name}.sqlite3"
    return {"root": root, "tools": [pay], "toolsets": (), "workers": 1, "journal": journal} | more


async def start(session: Session, cents: int, run_id: str | None = None) -> str:
    result = await session.program(
        source=PAY, inputs={"cents": cents}, allowed_tools=["pay"], run_id=run_id
    )
    assert result.status == "paused"
    return result.run_id


async def test_pending_lists_the_calls_of_all_runs_oldest_first(tmp_path: Path) -> None:
    async with Session(**options(tmp_path, approvals_expire_ms=60_000)) as session:
        names = [await start(session, n) for n in (1, 2, 3)]
        found = await session.pending()
        assert [call.run_id for call in found] == names
        first = found[0]
        assert (first.tool, first.line, first.prompt) == ("pay", 2, "Pay 1?")
        assert first.expires_ms == first.requested_ms + 60_000
        assert await session.pending(names[1]) == (found[1],)
        await session.approve(names[0], by="ann")
        assert [call.run_id for call in await session.pending()] == names[1:], (
            "a decided one is gone"
        )
        await session.rollback(names[1])
        assert [call.run_id for call in await session.pending()] == names[2:], (
            "so is a rolled back one"
        )
        with pytest.raises(JournalError, match="there is no run"):
            await session.pending("nothing")
    async with Session(**options(tmp_path)) as later:
        assert [call.run_id for call in await later.pending()] == names[2:]


async def test_pending_calls_are_found_by_an_index(tmp_path: Path) -> None:
    made = options(tmp_path)
    async with Session(**made) as session:
        await start(session, 1)
    with sqlite3.connect(made["journal"]) as db:
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {UNDECIDED}")]
    db.close()
    assert any("INDEX paused_runs" in step for step in plan), plan
    assert not any(step.startswith("SCAN") and "paused_runs" not in step for step in plan), plan


async def test_tool_knows_that_its_call_was_approved(tmp_path: Path) -> None:
    @tool(side_effect=True, idempotent=True, needs_approval=lambda found: found["cents"] > 10)
    async def give(ctx: ToolContext, cents: int) -> bool:
        """Give."""
        return ctx.approved

    async with Session(**options(tmp_path, tools=[give])) as session:
        source = "async def run(ctx, inputs):\n    return [await ctx.give(5), await ctx.give(50)]\n"
        paused = await session.program(source=source, allowed_tools=["give"])
        done = await session.approve(paused.run_id, by="ann", resume=True)
    assert done.value == [False, True]


GIVE = """async def run(ctx, inputs):
    return [await ctx.give(5), await ctx.give(50), await ctx.give(51)]
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("effect", [True, False])
async def test_tool_requires_approval_while_it_runs(
    tmp_path: Path, effect: bool, repeatable: bool
) -> None:
    made = []

    @tool(side_effect=effect, idempotent=repeatable)
    async def give(ctx: ToolContext, cents: int) -> int:
        """Give."""
        if cents > 10:
            ctx.require_approval()
        made.append(cents)
        return cents

    async with Session(**options(tmp_path, tools=[give])) as session:
        paused = await session.program(source=GIVE, allowed_tools=["give"])
        [call] = paused.pending
        assert (call.call, call.kind, made) == ("2", "approval", [5])
        again = await session.resume(paused.run_id)
        assert (again.status, made) == ("paused", [5])
        await session.approve(paused.run_id, by="ann", arguments={"cents": 40})
    async with Session(**options(tmp_path, tools=[give])) as session:
        paused = await session.resume(paused.run_id)
        assert ([row.call for row in paused.pending], made) == (["3"], [5, 40])
        done = await session.reject(paused.run_id, by="ann", comment="no", resume=True)
    assert (done.status, made) == ("failed", [5, 40])
    assert done.error is not None
    assert "rejected by ann: no" in done.error.message
    statuses = [row.status for row in done.calls]
    assert statuses == ["succeeded", "succeeded", "not_started"]


async def test_nested_call_requires_approval_while_it_runs(tmp_path: Path) -> None:
    made = []

    @tool(
        side_effect=True, idempotent=True, retry=Retry(max_retries=2, should_retry=lambda _: True)
    )
    def give(ctx: ToolContext, cents: int) -> int:
        """Give."""
        made.append(f"asked {ctx.attempt}")
        ctx.require_approval()
        made.append("given")
        return cents

    @tool(side_effect=True, idempotent=True)
    async def pay_twice(ctx: ToolContext, cents: int) -> int:
        """Give twice."""
        found: int = await ctx.call_tool("give", cents=cents)
        return 2 * found

    async with Session(**options(tmp_path, tools=[give, pay_twice])) as session:
        source = "async def run(ctx, inputs):\n    return await ctx.pay_twice(4)"
        paused = await session.program(source=source, allowed_tools=["pay_twice", "give"])
        assert ([row.call for row in paused.pending], made) == (["1.1"], ["asked 1"])
        done = await session.approve(paused.run_id, by="ann", resume=True)
    assert (done.value, made) == (8, ["asked 1", "asked 1", "given"])


async def test_approver_decides_for_a_tool_that_requires_it_while_it_runs(tmp_path: Path) -> None:
    @tool(side_effect=True, idempotent=False)
    async def give(ctx: ToolContext, cents: int) -> int:
        """Give."""
        ctx.require_approval()
        return cents

    async def approve(request: ApprovalRequest) -> Decision:
        return Decision(request.arguments["cents"] == 5, by="ann")

    @tool(cache=True)
    async def look(ctx: ToolContext) -> str:
        """Look."""
        ctx.require_approval()
        return "secret"

    async with Session(**options(tmp_path, tools=[give, look], approver=approve)) as session:
        found = await session.tool("look", {})
        assert found.error is not None, "a cached result would need no approval"
        assert found.error.code == "approval_required"
        result = await session.program(source=GIVE, allowed_tools=["give"])
        assert [row.status for row in result.calls] == ["succeeded", "failed"]
        assert (await session.tool("give", {"cents": 5})).value == 5


async def test_decision_can_resume_the_run(tmp_path: Path) -> None:
    async with Session(**options(tmp_path)) as session:
        run = await start(session, 500)
        result = await session.approve(run, by="ann", arguments={"cents": 50}, resume=True)
        assert result.unwrap() == 50
        (decision,) = (await session.history.recorded(run)).decisions
        assert (decision.action, decision.by) == ("approve", "ann")
        refused = await session.reject(await start(session, 9), by="bob", resume=True)
        assert refused.status == "failed"
        assert "rejected by bob" in (refused.error.message if refused.error else "")


@pytest.mark.parametrize("by", ["", "  ", "a\nb", "x" * 201, None])
async def test_decision_without_a_name_is_refused_and_not_recorded(tmp_path: Path, by: Any) -> None:
    async with Session(**options(tmp_path)) as session:
        run = await start(session, 1)
        for decide in (session.approve, session.reject):
            with pytest.raises(UsageError, match="by must name who decides"):
                await decide(run, by=by)
        assert len(await session.pending(run)) == 1


async def test_invalid_edited_arguments_are_refused_and_not_recorded(tmp_path: Path) -> None:
    async with Session(**options(tmp_path)) as session:
        run = await start(session, 1)
        with pytest.raises(UsageError, match="the edited arguments are not valid"):
            await session.approve(run, by="ann", arguments={"cents": "many"}, resume=True)
        assert len(await session.pending(run)) == 1


async def test_on_approval_receives_each_pending_call_once_it_is_durable(tmp_path: Path) -> None:
    seen: list[PendingCall] = []

    async def note(call: PendingCall) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(call)
        with sqlite3.connect(made["journal"]) as other:
            (count,) = other.execute("SELECT count(*) FROM pending").fetchone()
        other.close()
        assert count == 1

    made = options(tmp_path, on_approval=note)
    async with Session(**made) as session:
        run = await start(session, 1)
        assert seen == list(await session.pending(run))


async def test_failing_on_approval_is_logged_and_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: PendingCall) -> None:
        raise ZeroDivisionError

    async with Session(**options(tmp_path, on_approval=broken)) as session:
        run = await start(session, 1)
        assert len(await session.pending(run)) == 1
    assert f"on_approval failed for call 1 of run {run}" in caplog.text
    with pytest.raises(UsageError, match="on_approval"):
        Session(**options(tmp_path, on_approval="mail"))


def test_blocking_session_decides_and_resumes(tmp_path: Path) -> None:
    with BlockingSession(**options(tmp_path)) as session:
        result = session.program(source=PAY, inputs={"cents": 3}, allowed_tools=["pay"])
        (call,) = session.pending()
        assert call.run_id == result.run_id
        resumed = session.approve(call.run_id, call.call, by="ann", resume=True)
        assert resumed.unwrap() == 3
        assert session.pending() == ()


TWICE = "async def run(ctx, inputs):\n    return [await ctx.pay(1), await ctx.pay(2)]\n"


async def test_record_of_an_edited_call_has_the_decided_arguments(tmp_path: Path) -> None:
    async with Session(**options(tmp_path)) as session:
        first = await session.program(source=TWICE, allowed_tools=["pay"])
        edited = await session.approve(first.run_id, by="ann", arguments={"cents": 7}, resume=True)
        assert isinstance(edited, RunResult)
        assert [call.decided_arguments for call in edited.calls] == ['{"cents":7}', None]
        # The script receives the recorded outcome of the first call.
        done = await session.approve(first.run_id, by="ann", resume=True)
        assert isinstance(done, RunResult)
        assert (done.value, done.calls[0].arguments) == ([7, 2], '{"cents":1}')
        assert [call.decided_arguments for call in done.calls] == ['{"cents":7}', None]
        events = [event async for event in session.follow(first.run_id)]
    shown = [event.call.decided_arguments for event in events if event.call is not None]
    assert shown.count('{"cents":7}') >= 1


async def test_approver_that_returns_the_requested_arguments_has_edited_nothing(
    tmp_path: Path,
) -> None:
    async def approve(request: ApprovalRequest) -> Decision:
        arguments = request.arguments if request.arguments["cents"] == 1 else {"cents": 5}
        return Decision(True, arguments=arguments, by="ann")

    async with Session(**options(tmp_path), approver=approve) as session:
        result = await session.program(source=TWICE, allowed_tools=["pay"])
    assert [call.decided_arguments for call in result.calls] == [None, '{"cents":5}']


async def test_interrupted_call_is_pending_with_its_decided_arguments(tmp_path: Path) -> None:
    started = anyio.Event()

    @tool(side_effect=True, needs_approval=True)
    async def wire(cents: int, context: ToolContext) -> int:
        """Pay, without an end."""
        started.set()
        await anyio.sleep_forever()
        return cents

    source = PAY.replace("pay", "wire")
    async with Session(**options(tmp_path, tools=[wire])) as session:
        paused = await session.program(source=source, inputs={"cents": 9}, allowed_tools=["wire"])
        await session.approve(paused.run_id, by="ann", arguments={"cents": 4})
        async with anyio.create_task_group() as group:
            group.start_soon(session.resume, paused.run_id)
            await started.wait()
            group.cancel_scope.cancel()
        (call,) = (await session.resume(paused.run_id)).pending
    assert (call.kind, call.arguments) == ("unknown", {"cents": 4})
