"""A call's way through the host: approval, cache, breaker, retry, limits, keys, context."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptc import (
    ApprovalRequest,
    Attachment,
    Cache,
    Decision,
    Retry,
    RunResult,
    Session,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    current_tool_context,
    define_tool,
    tool,
)
from ptc._calls._breaker import Circuit
from ptc._calls._call import OpenCall
from ptc._calls._occurrences import Occurrences
from ptc._calls._result_cache import ResultCache
from ptc._tools._tool import ToolCall

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

WORD = {"type": "object", "properties": {"word": {"type": "string"}, "n": {"type": "integer"}}}


@asynccontextmanager
async def open_session(root: Path, *tools: Tool, **options: Any) -> AsyncIterator[Any]:
    async with Session(root, tools=tools, toolsets=(), **options) as session:
        yield session


class CountingTool:
    """A tool function that counts, and fails as often as it is told."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.calls = 0
        self.failures = failures
        self.error = error or RuntimeError("down")
        self.seen: list[Any] = []

    async def __call__(self, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        self.calls += 1
        self.seen.append((dict(arguments), ctx.attempt, ctx.idempotency_key))
        await anyio.lowlevel.checkpoint()
        if self.calls <= self.failures:
            raise self.error
        return {"calls": self.calls}

    def tool(self, name: str = "work", **options: Any) -> Tool:
        return define_tool(name, "Work.", WORD, self, **options)


# --- retry ----------------------------------------------------------------------------------


async def test_failed_call_is_retried_and_the_record_counts_the_attempts(tmp_path: Path) -> None:
    work = CountingTool(failures=2)
    async with open_session(
        tmp_path, work.tool(retry=Retry(max_retries=3, backoff_ms=0))
    ) as session:
        result = await session.program(
            source="def run(ctx, inputs):\n    return ctx.work(word='a')"
        )
        assert result.unwrap() == {"calls": 3}
        assert [(c.status, c.attempts) for c in result.calls] == [("succeeded", 3)]
        assert [attempt for _, attempt, _ in work.seen] == [1, 2, 3]
        assert len({key for _, _, key in work.seen}) == 1


async def test_exhausted_retries_return_the_last_error(tmp_path: Path) -> None:
    asked: list[int] = []

    def again(error: Exception, attempt: int) -> bool:
        asked.append(attempt)
        return True

    work = CountingTool(failures=9)
    retry = Retry(max_retries=3, backoff_ms=0, should_retry=again)
    async with open_session(tmp_path, work.tool(retry=retry)) as session:
        result = await session.tool("work")
        assert result.error is not None
        assert (work.calls, asked, result.error.code) == (4, [1, 2, 3, 4], "internal")


async def test_deterministic_error_is_not_retried(tmp_path: Path) -> None:
    work = CountingTool(failures=9, error=ToolError("no such row", code="not_found"))
    async with open_session(
        tmp_path, work.tool(retry=Retry(max_retries=3, backoff_ms=0))
    ) as session:
        assert (await session.tool("work")).error.code == "not_found"
        assert work.calls == 1


def test_backoff_doubles_up_to_its_maximum_and_may_be_zero() -> None:
    retry = Retry(max_retries=9, backoff_ms=20, max_backoff_ms=100)
    assert [retry.wait_ms(n) for n in range(1, 6)] == [20, 40, 80, 100, 100]
    assert Retry(backoff_ms=0).wait_ms(3) == 0
    waits = {Retry(backoff_ms=100, jitter=0.5).wait_ms(1) for _ in range(50)}
    assert all(50 <= wait <= 100 for wait in waits)
    assert len(waits) > 1


async def test_cancelled_call_does_not_wait_for_its_backoff(tmp_path: Path) -> None:
    work = CountingTool(failures=9)
    retry = Retry(max_retries=3, backoff_ms=3_600_000, max_backoff_ms=3_600_000)
    async with open_session(tmp_path, work.tool(retry=retry)) as session:
        with anyio.fail_after(10):
            result = await session.program(
                source="import asyncio\nasync def run(ctx, inputs):\n"
                "    try:\n        await asyncio.wait_for(ctx.work(), 0.05)\n"
                "    except TimeoutError:\n        return 'late'\n"
            )
        assert (result.unwrap(), work.calls) == ("late", 1)


def test_non_idempotent_tool_can_be_retried_only_with_its_key() -> None:
    with pytest.raises(UsageError, match="cannot be retried"):
        CountingTool().tool(side_effect=True, retry=Retry(max_retries=1))
    CountingTool().tool(side_effect=True, uses_key=True, retry=Retry(max_retries=1))


async def test_call_over_the_timeout_of_its_tool_is_stopped_with_unknown_outcome(
    tmp_path: Path,
) -> None:
    stopped = anyio.Event()

    async def slow(arguments: Mapping[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    pay = define_tool("pay", "Pay.", WORD, slow, timeout_ms=20, side_effect=True, idempotent=True)
    async with open_session(tmp_path, pay) as session:
        result = await session.program(
            source="def run(ctx, inputs):\n    return ctx.pay()", allowed_tools=["pay"]
        )
        assert result.error.code == "timeout" or "took longer than 20 ms" in result.error.message
        assert stopped.is_set()
        assert [(c.status, c.error_code) for c in result.calls] == [("unknown", "timeout")]


# --- breaker --------------------------------------------------------------------------------


async def test_breaker_opens_after_repeated_failures(tmp_path: Path) -> None:
    work = CountingTool(failures=99)
    async with open_session(tmp_path, work.tool(retry=Retry(breaker_threshold=3))) as session:
        codes = [(await session.tool("work")).error.code for _ in range(5)]
        assert codes == ["internal"] * 3 + ["circuit_open"] * 2
        assert work.calls == 3


async def test_parallel_calls_cannot_exceed_the_breaker_threshold(tmp_path: Path) -> None:
    work = CountingTool(failures=99)
    async with open_session(tmp_path, work.tool(retry=Retry(breaker_threshold=2))) as session:
        result = await session.program(
            source="import asyncio\nasync def run(ctx, inputs):\n"
            "    found = await asyncio.gather(*(ctx.work() for _ in range(20)),"
            " return_exceptions=True)\n    return sorted(e.code for e in found)\n"
        )
        assert result.unwrap() == ["circuit_open"] * 18 + ["internal"] * 2
        assert work.calls == 2


async def test_open_breaker_admits_one_call_after_its_cool_down() -> None:
    now = 0.0
    circuit = Circuit(Retry(breaker_threshold=1, cool_down_ms=1_000), clock=lambda: now)
    await circuit.enter("t")
    circuit.failed()
    with pytest.raises(ToolError, match=r"retry after 1\.0 s") as refused:
        await circuit.enter("t")
    assert refused.value.retryable
    assert refused.value.details["retry_after_ms"] == 1_000
    now = 1.0
    await circuit.enter("t")
    with pytest.raises(ToolError, match="its breaker is open"):
        await circuit.enter("t")
    circuit.failed()
    with pytest.raises(ToolError, match="its breaker is open"):
        await circuit.enter("t")
    now = 2.0
    await circuit.enter("t")
    circuit.succeeded()
    await circuit.enter("t")


async def test_cancelled_call_does_not_count_as_a_breaker_failure() -> None:
    circuit = Circuit(Retry(breaker_threshold=1))
    for _ in range(3):
        await circuit.enter("t")
        circuit.leave()


# --- cache ----------------------------------------------------------------------------------


async def test_equal_calls_of_a_run_execute_once_and_are_recorded_as_cached(tmp_path: Path) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool(cache=True)) as session:
        source = (
            "async def run(ctx, inputs):\n"
            "    a = await ctx.work(word='a', n=1)\n    b = await ctx.work(n=1, word='a')\n"
            "    c = await ctx.work(word='b', n=1)\n    return [a, b, c]\n"
        )
        result = await session.program(source=source)
        assert result.unwrap() == [{"calls": 1}, {"calls": 1}, {"calls": 2}]
        assert [c.cached for c in result.calls] == [False, True, False]
        await session.program(source=source)
        assert work.calls == 4, "another run has a cache of its own"


async def test_cached_result_has_its_attachments_in_the_record(
    tmp_path: Path,
) -> None:
    async def chart(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult.success(1, attachments=[Attachment("a.png", "image/png", b"1")])

    made = define_tool("chart", "C.", WORD, chart, cache=True)
    async with open_session(tmp_path, made) as session:
        result = await session.program(
            source="def run(ctx, inputs):\n    ctx.chart()\n    ctx.chart()\n"
        )
        first, second = result.calls
        assert (first.cached, second.cached) == (False, True)
        assert first.attachments == second.attachments != ()


async def test_session_cache_is_shared_by_runs_and_direct_calls(tmp_path: Path) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool(cache=Cache(scope="session"))) as session:
        await session.program(source="def run(ctx, inputs):\n    return ctx.work(word='a')")
        assert await session.work(word="a") == {"calls": 1}


async def test_concurrent_equal_calls_execute_once(tmp_path: Path) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool(cache=True)) as session:
        result = await session.program(
            source="import asyncio\nasync def run(ctx, inputs):\n"
            "    return await asyncio.gather(*(ctx.work(word='a') for _ in range(30)))\n"
        )
        assert result.unwrap() == [{"calls": 1}] * 30
        assert work.calls == 1


async def test_errors_are_not_cached_but_none_is(tmp_path: Path) -> None:
    work = CountingTool(failures=1)
    nothing = CountingTool()

    async def none(arguments: Mapping[str, Any]) -> None:
        nothing.calls += 1

    tools = (work.tool(cache=True), define_tool("none", "None.", WORD, none, cache=True))
    async with open_session(tmp_path, *tools) as session:
        with pytest.raises(ToolError):
            await session.work()
        assert [await session.work(), await session.work()] == [{"calls": 2}] * 2
        assert [await session.none(), await session.none()] == [None, None]
        assert nothing.calls == 1


async def test_mutating_a_cached_value_does_not_change_the_cache(tmp_path: Path) -> None:
    async with open_session(tmp_path, CountingTool().tool(cache=True)) as session:
        first = await session.work()
        first["calls"] = "changed"
        second = await session.work()
        second["calls"] = "changed"
        assert await session.work() == {"calls": 1}


async def test_cached_value_expires_and_zero_lifetime_caches_nothing() -> None:
    now = 0.0
    made = itertools.count(1)

    async def make() -> int:
        return next(made)

    results = ResultCache(clock=lambda: now)
    assert await results.get("a", 1_000, make) == (1, False)
    now = 0.999
    assert await results.get("a", 1_000, make) == (1, True)
    now = 1.0
    assert await results.get("a", 1_000, make) == (2, False)
    assert await results.get("b", 0, make) == (3, False)
    assert await results.get("b", 0, make) == (4, False)


async def test_next_waiter_computes_when_the_computing_caller_is_cancelled() -> None:
    results = ResultCache()
    begun = anyio.Event()

    async def never() -> int:
        begun.set()
        await anyio.sleep_forever()
        return 0

    async def make() -> int:
        return 7

    found: list[tuple[int, bool]] = []
    async with anyio.create_task_group() as second, anyio.create_task_group() as first:
        first.start_soon(results.get, "a", None, never)
        await begun.wait()

        async def follow() -> None:
            found.append(await results.get("a", None, make))

        for _ in range(3):
            second.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        first.cancel_scope.cancel()
    assert sorted(found) == [(7, False), (7, True), (7, True)]


async def test_cache_key_function_defines_equality_within_one_tool(tmp_path: Path) -> None:
    one, two = CountingTool(), CountingTool()

    def same(arguments: Mapping[str, Any]) -> Any:
        return arguments["word"].lower()

    tools = (one.tool("one", cache=Cache(same, scope="session")), two.tool("two", cache=same))
    async with open_session(tmp_path, *tools) as session:
        await session.one(word="A")
        assert await session.one(word="a") == {"calls": 1}
        assert await session.two(word="a") == {"calls": 1}
        with pytest.raises(ToolError, match="cache key failed: KeyError"):
            await session.one()


# --- limits ---------------------------------------------------------------------------------


async def test_parallel_calls_cannot_exceed_max_executions(tmp_path: Path) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool(max_executions_per_run=3)) as session:
        source = (
            "import asyncio\nasync def run(ctx, inputs):\n"
            "    found = await asyncio.gather(*(ctx.work() for _ in range(10)),"
            " return_exceptions=True)\n"
            "    return sorted(getattr(e, 'code', 'done') for e in found)\n"
        )
        result = await session.program(source=source)
        assert result.unwrap() == ["done"] * 3 + ["limit_exceeded"] * 7
        assert (await session.program(source=source)).unwrap()[:3] == ["done"] * 3


