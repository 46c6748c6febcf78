"""Runs that survive: recorded, cut off, paused, resumed, retried."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel

from ptc import (
    ApprovalRequest,
    Cache,
    Decision,
    Limits,
    Public,
    Retry,
    RunResult,
    Session,
    Tool,
    ToolContext,
    ToolError,
    UsageError,
    define_tool,
    tool,
)
from ptc.errors import JournalError
from ptc.journal._location import journal_of
from ptc.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}


class World:
    """Tools whose effects are counted, and that can be made to hang."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self.keys: Counter[str | None] = Counter()
        self.hang: set[tuple[str, int]] = set()
        self.hanging = anyio.Event()

    def _tool(self, name: str, **options: Any) -> Tool:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            n = arguments.get("n", 0)
            self.calls[name, n] += 1
            if ctx.side_effect:
                self.keys[ctx.idempotency_key] += 1
            if (name, n) in self.hang:
                self.hanging.set()
                await anyio.sleep_forever()
            if n < 0:
                raise ToolError("below zero", code="negative", details={"n": n})
            return {"n": n, "twice": 2 * n}

        return define_tool(name, f"{name}.", ANY, work, **options)

    @property
    def tools(self) -> list[Tool]:
        return [
            self._tool("look"),
            self._tool("put", side_effect=True, idempotent=True),
            self._tool("pay", side_effect=True),
            self._tool("ask", side_effect=True, needs_approval=True),
        ]

    def session(self, root: Path, **options: Any) -> Session:
        return Session(root, tools=self.tools, toolsets=(), **options)


ALL = ["look", "put", "pay", "ask"]


