"""Limits, cache, retry and breaker of calls, as agent kits ask for them (CG rows)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from ptc import (
    ApprovalRequest,
    Cache,
    Decision,
    Limits,
    Retry,
    RunEvent,
    Session,
    ToolContext,
    ToolError,
    UsageError,
    define_tool,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object"}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
    "required": ["a"],
}


@tool
async def double(n: int) -> int:
    """Double."""
    return 2 * n


async def test_every_entry_point_validates_and_runs_the_same_tool(tmp_path: Path) -> None:
    """Each of them runs the function, and each of them validates."""

    async def through(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await ctx.call_tool("double", **arguments)

    by_tool = define_tool("through", "T.", ANY, through)
    async with Session(tmp_path, tools=[double, by_tool], toolsets=()) as session:
        assert (
            (await session.tool("double", {"n": 2})).unwrap()
            == await session.call(double, n=2)
            == 4
        )
        assert await session.through(n=2) == 4  # type: ignore[attr-defined]  # a tool as a method
        for name in ("double", "through"):
            error = (await session.tool(name, {"n": "x"})).error
            assert error is not None
            assert error.code == "invalid_arguments"
        run = await session.program(
            source="async def run(ctx, inputs):\n    out = []\n    for n in (2, 'x'):\n"
            "        for way in (lambda: ctx.double(n), lambda: ctx.call('double', {'n': n}),\n"
            "                    lambda: ctx.through(n=n)):\n"
            "            try:\n                out.append(await way())\n"
            "            except ToolError as e:\n                out.append(e.code)\n"
            "    return out\n"
        )
        assert run.unwrap() == [4, 4, 4] + ["invalid_arguments"] * 3


async def test_call_stages_run_in_order_and_stop_at_the_first_refusal(tmp_path: Path) -> None:
    """Look up, validate, approve, cache, limit, execute: what one refuses, no later one sees."""
    trace: list[str] = []

    def gate(arguments: Mapping[str, Any]) -> bool:
        trace.append(f"gate {arguments['a']} {arguments['b']}")
        return True

    def key(arguments: Mapping[str, Any]) -> Any:
        trace.append("key")
        return arguments["a"]

    async def approve(request: ApprovalRequest) -> Decision:
        trace.append("approve")
        return Decision(request.arguments["a"] != 13)

    async def work(arguments: Mapping[str, Any]) -> int:
        trace.append("work")
        return int(arguments["a"])

    made = define_tool(
        "work", "W.", NUMBERS, work, needs_approval=gate, cache=key, max_executions_per_run=1
    )
    wanted = {
        "no number": ("invalid_arguments", []),
        13: ("rejected", ["gate 13 2", "approve"]),
        1: (None, ["gate 1 2", "approve", "key", "work"]),
        2: ("limit_exceeded", ["gate 2 2", "approve", "key"]),
    }
    async with Session(tmp_path, tools=[made], toolsets=(), approver=approve) as session:
        for sent, (code, stages) in wanted.items():
            trace.clear()
            error = (await session.tool("work", {"a": sent})).error
            assert (error.code if error else None, trace) == (code, stages)
        trace.clear()
        assert await session.work(a=1) == 1  # type: ignore[attr-defined]  # a tool as a method
        assert trace == ["gate 1 2", "approve", "key"], "kept, though the limit is spent"


async def test_cached_result_is_returned_while_the_circuit_breaker_is_open(tmp_path: Path) -> None:
    async def work(arguments: Mapping[str, Any]) -> int:
        if arguments["a"] < 0:
            raise RuntimeError("down")
        return 1

    retry = Retry(breaker_threshold=1)
    made = define_tool("work", "W.", NUMBERS, work, cache=True, retry=retry)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        codes = []
        for number in (1, -1, 2, 1):
            error = (await session.tool("work", {"a": number})).error
            codes.append(error.code if error else None)
        assert codes == [None, "internal", "circuit_open", None]


async def test_unknown_tool_error_suggests_the_nearest_name_and_is_recorded(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[double], toolsets=()) as session:
        run = await session.program(
            source="async def run(ctx, inputs):\n"
            "    try:\n        await ctx.call('duoble', {'n': 1})\n"
            "    except ToolError as e:\n        return [e.code, str(e)]\n"
        )
        code, text = run.unwrap()
        assert code == "unknown_tool"
        assert "no tool 'duoble' (did you mean `double`?); allowed: double" in text
        assert [(c.tool, c.status, c.error_code) for c in run.calls] == [
            ("duoble", "not_started", "unknown_tool")
        ]
        with pytest.raises(UsageError, match="no tool 'duoble'"):
            await session.tool("duoble")


@pytest.mark.parametrize(
    "sent",
    [
        {"input": {"word": "a"}},
        {"args": {"word": "a"}},
        {"word": 1},
        {"word": ["a"]},
        {"word": {"word": "a"}},
        {"word": None},
        {"Word": "a"},
    ],
)
async def test_argument_of_another_shape_is_rejected_and_not_coerced(
    tmp_path: Path, sent: dict[str, Any]
) -> None:
    got: list[str] = []

    @tool
    async def say(word: str) -> None:
        """Say."""
        got.append(word)

    async with Session(tmp_path, tools=[say], toolsets=()) as session:
        error = (await session.tool("say", sent)).error
    assert error is not None
    assert (error.code, got) == ("invalid_arguments", [])
    assert "`word`" in error.message


async def test_sync_tool_observes_cancellation_of_its_caller(tmp_path: Path) -> None:
    begun, told = threading.Event(), threading.Event()

    @tool
    def grind(ctx: ToolContext) -> None:
        """Work until nobody waits."""
        begun.set()
        while not ctx.cancelled:
            threading.Event().wait(0.001)
        told.set()

    async with Session(tmp_path, tools=[grind], toolsets=()) as session:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(session.tool, "grind")
                while not begun.is_set():
                    await anyio.sleep(0.001)
                group.cancel_scope.cancel()
        assert told.wait(20)


async def test_async_tool_is_cancelled_at_its_await(tmp_path: Path) -> None:
    begun, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async with Session(tmp_path, tools=[wait], toolsets=()) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.tool, "wait")
            await begun.wait()
            group.cancel_scope.cancel()
        assert stopped.is_set()


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


async def test_result_without_json_form_is_an_error_naming_its_path(
    tmp_path: Path,
) -> None:
    values: list[Any] = [{"a": [object()]}, _circle(), float("nan"), b"x", {1: 2}]
    good: list[Any] = [None, "", 0, False, [], "text", {"k": 1}, 2**70]

    async def give(arguments: Mapping[str, Any]) -> Any:
        return (values + good)[arguments["n"]]

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = define_tool("give", "G.", schema, give)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        run = await session.program(
            source="async def run(ctx, inputs):\n    out = []\n    for n in range(inputs['n']):\n"
            "        try:\n            out.append(await ctx.give(n=n))\n"
            "        except ToolError as e:\n            out.append([e.code, str(e)])\n"
            "    return out\n",
            inputs={"n": len(values) + len(good)},
        )
        found = run.unwrap()
    for code, text in found[: len(values)]:
        assert code == "result_not_json"
        assert "the result of give cannot be sent to the script: give" in text
    assert "give.a[0]: object has no JSON form" in found[0][1]
    assert found[len(values) :] == good
    assert [call.status for call in run.calls] == ["succeeded"] * len(found)


@pytest.mark.parametrize("most", ["3", 2.7, -1, True, 1_000_001])
def test_invalid_max_executions_per_run_is_rejected(most: Any) -> None:
    with pytest.raises(UsageError, match="max_executions_per_run must be an integer from 0"):
        define_tool("x", "X.", ANY, lambda a: a, max_executions_per_run=most)


async def test_tool_without_max_executions_per_run_is_unlimited(tmp_path: Path) -> None:
    for options in ({}, {"max_executions_per_run": None}):
        made = define_tool("x", "X.", ANY, lambda a: 1, **options)  # type: ignore[arg-type]  # None is what a caller passes on
        async with Session(tmp_path, tools=[made], toolsets=()) as session:
            assert [await session.x() for _ in range(30)] == [1] * 30  # type: ignore[attr-defined]  # a tool as a method


async def test_gathered_calls_run_concurrently_and_return_in_order(tmp_path: Path) -> None:
    under_way = most = 0

    async def work(arguments: Mapping[str, Any]) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(10 - arguments["a"]):
            await anyio.lowlevel.checkpoint()
        under_way -= 1
        return int(arguments["a"])

    made = define_tool("work", "W.", NUMBERS, work)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        gathered = await session.program(
            source="import asyncio\nasync def run(ctx, inputs):\n"
            "    return await asyncio.gather(*(ctx.work(a=n) for n in range(8)))\n"
        )
        assert gathered.unwrap() == list(range(8))
        assert most > 1
        most = 0
        awaited = await session.program(
            source="async def run(ctx, inputs):\n    return [await ctx.work(a=n) for n in range(4)]"
        )
        assert (awaited.unwrap(), most) == ([0, 1, 2, 3], 1)


async def test_defaults_and_key_order_do_not_change_the_cache_key(tmp_path: Path) -> None:
    made = 0

    async def work(arguments: Mapping[str, Any]) -> int:
        nonlocal made
        made += 1
        return made

    tools = [define_tool("work", "W.", NUMBERS, work, cache=True)]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        assert await session.work(a=1) == await session.work(a=1, b=2) == 1  # type: ignore[attr-defined]  # a tool as a method
        assert await session.work(b=2, a=1) == 1  # type: ignore[attr-defined]  # a tool as a method
        assert await session.work(a=1, b=3) == 2  # type: ignore[attr-defined]  # a tool as a method


async def test_event_of_a_cached_call_is_marked_as_cached(tmp_path: Path) -> None:
    cached = Cache(scope="session")
    made = define_tool("work", "W.", ANY, lambda a: 1, cache=cached)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        kept = []
        for _ in range(2):
            async with session.stream("work") as events:
                kept += [
                    event.call.cached
                    async for event in events
                    if event.kind == "tool_finished" and event.call is not None
                ]
        assert kept == [False, True]


async def test_circuit_breaker_state_is_not_shared_between_sessions(tmp_path: Path) -> None:
    async def down(arguments: Mapping[str, Any]) -> None:
        raise ToolError("down")

    made = define_tool("down", "D.", ANY, down, retry=Retry(breaker_threshold=1))
    for _ in range(2):
        async with Session(tmp_path, tools=[made], toolsets=()) as session:
            codes = []
            for _ in range(3):
                error = (await session.tool("down")).error
                assert error is not None
                codes.append(error.code)
            assert codes == ["failed", "circuit_open", "circuit_open"]


async def test_call_over_budget_is_rejected_before_lookup(
    tmp_path: Path,
) -> None:
    trace: list[str] = []

    def noting(name: str, answer: Any) -> Any:
        def note(arguments: Mapping[str, Any]) -> Any:
            trace.append(f"{name} {arguments['a']}")
            return answer

        return note

    made = define_tool(
        "work", "W.", NUMBERS, noting("work", 1),
        needs_approval=noting("gate", False), cache=noting("key", "same"),
    )  # fmt: skip
    source = (
        "async def run(ctx, inputs):\n    found = []\n    for n in ('x', 1, 2):\n        try:\n"
        "            found.append(await ctx.work(a=n))\n"
        "        except ToolError as e:\n            found.append(e.code)\n    return found\n"
    )
    async with Session(tmp_path, tools=[made], toolsets=(), journal=None) as session:
        result = await session.program(source=source, limits=Limits(max_tool_calls=1))
    assert result.unwrap() == ["invalid_arguments", 1, "limit_exceeded"]
    assert trace == ["gate 1", "key 1", "work 1"], "what was not valid was not counted"


async def test_concurrent_calls_never_exceed_max_in_flight(tmp_path: Path) -> None:
    under_way = most = 0
    together = anyio.Event()

    async def work(arguments: Mapping[str, Any]) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            together.set()
        await together.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        under_way -= 1
        return int(arguments["a"])

    source = (
        "import asyncio\nasync def run(ctx, inputs):\n"
        "    return await asyncio.gather(*(ctx.work(a=n) for n in range(12)))\n"
    )
    made = define_tool("work", "W.", NUMBERS, work)
    async with Session(tmp_path, tools=[made], toolsets=(), journal=None) as session:
        with anyio.fail_after(20):
            result = await session.program(source=source, limits=Limits(max_in_flight=3))
    assert result.unwrap() == list(range(12))
    assert most == 3


@pytest.mark.parametrize(
    ("wanted", "tries"), [([True, False], 2), ([False], 1), (["yes"], 1), ([True] * 4, 4)]
)
async def test_failure_is_retried_only_while_should_retry_returns_true(
    tmp_path: Path, wanted: list[Any], tries: int
) -> None:
    asked: list[tuple[str, int]] = []

    def again(error: Exception, attempt: int) -> bool:
        asked.append((str(error), attempt))
        return wanted[attempt - 1]  # type: ignore[no-any-return]  # one of them is no bool: the point

    made = 0

    async def down(arguments: Mapping[str, Any]) -> None:
        nonlocal made
        made += 1
        raise RuntimeError(f"down {made}")

    retry = Retry(max_retries=3, backoff_ms=0, should_retry=again)
    tools = [define_tool("down", "D.", ANY, down, retry=retry)]
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        error = (await session.tool("down")).error
    assert error is not None
    assert f"down {tries}" in error.message
    assert (made, asked) == (tries, [(f"down {n}", n) for n in range(1, tries + 1)])


@pytest.mark.parametrize("asked", ["of an approver", "of the journal"])
async def test_approval_events_contain_no_content_or_secrets(tmp_path: Path, asked: str) -> None:
    class Keys(BaseModel):
        api_key: str

    got: list[str] = []
    seen: list[ApprovalRequest] = []

    def save(ctx: ToolContext, path: str, text: str) -> None:
        """Save."""
        got.append(text)

    async def approve(request: ApprovalRequest) -> Decision:
        seen.append(request)
        return Decision(True, arguments={**request.arguments, "text": "CANARY-2"}, by="ann")

    made = tool(
        side_effect=True,
        idempotent=True,
        needs_approval=True,
        approval_prompt=lambda arguments: f"Save to {arguments['path']}?",
        env=Keys,
        unrecorded=["text"],
    )(save)
    source = "async def run(ctx, inputs):\n    await ctx.save('sekrit-99', 'CANARY-1')\n"
    events: list[RunEvent] = []
    async with Session(
        tmp_path,
        tools=[made],
        toolsets=(),
        env={"api_key": "sekrit-99"},
        approver=approve if asked == "of an approver" else None,
    ) as session:
        result = await session.program(
            source=source, allowed_tools=["save"], run_id="r", on_event=events.append
        )
        if asked == "of the journal":
            assert result.status == "paused"
            assert result.pending[0].prompt == "Save to [secret api_key]?"
            [row] = (await session.history.recorded("r")).pending
            assert b"sekrit" not in row.details
            assert [e.kind for e in events if e.kind.startswith("approval")] == ["approval_pending"]
            await session.history.approve("r", by="ann")
            result = await session.resume("r", on_event=events.append)
    assert result.ok, result.error
    pending, decided = (e for e in events if e.kind.startswith("approval"))
    assert (pending.kind, decided.kind) == ("approval_pending", "approval_decided")
    assert (pending.value.tool, pending.value.call_id) == ("save", "r.1")
    assert pending.value.arguments["text"]["bytes"] == 8
    assert pending.value.prompt == "Save to [secret api_key]?"
    assert (decided.value.approved, decided.value.by) == (True, "ann")
    for event in events:
        assert "CANARY" not in repr(event)
        assert "sekrit" not in repr(event)
    if seen:
        assert seen[0].arguments == {"path": "sekrit-99", "text": "CANARY-1"}, "he must know"
    assert got == ["CANARY-2" if seen else "CANARY-1"]
