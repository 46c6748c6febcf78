"""Runs that stopped before their end, continued with other limits or a corrected script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Cache, Effect, Session, Tool, ToolContext, ToolError, UsageError, define_tool
from ptc._calls._earlier import EarlierCalls, Reads
from ptc._runs._program_row import load_result
from ptc.errors import EndedRunError
from ptc.journal._journal import CallEnd, CallRow, RunRecord, RunRow
from ptc.testing import Recording

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}
ALL = ["look", "put", "pay", "ask", "deep"]


class World:
    """Tools whose executions are counted."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self.keys: Counter[str | None] = Counter()
        self.fails: set[tuple[str, int]] = set()
        self.hangs: set[tuple[str, int]] = set()
        self.version = 0

    def _tool(self, name: str, **options: Any) -> Tool:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            n = arguments.get("n", 0)
            self.calls[name, n] += 1
            if ctx.side_effect:
                self.keys[ctx.idempotency_key] += 1
            if (name, n) in self.hangs:
                await anyio.sleep_forever()
            if (name, n) in self.fails:
                raise ToolError(f"{name} {n} is down", code="down")
            if name == "deeper":
                await ctx.call_tool("pay", n=n)
                await ctx.call_tool("look", n=n)
            if name in ("deep", "kept"):
                return [await ctx.call_tool("pay", n=n), self.version]
            return {"n": n, "version": self.version}

        return define_tool(name, f"{name}.", ANY, work, **options)

    def session(self, root: Path, **options: Any) -> Session:
        return Session(root, tools=self.tools(), toolsets=(), **options)

    def tools(self) -> list[Tool]:
        return [
            self._tool("look"),
            self._tool("put", side_effect=True, idempotent=True),
            self._tool("pay", side_effect=True),
            self._tool("ask", side_effect=True, needs_approval=True),
            self._tool("deep"),
            self._tool("deeper"),
            self._tool("kept", cache=Cache()),
        ]

    def effects(self) -> dict[tuple[str, int], int]:
        return {key: n for key, n in self.calls.items() if key[0] in ("pay", "ask", "put")}


def script(*lines: str) -> str:
    return "async def run(ctx, inputs):\n" + "".join(f"    {line}\n" for line in lines)


FAILING = script("a = await ctx.look(n=1)", "await ctx.pay(n=2)", "return a['missing']")
FIXED = script(
    "a = await ctx.look(n=1)", "await ctx.pay(n=2)", "b = await ctx.pay(n=3)", "return a['n']"
)