@contextmanager
def database(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed: one that is used as a context is only committed."""
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


async def interrupt_run(world: World, root: Path, source: str, name: str, n: int) -> str:
    """Start a run and leave it when a call hangs, as a process that is killed leaves it."""
    world.hang.add((name, n))
    world.hanging = anyio.Event()
    async with world.session(root) as session, anyio.create_task_group() as group:

        async def run() -> None:
            await session.program(source=source, allowed_tools=ALL, run_id="r")

        group.start_soon(run)
        with anyio.fail_after(20):
            await world.hanging.wait()
        group.cancel_scope.cancel()
    world.hang.clear()
    return "r"


SEQUENCE = """
import asyncio, random, time, uuid
async def run(ctx, inputs):
    seen = [random.random(), str(uuid.uuid4()), time.time()]
    a = await ctx.look(n=1)
    await asyncio.sleep(0.001)
    b = await ctx.put(n=2)
    seen.append(time.time() > seen[2])
    try:
        await ctx.look(n=-1)
    except ToolError as e:
        seen.append([e.code, e.details])
    c = await asyncio.gather(*(ctx.look(n=i) for i in range(10, 20)))
    d = await ctx.put(n=3)
    print("done")
    ctx.emit("partly")
    return [a, b, len(c), d, seen, random.random()]
"""


async def test_interrupted_run_resumes_at_the_interrupted_call(tmp_path: Path) -> None:
    world = World()
    await interrupt_run(world, tmp_path, SEQUENCE, "put", 3)
    before = Counter(world.calls)
    async with world.session(tmp_path) as session:
        result = await session.resume("r")
    value = result.unwrap()
    assert value[0] == {"n": 1, "twice": 2}
    assert value[3] == {"n": 3, "twice": 6}
    assert value[4][3:] == [True, ["negative", {"n": -1}]]
    assert world.calls - before == Counter({("put", 3): 1}), "nothing else was called again"
    assert result.stdout == "done\n"
    assert result.partial == ("partly",)
    assert [c.status for c in result.calls] == ["succeeded"] * 2 + ["failed"] + ["succeeded"] * 11


async def test_resumed_run_has_the_result_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, parts = World(), World()
    async with whole.session(tmp_path / ".", journal=":memory:") as session:
        straight = (await session.program(source=SEQUENCE, allowed_tools=ALL)).unwrap()
    await interrupt_run(parts, tmp_path, SEQUENCE, "put", 3)
    async with parts.session(tmp_path) as session:
        resumed = (await session.resume("r")).unwrap()
    assert straight[:4] == resumed[:4]
    assert parts.keys.total() == 3, "put 3 was begun twice"
    assert len(parts.keys) == 2, "with the same key"


async def test_resumed_run_can_be_interrupted_again(tmp_path: Path) -> None:
    world = World()
    source = "async def run(ctx, inputs):\n    return [await ctx.look(n=i) for i in range(6)]\n"
    await interrupt_run(world, tmp_path, source, "look", 2)
    world.hang.add(("look", 4))
    world.hanging = anyio.Event()
    async with world.session(tmp_path) as session, anyio.create_task_group() as group:
        group.start_soon(session.resume, "r")
        await world.hanging.wait()
        group.cancel_scope.cancel()
    world.hang.clear()
    async with world.session(tmp_path) as session:
        assert len((await session.resume("r")).unwrap()) == 6
    assert world.calls == Counter(
        {("look", 0): 1, ("look", 1): 1, ("look", 2): 2, ("look", 3): 1, ("look", 4): 2}
        | {("look", 5): 1}
    )


@pytest.mark.parametrize(
    ("outcome", "value", "made", "given"),
    [
        ("done", {"n": 1, "receipt": 7}, 1, {"n": 1, "receipt": 7}),
        ("failed", None, 1, "failed"),
        ("again", None, 2, {"n": 1, "twice": 2}),
    ],
)
async def test_recorded_decision_about_an_interrupted_call_is_used_on_resume(
    tmp_path: Path, outcome: Any, value: Any, made: int, given: Any
) -> None:
    world = World()
    source = (
        "async def run(ctx, inputs):\n    try:\n        return await ctx.pay(n=1)\n"
        "    except ToolError as e:\n        return e.code\n"
    )
    await interrupt_run(world, tmp_path, source, "pay", 1)
    async with world.session(tmp_path) as session:
        paused = await session.resume("r")
        assert paused.status == "paused"
        (pending,) = paused.pending
        assert (pending.kind, pending.tool, pending.arguments) == ("unknown", "pay", {"n": 1})
        assert world.calls["pay", 1] == 1, "it is never made again by itself"
        await session.history.settle("r", None, outcome, value=value, by="ann")
        with pytest.raises(UsageError, match=r"decisions are final|there is no"):
            await session.history.settle("r", pending.call, "again", by="ann")
        assert (await session.resume("r")).unwrap() == given
    assert world.calls["pay", 1] == made
    assert len(world.keys) == 1


async def test_diverging_script_is_stopped_and_both_calls_are_reported(tmp_path: Path) -> None:
    world = World()
    source = (
        "async def run(ctx, inputs):\n    await ctx.look(n=1)\n    await ctx.look(n=2)\n"
        "    await ctx.put(n=3)\n    return 1\n"
    )
    await interrupt_run(world, tmp_path, source, "put", 3)
    with database(journal_of(tmp_path)) as db:
        db.execute("UPDATE runs SET source=replace(source, 'n=2', 'n=7')")
    before = Counter(world.calls)
    async with world.session(tmp_path) as session:
        result = await session.resume("r")
    assert (result.status, result.error.code if result.error else "") == ("failed", "divergence")
    assert result.error is not None
    assert 'call 2 was look({"n":2}) and now is look({"n":7}), line 3' in result.error.message
    assert world.calls == before, "no tool was called"


async def test_script_returning_earlier_than_recorded_diverges(tmp_path: Path) -> None:
    world = World()
    source = "async def run(ctx, inputs):\n    await ctx.look(n=1)\n    await ctx.put(n=3)\n"
    await interrupt_run(world, tmp_path, source, "put", 3)
    with database(journal_of(tmp_path)) as db:
        db.execute("UPDATE runs SET source='async def run(ctx, inputs): return 1'")
    async with world.session(tmp_path) as session:
        result = await session.resume("r")
        assert result.error is not None
        assert "returned at a point where it received the outcome of call 1" in result.error.message


async def test_effect_is_blocked_if_its_start_cannot_be_recorded(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source="async def run(ctx, inputs): return await ctx.look(n=1)")
        await session.history.recorded((await session.history.runs())[0].run_id)
        with database(journal_of(tmp_path)) as db:
            db.execute("DROP TABLE calls")
        result = await session.program(
            source="def run(ctx, inputs):\n    try:\n        return ctx.put(n=2)\n"
            "    except ToolError as e:\n        return [e.code, str(e)]\n",
            allowed_tools=ALL,
        )
        assert result.value is not None
        assert result.value[0] == "journal"
        assert "put was not called" in result.value[1]
        assert "the end of the run was not recorded" in result.warnings[0].message
    assert ("put", 2) not in world.calls


# --- approvals ------------------------------------------------------------------------------

GATED = """
import asyncio
async def run(ctx, inputs):
    free = await ctx.look(n=1)
    found = await asyncio.gather(
        ctx.ask(n=2), ctx.look(n=3), ctx.ask(n=4), return_exceptions=True
    )
    return [free, *[x if isinstance(x, dict) else [x.code, str(x)] for x in found]]
"""


async def test_calls_requiring_approval_pause_the_run_until_decided(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        paused = await session.program(source=GATED, allowed_tools=ALL, run_id="r")
        assert (paused.status, paused.value) == ("paused", None)
        assert [(p.call, p.arguments) for p in paused.pending] == [("2", {"n": 2}), ("4", {"n": 4})]
        assert world.calls == Counter({("look", 1): 1, ("look", 3): 1})
        still = await session.resume("r")
        assert [p.call for p in still.pending] == ["2", "4"]
        with pytest.raises(UsageError, match="name one call"):
            await session.history.approve("r", by="ann")
        with pytest.raises(UsageError, match=r"edited arguments are not.*no decision was recorded"):
            await session.history.approve("r", "2", arguments={"n": "x"}, by="ann")
        await session.history.approve("r", "2", arguments={"n": 20}, by="ann")
        assert (await session.resume("r")).status == "paused", "the other one waits still"
        await session.history.reject("r", "4", by="bob", comment="too much")
    async with world.session(tmp_path) as later:
        result = await later.resume("r")
    assert result.unwrap() == [
        {"n": 1, "twice": 2},
        {"n": 20, "twice": 40},
        {"n": 3, "twice": 6},
        ["rejected", "the call of ask was rejected by bob: too much"],
    ]
    assert world.calls == Counter({("look", 1): 1, ("look", 3): 1, ("ask", 20): 1})


async def test_repeated_request_resumes_a_run_once_a_call_is_decided(tmp_path: Path) -> None:
    world = World()
    announced: list[str] = []
    async with world.session(tmp_path, on_approval=lambda c: announced.append(c.call)) as session:
        request = partial(session.program, source=GATED, allowed_tools=ALL, run_id="r")
        assert (await request()).status == "paused"
        assert [p.call for p in (await request()).pending] == ["2", "4"]
        assert announced == ["2", "4"], "nothing is announced again"
        await session.history.approve("r", "2", by="ann")
        assert [p.call for p in (await request()).pending] == ["4"]
        await session.history.approve("r", "4", by="ann")
        assert (await request()).unwrap() == (await request()).unwrap()
    assert world.calls[("ask", 2)] == world.calls[("ask", 4)] == 1


async def test_first_decision_about_an_approval_is_final(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        source = "def run(ctx, inputs):\n    return ctx.ask(n=2)\n"
        await session.program(source=source, allowed_tools=ALL, run_id="r")
        await session.history.reject("r", by="ann")
        with pytest.raises(UsageError, match="decisions are final"):
            await session.history.approve("r", "1", by="ann")
        result = await session.resume("r")
        assert result.error is not None
        assert "rejected" in result.error.message
        with pytest.raises(JournalError, match="has ended"):
            await session.resume("r")
    assert not world.calls


async def test_expired_approval_request_is_a_rejection(tmp_path: Path) -> None:
    world = World()
    source = (
        "def run(ctx, inputs):\n    try:\n        return ctx.ask(n=2)\n"
        "    except ToolError as e:\n        return str(e)\n"
    )
    async with world.session(tmp_path, approvals_expire_ms=1) as session:
        await session.program(source=source, allowed_tools=ALL, run_id="r")
        with database(journal_of(tmp_path)) as db:
            db.execute("UPDATE pending SET at_ms=at_ms-10")
        with pytest.raises(UsageError, match="expired"):
            await session.history.approve("r", by="ann")
        assert "the request expired" in (await session.resume("r")).unwrap()


async def test_a_run_resumes_from_a_copy_of_the_journal_elsewhere(tmp_path: Path) -> None:
    world = World()
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with world.session(here) as session:
        await session.program(source=GATED, allowed_tools=ALL, run_id="r")
    shutil.copy(journal_of(here), tmp_path / "copy")
    async with world.session(there, journal=tmp_path / "copy") as session:
        await session.history.approve("r", "2", by="ann")
        await session.history.approve("r", "4", by="ann")
        assert (await session.resume("r")).ok


# --- names, retries, time -------------------------------------------------------------------


async def test_program_with_the_id_of_a_finished_run_returns_its_result(tmp_path: Path) -> None:
    world = World()
    source = "def run(ctx, inputs):\n    return ctx.put(n=inputs['n'])\n"
    async with world.session(tmp_path) as session:
        first = await session.program(
            source=source, inputs={"n": 1}, allowed_tools=ALL, run_id="mine"
        )
        again = await session.program(
            source=source, inputs={"n": 1}, allowed_tools=ALL, run_id="mine"
        )
        assert again == first
        assert world.calls == Counter({("put", 1): 1})
        with pytest.raises(UsageError, match="another script or inputs"):
            await session.program(source=source, inputs={"n": 2}, allowed_tools=ALL, run_id="mine")
        with pytest.raises(UsageError, match="1-64 letters"):
            await session.program(source=source, run_id="a/b")


async def test_program_with_the_id_of_an_interrupted_run_resumes_it(tmp_path: Path) -> None:
    world = World()
    await interrupt_run(world, tmp_path, SEQUENCE, "put", 3)
    async with world.session(tmp_path) as session:
        result = await session.program(source=SEQUENCE, allowed_tools=ALL, run_id="r")
        assert result.ok
    assert world.calls["put", 2] == 1


class Account(BaseModel):
    account: Annotated[str, Public]


async def test_program_that_resumes_a_run_uses_its_own_env_and_allow_list(tmp_path: Path) -> None:
    @tool(env=Account)
    def whose(ctx: ToolContext) -> str:
        """Account of the caller."""
        values = ctx.env
        assert isinstance(values, Account)
        return values.account

    world = World()
    world.hang.add(("put", 3))
    source = "async def run(ctx, inputs):\n    await ctx.put(n=3)\n    return await ctx.whose()\n"

    def session() -> Session:
        shared = {"account": "shared"}
        return Session(tmp_path, tools=[*world.tools, whose], toolsets=(), env=shared, workers=1)

    async def run(opened: Session) -> RunResult:
        names = (name for name in ("put", "whose"))  # can be iterated only once
        env = {"account": "mine"}
        return await opened.program(source=source, env=env, run_id="r", allowed_tools=names)

    async with session() as first, anyio.create_task_group() as group:
        group.start_soon(run, first)
        with anyio.fail_after(20):
            await world.hanging.wait()
        group.cancel_scope.cancel()
    world.hang.clear()
    async with session() as second:
        result = await run(second)
    assert (result.status, result.value) == ("completed", "mine")
    assert world.calls["put", 3] == 2  # it is idempotent


@pytest.mark.parametrize("ends", ["by its time", "with its run"])
async def test_effect_whose_thread_never_started_is_not_unknown(tmp_path: Path, ends: str) -> None:
    release, paid = threading.Event(), list[int]()

    @tool(side_effect=True)
    def pay(n: int, ctx: ToolContext) -> int:
        """Pay in a thread."""
        paid.append(n)
        return n

    source = """
async def run(ctx, inputs):
    try:
        return await ctx.pay(n=1)
    except ToolError as e:
        return [e.code, e.retryable]
"""
    limits = Limits(tool_timeout_ms=50) if ends == "by its time" else Limits()
    start = partial(Session.program, source=source, allowed_tools=["pay"], run_id="r")
    limiter = anyio.to_thread.current_default_thread_limiter()
    tokens, limiter.total_tokens = limiter.total_tokens, 1
    try:
        async with Session(tmp_path, tools=[pay], toolsets=()) as session:
            async with anyio.create_task_group() as group:
                # The only thread is taken.
                group.start_soon(anyio.to_thread.run_sync, release.wait, 20)
                while not limiter.borrowed_tokens:
                    await anyio.sleep(0.001)
                if ends == "by its time":
                    result = await start(session, limits=limits)
                    assert result.unwrap() == ["timeout", True]
                    # Not even its start may have been durable in that time.
                    assert result.calls[0].status in ("failed", "not_started")
                    release.set()
                    return
                with anyio.CancelScope() as scope:
                    group.start_soon(stop_when_started, session, scope)
                    await start(session, limits=limits)
                release.set()
            result = await session.resume("r")
            assert (result.status, result.value, paid) == ("completed", 1, [1])
    finally:
        release.set()
        limiter.total_tokens = tokens


async def stop_when_started(session: Session, scope: anyio.CancelScope) -> None:
    """Cancel when the start of the first call is durable and its thread is waited for."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    with anyio.fail_after(20):
        while not limiter.statistics().tasks_waiting:
            await anyio.sleep(0.001)
    scope.cancel()


async def test_just_cancelled_run_is_resumed_by_its_id(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        for n in range(5):
            options: dict[str, Any] = {
                "source": f"def run(ctx, inputs):\n    ctx.look(n={n})\n    return ctx.put(n={n})",
                "allowed_tools": ALL,
                "run_id": f"r{n}",
            }
            world.hang, world.hanging = {("look", n)}, anyio.Event()
            async with anyio.create_task_group() as group:
                group.start_soon(partial(session.program, **options))
                await world.hanging.wait()
                group.cancel_scope.cancel()
            world.hang.clear()
            result = await session.program(**options)
            assert result.unwrap() == {"n": n, "twice": 2 * n}


async def test_retry_warns_of_completed_effects(tmp_path: Path) -> None:
    world = World()
    source = (
        "def run(ctx, inputs):\n    for n in range(7):\n        ctx.put(n=n)\n"
        "    raise ValueError('late')\n"
    )
    async with world.session(tmp_path) as session:
        first = await session.program(source=source, allowed_tools=ALL)
        second = await session.retry(first.run_id)
        assert second.run_id != first.run_id
        (warning,) = second.warnings
        assert warning.message.splitlines() == [
            f"An earlier run ({first.run_id}) made the following calls with side effects, or may "
            "have. Do not repeat them blindly: check the current state, or continue from it.",
            *(f"- put (call {n}, succeeded)" for n in range(1, 6)),
            "- ...and 2 more",
        ]
        nothing = await session.program(source="1 + 1")
        assert (await session.retry(nothing.run_id)).warnings == ()


async def test_retried_run_has_the_keys_of_the_first_run_unless_that_was_undone(
    tmp_path: Path,
) -> None:
    world, source = (
        World(),
        "def run(ctx, inputs):\n    ctx.outer()\n    raise ValueError('late')\n",
    )

    async def outer(arguments: Mapping[str, Any], ctx: ToolContext) -> None:
        await ctx.call_tool("put", n=1)

    made = define_tool("outer", "O.", ANY, outer, side_effect=True, idempotent=True)
    async with Session(tmp_path, tools=[*world.tools, made], toolsets=()) as session:
        first = await session.program(source=source, allowed_tools=["outer", "put"])
        second = await session.retry(first.run_id)
        third = await session.retry(second.run_id)
        assert list(world.keys.values()) == [3]
        rows = [(await session.history.recorded(r.run_id)).calls for r in (first, second, third)]
        assert len({tuple(row.key for row in calls) for calls in rows}) == 1
        await session.rollback(third.run_id)
        await session.retry(third.run_id)
    assert list(world.keys.values()) == [3, 1]


async def test_failed_run_warns_of_effects_before_its_script_is_corrected(tmp_path: Path) -> None:
    world = World()
    source = "def run(ctx, inputs):\n    ctx.look()\n    ctx.put(n=1)\n"
    paying = source + "    for n in (1, 2):\n        ctx.pay(n=n)\n"
    late = "    raise ValueError('late')\n"
    async with world.session(tmp_path) as session:
        run = await session.program(source=paying + late, allowed_tools=ALL)
        (warning,) = run.warnings
        assert (warning.code, warning.message) == (
            "effects_made",
            "calls with side effects were made and are not undone: pay 2. A corrected script must "
            "not repeat them blindly: resume this run with the corrected script as source, which "
            "repeats none of them, or check the current state",
        )
        reply = await session.tool("program", {"source": paying + late}, allowed_tools=ALL)
        assert f"Warning: {warning}" in reply.text
        assert (await session.program(source=source + late, allowed_tools=ALL)).warnings == ()
        (repeats,) = (await session.program(source=paying, allowed_tools=ALL)).warnings
        assert repeats.code == "earlier_effects"


async def test_source_and_inputs_of_a_script_are_recorded_as_they_are(tmp_path: Path) -> None:
    source = "def run(ctx, inputs):\n    password = 'from the model'\n"
    async with World().session(tmp_path) as session:
        run = await session.program(source=source, inputs={"key": "from the caller"})
        row = (await session.history.recorded(run.run_id)).run
    assert row.source == source
    assert b"from the caller" in row.inputs


async def test_record_has_start_and_end_of_calls_without_effects(tmp_path: Path) -> None:
    async def wait(arguments: Mapping[str, Any]) -> None:
        await anyio.sleep(0.03)

    made = define_tool("wait", "W.", ANY, wait)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        run = await session.program(source="def run(ctx, inputs):\n    ctx.wait()\n")
        (row,) = (await session.history.recorded(run.run_id)).calls
    assert row.end is not None
    assert row.end.at_ms - row.at_ms >= 25


async def test_large_arguments_of_a_side_effect_are_recorded_truncated(tmp_path: Path) -> None:
    world = World()
    big = "x" * 200_000

    async def keep(arguments: Mapping[str, Any]) -> int:
        return len(arguments["text"])

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    made = define_tool("keep", "K.", schema, keep, side_effect=True, idempotent=True)
    async with Session(tmp_path, tools=[*world.tools, made], toolsets=()) as session:
        result = await session.program(
            source="def run(ctx, inputs):\n    return ctx.keep(text=inputs['t'])\n",
            inputs={"t": big},
            allowed_tools=["keep"],
        )
        (row,) = (await session.history.recorded(result.run_id)).calls
    assert b'"truncated":true,"bytes":200' in row.arguments
    assert len(row.arguments) < 1_000


async def test_only_one_of_two_concurrent_resumes_succeeds(tmp_path: Path) -> None:
    world = World()
    await interrupt_run(world, tmp_path, SEQUENCE, "put", 3)
    outcomes: list[str] = []

    async def resume(session: Session) -> None:
        try:
            outcomes.append((await session.resume("r")).status)
        except JournalError as error:
            outcomes.append("executed" if "executed by" in str(error) else "ended")

    async with (
        world.session(tmp_path) as one,
        world.session(tmp_path) as two,
        anyio.create_task_group() as group,
    ):
        group.start_soon(resume, one)
        group.start_soon(resume, two)
    assert sorted(outcomes)[0] == "completed"
    assert len(outcomes) == 2
    assert outcomes.count("completed") == 1
    assert world.calls["put", 3] == 2


async def test_runs_are_recorded_in_memory_if_no_journal_can_be_created(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    root = tmp_path / "root"
    root.mkdir()
    async with World().session(root) as session:
        assert (await session.program(source="1 + 1")).unwrap() == 2
        assert "recorded in memory" in caplog.text
    async with World().session(root, journal=tmp_path / "file" / "j") as session:
        with pytest.raises(JournalError, match="cannot be opened"):
            await session.program(source="1 + 1")


async def test_time_spent_paused_does_not_count_towards_the_timeout(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        source = "def run(ctx, inputs):\n    return ctx.ask(n=2)\n"
        await session.program(
            source=source, allowed_tools=ALL, run_id="r", limits=Limits(timeout_ms=2_000)
        )
        with database(journal_of(tmp_path)) as db:
            db.execute("UPDATE runs SET clock=clock-86400, created_ms=created_ms-86400000")
        await session.history.approve("r", by="ann")
        assert (await session.resume("r")).ok


async def test_decision_to_repeat_a_call_is_used_once(tmp_path: Path) -> None:
    world = World()
    source = "async def run(ctx, inputs):\n    return await ctx.pay(n=1)\n"
    await interrupt_run(world, tmp_path, source, "pay", 1)
    async with world.session(tmp_path) as session:
        assert (await session.resume("r")).status == "paused"
        await session.history.settle("r", None, "again", by="ann")
    world.hang.add(("pay", 1))
    world.hanging = anyio.Event()
    async with world.session(tmp_path) as session, anyio.create_task_group() as group:
        group.start_soon(session.resume, "r")
        with anyio.fail_after(20):
            await world.hanging.wait()
        group.cancel_scope.cancel()
    world.hang.clear()
    async with world.session(tmp_path) as session:
        again = await session.resume("r")
        assert (again.status, [p.kind for p in again.pending]) == ("paused", ["unknown"])
        assert world.calls["pay", 1] == 2, "nobody has asked for a third time"
        await session.history.settle("r", None, "done", value=7, by="ann")
        assert (await session.resume("r")).unwrap() == 7
    assert world.calls["pay", 1] == 2


def caller_of(names: list[str], **options: Any) -> Tool:
    """A tool that calls tools, and makes a value of whatever goes wrong."""

    async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        found = []
        for name in names:
            try:
                found.append(await ctx.call_tool(name, n=arguments["n"]))
            except Exception as error:  # noqa: BLE001  # what a careless tool does
                found.append(getattr(error, "code", "swallowed"))
        return found

    return define_tool("all", "Calls tools.", ANY, work, **options)


async def test_nested_calls_wait_for_approval_and_execute_once(tmp_path: Path) -> None:
    world = World()
    tools = [*world.tools, caller_of(["look", "put", "ask", "ask"])]
    source = "async def run(ctx, inputs):\n    return await ctx.all(n=1)\n"
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        for decided in range(2):
            result = await session.program(source=source, allowed_tools=["all", *ALL], run_id="r")
            if decided:
                result = await session.resume("r")
            assert result.status == "paused"
            assert [p.tool for p in result.pending] == ["ask"]
            assert world.calls["ask", 1] == decided
            await session.history.approve("r", by="ann")
        result = await session.resume("r")
    one = {"n": 1, "twice": 2}
    assert result.unwrap() == [one] * 4
    assert (world.calls["put", 1], world.calls["ask", 1]) == (1, 2)
    assert len(world.keys) == 3


async def test_non_repeatable_tool_is_not_suspended_for_a_nested_approval(tmp_path: Path) -> None:
    world = World()
    tools = [*world.tools, caller_of(["ask"], side_effect=True)]
    source = "async def run(ctx, inputs):\n    return await ctx.all(n=1)\n"
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        result = await session.program(source=source, allowed_tools=["all", "ask"])
    assert result.unwrap() == ["approval_required"]
    assert world.calls["ask", 1] == 0


async def test_nested_calls_are_recorded_and_counted_on_resume(tmp_path: Path) -> None:
    world = World()
    tools = [*world.tools, caller_of(["put", "pay"])]
    source = (
        "async def run(ctx, inputs):\n    found = [await ctx.all(n=1)]\n"
        "    await ctx.ask(n=2)\n    return [found, await ctx.look(n=3)]\n"
    )
    limits = Limits(max_tool_calls=4)
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        paused = await session.program(
            source=source, allowed_tools=["all", *ALL], limits=limits, run_id="r"
        )
        assert paused.status == "paused"
        await session.history.approve("r", by="ann")
        result = await session.resume("r")
    assert [(c.tool, c.status) for c in result.calls[:3]] == [
        ("all", "succeeded"),
        ("put", "succeeded"),
        ("pay", "succeeded"),
    ]
    assert result.error is not None
    assert "max_tool_calls" in result.error.message, "the calls of the tool are counted, too"


async def test_decision_of_an_approver_is_replayed_on_resume(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> Decision:
        asked.append(request.tool)
        return Decision(True, arguments={"n": 8}, by="ann", comment="less")

    source = "async def run(ctx, inputs):\n    return await ctx.ask(n=5)\n"
    world = World()
    world.hang.add(("ask", 8))
    async with world.session(tmp_path, approver=approver) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(session.program, source=source, allowed_tools=ALL, run_id="r"))
            with anyio.fail_after(20):
                await world.hanging.wait()
            group.cancel_scope.cancel()
        world.hang.clear()
        waiting = await session.resume("r")
        assert waiting.pending[0].kind == "unknown"
        assert waiting.pending[0].idempotency_key in world.keys
        await session.history.settle("r", "1", "again", by="ann")
        assert (await session.resume("r")).unwrap() == {"n": 8, "twice": 16}
    assert asked == ["ask"]
    assert world.calls == Counter({("ask", 8): 2})


async def test_pending_approval_shows_no_unrecorded_content(tmp_path: Path) -> None:
    def save(path: str, text: str) -> None:
        """Save."""

    gated = tool(side_effect=True, idempotent=True, unrecorded=["text"], needs_approval=True)(save)
    source = "async def run(ctx, inputs):\n    return await ctx.save('a', 'CANARY')\n"
    async with Session(tmp_path, tools=[gated], toolsets=()) as session:
        paused = await session.program(source=source, allowed_tools=["save"])
        [waiting] = paused.pending
        [row] = (await session.history.recorded(paused.run_id)).pending
    assert waiting.arguments["path"] == "a"
    assert waiting.arguments["text"]["bytes"] == 6
    assert b"CANARY" not in row.details


STOPPED = """
import sys
from pathlib import Path
import anyio
from ptc import LeaseLostError, Session, define_tool

here = Path(sys.argv[1])

async def look(arguments):
    (here / "looking").touch()
    while not (here / "go").exists():
        await anyio.sleep(0.002)

async def put(arguments):
    with (here / "effects").open("a") as file:
        file.write("child\\n")

async def main():
    tools = [
        define_tool("look", "Look.", {"type": "object"}, look),
        define_tool("put", "Put.", {"type": "object"}, put, side_effect=True, idempotent=True),
    ]
    async with Session(here, tools=tools, toolsets=()) as session:
        source = "async def run(ctx, inputs):\\n    await ctx.look()\\n    await ctx.put()\\n"
        try:
            await session.program(source=source, allowed_tools=["look", "put"], run_id="r")
        except LeaseLostError as error:
            print("lost:", error)

anyio.run(main)
"""


async def test_host_that_lost_its_lease_while_stopped_calls_no_tool(tmp_path: Path) -> None:
    async def look(arguments: Any) -> None: ...

    async def put(arguments: Any) -> None:
        with (tmp_path / "effects").open("a") as file:
            file.write("parent\n")

    tools = [
        define_tool("look", "Look.", {"type": "object"}, look),
        define_tool("put", "Put.", {"type": "object"}, put, side_effect=True, idempotent=True),
    ]
    child = await anyio.open_process([sys.executable, "-c", STOPPED, str(tmp_path)], stderr=None)
    async with Session(tmp_path, tools=tools, toolsets=()) as session, child:
        with anyio.fail_after(20):
            while not (tmp_path / "looking").exists():
                await anyio.sleep(0.002)
            while await session.history.journal.find("r") is None:
                await anyio.sleep(0.002)
            child.send_signal(signal.SIGSTOP)
            with pytest.raises(JournalError, match="is being executed"):
                await session.resume("r")
            # The state after half a minute of silence.
            with database(journal_of(tmp_path)) as db:
                db.execute("UPDATE workers SET beat_at = beat_at - 31")
            assert (await session.resume("r")).ok
            (tmp_path / "go").touch()
            child.send_signal(signal.SIGCONT)
            assert child.stdout is not None
            said = b"".join([part async for part in child.stdout]).decode()
    assert said.startswith("lost: another process acquired run 'r'"), said
    assert (tmp_path / "effects").read_text() == "parent\n"


async def test_run_with_an_incomplete_record_carries_a_warning(tmp_path: Path) -> None:
    async def look(arguments: Any) -> None: ...

    async def spoil(arguments: Any) -> None:
        with database(journal_of(tmp_path)) as db:
            db.execute("ALTER TABLE calls RENAME TO gone")

    async def wait(arguments: Any) -> None:
        # The writer knows it from here on: it reported it to this read, or earlier.
        with suppress(JournalError):
            await session.history.runs()

    functions = {"look": look, "spoil": spoil, "wait": wait}
    tools = [define_tool(n, f"{n}.", {"type": "object"}, f) for n, f in functions.items()]
    source = """
async def run(ctx, inputs):
    await ctx.look()
    await ctx.spoil()
    await ctx.wait()
    return 3
"""
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        result = await session.program(source=source, allowed_tools=list(functions))
        assert result.unwrap() == 3
        [warning] = result.warnings
        assert "not recorded" in warning.message
        assert "no such table: calls" in warning.message
        with database(journal_of(tmp_path)) as db:
            db.execute("ALTER TABLE gone RENAME TO calls")
        whole = await session.program(source="async def run(ctx, inputs):\n    return 4\n")
        assert whole.warnings == ()
        assert (await session.history.recorded(whole.run_id)).run.status == "completed"


@pytest.mark.parametrize("fails", ["after", "in it", "by its time"])
async def test_retried_tool_does_not_repeat_non_repeatable_nested_calls(
    tmp_path: Path, fails: str
) -> None:
    paid: list[str | None] = []
    tries = 0

    async def pay(arguments: Any, ctx: ToolContext) -> Any:
        paid.append(ctx.idempotency_key)
        if fails == "in it" and len(paid) == 1:
            raise ToolError("no money")
        if fails == "by its time" and len(paid) == 1:
            await anyio.sleep_forever()
        return {"receipt": len(paid)}

    async def order(arguments: Any, ctx: ToolContext) -> Any:
        nonlocal tries
        tries += 1
        with anyio.move_on_after(0.05 if fails == "by its time" else 20):
            receipt = await ctx.call_tool("pay")
            if tries == 1:
                raise ToolError("later", retryable=True)
            return receipt
        raise ToolError("too slow", retryable=True)

    schema = {"type": "object"}
    retry = Retry(max_retries=1, backoff_ms=0, should_retry=lambda error, tries: True)
    tools = [
        define_tool("pay", "Pay.", schema, pay, side_effect=True),
        define_tool("order", "Order.", schema, order, retry=retry),
    ]
    source = "async def run(ctx, inputs):\n    return await ctx.order()\n"
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        result = await session.program(source=source, allowed_tools=["order", "pay"])
    calls = [(c.tool, c.seq, c.status) for c in result.calls]
    if fails == "after":
        assert result.unwrap() == {"receipt": 1}
        assert calls == [("order", 1, "succeeded"), ("pay", 1, "succeeded")]
    elif fails == "in it":
        assert result.unwrap() == {"receipt": 2}, "what failed was not done, and is done again"
        assert len(set(paid)) == 1, "with the same key"
        assert [c[1:] for c in calls if c[0] == "pay"] == [(1, "failed"), (2, "succeeded")]
    else:
        assert (result.status, [p.kind for p in result.pending]) == ("paused", ["unknown"])
        assert [c[1:] for c in calls if c[0] == "pay"] == [(1, "unknown")]
    assert (len(paid), tries) == (2 if fails == "in it" else 1, 2)


async def test_cached_result_of_a_run_remains_cached_after_a_resume(tmp_path: Path) -> None:
    made: Counter[tuple[str, int]] = Counter()

    async def work(arguments: Any, ctx: ToolContext) -> Any:
        made[ctx.tool_name, arguments["n"]] += 1
        return {"times": made[ctx.tool_name, arguments["n"]]}

    def cached(name: str, **cache: Any) -> Tool:
        options: dict[str, Any] = {"cache": Cache(**cache), "max_executions_per_run": 2}
        return define_tool(name, name, ANY, work, **options)

    names = ["kept", "brief", "session"]
    tools = [cached("kept"), cached("brief", ttl_ms=1), cached("session", scope="session")]
    tools.append(World()._tool("ask", side_effect=True, needs_approval=True))
    source = """
async def run(ctx, inputs):
    before = [(await ctx.call(name, {"n": 1}))["times"] for name in inputs["names"]]
    await ctx.kept(n=1)
    await ctx.ask(n=1)
    after = [(await ctx.call(name, {"n": 1}))["times"] for name in inputs["names"]]
    return [before, after, await ctx.kept(n=2)]
"""
    options: dict[str, Any] = {"inputs": {"names": names}, "allowed_tools": [*names, "ask"]}
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        paused = await session.program(source=source, run_id="r", **options)
        assert paused.status == "paused", paused.error
        await session.history.approve("r", by="ann")
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        result = await session.resume("r")
    # Results of a session are the session's: the other one has none.
    assert result.unwrap() == [[1, 1, 1], [1, 2, 2], {"times": 1}]
    assert made["kept", 1] == 1


async def test_model_answer_is_replayed_on_resume(tmp_path: Path) -> None:
    source = """
SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
async def run(ctx, inputs):
    first = await ctx.generate_object(SCHEMA, "one")
    await ctx.ask(n=1)
    second = await ctx.generate_object(SCHEMA, "two")
    return [first.object.total, len(first.attempts), second["object"]["total"]]
"""
    names = ["generate_object", "ask"]
    # The first answer needs a repair: that is part of the outcome, and not done again either.
    model = ScriptedModel({"total": "a"}, {"total": 1}, {"total": 99})
    async with World().session(tmp_path, model=model) as session:
        paused = await session.program(source=source, allowed_tools=names, run_id="r")
        assert paused.status == "paused", paused.error
        assert len(model.requests) == 2
        await session.history.approve("r", by="ann")
    later = ScriptedModel({"total": 2})
    async with World().session(tmp_path, model=later) as session:
        result = await session.resume("r")
    assert result.unwrap() == [1, 2, 2]
    assert [request.turns[-1].text for request in later.requests] == ["two"]


async def test_function_that_modifies_its_arguments_changes_neither_record_nor_retry(
    tmp_path: Path,
) -> None:
    seen = list[Any]()

    async def take_all(arguments: Any, ctx: ToolContext) -> Any:
        seen.append([ctx.tool_name, ctx.attempt, [list(row) for row in arguments["rows"]]])
        taken = [row.pop() for row in arguments["rows"]]
        arguments["rows"].clear()
        arguments["more"] = 1
        if ctx.attempt == 1:
            raise ToolError("again", code="busy", retryable=True)
        return taken

    async def take(rows: list[Any], ctx: ToolContext) -> Any:
        """Take the last item of each row."""
        return await take_all({"rows": rows}, ctx)

    retry = Retry(max_retries=1, backoff_ms=0)
    schema = {"type": "object", "properties": {"rows": {"type": "array"}}}
    tools = [
        define_tool("take_raw", "Take.", schema, take_all, retry=retry),
        tool(retry=retry)(take),
        World()._tool("ask", side_effect=True, needs_approval=True),
    ]
    script = """
        async def run(ctx, inputs):
            found = [await ctx.take_raw(rows=[[1, 2], [3]]), await ctx.take(rows=[[4]])]
            await ctx.ask(n=1)
            return found
    """
    async with Session(tmp_path, tools=tools, toolsets=(), journal=":memory:") as session:
        paused = await session.program(
            source=textwrap.dedent(script), allowed_tools=["take_raw", "take", "ask"]
        )
        assert [call.arguments for call in paused.calls[:2]] == [
            '{"rows":[[1,2],[3]]}',
            '{"rows":[[4]]}',
        ]
        resumed = await session.approve(paused.run_id, by="test", resume=True)
    assert resumed.unwrap() == [[2, 3], [4]]
    assert seen == [
        ["take_raw", 1, [[1, 2], [3]]],
        ["take_raw", 2, [[1, 2], [3]]],
        ["take", 1, [[4]]],
        ["take", 2, [[4]]],
    ]
