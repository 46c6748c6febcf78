"""Undoing what a run did: in which order, told of what, and going on after anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, SecretStr

from ptc import (
    BlockingSession,
    Decision,
    Effect,
    Session,
    SessionClosedError,
    Tool,
    ToolContext,
    ToolError,
    UsageError,
    define_tool,
    get_tool_metadata,
)
from ptc._records._result import CallStatus
from ptc.errors import JournalError
from ptc.journal._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    PendingKind,
    PendingRow,
    RunRow,
)

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}


class World:
    """Tools whose reverts are told to a list, and may be made to fail."""

    def __init__(self) -> None:
        self.told: list[Effect] = []
        self.keys: dict[int, str | None] = {}
        self.fails: set[str] = set()
        self.hangs: set[str] = set()
        self.hanging = anyio.Event()

    @property
    def undone(self) -> list[str]:
        return [effect.call for effect in self.told]

    async def revert(self, effect: Effect) -> None:
        self.told.append(effect)
        if effect.call in self.fails:
            raise ToolError(f"call {effect.call} is stuck")
        if effect.call in self.hangs:
            self.hanging.set()
            await anyio.sleep_forever()

    async def work(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        n = arguments.get("n", 0)
        self.keys[n] = ctx.idempotency_key
        if n < 0:
            raise ToolError("below zero")
        if ctx.tool_name == "wrap":
            await ctx.call_tool("put", n=n + 1)
        return {"receipt": 10 * n}

    @property
    def tools(self) -> list[Tool]:
        return [
            define_tool("look", "Look.", ANY, self.work),
            define_tool("pay", "Pay.", ANY, self.work, side_effect=True),
            define_tool(
                "put", "Put.", ANY, self.work, side_effect=True, idempotent=True, revert=self.revert
            ),
            define_tool(
                "ask", "Ask.", ANY, self.work, side_effect=True, needs_approval=True,
                revert=self.revert,
            ),
            define_tool(
                "wrap", "Wrap.", ANY, self.work, side_effect=True, idempotent=True,
                revert=self.revert,
            ),
        ]  # fmt: skip

    def session(self, root: Path, **options: Any) -> Session:
        return Session(root, tools=self.tools, toolsets=(), **options)


def call(
    path: str, tool: str = "put", status: CallStatus | None = "succeeded", at: int = 0
) -> CallRow:
    """A recorded call; one that ended at a later time for a higher number."""
    at = at or 1_000 + int(path.partition(".")[0])
    start = CallRow(path, tool, b'{"n":%d}' % at, f"key {path}", True, 1, 1, at)
    if status is None:
        return start
    ok = status == "succeeded"
    body = b'[true,false,{"receipt":%d}]' % at if ok else b'[false,false,{"message":"no"}]'
    return start._replace(end=CallEnd(status, ok, body, at, at / 1_000))


def recorded(session: Session, *entries: Any, status: str = "completed") -> None:
    """Write a run ``r`` with these entries into the session's journal."""
    journal = session.history.journal
    row = RunRow("r", "1", "script.py", b"{}", b"{}", 1, 0.0, 1)
    lease = journal.start_run(row)
    for entry in entries:
        journal.append(lease, entry)
    if status == "running":
        journal.release(lease)
    else:
        journal.end_run(lease, status, b"{}", 5)


def told(steps: Any) -> list[tuple[str, str]]:
    return [(step.call, step.status) for step in steps]


SCRIPT = """
import asyncio
async def run(ctx, inputs):
    await ctx.look(n=1)
    await ctx.put(n=2)
    await ctx.pay(n=3)
    try:
        await ctx.put(n=-1)
    except ToolError:
        pass
    await ctx.put(n=4)
    await ctx.wrap(n=6)
"""