async def test_failed_and_cached_calls_do_not_count_as_executions(tmp_path: Path) -> None:
    work = CountingTool(failures=2)
    async with open_session(tmp_path, work.tool(max_executions_per_run=1, cache=True)) as session:
        result = await session.program(
            source="async def run(ctx, inputs):\n    out = []\n    for word in 'aaaab':\n"
            "        try:\n            out.append((await ctx.work(word=word))['calls'])\n"
            "        except ToolError as e:\n            out.append(e.code)\n    return out\n"
        )
        assert result.unwrap() == ["internal", "internal", 3, 3, "limit_exceeded"]


async def test_zero_max_executions_rejects_before_approval(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return Decision(True)

    made = CountingTool().tool(max_executions_per_run=0, needs_approval=True)
    async with open_session(tmp_path, made, approver=approve) as session:
        assert (await session.tool("work")).error.code == "limit_exceeded"
        assert not asked


# --- approval -------------------------------------------------------------------------------


async def test_approval_request_contains_the_validated_arguments(
    tmp_path: Path,
) -> None:
    asked: list[ApprovalRequest] = []

    @tool(
        side_effect=True,
        needs_approval=lambda arguments: arguments["amount"] > 10,
        approval_prompt=lambda arguments: f"Pay {arguments['amount']}?",
        approval_defaults={"note": "thanks"},
    )
    async def pay(ctx: ToolContext, amount: int, to: str = "shop") -> str:
        """Pay."""
        return f"{amount} to {to}"

    async def approve(request: ApprovalRequest) -> Decision:
        asked.append(request)
        answers = {11: Decision(True), 12: Decision(False, by="ann", comment="too much")}
        return answers.get(request.arguments["amount"], Decision(True, {"amount": 1}, by="bob"))

    async with open_session(tmp_path, pay, approver=approve) as session:
        assert await session.pay(amount=5) == "5 to shop"
        assert await session.pay(amount="11") == "11 to shop"
        with pytest.raises(ToolError, match="rejected by ann: too much") as rejected:
            await session.pay(amount=12)
        assert rejected.value.code == "rejected"
        assert await session.pay(amount=13) == "1 to shop"
    assert [dict(r.arguments) for r in asked] == [
        {"amount": amount, "to": "shop"} for amount in (11, 12, 13)
    ]
    assert (asked[0].prompt, asked[0].defaults) == ("Pay 11?", {"note": "thanks"})
    assert len({r.fingerprint for r in asked}) == 3


async def async_no(arguments: Mapping[str, Any]) -> bool:
    return False


async def async_yes(arguments: Mapping[str, Any]) -> bool:
    return True


@pytest.mark.parametrize(
    ("gate", "gated"),
    [
        (True, True),
        (False, False),
        (lambda a: False, False),
        (lambda a: 1 // 0, True),
        (lambda a: None, True),
        (async_no, False),
        (async_yes, True),
    ],
)
async def test_approval_predicate_fails_closed_without_an_approver(
    tmp_path: Path, gate: Any, gated: bool
) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool(needs_approval=gate)) as session:
        result = await session.tool("work")
        assert (result.error.code if result.error else None) == (
            "approval_required" if gated else None
        )
        assert work.calls == (0 if gated else 1)


async def test_failing_or_invalid_approver_does_not_approve(tmp_path: Path) -> None:
    answers: Any = iter([RuntimeError("gone"), "yes", Decision(True, {"n": "x"})])

    async def approve(request: ApprovalRequest) -> Decision:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # one of them is no Decision, which is the point

    work = CountingTool()
    async with open_session(tmp_path, work.tool(needs_approval=True), approver=approve) as session:
        codes = [(await session.tool("work")).error.code for _ in range(3)]
        assert codes == ["rejected", "rejected", "invalid_arguments"]
        assert work.calls == 0


# --- keys and context -----------------------------------------------------------------------


def keys_of(words: list[str], run: str = "r1") -> list[str | None]:
    siblings = Occurrences()
    calls = []
    for number, word in enumerate(words, 1):
        call = OpenCall(ToolCall("t", {}, number, run), siblings=siblings, arguments={"w": word})
        siblings.add(call)
        calls.append(call)
    return [call.key() for call in calls]


@given(st.lists(st.sampled_from("abc"), max_size=12), st.randoms())
def test_idempotency_key_does_not_depend_on_preceding_calls(words: list[str], random: Any) -> None:
    keys = keys_of(words)
    assert len(set(keys)) == len(words)
    assert keys == keys_of(words), "a replay has the same keys"
    assert not set(keys) & set(keys_of(words, run="r2"))
    shuffled = list(words)
    random.shuffle(shuffled)
    assert set(keys_of(shuffled)) == set(keys)


async def test_direct_call_has_only_the_idempotency_key_of_its_caller(tmp_path: Path) -> None:
    work = CountingTool()
    async with open_session(tmp_path, work.tool()) as session:
        await session.tool("work")
        await session.tool("work", idempotency_key="order-7")
        assert [key for _, _, key in work.seen] == [None, "order-7"]
        with pytest.raises(UsageError, match="idempotency_key"):
            await session.tool("work", idempotency_key=" ")


@tool
async def outer(ctx: ToolContext, times: int = 1) -> list[str]:
    """Call inner."""
    ctx.progress(0, times, "begun")
    found = [await ctx.call_tool("inner", n=n) for n in range(times)]
    assert current_tool_context() is ctx
    return found


@tool
async def inner(n: int) -> str:
    """Say where."""
    ctx = current_tool_context()
    assert ctx is not None
    await anyio.lowlevel.checkpoint()
    assert current_tool_context() is ctx
    ctx.log("inside", n=n)
    return f"{ctx.tool_name} {ctx.call_id.partition('.')[2]} seq {ctx.seq}"


@tool
def in_thread() -> str:
    """Say where."""
    ctx = current_tool_context()
    assert ctx is not None
    ctx.progress(1)
    return ctx.tool_name


async def test_nested_call_is_restricted_by_the_allow_list_of_the_run(tmp_path: Path) -> None:
    async with open_session(tmp_path, outer, inner, in_thread) as session:
        result = await session.program(
            source="import asyncio\nasync def run(ctx, inputs):\n"
            "    return await asyncio.gather(ctx.outer(times=2), ctx.in_thread(), ctx.outer())\n"
        )
        assert result.unwrap() == [
            ["inner 1.1 seq 1", "inner 1.2 seq 2"],
            "in_thread",
            ["inner 3.1 seq 1"],
        ]
        rows = [(c.parent, c.seq, c.tool) for c in result.calls]
        assert rows == [
            (None, 1, "outer"),
            ("1", 1, "inner"),
            ("1", 2, "inner"),
            (None, 2, "in_thread"),
            (None, 3, "outer"),
            ("3", 1, "inner"),
        ]
        assert current_tool_context() is None
        refused = await session.program(
            source="def run(ctx, inputs):\n    return ctx.outer()", allowed_tools=["outer"]
        )
        assert "'inner' is not allowed in this run" in refused.error.message


async def test_circular_nested_calls_are_stopped(tmp_path: Path) -> None:
    @tool
    async def circle(ctx: ToolContext) -> Any:
        """Go round."""
        return await ctx.call_tool("circle")

    async with open_session(tmp_path, circle) as session:
        with pytest.raises(ToolError, match="tools have called one another 8 deep"):
            await session.circle()


async def test_context_created_manually_has_defaults_and_makes_no_calls(
    tmp_path: Path,
) -> None:
    ctx = ToolContext(tmp_path, "t", "t.1", None, 1)
    ctx.progress(1)
    ctx.log("nothing")
    assert (ctx.idempotency_key, ctx.cancelled, ctx.calls_left, ctx.attempt) == (
        None,
        False,
        None,
        1,
    )
    with pytest.raises(UsageError, match="a session created"):
        await ctx.call_tool("x")


# --- events ---------------------------------------------------------------------------------


async def test_stream_yields_events_and_ends_with_the_result(tmp_path: Path) -> None:
    async with open_session(tmp_path, outer, inner) as session:
        async with session.stream(
            source="async def run(ctx, inputs):\n    print('hi')\n    return await ctx.outer()\n"
        ) as events:
            found = [event async for event in events]
        assert [e.kind for e in found] == [
            "started",
            "stdout",
            "tool_started",
            "progress",
            "tool_started",
            "log",
            "tool_finished",
            "tool_finished",
            "finished",
        ]
        assert isinstance(found[-1].value, RunResult)
        assert found[-1].value.ok
        assert found[3].value == {"done": 0, "total": 1, "message": "begun"}
        assert found[5].value == {"message": "inside", "data": {"n": 0}}


async def test_direct_call_can_be_streamed_and_early_exit_ends_a_stream(tmp_path: Path) -> None:
    async with open_session(tmp_path, outer, inner) as session:
        async with session.stream("inner", {"n": 3}) as events:
            found = [event async for event in events]
        assert [e.kind for e in found] == ["tool_started", "log", "tool_finished", "finished"]
        assert isinstance(found[-1].value, ToolResult)
        with anyio.fail_after(20):
            async with session.stream(source="while True: pass") as events:
                async for _ in events:
                    break
        with pytest.raises(UsageError, match="a tool or a script, not both"):
            session.stream("inner", source="1")


async def test_stream_raises_usage_errors_and_exceptions_of_its_body(tmp_path: Path) -> None:
    async with open_session(tmp_path, inner) as session:
        for wrong in ({"tool": "nope"}, {"source": 3}):
            with pytest.raises(UsageError):
                await drain(session.stream(**wrong))
        with pytest.raises(KeyError, match="mine"):
            await drain(session.stream("inner", {"n": 1}), KeyError("mine"))


async def drain(stream: Any, error: Exception | None = None) -> None:
    async with stream as events:
        if error is not None:
            raise error
        async for _ in events:
            pass
