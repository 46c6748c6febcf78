"""Functions that misbehave: what they raise, what they return, what they leave behind."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from ptc import (
    Cache,
    Retry,
    Session,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    define_tool,
    tool,
)
from ptc._calls._execute import run_function
from ptc.journal._journal import CallRow

from ..ready_session import ready_session

pytestmark = pytest.mark.anyio

ANY = {"type": "object"}
CAUGHT = """\
async def run(ctx, inputs):
    try:
        return await ctx.work()
    except ToolError as e:
        return [e.code, e.message]
"""


class WordlessError(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")


async def both_ways(root: Path, function: Any, **options: Any) -> tuple[Any, Any, str]:
    """Call a function from a script and directly; return both results and the recorded status."""
    work = define_tool("work", "Work.", ANY, function, **options)
    async with Session(root, tools=[work], toolsets=(), journal=None) as session:
        result = await session.program(source=CAUGHT, allowed_tools=["work"])
        direct = await session.tool("work")
        error = None if direct.error is None else [direct.error.code, direct.error.message]
        assert (await session.program(source="1 + 1")).unwrap() == 2, "the session goes on"
    return result.unwrap(), error or direct.value, result.calls[0].status


async def exits(arguments: Mapping[str, Any]) -> None:
    sys.exit(3)


def exits_in_a_thread(arguments: Mapping[str, Any]) -> None:
    sys.exit("done")


async def raises_generator_exit(arguments: Mapping[str, Any]) -> None:
    raise GeneratorExit("done")


def raises_generator_exit_in_a_thread(arguments: Mapping[str, Any]) -> None:
    raise GeneratorExit


async def group_with_generator_exit(arguments: Mapping[str, Any]) -> None:
    raise BaseExceptionGroup("both", [ValueError("a"), GeneratorExit()])


async def wordless(arguments: Mapping[str, Any]) -> None:
    raise WordlessError


async def number(arguments: Mapping[str, Any]) -> None:
    raise ToolError(404)  # type: ignore[arg-type]  # a mistake of a tool's author


async def group_of_one(arguments: Mapping[str, Any]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_missing)


async def group_of_two(arguments: Mapping[str, Any]) -> None:
    raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])


async def _missing() -> None:
    raise ToolError("no such row", code="not_found")


async def attaches_a_name(arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult.success(1, attachments=["chart.png"])  # type: ignore[list-item]  # a mistake


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        (exits, "internal", "the tool called sys.exit(3)"),
        (exits_in_a_thread, "internal", "the tool called sys.exit('done')"),
        (raises_generator_exit, "internal", "the tool raised GeneratorExit('done')"),
        (raises_generator_exit_in_a_thread, "internal", "the tool raised GeneratorExit()"),
        (group_with_generator_exit, "internal", "the tool raised GeneratorExit()"),
        (wordless, "internal", "WordlessError (its __str__ raised an exception)"),
        (number, "failed", "404"),
        (group_of_one, "not_found", "no such row"),
        (group_of_two, "internal", "ValueError: a; KeyError: 'b'"),
        (attaches_a_name, "bad_attachment", "not 'chart.png'"),
    ],
)
async def test_exception_of_a_tool_function_fails_only_its_call(
    tmp_path: Path, function: Any, code: str, words: str
) -> None:
    in_script, direct, status = await both_ways(tmp_path, function)
    assert in_script == direct
    assert (in_script[0], status) == (code, "failed")
    assert words in in_script[1]


async def test_tool_that_fails_during_cancellation_is_only_cancelled(
    tmp_path: Path,
) -> None:
    started = anyio.Event()

    async def late() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ToolError("too late")

    async def both(*_: Any) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(late)
            group.start_soon(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            started.set()

    @tool
    async def work() -> None:
        """Work in two tasks."""
        await both()

    @tool
    async def outer(ctx: ToolContext) -> None:
        """Call the other."""
        await ctx.call_tool("work")

    @tool(needs_approval=True)
    async def gated() -> None:
        """Wait for an approver."""

    async with ready_session(tmp_path, work, outer, gated, approver=both) as session:
        for name in ("work", "outer", "gated"):
            for ask in (session.tool, lambda name: session.program(source=f"await ctx.{name}()")):
                started = anyio.Event()
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(ask, name)
                        with anyio.fail_after(20):
                            await started.wait()
                        scope.cancel()
                assert scope.cancel_called
            assert (await session.program(source="1 + 1")).value == 2


@pytest.mark.both_loops
@pytest.mark.parametrize("anyio_backend", ["trio"])  # asyncio ends its loop when a task exits
async def test_sys_exit_in_a_task_of_a_tool_fails_its_call(tmp_path: Path) -> None:
    async def leaves(arguments: Mapping[str, Any]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(exits, arguments)

    in_script, direct, status = await both_ways(tmp_path, leaves)
    assert in_script == direct
    assert (in_script[0], status) == ("internal", "failed")
    assert "the tool called sys.exit(3)" in in_script[1]


async def test_cancellation_raised_by_a_tool_itself_fails_its_call(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("a trio.Cancelled cannot be made by hand")

    async def waits_for_a_cancelled_task(arguments: Mapping[str, Any]) -> None:
        task = asyncio.create_task(asyncio.sleep(3_600))
        await asyncio.sleep(0)
        task.cancel()
        await task

    in_script, direct, status = await both_ways(tmp_path, waits_for_a_cancelled_task)
    assert in_script == direct
    assert (in_script[0], status) == ("internal", "failed")
    assert "was cancelled" in in_script[1]


async def test_awaitable_returned_by_a_sync_function_is_awaited(tmp_path: Path) -> None:
    async def answer(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return number

    given: list[Callable[..., Awaitable[int]]] = [
        lambda arguments: answer(7),
        partial(lambda number, arguments: answer(number), 7),
    ]
    for function in given:
        assert (await both_ways(tmp_path, function))[:2] == (7, 7)


async def test_value_that_cannot_be_copied_is_returned_but_not_cached(tmp_path: Path) -> None:
    made: list[Any] = []

    async def lock(arguments: Mapping[str, Any]) -> Any:
        made.append(threading.Lock())
        return made[-1]

    work = define_tool("work", "Work.", ANY, lock, cache=True)
    async with Session(tmp_path, tools=[work], toolsets=(), journal=None) as session:
        assert [await session.call(work), await session.call(work)] == made
        told = (await session.tool("work")).text
        assert told == "(done; the result of work cannot be shown: result: lock has no JSON form)"
        assert (await session.program(source=CAUGHT)).unwrap()[0] == "result_not_json"


@pytest.mark.parametrize("options", [{"cache": True}, {"retry": Retry(breaker_threshold=1)}])
async def test_self_calling_tool_does_not_deadlock(tmp_path: Path, options: Any) -> None:
    async def circle(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await ctx.call_tool("work")

    with anyio.fail_after(20):
        in_script, direct, _ = await both_ways(tmp_path, circle, **options)
    assert in_script[0] == "too_deep"
    assert direct[0] in ("too_deep", "circuit_open")


async def test_cached_tool_with_breaker_can_call_itself_recursively(tmp_path: Path) -> None:
    async def sum_to(arguments: Mapping[str, Any], ctx: ToolContext) -> int:
        n = int(arguments["n"])
        return n if n == 0 else n + await ctx.call_tool("sum_to", n=n - 1)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    retry = Retry(breaker_threshold=1)
    made = define_tool("sum_to", "Sum.", schema, sum_to, cache=True, retry=retry)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        with anyio.fail_after(20):
            assert await session.sum_to(n=5) == 15  # type: ignore[attr-defined]  # a tool as a method


@pytest.mark.parametrize("options", [{"cache": True}, {"retry": Retry(breaker_threshold=1)}])
async def test_concurrent_mutually_calling_tools_do_not_deadlock(
    tmp_path: Path, options: Any
) -> None:
    """One begins with the first, one with the second: each has what the other wants."""
    begun: list[str] = []

    def tool_of(own: str, other: str) -> Tool:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            begun.append(own)
            while len(set(begun)) < 2:
                await anyio.lowlevel.checkpoint()
            if ctx.call_id.count(".") > 1:
                return own
            return [own, await ctx.call_tool(other)]

        return define_tool(own, "W.", ANY, work, **options)

    tools = [tool_of("one", "two"), tool_of("two", "one")]
    found: dict[str, Any] = {}
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:

        async def ask(name: str) -> None:
            found[name] = (await session.tool(name)).value

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "one")
                group.start_soon(ask, "two")
        with anyio.fail_after(20):
            await session.tool("one")
    # The first to wait has the other's whole answer; the other made a call of its own.
    assert set(found) == {"one", "two"}
    assert found["one"][0] == "one"
    assert found["two"][0] == "two"
    assert "two" in (found["one"][1], found["one"][1][0])
    assert "one" in (found["two"][1], found["two"][1][0])


async def test_cached_result_requires_permission_for_its_nested_calls(
    tmp_path: Path,
) -> None:
    async def inner(arguments: Mapping[str, Any]) -> str:
        return "inner"

    async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await ctx.call_tool("inner") if arguments.get("deep") else "own"

    cache = Cache(scope="session")
    tools = [define_tool("work", "W.", ANY, work, cache=cache)]
    tools.append(define_tool("inner", "I.", ANY, inner))
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        for arguments, expected in (({"deep": True}, "not_allowed"), ({}, None)):
            first = await session.tool("work", arguments)
            assert first.ok
            narrow = await session.tool("work", arguments, allowed_tools=["work"])
            assert (narrow.error.code if narrow.error else None) == expected
            again = await session.tool("work", arguments)
            assert again.value == first.value


async def test_context_is_unusable_after_its_call_has_finished(tmp_path: Path) -> None:
    kept: list[ToolContext] = []
    told: list[str] = []

    async def stash(arguments: Mapping[str, Any], ctx: ToolContext) -> None:
        kept.append(ctx)

    work = define_tool("work", "Work.", ANY, stash)
    async with Session(tmp_path, tools=[work], toolsets=(), journal=None) as session:
        result = await session.program(source=CAUGHT, on_event=lambda e: told.append(e.kind))
        (ctx,) = kept
        before = list(told)
        ctx.progress(1)
        ctx.log("late")
        assert told == before
        with pytest.raises(UsageError, match="work: call_tool was called after the tool"):
            await ctx.call_tool("work")
        assert len(result.calls) == len(kept) == 1


async def test_sync_function_can_call_a_tool_from_its_thread(tmp_path: Path) -> None:
    def twice(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return [anyio.from_thread.run(partial(ctx.call_tool, "inner", n=n)) for n in (1, 2)]

    async def inner(arguments: Mapping[str, Any]) -> Any:
        return arguments["n"]

    tools = [define_tool("work", "W.", ANY, twice), define_tool("inner", "I.", ANY, inner)]
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        result = await session.program(source=CAUGHT)
        assert result.unwrap() == [1, 2]
        assert [(c.parent, c.tool) for c in result.calls] == [
            (None, "work"),
            ("1", "inner"),
            ("1", "inner"),
        ]


async def test_failing_should_retry_keeps_the_error_of_the_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def down(arguments: Mapping[str, Any]) -> None:
        raise ValueError("the tool's own words")

    def again(error: Exception, attempt: int) -> bool:
        raise KeyError("again")

    retry = Retry(max_retries=3, backoff_ms=0, should_retry=again)
    in_script, _, _ = await both_ways(tmp_path, down, retry=retry)
    assert in_script == ["internal", "work failed: ValueError: the tool's own words"]
    assert "should_retry failed: KeyError" in caplog.text
    assert "own words" not in caplog.text


async def test_sync_function_is_not_started_after_its_call_was_cancelled() -> None:
    asked, told = threading.Event(), threading.Event()
    ran: list[int] = []

    class Slow:
        """A call whose thread looks and is answered when the call has been cancelled."""

        function_called = True

        @property
        def cancelled(self) -> bool:
            asked.set()
            return told.wait(20)

        @cancelled.setter
        def cancelled(self, value: bool) -> None:
            told.set()

    slow: Any = Slow()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            work = partial(run_function, partial(ran.append, 1), slow, is_async=False)
            group.start_soon(work)
            while not (asked.is_set() or ran):
                await anyio.sleep(0.001)
            group.cancel_scope.cancel()
    assert told.is_set()
    assert ran == []


@pytest.mark.parametrize("ends", ["by its time", "with its run"])
async def test_effect_interrupted_in_an_earlier_attempt_stays_unknown(
    tmp_path: Path, ends: str
) -> None:
    for timeout_ms in (100, 1_000, 10_000):
        paid, row = await interrupt_twice(tmp_path, timeout_ms, with_run=ends == "with its run")
        if paid == [1]:
            break  # else the first attempt had no thread in time, on a busy machine
    assert paid == [1]
    assert row.end is None or row.end.status == "unknown"


async def interrupt_twice(
    root: Path, timeout_ms: int, *, with_run: bool
) -> tuple[list[int], CallRow]:
    """Interrupt an effect, and then its next attempt, which waits for a thread.

    Returns:
        The attempts that were made, and the record of the call.
    """
    limiter = anyio.to_thread.current_default_thread_limiter()
    tokens, paid = limiter.total_tokens, list[int]()

    def take_threads() -> None:
        limiter.acquire_on_behalf_of_nowait("nobody")
        limiter.total_tokens = 1

    retry = Retry(max_retries=1, backoff_ms=0)

    @tool(side_effect=True, idempotent=True, timeout_ms=timeout_ms, retry=retry)
    def pay(ctx: ToolContext) -> None:
        """Pay, leave no thread for the next attempt, and return too late."""
        paid.append(ctx.attempt)
        anyio.from_thread.run_sync(take_threads)
        while not ctx.cancelled:
            time.sleep(0.001)

    async def cancel_the_second_attempt(scope: anyio.CancelScope) -> None:
        while not limiter.statistics().tasks_waiting:
            await anyio.sleep(0.001)
        scope.cancel()

    try:
        async with Session(root, tools=[pay], toolsets=(), journal=":memory:") as session:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    if with_run:
                        group.start_soon(cancel_the_second_attempt, scope)
                    await session.program(
                        source="await ctx.pay()", allowed_tools=["pay"], run_id="r"
                    )
                    group.cancel_scope.cancel()
            [row] = (await session.history.recorded("r")).calls
    finally:
        limiter.total_tokens = tokens
        if paid:
            limiter.release_on_behalf_of("nobody")
    return paid, row