async def test_effects_are_reverted_newest_first_with_their_recorded_data(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        done = await session.program(
            source=SCRIPT, allowed_tools=["look", "put", "pay", "wrap"], run_id="r"
        )
        assert done.ok, done.error
        result = await session.rollback("r")
    assert told(result.steps) == [
        ("6", "reverted"),
        ("6.1", "reverted"),
        ("5", "reverted"),
        ("3", "no_revert"),
        ("2", "reverted"),
    ], "a tool before what it called; what failed or only looked is not there"
    assert result.ok
    assert told(result.left) == [("3", "no_revert")]
    assert world.undone == ["6", "6.1", "5", "2"]
    effect = world.told[-1]
    assert (effect.tool, effect.run_id, effect.root) == ("put", "r", tmp_path.resolve())
    assert (effect.arguments, effect.value, effect.lost) == ({"n": 2}, {"receipt": 20}, None)
    assert effect.idempotency_key == world.keys[2]
    assert len({effect.revert_key for effect in world.told} | {*world.keys.values()}) == 4 + 7


async def test_failed_revert_stops_the_reverts_of_older_calls(tmp_path: Path) -> None:
    world = World()
    world.fails.add("2")
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2"), call("3"))
        first = await session.rollback("r")
        assert told(first.steps) == [("3", "reverted"), ("2", "failed"), ("1", "waiting")]
        assert first.steps[1].error == "call 2 is stuck"
        assert not first.ok
        world.fails.clear()
        second = await session.rollback("r")
        assert told(second.steps) == [("3", "reverted"), ("2", "reverted"), ("1", "reverted")]
        assert second.steps[1].error is None
        third = await session.rollback("r")
        assert third.steps == second.steps, "there is nothing left to do, and it says what was done"
    assert world.undone == ["3", "2", "2", "1"]
    assert [effect.attempt for effect in world.told] == [1, 1, 2, 1]
    assert world.told[1].revert_key == world.told[2].revert_key


DIES = """
import os, sys
from pathlib import Path
import anyio
from ptc import Effect, Session, define_tool

def revert(effect):
    print(effect.call, effect.attempt, flush=True)
    if effect.call == "2":
        os._exit(9)

def work(arguments):
    return None

put = define_tool("put", "Put.", {"type": "object"}, work, side_effect=True, revert=revert)

async def main():
    async with Session(sys.argv[1], tools=[put], toolsets=()) as session:
        await session.rollback("r")

anyio.run(main)
"""


async def test_interrupted_rollback_resumes_at_the_interrupted_step(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2"), call("3"))
    died = await anyio.run_process(
        [sys.executable, "-W", "ignore", "-c", DIES, str(tmp_path)],
        check=False,
    )
    assert (died.returncode, died.stdout) == (9, b"3 1\n2 1\n"), died.stderr
    async with world.session(tmp_path) as session:
        result = await session.rollback("r")
    assert told(result.steps) == [("3", "reverted"), ("2", "reverted"), ("1", "reverted")]
    assert [(e.call, e.attempt) for e in world.told] == [("2", 2), ("1", 1)]


async def test_cancelled_rollback_can_be_repeated(tmp_path: Path) -> None:
    world = World()
    world.hangs.add("1")
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2"))
        async with anyio.create_task_group() as group:
            group.start_soon(session.rollback, "r")
            with anyio.fail_after(20):
                await world.hanging.wait()
            with pytest.raises(JournalError, match="is being executed"):
                await session.rollback("r")
            group.cancel_scope.cancel()
        world.hangs.clear()
        assert told((await session.rollback("r")).steps) == [("2", "reverted"), ("1", "reverted")]
    assert world.undone == ["2", "1", "1"]


async def test_rolled_back_run_cannot_be_resumed_or_approved(tmp_path: Path) -> None:
    world = World()
    source = "async def run(ctx, inputs):\n    await ctx.put(n=1)\n    await ctx.ask(n=2)\n"
    options: dict[str, Any] = {"source": source, "allowed_tools": ["put", "ask"]}
    async with world.session(tmp_path) as session:
        assert (await session.program(**options, run_id="r")).status == "paused"
        assert str(await session.history.warning_of("r")).count("- put") == 1
        assert told((await session.rollback("r")).steps) == [("1", "reverted")]
        with pytest.raises(JournalError, match="was rolled back; run its script again"):
            await session.resume("r")
        with pytest.raises(UsageError, match="was rolled back; pass another run_id"):
            await session.program(**options, run_id="r")
        with pytest.raises(UsageError, match="no longer need a decision"):
            await session.history.approve("r", by="ann")
        assert await session.history.pending("r") == ()
        [row] = await session.history.runs()
        assert row.status == "cancelled"
        assert row.rolled_back_ms is not None
        assert await session.history.warning_of("r") is None, "what is undone is not warned of"
        assert await session.history.forget(0) == 1
        with pytest.raises(JournalError, match="there is no run"):
            await session.rollback("r")


async def test_unknown_and_irreversible_effects_are_listed_but_not_reverted(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        recorded(
            session,
            call("1"),
            call("2", "pay"),
            call("3", status="unknown"),
            call("4", status="failed"),
            call("5", status="not_started"),
            call("6", status=None),
            status="running",
        )
        result = await session.rollback("r")
    assert told(result.steps) == [
        ("6", "unknown"),
        ("3", "unknown"),
        ("2", "no_revert"),
        ("1", "reverted"),
    ]
    assert world.undone == ["1"]


async def test_recorded_decisions_about_unknown_outcomes_guide_the_rollback(tmp_path: Path) -> None:
    def asked(path: str, kind: PendingKind = "unknown") -> PendingRow:
        return PendingRow(path, kind, "put", "f", b"{}", 1)

    def said(path: str, action: Any, value: bytes) -> DecisionRow:
        kind: PendingKind = "approval" if action == "approve" else "unknown"
        return DecisionRow(path, kind, action, value, "ann", "", 1)

    world = World()
    async with world.session(tmp_path) as session:
        recorded(
            session,
            *(asked("1"), call("1", status=None), said("1", "done", b'{"receipt":7}')),
            *(asked("2"), call("2", status=None), said("2", "failed", b"null")),
            *(asked("3"), call("3", status=None), said("3", "again", b"null")),
            *(asked("4", "approval"), call("4"), said("4", "approve", b'{"n":44}')),
            status="running",
        )
        result = await session.rollback("r")
    assert told(result.steps) == [("3", "unknown"), ("1", "reverted"), ("4", "reverted")]
    assert world.told[0].value == {"receipt": 7}
    assert world.told[1].arguments == {"n": 44}, "what was approved in place of what was asked"


async def test_revert_receives_the_arguments_edited_by_the_approver(
    tmp_path: Path,
) -> None:
    async def approver(request: Any) -> Decision:
        return Decision(True, arguments={"n": 9}, by="ann")

    world = World()
    async with world.session(tmp_path, approver=approver) as session:
        source = "async def run(ctx, inputs):\n    return await ctx.ask(n=2)\n"
        done = await session.program(source=source, allowed_tools=["ask"], run_id="r")
        assert done.unwrap() == {"receipt": 90}
        [decision] = (await session.history.recorded("r")).decisions
        assert (decision.by, decision.value) == ("ann", b'{"n":9}')
        await session.rollback("r")
    assert world.told[0].arguments == {"n": 9}


async def test_rollback_dry_run_changes_nothing(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2", "pay"), status="paused")
        result = await session.rollback("r", dry_run=True, skip=["1"])
        assert told(result.steps) == [("2", "no_revert"), ("1", "skipped")]
        assert result.dry_run
        result = await session.rollback("r", dry_run=True)
        assert told(result.steps) == [("2", "no_revert"), ("1", "waiting")]
        [row] = await session.history.runs()
        assert (row.status, row.rolled_back_ms) == ("paused", None)
    assert world.told == []


async def test_skipped_call_remains_skipped(tmp_path: Path) -> None:
    world = World()
    world.fails.add("2")
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2"), call("3", status=None), status="running")
        await session.rollback("r")
        for wrong in ("9", "4"):
            with pytest.raises(
                UsageError,
                match=f"skip names {wrong}, which has no effect .*; calls that have: 1, 2, 3",
            ):
                await session.rollback("r", skip=["2", wrong])
        skipped = await session.rollback("r", skip=["2", "3"])
        assert told(skipped.steps) == [("3", "skipped"), ("2", "skipped"), ("1", "reverted")]
        assert skipped.ok
        assert (await session.rollback("r")).steps == skipped.steps
    assert world.undone == ["2", "1"]


async def test_rollback_with_a_missing_tool_is_refused_before_any_revert(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        recorded(session, call("1", "gone"), call("2"))
        with pytest.raises(
            UsageError,
            match=r"does not have: gone; open it with them, or pass their calls as skip=",
        ):
            await session.rollback("r")
        [row] = await session.history.runs()
        assert row.rolled_back_ms is None
        result = await session.rollback("r", skip=["1"])
    assert told(result.steps) == [("2", "reverted"), ("1", "skipped")]


async def test_revert_is_notified_that_a_large_result_was_not_recorded(tmp_path: Path) -> None:
    world = World()
    start = CallRow("1", "put", b"{}", "k", True, 1, 1, 1)
    body = b'[false,false,{"message":"over the limit"}]'
    async with world.session(tmp_path) as session:
        recorded(session, start._replace(end=CallEnd("succeeded", False, body, 2, 0.1)))
        assert told((await session.rollback("r")).steps) == [("1", "reverted")]
    assert (world.told[0].value, world.told[0].lost) == (None, "over the limit")


class Keys(BaseModel):
    token: SecretStr


def plain_failure(effect: Effect) -> None:
    raise ValueError("refused with " + effect.env.token.get_secret_value())


async def slow(effect: Effect) -> None:
    await anyio.sleep_forever()


def leaves(effect: Effect) -> None:
    sys.exit(3)


@pytest.mark.parametrize(
    ("revert", "said"),
    [
        (plain_failure, "ValueError: refused with [secret token]"),
        (slow, "longer than 20 ms"),
        (leaves, "the tool called sys.exit"),
    ],
)
async def test_failing_revert_is_reported_without_secrets(
    tmp_path: Path, revert: Callable[[Effect], Any], said: str
) -> None:
    # The others are to end by themselves, however long a busy machine takes to call them.
    put = define_tool(
        "put", "Put.", ANY, lambda arguments: None,
        side_effect=True, idempotent=True, revert=revert, env=Keys,
        timeout_ms=20 if revert is slow else 20_000,
    )  # fmt: skip
    async with Session(
        tmp_path, tools=[put], toolsets=(), env={"token": "open sesame 1234"}
    ) as session:
        recorded(session, call("1"))
        result = await session.rollback("r")
        [row] = (await session.history.recorded("r")).reverts
    assert told(result.steps) == [("1", "failed")]
    assert said in (result.steps[0].error or "")
    assert (row.status, row.error) == ("failed", result.steps[0].error)


def test_revert_is_accepted_only_for_side_effects() -> None:
    def work(arguments: Any) -> None: ...

    with pytest.raises(UsageError, match="revert is for a tool with a side effect"):
        define_tool("put", "Put.", ANY, work, revert=work)
    with pytest.raises(UsageError, match="revert must be a function of an Effect"):
        define_tool("put", "Put.", ANY, work, side_effect=True, idempotent=True, revert=3)  # type: ignore[arg-type]  # what is refused
    made = define_tool("put", "Put.", ANY, work, side_effect=True, idempotent=True, revert=work)
    metadata = get_tool_metadata(made)
    assert metadata is not None
    assert metadata.has_revert


def test_blocking_session_rolls_back_a_run(tmp_path: Path) -> None:
    world = World()
    with BlockingSession(tmp_path, tools=world.tools, toolsets=()) as session:
        recorded(session, call("1"))  # type: ignore[arg-type]  # it has the same history
        assert told(session.rollback("r", dry_run=True).steps) == [("1", "waiting")]
        assert told(session.rollback("r").steps) == [("1", "reverted")]


async def test_closing_waits_for_the_current_revert_and_starts_no_other(tmp_path: Path) -> None:
    world, closed = World(), anyio.Event()

    async def undo() -> None:
        with pytest.raises(SessionClosedError):
            await session.rollback("r")
        closed.set()

    async def first_step(effect: Effect) -> None:
        world.told.append(effect)
        world.hanging.set()
        while session._lifetime.is_open:
            await anyio.sleep(0.001)

    world.revert = first_step  # type: ignore[method-assign]  # one that waits for the closing
    session = world.session(tmp_path)
    async with anyio.create_task_group() as group:
        async with session:
            recorded(session, call("1"), call("2"))
            group.start_soon(undo)
            with anyio.fail_after(20):
                await world.hanging.wait()
        assert closed.is_set(), "closing waited for it"
    assert world.undone == ["2"]
    async with World().session(tmp_path) as other:
        assert told((await other.rollback("r", dry_run=True)).steps) == [
            ("2", "reverted"),
            ("1", "waiting"),
        ]


class DiedError(BaseException):
    """The host is gone: nothing that it would have done is done."""


@pytest.mark.parametrize("step", range(1, 7))
async def test_rollback_interrupted_at_any_step_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        recorded(session, call("1"), call("2"), call("3"))
        journal = session.history.journal
        append, steps = journal.append, iter(range(1, 100))

        def dying(lease: Any, entry: Any) -> None:
            if next(steps) == step:
                raise DiedError
            append(lease, entry)

        with monkeypatch.context() as patched:
            patched.setattr(journal, "append", dying)
            with pytest.raises(DiedError):
                await session.rollback("r")
        assert (await session.rollback("r")).ok
    cut_in = ("3", "2", "1")[(step - 1) // 2]
    # Each has a start and an end: without its start a revert is not called, without its end again.
    twice = [cut_in] if step % 2 == 0 else []
    assert sorted(world.undone, reverse=True) == world.undone, "never older before newer"
    assert sorted(world.undone) == sorted(["1", "2", "3", *twice])
    assert max(effect.attempt for effect in world.told) == 1 + len(twice)
