"""Calls that tools make: each effect happens once, over pauses, retries, caches and dead hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import (
    ApprovalRequest,
    Cache,
    Decision,
    Limits,
    Retry,
    RunResult,
    Session,
    Tool,
    ToolContext,
    ToolError,
    define_tool,
    tool,
)
from ptc.journal._lease import Lease
from ptc.journal._sqlite import SqliteJournal

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object"}
Work = Callable[[ToolContext, Mapping[str, Any]], Awaitable[Any]]
"""The body of a tool that calls tools."""


class Bank:
    """Tools with effects that are counted, and whatever tools a test adds."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.keys: Counter[str | None] = Counter()
        self.hang = ""
        self.hanging = anyio.Event()
        self.tools: list[Tool] = []
        self._effect("pay", side_effect=True)
        self._effect("put", side_effect=True, idempotent=True)
        self._effect("ask", side_effect=True, needs_approval=True)
        self._effect("look")

    def _effect(self, name: str, **options: Any) -> None:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            what = f"{name} {arguments.get('n', '')}".strip()
            self.done[what] += 1
            if ctx.side_effect:
                self.keys[ctx.idempotency_key] += 1
            if what == self.hang:
                self.hanging.set()
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()
            return {"did": what, "times": self.done[what]}

        self.tools.append(define_tool(name, f"{name}.", ANY, work, **options))

    def add(self, name: str, work: Work, **options: Any) -> None:
        """Add a tool whose function gets its context first."""

        async def function(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            return await work(ctx, arguments)

        self.tools.append(define_tool(name, f"{name}.", ANY, function, **options))

    def session(self, root: Path, **options: Any) -> Session:
        return Session(root, tools=self.tools, toolsets=(), **options)

    @property
    def names(self) -> list[str]:
        return [made.name for made in self.tools]

    async def begin(self, session: Session, body: str, **options: Any) -> RunResult:
        source = "import asyncio\nasync def run(ctx, inputs):\n" + "".join(
            f"    {line}\n" for line in body.splitlines()
        )
        return await session.program(source=source, allowed_tools=self.names, run_id="r", **options)

    async def through(self, root: Path, body: str, **options: Any) -> RunResult:
        """Run a script; whenever it pauses, approve all that waits and resume in a new session."""
        async with self.session(root) as session:
            result = await self.begin(session, body, **options)
        while result.status == "paused":
            async with self.session(root) as session:
                for pending in result.pending:
                    assert pending.kind == "approval", pending
                    await session.history.approve("r", pending.call, by="ann")
                result = await session.resume("r")
        return result

    async def record_cancellation(self, root: Path, body: str, at: str) -> None:
        """Start a script and leave it when `at` hangs, as a process that is killed leaves it."""
        root.mkdir(exist_ok=True)
        self.hang, self.hanging = at, anyio.Event()
        async with self.session(root) as session, anyio.create_task_group() as group:
            group.start_soon(self.begin, session, body)
            with anyio.fail_after(20):
                await self.hanging.wait()
            group.cancel_scope.cancel()
        self.hang = ""


async def pay_inside(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
    return await ctx.call_tool("pay", n=arguments["n"])


async def inner_then_ask(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
    paid = await ctx.call_tool("inner", n=arguments["n"])
    return [paid, await ctx.call_tool("ask", n=arguments["n"])]


def rows(result: RunResult) -> list[tuple[str | None, int, str, str]]:
    return [(call.parent, call.seq, call.tool, call.status) for call in result.calls]


@pytest.fixture
def bank() -> Bank:
    return Bank()


async def test_effect_below_a_call_without_effect_happens_once(bank: Bank, tmp_path: Path) -> None:
    bank.add("inner", pay_inside)
    bank.add("outer", inner_then_ask)
    result = await bank.through(tmp_path, "return await ctx.outer(n=1)")
    assert result.unwrap() == [{"did": "pay 1", "times": 1}, {"did": "ask 1", "times": 1}]
    assert bank.done == Counter({"pay 1": 1, "ask 1": 1})
    assert rows(result) == [
        (None, 1, "outer", "succeeded"),
        ("1", 1, "inner", "succeeded"),
        ("1.1", 1, "pay", "succeeded"),
        ("1", 2, "ask", "succeeded"),
    ], "as in a run that never paused"


async def test_effect_below_a_call_without_effect_survives_a_retry(
    bank: Bank, tmp_path: Path
) -> None:
    tries = 0

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal tries
        tries += 1
        looked = await ctx.call_tool("look", n=1)
        paid = await ctx.call_tool("inner", n=1)
        if tries == 1:
            raise ToolError("later", retryable=True)
        return [looked["times"], paid]

    bank.add("inner", pay_inside)
    bank.add("outer", outer, retry=Retry(max_retries=1, backoff_ms=0))
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert result.unwrap() == [2, {"did": "pay 1", "times": 1}], "a retry reads anew"
    assert bank.done == Counter({"look 1": 2, "pay 1": 1})


@pytest.mark.parametrize("fails", ["after", "in it", "by its time"])
async def test_effect_below_a_direct_call_survives_a_retry(
    bank: Bank, tmp_path: Path, fails: str
) -> None:
    tries, paid = 0, 0

    async def charge(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal paid
        paid += 1
        if tries == 1 and fails == "in it":
            raise ToolError("no money")
        if tries == 1 and fails == "by its time":
            await anyio.sleep_forever()
        return {"receipt": paid}

    async def inner(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        await ctx.call_tool("look")
        return await ctx.call_tool("charge")

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal tries
        tries += 1
        with anyio.move_on_after(0.05 if tries == 1 and fails == "by its time" else 20):
            receipt = await ctx.call_tool("inner")
            if tries == 1:
                raise ToolError("later")
            return receipt
        raise ToolError("too slow")

    retry = Retry(max_retries=1, backoff_ms=0, should_retry=lambda error, tries: True)
    bank.add("charge", charge, side_effect=True)
    bank.add("inner", inner)
    bank.add("outer", outer, retry=retry)
    async with bank.session(tmp_path) as session:
        result = await session.tool("outer")
    assert bank.done == Counter({"look": 2})
    if fails == "by its time":
        assert result.error is not None
        assert (result.error.code, paid) == ("unknown_outcome", 1)
    else:
        times = 2 if fails == "in it" else 1
        assert (result.value, paid) == ({"receipt": times}, times)


@pytest.mark.parametrize("reverse", [False, True])
async def test_siblings_in_another_order_are_recognized(
    bank: Bank, tmp_path: Path, reverse: bool
) -> None:
    starts = 0

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal starts
        starts += 1
        found: dict[str, Any] = {}

        async def one(name: str, n: int) -> None:
            found[f"{name} {n}"] = await ctx.call_tool(name, n=n)

        jobs = [("inner", 1), ("look", 2), ("inner", 3), ("put", 4), ("inner", 1)]
        async with anyio.create_task_group() as group:
            for job in reversed(jobs) if starts > 1 and reverse else jobs:
                group.start_soon(one, *job)
        return [sorted(found), await ctx.call_tool("ask", n=9)]

    bank.add("inner", pay_inside)
    bank.add("outer", outer)
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert result.unwrap()[0] == ["inner 1", "inner 3", "look 2", "put 4"]
    assert bank.done == Counter({"pay 1": 2, "pay 3": 1, "look 2": 1, "put 4": 1, "ask 9": 1})
    assert len({(call.parent, call.seq) for call in result.calls}) == len(result.calls) == 10


async def test_effect_below_an_unfinished_call_survives_the_death_of_the_host(
    bank: Bank, tmp_path: Path
) -> None:
    async def inner(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        paid = await ctx.call_tool("pay", n=arguments["n"])
        return [paid, await ctx.call_tool("look", n=arguments["n"])]

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        return [await ctx.call_tool("look", n=0), await ctx.call_tool("inner", n=1)]

    bank.add("inner", inner)
    bank.add("outer", outer)
    await bank.record_cancellation(tmp_path, "return await ctx.outer()", "look 1")
    async with bank.session(tmp_path) as session:
        result = await session.resume("r")
    assert result.unwrap()[1][0] == {"did": "pay 1", "times": 1}
    assert bank.done == Counter({"look 0": 1, "pay 1": 1, "look 1": 2})
    assert [row[:3] for row in rows(result)] == [
        (None, 1, "outer"),
        ("1", 1, "look"),
        ("1", 2, "inner"),
        ("1.2", 1, "pay"),
        ("1.2", 2, "look"),
    ]


async def test_values_preceding_an_effect_are_replayed_from_the_record(
    bank: Bank, tmp_path: Path
) -> None:
    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        balance = (await ctx.call_tool("look"))["times"]
        await ctx.call_tool("pay", n=balance)
        return [balance, (await ctx.call_tool("ask"))["did"]]

    bank.add("outer", outer)
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert result.unwrap() == [1, "ask"]
    assert bank.done == Counter({"look": 1, "pay 1": 1, "ask": 1})


async def test_tool_that_diverges_when_restarted_is_reported(bank: Bank, tmp_path: Path) -> None:
    starts = 0

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal starts
        starts += 1
        await ctx.call_tool("inner", n=starts)
        await ctx.call_tool("put", n=0)
        return await ctx.call_tool("ask", n=0)

    bank.add("inner", pay_inside)
    bank.add("outer", outer)
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert bank.done == Counter({"pay 1": 1, "pay 2": 1, "put 0": 1, "ask 0": 1})
    [warning] = result.warnings
    assert warning.code == "effect_not_repeated"
    assert warning.message.startswith(
        "outer (call 1) was started again and did not repeat its call 1.1.1"
    )
    assert [row[:3] for row in rows(result)] == [
        (None, 1, "outer"),
        ("1", 1, "inner"),
        ("1.1", 1, "pay"),
        ("1", 2, "put"),
        ("1", 3, "ask"),
        ("1", 4, "inner"),
        ("1.4", 1, "pay"),
    ], "what was done before is listed"


@dataclass
class Receipt:
    """A value with fields."""

    number: int


async def test_recorded_value_has_the_type_that_the_tool_returns(
    bank: Bank, tmp_path: Path
) -> None:
    @tool(side_effect=True)
    async def buy(ctx: ToolContext) -> list[Receipt]:
        """Buy."""
        bank.done["buy"] += 1
        return [Receipt(7)]

    @tool
    async def outer(ctx: ToolContext) -> int:
        """Buy, then ask."""
        bought = await ctx.call_tool("buy")
        await ctx.call_tool("ask")
        return int(bought[0].number)

    bank.tools += [buy, outer]
    assert (await bank.through(tmp_path, "return await ctx.outer()")).unwrap() == 7
    assert bank.done["buy"] == 1


async def test_value_too_large_to_record_is_computed_again(bank: Bank, tmp_path: Path) -> None:
    async def large(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        bank.done["large"] += 1
        return "x" * 20_000

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        size = len(await ctx.call_tool("large"))
        await ctx.call_tool("ask")
        return size

    bank.add("large", large)
    bank.add("outer", outer)
    limits = Limits(max_tool_result_bytes=10_000)
    result = await bank.through(tmp_path, "return await ctx.outer()", limits=limits)
    assert result.unwrap() == 20_000
    assert bank.done == Counter({"large": 2, "ask": 1})


async def test_recorded_failure_is_replayed_once_and_then_retried(
    bank: Bank, tmp_path: Path
) -> None:
    charged = 0

    async def charge(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal charged
        charged += 1
        if charged == 1:
            raise ToolError("no connection", retryable=True)
        return charged

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        try:
            return ["first", await ctx.call_tool("charge")]
        except ToolError:
            await ctx.call_tool("ask", n=1)
            return ["second", await ctx.call_tool("charge")]

    bank.add("charge", charge, side_effect=True)
    bank.add("outer", outer)
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert result.unwrap() == ["second", 2], "it goes the way that it went before"
    assert [row[2:] for row in rows(result)] == [
        ("outer", "succeeded"),
        ("charge", "failed"),
        ("ask", "succeeded"),
        ("charge", "succeeded"),
    ]


async def test_retry_after_a_resume_has_all_its_attempts(bank: Bank, tmp_path: Path) -> None:
    tries = 0

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        nonlocal tries
        await ctx.call_tool("inner", n=1)
        await ctx.call_tool("ask", n=2)
        tries += 1
        if tries < 3:
            raise ToolError("later", retryable=True)
        return await ctx.call_tool("look", n=3)

    bank.add("inner", pay_inside)
    options = {"side_effect": True, "idempotent": True}
    bank.add("outer", outer, retry=Retry(max_retries=2, backoff_ms=0), **options)
    result = await bank.through(tmp_path, "return await ctx.outer()")
    assert result.unwrap() == {"did": "look 3", "times": 1}
    assert bank.done == Counter({"pay 1": 1, "ask 2": 1, "look 3": 1})


async def test_repeated_batch_executes_its_effects_once(bank: Bank, tmp_path: Path) -> None:
    from ptc_tools import batch

    bank.tools.append(batch)
    calls = [{"tool": name, "arguments": {"n": 1}} for name in ("pay", "put", "look")]
    body = f"return [row.value.did for row in await ctx.batch(calls={calls})]"
    await bank.record_cancellation(tmp_path, body, "look 1")
    async with bank.session(tmp_path) as session:
        paused = await session.resume("r")
        assert [(p.tool, p.kind) for p in paused.pending] == [("batch", "unknown")]
        await session.history.settle("r", None, "again", by="ann")
        result = await session.resume("r")
    assert result.unwrap() == ["pay 1", "put 1", "look 1"]
    assert bank.done == Counter({"pay 1": 1, "put 1": 1, "look 1": 2})


# --- a pause and what goes on beside it -----------------------------------------------------


async def test_pause_does_not_interrupt_sibling_calls(bank: Bank, tmp_path: Path) -> None:
    async def slow(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        return await ctx.call_tool("pay", n=arguments["n"])

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(ctx_call, ctx, "ask", 1)
            group.start_soon(ctx_call, ctx, "slow", 2)
            group.start_soon(ctx_call, ctx, "ask", 3)
        return "done"

    bank.add("slow", slow)
    bank.add("outer", outer)
    async with bank.session(tmp_path) as session:
        paused = await bank.begin(session, "return await ctx.outer()")
        asked = sorted(p.arguments["n"] for p in paused.pending)
        assert asked == [1, 3], "both, in one pause"
        assert bank.done == Counter({"pay 2": 1})
        for pending in paused.pending:
            await session.history.approve("r", pending.call, by="ann")
        assert (await session.resume("r")).unwrap() == "done"
    assert bank.done == Counter({"pay 2": 1, "ask 1": 1, "ask 3": 1})


async def ctx_call(ctx: ToolContext, name: str, n: int) -> None:
    await ctx.call_tool(name, n=n)


async def test_simultaneous_approvals_can_be_decided_one_by_one(bank: Bank, tmp_path: Path) -> None:
    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        found: dict[int, Any] = {}

        async def one(n: int) -> None:
            try:
                found[n] = (await ctx.call_tool("ask", n=n))["did"]
            except ToolError as error:
                found[n] = error.code

        async with anyio.create_task_group() as group:
            for n in (1, 2, 3):
                group.start_soon(one, n)
        return [found[n] for n in sorted(found)]

    bank.add("outer", outer)
    async with bank.session(tmp_path) as session:
        paused = await bank.begin(session, "return await ctx.outer()")
        calls = {p.arguments["n"]: p.call for p in paused.pending}
        await session.history.approve("r", calls[2], arguments={"n": 7}, by="ann")
        paused = await session.resume("r")
        assert {p.arguments["n"]: p.call for p in paused.pending} == {1: calls[1], 3: calls[3]}
        assert bank.done == Counter({"ask 7": 1})
        await session.history.reject("r", calls[3], by="ann")
        paused = await session.resume("r")
        assert [p.call for p in paused.pending] == [calls[1]]
        await session.history.approve("r", calls[1], by="ann")
        assert (await session.resume("r")).unwrap() == ["ask 1", "ask 7", "rejected"]
    assert bank.done == Counter({"ask 7": 1, "ask 1": 1})


@pytest.mark.parametrize(
    ("outcome", "given", "paid"),
    [
        ("done", {"receipt": 9}, 1),
        pytest.param("failed", "failed", 1, marks=pytest.mark.slow),
        ("again", {"did": "pay 1"}, 2),
    ],
)
async def test_decision_about_a_nested_call_persists_over_later_pauses(
    bank: Bank, tmp_path: Path, outcome: Any, given: Any, paid: int
) -> None:
    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        try:
            found = await ctx.call_tool("inner", n=1)
            found.pop("times", None)
        except ToolError as error:
            found = error.code
        await ctx.call_tool("ask", n=2)
        return [found, (await ctx.call_tool("ask", n=3))["did"]]

    bank.add("inner", pay_inside)
    bank.add("outer", outer)
    await bank.record_cancellation(tmp_path, "return await ctx.outer()", "pay 1")
    async with bank.session(tmp_path) as session:
        paused = await session.resume("r")
        assert [(p.kind, p.tool, p.call) for p in paused.pending] == [("unknown", "pay", "1.1.1")]
        value = {"receipt": 9} if outcome == "done" else None
        await session.history.settle("r", None, outcome, value=value, by="ann")
    for _ in range(2):
        async with bank.session(tmp_path) as session:
            result = await session.resume("r")
            [pending] = result.pending
            assert pending.kind == "approval"
            await session.history.approve("r", pending.call, by="ann")
    async with bank.session(tmp_path) as session:
        assert (await session.resume("r")).unwrap() == [given, "ask 3"]
    assert bank.done == Counter({"pay 1": paid, "ask 2": 1, "ask 3": 1})


# --- cached results -------------------------------------------------------------------------


async def test_cached_result_awaiting_approval_is_computed_once(bank: Bank, tmp_path: Path) -> None:
    bank.add("inner", pay_inside)
    bank.add("outer", inner_then_ask, cache=True)
    body = "return await asyncio.gather(*(ctx.outer(n=1) for _ in range(3)))"
    result = await bank.through(tmp_path, body)
    assert len(result.unwrap()) == 3
    assert bank.done == Counter({"pay 1": 1, "ask 1": 1})


async def test_unfinished_cached_result_is_continued_by_its_next_caller(
    bank: Bank, tmp_path: Path
) -> None:
    starts: Counter[str] = Counter()

    async def branch(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        name = arguments["name"]
        starts[name] += 1
        if (name, starts[name]) in {("a", 2), ("b", 1)}:
            # The other branch is first: once the one, once the other.
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
        return await ctx.call_tool("shared", n=1, by=name)

    async def shared(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        await ctx.call_tool("inner", n=1)
        return await ctx.call_tool("look", n=2)

    bank.add("inner", pay_inside)
    bank.add("shared", shared, cache=lambda arguments: arguments["n"])
    bank.add("branch", branch)
    body = "return await asyncio.gather(ctx.branch(name='a'), ctx.branch(name='b'))"
    await bank.record_cancellation(tmp_path, body, "look 2")
    async with bank.session(tmp_path) as session:
        result = await session.resume("r")
    assert result.unwrap() == [{"did": "look 2", "times": 2}] * 2
    assert bank.done == Counter({"pay 1": 1, "look 2": 2})


async def test_cached_result_below_another_call_is_cached_on_resume(
    bank: Bank, tmp_path: Path
) -> None:
    async def branch(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        found = await ctx.call_tool("shared", n=1)
        return [found, await ctx.call_tool("look", n=3)]

    bank.add("shared", pay_inside, cache=True)
    bank.add("branch", branch)
    body = "first = await ctx.branch()\nawait ctx.ask(n=2)\nreturn [first, await ctx.shared(n=1)]"
    result = await bank.through(tmp_path, body)
    assert result.unwrap()[1] == {"did": "pay 1", "times": 1}
    assert bank.done == Counter({"pay 1": 1, "look 3": 1, "ask 2": 1})


async def test_failed_cached_result_is_computed_again(bank: Bank, tmp_path: Path) -> None:
    async def shared(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        await ctx.call_tool("pay", n=1)
        if bank.done["pay 1"] == 1:
            raise ToolError("not yet")
        return await ctx.call_tool("ask", n=2)

    bank.add("shared", shared, cache=Cache())
    body = "try:\n    await ctx.shared()\nexcept ToolError:\n    return await ctx.shared()"
    result = await bank.through(tmp_path, body)
    assert result.unwrap() == {"did": "ask 2", "times": 1}
    assert bank.done == Counter({"pay 1": 2, "ask 2": 1}), "two calls, of which one failed"


# --- what a run counts ----------------------------------------------------------------------


async def test_recorded_calls_count_towards_limits(bank: Bank, tmp_path: Path) -> None:
    async def once(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        bank.done["once"] += 1
        return "done"

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        await ctx.call_tool("inner")
        await ctx.call_tool("ask")
        try:
            await ctx.call_tool("once", n=2)
        except ToolError as error:
            return error.code
        return "twice"

    async def inner(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        return await ctx.call_tool("once", n=1)

    bank.add("once", once, side_effect=True, max_executions_per_run=1)
    bank.add("inner", inner)
    bank.add("outer", outer)
    assert (await bank.through(tmp_path, "return await ctx.outer()")).unwrap() == "limit_exceeded"
    assert bank.done["once"] == 1


async def test_calls_left_are_the_same_after_a_pause(bank: Bank, tmp_path: Path) -> None:
    left: list[int | None] = []

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        await ctx.call_tool("inner", n=1)
        await ctx.call_tool("ask", n=1)
        left.append(ctx.calls_left)

    bank.add("inner", pay_inside)
    bank.add("outer", outer)
    body = "await ctx.outer()\ntry:\n    await ctx.ask(n=9)\nexcept ToolError:\n    pass\n"
    body += "await ctx.outer()"
    async with bank.session(tmp_path) as session:
        result = await bank.begin(session, body, limits=Limits(max_tool_calls=20))
        while result.status == "paused":
            for pending in result.pending:
                if pending.arguments == {"n": 9}:
                    await session.history.reject("r", pending.call, by="ann")
                else:
                    await session.history.approve("r", pending.call, by="ann")
            result = await session.resume("r")
    result.unwrap()
    assert left == [16, 11]


# --- keys -----------------------------------------------------------------------------------


async def test_equal_calls_keep_their_keys_when_one_of_them_is_resumed(
    bank: Bank, tmp_path: Path
) -> None:
    sent: list[tuple[str, str | None]] = []
    blocked = anyio.Event()

    async def send(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        sent.append((ctx.call_id, ctx.idempotency_key))
        if ctx.call_id == "r.1" and not blocked.is_set():
            blocked.set()
            await anyio.sleep_forever()

    bank.add("send", send, side_effect=True, uses_key=True)
    body = "await asyncio.gather(ctx.send(n=1), ctx.send(n=1))"
    async with bank.session(tmp_path) as session, anyio.create_task_group() as group:
        group.start_soon(bank.begin, session, body)
        with anyio.fail_after(20):
            await blocked.wait()
            while not any(r.end for r in (await session.history.recorded("r")).calls):
                await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    async with bank.session(tmp_path) as session:
        assert (await session.resume("r")).ok
    keys = dict(sent[:2])
    assert sent[2:] == [("r.1", keys["r.1"])]
    assert len(set(keys.values())) == 2


@pytest.mark.parametrize("nested", [False, True])
async def test_effect_whose_start_was_not_recorded_in_time_is_not_started(
    bank: Bank, tmp_path: Path, nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, barriers = SqliteJournal.barrier, 0

    async def stuck_once(self: SqliteJournal, lease: Lease) -> None:
        nonlocal barriers
        barriers += 1
        if barriers == 1:
            await anyio.sleep_forever()
        await barrier(self, lease)

    async def inner(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        with anyio.move_on_after(0.02):
            await ctx.call_tool("pay", n=1)
        return await ctx.call_tool("pay", n=1)

    bank.add("inner", inner)
    body = "return await ctx.inner()"
    if not nested:
        body = "try:\n    await ctx.pay(n=1)\nexcept ToolError as e:\n    return e.retryable"
    limits = Limits() if nested else Limits(tool_timeout_ms=20)
    async with bank.session(tmp_path) as session:
        await session.warm_up()
        monkeypatch.setattr(SqliteJournal, "barrier", stuck_once)
        result = await bank.begin(session, body, limits=limits)
    assert next(call.status for call in result.calls if call.tool == "pay") == "not_started"
    assert bank.done == (Counter({"pay 1": 1}) if nested else Counter())


@pytest.mark.parametrize("nested", [False, True])
async def test_effect_cancelled_while_its_start_is_recorded_executes_on_resume(
    bank: Bank, tmp_path: Path, nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, waiting = SqliteJournal.barrier, anyio.Event()

    async def stuck(self: SqliteJournal, lease: Lease) -> None:
        await barrier(self, lease)
        waiting.set()
        await anyio.sleep_forever()

    bank.add("inner", pay_inside)
    body = "return await ctx.inner(n=1)" if nested else "return await ctx.pay(n=1)"
    async with bank.session(tmp_path) as session:
        monkeypatch.setattr(SqliteJournal, "barrier", stuck)
        async with anyio.create_task_group() as group:
            group.start_soon(bank.begin, session, body)
            with anyio.fail_after(20):
                await waiting.wait()
            group.cancel_scope.cancel()
        monkeypatch.undo()
        result = await session.resume("r")
    assert result.unwrap() == {"did": "pay 1", "times": 1}, "nobody has to decide: it was not made"


async def test_upgrade_of_a_tool_between_two_hosts_changes_no_key(
    bank: Bank, tmp_path: Path
) -> None:
    sent: list[tuple[str, str | None]] = []
    properties: dict[str, Any] = {"n": {"type": "integer"}}

    async def upgraded(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        sent.append((ctx.tool_name, ctx.idempotency_key))
        if len(sent) == 2:
            bank.hanging.set()
            await anyio.sleep_forever()
        return len(arguments)

    def tools() -> list[Tool]:
        schema = {"type": "object", "properties": dict(properties)}
        charge = define_tool("charge", "Charge.", schema, upgraded, side_effect=True)
        options: dict[str, Any] = {"side_effect": True, "uses_key": True}
        return [charge, define_tool("send", "Send.", schema, upgraded, **options)]

    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        return [await ctx.call_tool("charge", n=1), await ctx.call_tool("send", n=1)]

    for body in ("return await ctx.outer()", "return [await ctx.charge(n=1), await ctx.send(n=1)]"):
        sent.clear()
        properties.pop("currency", None)
        bank.tools = [t for t in bank.tools if t.name not in ("charge", "send", "outer")] + tools()
        bank.add("outer", outer)
        await bank.record_cancellation(tmp_path / body[13:18], body, "send 1")
        properties["currency"] = {"type": "string", "default": "EUR"}
        bank.tools = [t for t in bank.tools if t.name not in ("charge", "send")] + tools()
        async with bank.session(tmp_path / body[13:18]) as session:
            resumed = await session.resume("r", accept_changed_tools=True)
            assert resumed.unwrap() == [1, 2]
        assert [name for name, _ in sent] == ["charge", "send", "send"]
        assert sent[1] == sent[2], "the server knows it again"


async def test_rejected_call_does_not_change_the_key_of_an_equal_call(
    bank: Bank, tmp_path: Path
) -> None:
    body = (
        "try:\n    await ctx.ask(n=1)\nexcept ToolError:\n    pass\n"
        "await ctx.ask(n=5)\nreturn await ctx.ask(n=1)"
    )
    async with bank.session(tmp_path) as session:
        paused = await bank.begin(session, body)
        await session.history.reject("r", by="ann")
        paused = await session.resume("r")
        await session.history.approve("r", paused.pending[0].call, by="ann")
        paused = await session.resume("r")
        key = paused.pending[0].idempotency_key
        await session.history.approve("r", paused.pending[0].call, by="ann")
        assert (await session.resume("r")).ok
    assert bank.done == Counter({"ask 5": 1, "ask 1": 1})
    assert bank.keys[key] == 1, "the key that the approver saw is the one that was used"


async def test_calls_made_equal_by_edited_arguments_remain_distinct(
    bank: Bank, tmp_path: Path
) -> None:
    async def approver(request: ApprovalRequest) -> Decision:
        # The first of the two is decided when the other has been made.
        if request.arguments["n"] == 2:
            while not bank.done["ask 1"]:
                await anyio.sleep(0.001)
            return Decision(True, arguments={"n": 1})
        return Decision(True)

    async with bank.session(tmp_path, approver=approver) as session:
        result = await bank.begin(session, "await asyncio.gather(ctx.ask(n=2), ctx.ask(n=1))")
        result.unwrap()
    assert bank.done == Counter({"ask 1": 2})
    assert len(bank.keys) == 2


async def test_unknown_effect_below_a_non_repeatable_call_stays_unknown(
    bank: Bank, tmp_path: Path
) -> None:
    async def outer(ctx: ToolContext, arguments: Mapping[str, Any]) -> Any:
        try:
            return await ctx.call_tool("pay", n=1)
        except ToolError as error:
            return error.code

    bank.add("outer", outer, side_effect=True)
    await bank.record_cancellation(tmp_path, "return await ctx.outer()", "pay 1")
    async with bank.session(tmp_path) as session:
        paused = await session.resume("r")
        assert [(p.tool, p.kind) for p in paused.pending] == [("outer", "unknown")]
        await session.history.settle("r", None, "again", by="ann")
        result = await session.resume("r")
        assert result.unwrap() == "unknown_outcome"
        assert [row[2:] for row in rows(result)] == [("outer", "succeeded"), ("pay", "unknown")]
        [_, row] = (await session.history.recorded("r")).calls
        assert row.end is None, "nobody says that it was not started"
    assert bank.done == Counter({"pay 1": 1}), "nobody has decided to pay again"