async def test_corrected_script_continues_a_failed_run_without_repeating_it(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        failed = await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        assert failed.status == "failed"
        result = await session.resume("r", source=FIXED)
        assert result.unwrap() == 1
        assert world.calls == {("look", 1): 1, ("pay", 2): 1, ("pay", 3): 1}
        assert (result.run_id, [c.tool for c in result.calls]) == ("r", ["look", "pay", "pay"])
        first = await session.history.recorded("r.1")
        assert (first.run.source, first.run.status) == (FAILING, "failed")
        assert [row.tool for row in first.calls] == ["look", "pay"]
        again = await session.history.recorded("r")
        assert again.calls[1].key == first.calls[1].key
        assert again.calls[1].end is not None
        assert first.calls[1].end is not None
        assert again.calls[1].end.at_ms == first.calls[1].end.at_ms
        assert not result.warnings
        old = await Recording.of(session.history, "r.1")
        new = await Recording.of(session.history, "r")
    assert (await old.replay()).error == failed.error
    assert (await new.replay()).unwrap() == 1


async def test_failed_run_is_not_resumed_by_its_own_script(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        with pytest.raises(EndedRunError, match=r"fail again in the same way.*source="):
            await session.resume("r")
        with pytest.raises(EndedRunError, match="fail again"):
            await session.resume("r", limits={"timeout_ms": 50_000})
        await session.program(source=script("return 1"), allowed_tools=ALL, run_id="done")
        with pytest.raises(EndedRunError, match="has ended: completed"):
            await session.resume("done", source=FIXED)
    assert world.effects() == {("pay", 2): 1}


async def test_changed_effect_is_reported_before_anything_new_is_done(tmp_path: Path) -> None:
    world = World()
    changed = script("await ctx.look(n=1)", "await ctx.pay(n=20)", "return 5")
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        result = await session.resume("r", source=changed)
        assert result.status == "failed"
        assert result.error is not None
        assert (result.error.code, result.error.line) == ("unmatched_effects", 3)
        assert 'pay({"n":2}) (succeeded, line 3)' in result.error.message
        assert world.effects() == {("pay", 2): 1}
        allowed = await session.resume("r", source=changed, allow_unmatched=True)
        assert allowed.unwrap() == 5
        assert [w.code for w in allowed.warnings] == ["effect_not_repeated"]
    assert world.effects() == {("pay", 2): 1, ("pay", 20): 1}


async def test_script_that_ends_without_a_recorded_effect_fails(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        result = await session.resume("r", source=script("return 7"))
        assert result.status == "failed"
        assert result.error is not None
        assert (result.error.code, result.value) == ("unmatched_effects", 7)
        assert (await session.resume("r", source=FIXED)).unwrap() == 1, "it can be corrected again"
        assert (await session.history.run("r")).revision == 3
    assert world.effects() == {("pay", 2): 1, ("pay", 3): 1}


@pytest.mark.slow
async def test_new_effect_waits_for_concurrent_recorded_ones(tmp_path: Path) -> None:
    world = World()
    before = script("await ctx.pay(n=1)", "await ctx.pay(n=2)", "raise ValueError")
    fixed = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    async def second():\n        await ctx.look(n=5)\n        return await ctx.pay(n=2)\n"
        "    r = await asyncio.gather(ctx.pay(n=3), ctx.deep(n=4), second(), ctx.pay(n=1))\n"
        "    return len(r)\n"
    )
    async with world.session(tmp_path) as session:
        await session.program(source=before, allowed_tools=ALL, run_id="r")
        assert (await session.resume("r", source=fixed)).unwrap() == 4
    assert world.effects() == {("pay", 1): 1, ("pay", 2): 1, ("pay", 3): 1, ("pay", 4): 1}


async def test_held_calls_are_charged_once_and_cached_results_are_made(tmp_path: Path) -> None:
    world = World()
    before = script("await ctx.pay(n=1)", "raise ValueError")
    fixed = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    async def again():\n        await ctx.look(n=5)\n        return await ctx.pay(n=1)\n"
        "    both = asyncio.gather(ctx.kept(n=3), ctx.kept(n=3))\n"
        "    return len(await asyncio.gather(both, ctx.pay(n=2), again()))\n"
    )
    allowed = [*ALL, "kept"]
    async with world.session(tmp_path) as session:
        await session.program(source=before, allowed_tools=allowed, run_id="r")
        result = await session.resume("r", source=fixed, limits={"max_tool_calls": 6})
        assert result.unwrap() == 3
    assert world.effects() == {("pay", n): 1 for n in (1, 2, 3)}


def test_effect_that_a_later_revision_withdrew_is_still_recorded() -> None:
    run = RunRow("r", "", "s.py", b"{}", b"{}", 1, 1.0, 1)
    done = CallEnd("succeeded", True, b"[true,[],1]", 6, 0.5)
    row = CallRow("1", "pay", b"{}", "key", True, 3, 1, 5, "", done)
    later = row._replace(end=done._replace(status="not_started", ok=False))
    records = [RunRecord(run, (each,), (), (), ()) for each in (row, later)]
    earlier = EarlierCalls(records, reads="reuse", allow_unmatched=False)
    assert not earlier.allows_new
    found = earlier.find_nested("key", "4")
    assert found is not None
    assert found.end == done._replace(elapsed=None)
    assert earlier.allows_new


async def test_reads_are_reused_until_the_first_new_effect_or_refreshed(tmp_path: Path) -> None:
    world = World()
    before = script(
        "await ctx.look(n=1)", "await ctx.pay(n=2)", "await ctx.look(n=3)", "raise ValueError"
    )
    fixed = script(
        "a = await ctx.look(n=1)",
        "await ctx.pay(n=2)",
        "await ctx.put(n=9)",
        "b = await ctx.look(n=3)",
        "return [a['version'], b['version']]",
    )
    cases: tuple[tuple[Reads, list[int]], ...] = (("reuse", [0, 1]), ("refresh", [1, 1]))
    for reads, seen in cases:
        async with world.session(tmp_path) as session:
            world.version = 0
            await session.program(source=before, allowed_tools=ALL, run_id=reads)
            world.version = 1
            assert (await session.resume(reads, source=fixed, reads=reads)).unwrap() == seen


@pytest.mark.slow
async def test_failed_calls_are_made_again_by_the_same_script(tmp_path: Path) -> None:
    world = World()
    source = script("await ctx.pay(n=1)", "await ctx.look(n=2)", "return await ctx.deep(n=3)")
    async with world.session(tmp_path) as session:
        world.fails = {("pay", 3)}
        assert (
            await session.program(source=source, allowed_tools=ALL, run_id="r")
        ).status == "failed"
        world.fails = set()
        assert (await session.resume("r", source=source)).ok
    assert world.calls == {("pay", 1): 1, ("look", 2): 1, ("deep", 3): 2, ("pay", 3): 2}
    assert len(world.keys) == 2


async def test_nested_effects_are_not_repeated_at_another_position(tmp_path: Path) -> None:
    world = World()
    before = script("x = await ctx.deep(n=3)", "raise ValueError")
    moved = script("await ctx.look(n=1)", "return await ctx.deep(n=3)")
    async with world.session(tmp_path) as session:
        await session.program(source=before, allowed_tools=ALL, run_id="r")
        result = await session.resume("r", source=moved)
        assert result.ok
        called = [(c.parent, c.tool) for c in result.calls]
        assert called == [(None, "look"), (None, "deep"), ("2", "pay")]
        rows = (await session.history.recorded("r")).calls
        assert [row.path for row in rows] == ["1", "2", "2.1"]
    assert world.calls == {("deep", 3): 1, ("pay", 3): 1, ("look", 1): 1}


async def test_nested_effects_of_an_interrupted_caller_are_not_repeated(tmp_path: Path) -> None:
    world = World()
    world.hangs = {("look", 3)}
    before = script("return await ctx.deeper(n=3)")
    moved = script("await ctx.look(n=1)", "x = await ctx.deeper(n=3)", "await ctx.pay(n=4)")
    async with world.session(tmp_path) as session:
        limits = {"timeout_ms": 300}
        stopped = await session.program(
            source=before, allowed_tools=[*ALL, "deeper"], run_id="r", limits=limits
        )
        assert stopped.status == "timed_out"
        world.hangs = set()
        assert (await session.resume("r", source=moved, limits={"timeout_ms": 20_000})).ok
    assert world.calls["deeper", 3] == 2
    assert world.effects() == {("pay", 3): 1, ("pay", 4): 1}


async def test_timed_out_run_continues_with_more_time(tmp_path: Path) -> None:
    world = World()
    world.hangs = {("look", 5)}
    source = script("await ctx.pay(n=1)", "return await ctx.look(n=5)")
    async with world.session(tmp_path) as session:
        stopped = await session.program(
            source=source, allowed_tools=ALL, run_id="r", limits={"timeout_ms": 80}
        )
        assert stopped.status == "timed_out"
        world.hangs = set()
        result = await session.resume("r", limits={"timeout_ms": 20_000})
        assert result.ok
        assert result.limits.timeout_ms == 20_000
        assert [w.code for w in result.warnings] == ["resumed"]
        assert "stopped before (timed_out): " in result.warnings[0].message
        assert (await session.history.run("r")).revision == 1, "its messages were replayed"
    assert world.effects() == {("pay", 1): 1}


async def test_run_over_its_output_limit_needs_a_higher_one(tmp_path: Path) -> None:
    world = World()
    source = script("await ctx.pay(n=1)", "print('x' * 500)", "return (await ctx.pay(n=2))['n']")
    async with world.session(tmp_path) as session:
        limits = {"max_stdout_bytes": 100}
        stopped = await session.program(source=source, allowed_tools=ALL, run_id="r", limits=limits)
        assert stopped.status == "limit_exceeded"
        with pytest.raises(EndedRunError, match="max_stdout_bytes=100 and would exceed it again"):
            await session.resume("r", limits={"timeout_ms": 9_000})
        result = await session.resume("r", limits={"max_stdout_bytes": 1_000})
        assert result.unwrap() == 2
        assert result.limits.max_stdout_bytes == 1_000
    assert world.effects() == {("pay", 1): 1, ("pay", 2): 1}


async def test_raised_budget_repeats_the_calls_that_it_refused(tmp_path: Path) -> None:
    world = World()
    source = script(
        "seen = []",
        "for n in range(5):",
        "    try:",
        "        seen.append((await ctx.pay(n=n))['n'])",
        "    except ToolError as e:",
        "        seen.append(e.code)",
        "if 'limit_exceeded' in seen: raise ValueError(str(seen))",
        "return seen",
    )
    async with world.session(tmp_path) as session:
        stopped = await session.program(
            source=source, allowed_tools=ALL, run_id="r", limits={"max_tool_calls": 3}
        )
        assert stopped.status == "failed"
        with pytest.raises(EndedRunError, match="fail again"):
            await session.resume("r")
        result = await session.resume("r", limits={"max_tool_calls": 5})
        assert result.unwrap() == [0, 1, 2, 3, 4]
        assert result.usage.tool_calls == 5
    assert world.effects() == {("pay", n): 1 for n in range(5)}


@pytest.mark.slow
async def test_run_is_not_started_more_often_than_allowed(tmp_path: Path) -> None:
    world = World()
    world.hangs = {("look", 5)}
    source = script("await ctx.look(n=5)")
    async with world.session(tmp_path, max_attempts=2) as session:
        limits = {"timeout_ms": 600}
        await session.program(source=source, allowed_tools=ALL, run_id="r", limits=limits)
        assert (await session.resume("r")).status == "timed_out"
        with pytest.raises(EndedRunError, match=r"started 2 times.*max_attempts is 2"):
            await session.resume("r")
        world.hangs = set()
        assert (await session.resume("r", source=source)).ok, "another revision starts at one"


@pytest.mark.slow
async def test_pauses_do_not_count_as_attempts(tmp_path: Path) -> None:
    world = World()
    source = script("for n in range(4):", "    await ctx.ask(n=n)", "return 'done'")
    async with world.session(tmp_path, max_attempts=1) as session:
        result = await session.program(source=source, allowed_tools=ALL, run_id="r")
        while result.status == "paused":
            result = await session.approve("r", by="ann", resume=True)
        assert result.unwrap() == "done"


async def test_interrupted_effect_is_decided_in_the_corrected_run(tmp_path: Path) -> None:
    world = World()
    world.hangs = {("pay", 1)}
    fixed = script("await ctx.look(n=1)", "return [await ctx.pay(n=1), (await ctx.pay(n=2))['n']]")
    async with world.session(tmp_path) as session:
        limits, source = {"timeout_ms": 80}, script("await ctx.pay(n=1)")
        await session.program(source=source, allowed_tools=ALL, run_id="r", limits=limits)
        world.hangs = set()
        paused = await session.resume("r", source=fixed, limits={"timeout_ms": 20_000})
        assert paused.status == "paused"
        assert [(p.kind, p.call, p.tool) for p in paused.pending] == [("unknown", "2", "pay")]
        await session.history.settle("r", "2", "done", by="ann", value="paid")
        assert (await session.resume("r")).unwrap() == ["paid", 2]
    assert world.effects() == {("pay", 1): 1, ("pay", 2): 1}


async def test_rejected_correction_can_be_corrected(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        assert (await session.resume("r", source="def run(:")).status == "rejected"
        assert (await session.resume("r", source=FIXED)).ok
        with pytest.raises(EndedRunError, match="revision 1 of run 'r'"):
            await session.resume("r.1")
        await session.program(source="def run(:", allowed_tools=ALL, run_id="x")
        with pytest.raises(EndedRunError, match="has ended: rejected"):
            await session.resume("x", source=FIXED)
    assert world.effects() == {("pay", 2): 1, ("pay", 3): 1}


async def test_new_run_that_repeats_effects_of_a_failed_one_has_a_warning(tmp_path: Path) -> None:
    world = World()
    other = script("await ctx.pay(n=7)")
    async with world.session(tmp_path) as session:
        assert not (await session.program(source=other, allowed_tools=ALL)).warnings
        failed = await session.program(source=FAILING, allowed_tools=ALL)
        assert not (await session.program(source=other, allowed_tools=ALL)).warnings
        again = await session.program(source=FIXED, allowed_tools=ALL)
        (warning,) = again.warnings
        assert warning.code == "earlier_effects"
        assert f"resume('{failed.run_id}', source=...)" in warning.message
        assert "the same arguments: pay." in warning.message
        recorded = load_result(await session.history.run(again.run_id))
        assert recorded is not None
        assert recorded.warnings == again.warnings
        await session.resume(failed.run_id, source=FIXED)
        assert not (await session.program(source=FIXED, allowed_tools=ALL)).warnings, "it completed"


async def test_rollback_undoes_effects_of_all_revisions_once(tmp_path: Path) -> None:
    undone: list[tuple[str, Any]] = []

    async def revert(effect: Effect) -> None:
        undone.append((effect.call, effect.arguments["n"]))

    async def pay(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return arguments["n"]

    own = define_tool("pay", "Pay.", ANY, pay, side_effect=True, revert=revert)
    before = script("await ctx.pay(n=1)", "await ctx.pay(n=2)", "raise ValueError")
    fixed = script("await ctx.pay(n=2)", "await ctx.pay(n=3)")
    async with Session(tmp_path, tools=[own], toolsets=()) as session:
        await session.program(source=before, allowed_tools=["pay"], run_id="r")
        assert (await session.resume("r", source=fixed, allow_unmatched=True)).ok
        with pytest.raises(UsageError, match="roll back 'r'"):
            await session.rollback("r.1")
        dry = await session.rollback("r", dry_run=True)
        assert [step.call for step in dry.steps] == ["2", "1", "1:1"]
        assert (await session.rollback("r")).ok
        assert (await session.rollback("r")).ok
    assert undone == [("2", 3), ("1", 2), ("1:1", 1)]


async def test_repeated_request_of_any_revision_returns_the_result_of_the_run(
    tmp_path: Path,
) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        await session.resume("r", source=FIXED)
        for source in (FAILING, FIXED):
            again = await session.program(source=source, allowed_tools=ALL, run_id="r")
            assert again.unwrap() == 1
        with pytest.raises(UsageError, match="another script or inputs"):
            await session.program(source=script("return 2"), allowed_tools=ALL, run_id="r")
    assert world.effects() == {("pay", 2): 1, ("pay", 3): 1}


async def test_interrupted_correction_is_resumed_where_it_was(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
    world.hangs = {("pay", 3)}
    async with world.session(tmp_path) as session, anyio.create_task_group() as group:
        group.start_soon(partial(session.resume, "r", source=FIXED))
        with anyio.fail_after(20):
            while not world.calls["pay", 3]:
                await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    world.hangs = set()
    async with world.session(tmp_path) as session:
        paused = await session.resume("r")
        assert [(p.kind, p.call) for p in paused.pending] == [("unknown", "3")]
        await session.history.settle("r", "3", "again", by="ann")
        assert (await session.resume("r")).unwrap() == 1
        assert (await session.history.run("r")).revision == 2
    assert world.calls == {("look", 1): 1, ("pay", 2): 1, ("pay", 3): 2}
    assert len(world.keys) == 2, "the repeated call has the same key"


async def test_paused_run_is_continued_by_another_script(tmp_path: Path) -> None:
    world = World()
    source = script("await ctx.pay(n=1)", "await ctx.ask(n=2)", "return 1")
    other = script("await ctx.pay(n=1)", "await ctx.ask(n=3)", "return 2")
    async with world.session(tmp_path) as session:
        await session.program(source=source, allowed_tools=ALL, run_id="r")
        paused = await session.resume("r", source=other)
        assert [p.arguments for p in paused.pending] == [{"n": 3}]
        assert len(await session.pending()) == 1, "the earlier request is withdrawn"
        assert (await session.approve("r", by="ann", resume=True)).unwrap() == 2
    assert world.effects() == {("pay", 1): 1, ("ask", 3): 1}


async def test_crashed_run_is_resumed_once_its_worker_is_gone(tmp_path: Path) -> None:
    world = World()
    source = script("await ctx.pay(n=1)", "await ctx.kill()", "return (await ctx.pay(n=2))['n']")
    killed: list[bool] = []

    async def kill(arguments: Mapping[str, Any]) -> Any:
        if killed:
            return None
        killed.append(True)
        (run,) = session._runs.active
        assert run._worker is not None
        run._worker.kill()
        return await anyio.sleep_forever()

    extra = define_tool("kill", "Kill the worker.", ANY, kill)
    session = Session(tmp_path, tools=[*world.tools(), extra], toolsets=())
    async with session:
        crashed = await session.program(source=source, allowed_tools=[*ALL, "kill"], run_id="r")
        assert crashed.status == "crashed"
        result = await session.resume("r")
        assert result.unwrap() == 2
        assert [w.code for w in result.warnings] == ["resumed"]
    assert world.effects() == {("pay", 1): 1, ("pay", 2): 1}


@pytest.mark.slow
async def test_direct_call_has_no_script_to_correct(tmp_path: Path) -> None:
    world = World()
    async with world.session(tmp_path, record_direct_calls=True) as session:
        await session.tool("look", {"n": 1})
        (row,) = await session.history.runs()
        with pytest.raises(UsageError, match="direct call of a tool"):
            await session.resume(row.run_id, source=FIXED)


@pytest.mark.parametrize(
    ("outcome", "made"),
    [("done", 1), pytest.param("again", 2, marks=pytest.mark.slow)],
)
async def test_interrupted_nested_effect_is_decided_in_the_corrected_run(
    tmp_path: Path, outcome: Any, made: int
) -> None:
    world = World()
    world.hangs = {("pay", 3)}
    before = script("return await ctx.deep(n=3)")
    moved = script("await ctx.look(n=1)", "return await ctx.deep(n=3)")
    async with world.session(tmp_path) as session:
        limits = {"timeout_ms": 80}
        await session.program(source=before, allowed_tools=ALL, run_id="r", limits=limits)
        world.hangs = set()
        paused = await session.resume("r", source=moved, limits={"timeout_ms": 20_000})
        assert [(p.kind, p.call) for p in paused.pending] == [("unknown", "2.1")]
        assert world.calls["pay", 3] == 1
        again = await session.resume("r")
        assert again.status == "paused"
        await session.history.settle("r", "2.1", outcome, by="ann", value={"n": 3})
        assert (await session.resume("r")).ok
    assert world.calls["pay", 3] == made
    assert len(world.keys) == 1


_WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"reads": "refresh"}, "need source="),
    ({"allow_unmatched": True}, "need source="),
    ({"source": FIXED, "reads": "again"}, "reads='again' is unknown.*reuse, refresh"),
    ({"source": 5}, "source must be a string"),
    ({"source": FIXED, "until": "1"}, "until= replays the recorded script"),
    ({"source": FIXED, "limits": {"max_fun": 1}}, "there is no limit 'max_fun'"),
)


async def test_wrong_argument_changes_nothing(tmp_path: Path) -> None:
    async with World().session(tmp_path) as session:
        await session.program(source=FAILING, allowed_tools=ALL, run_id="r")
        for options, problem in _WRONG:
            with pytest.raises(UsageError, match=problem):
                await session.resume("r", **options)
        row = await session.history.run("r")
        assert (row.status, row.revision) == ("failed", 1)
