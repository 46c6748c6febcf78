"""Scripts that tools run, their tools and turns, and recorded steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Allow, Limits, Session, ToolContext, ToolError, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

READS = """
async def run(ctx, inputs):
    return await ctx.read(path=inputs["path"])
"""
WRITES = """
async def run(ctx, inputs):
    try:
        return await ctx.write(path="out.txt", content="x")
    except ToolError as error:
        return error.code
"""


@tool(side_effect=False)
async def script(ctx: ToolContext, source: str, inputs: dict[str, Any] | None = None) -> Any:
    """Run a script with the tools of the caller."""
    result = await ctx.program(source, inputs)
    if not result.ok:
        raise ToolError(str(result.error and result.error.message), code=result.status)
    return result.value


@tool(side_effect=False)
async def reader(ctx: ToolContext, source: str) -> Any:
    """Run a script that may only read `src`, three times."""
    narrow = ctx.restricted([Allow("read", path="src/*")], max_calls=3)
    return (await narrow.program(source)).unwrap()


async def test_script_of_a_tool_has_the_tools_of_its_caller(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea")
    outer = """
async def run(ctx, inputs):
    return [await ctx.script(source=inputs["s"], inputs={"path": "a.txt"})]
"""
    async with Session(tmp_path, tools=[script], journal=":memory:") as session:
        read = await session.program(
            source=outer, inputs={"s": READS}, allowed_tools=["script", "read"]
        )
        refused = await session.program(
            source=outer, inputs={"s": WRITES}, allowed_tools=["script"]
        )
        allowed = await session.program(
            source=outer, inputs={"s": WRITES}, allowed_tools=["script", "write"]
        )
    assert read.unwrap() == ["tea"]
    assert [(c.tool, c.parent) for c in read.calls] == [
        ("script", None),
        ("program", "1"),
        ("read", "1"),
    ]
    assert refused.unwrap() == ["unknown_tool"]
    assert allowed.unwrap()[0]["path"] == "out.txt"
    assert (tmp_path / "out.txt").read_text() == "x"


async def test_restricted_context_narrows_tools_rules_and_number_of_calls(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    source = """
async def run(ctx, inputs):
    out = []
    for path in ["src/a", "b", "src/a", "src/a"]:
        try:
            out.append(await ctx.read(path=path))
        except ToolError as error:
            out.append(error.code)
    try:
        await ctx.grep("a")
    except (ToolError, AttributeError) as error:
        out.append(type(error).__name__)
    return out
"""
    async with Session(tmp_path, tools=[reader], journal=":memory:") as session:
        value = (await session.tool("reader", {"source": source})).unwrap()
        denied = await session.tool(
            "reader", {"source": source}, allowed_tools=["reader", Allow("read", path="src/b")]
        )
        missing = await session.tool("reader", {"source": source}, allowed_tools=["reader"])
    # The calls refused by a rule are not executed, so they are not counted.
    assert value == ["a", "not_allowed", "a", "a", "UnknownToolError"]
    assert denied.unwrap()[0] == "not_allowed"
    assert missing.error is not None
    assert missing.error.code == "not_allowed"


@tool(side_effect=False)
async def nest(ctx: ToolContext, depth: int) -> int:
    """Run a script that calls this tool again."""
    if depth == 0:
        return 0
    source = "async def run(ctx, inputs):\n    return 1 + await ctx.nest(depth=inputs['depth'])"
    value: int = (await ctx.program(source, {"depth": depth - 1})).unwrap()
    return value


async def test_nested_scripts_do_not_wait_for_the_turn_of_the_run_that_waits_for_them(
    tmp_path: Path,
) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    return await asyncio.gather(*(ctx.nest(depth=3) for _ in range(3)))
"""
    async with Session(
        tmp_path, tools=[nest], toolsets=(), journal=":memory:", max_concurrent_runs=1, workers=1
    ) as session:
        values: list[Any] = []

        async def run() -> None:
            result = await session.program(source=source, allowed_tools=["nest"])
            values.append(result.unwrap())

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                group.start_soon(run)
    assert values == [[3, 3, 3], [3, 3, 3]]


async def test_script_of_a_tool_is_repeated_with_recorded_results(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(side_effect=True, idempotent=False)
    async def pay(ctx: ToolContext, amount: int) -> int:
        """Pay."""
        paid.append(amount)
        return amount

    @tool(side_effect=True, idempotent=True, needs_approval=True)
    async def sign(text: str) -> str:
        """Sign."""
        return f"signed {text}"

    inner = """
import random, time
async def run(ctx, inputs):
    number = random.randrange(10**9)
    await ctx.pay(amount=number)
    return [number, time.time(), await ctx.sign(text=str(number))]
"""
    outer = "async def run(ctx, inputs):\n    return await ctx.script(source=inputs['s'])"
    async with Session(
        tmp_path, tools=[script, pay, sign], toolsets=(), journal=":memory:"
    ) as session:
        paused = await session.program(
            source=outer, inputs={"s": inner}, allowed_tools=["script", "pay", "sign"]
        )
        assert paused.status == "paused"
        assert [call.tool for call in paused.pending] == ["sign"]
        done = await session.approve(paused.run_id, by="ann", resume=True)
    number, _, signed = done.unwrap()
    assert paid == [number]
    assert signed == f"signed {number}"


@tool(side_effect=False)
async def steps(ctx: ToolContext) -> list[int]:
    """Make two steps around an approval."""
    made: list[int] = []

    async def count() -> int:
        COUNTED.append(1)
        return len(COUNTED)

    made.append(await ctx.step("count", count, number=1))
    await ctx.call_tool("gate")
    made.append(await ctx.step("count", count, number=1))
    return made


COUNTED: list[int] = []


@tool(needs_approval=True)
async def gate() -> str:
    """Wait for an approval."""
    return "open"


async def test_finished_step_is_not_executed_again(tmp_path: Path) -> None:
    COUNTED.clear()
    source = "async def run(ctx, inputs):\n    return await ctx.steps()"
    async with Session(
        tmp_path, tools=[steps, gate], toolsets=(), journal=":memory:", limits=Limits()
    ) as session:
        paused = await session.program(source=source, allowed_tools=["steps", "gate"])
        done = await session.approve(paused.run_id, by="ann", resume=True)
    assert done.unwrap() == [1, 2]
    assert COUNTED == [1, 1]


@tool(side_effect=False)
async def outcome(ctx: ToolContext, source: str) -> dict[str, Any]:
    """Run a script, and return its status and limits."""
    result = await ctx.program(source, limits={"timeout_ms": 60_000, "max_memory_bytes": 2**30})
    return {"status": result.status, "memory": result.limits.max_memory_bytes}


async def test_script_of_a_tool_has_no_higher_limits_than_the_run(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.outcome(source=inputs['s'])"
    async with Session(tmp_path, tools=[outcome], toolsets=(), journal=":memory:") as session:
        result = await session.program(
            source=source,
            inputs={"s": "async def run(ctx, inputs):\n    return 1 / 0"},
            allowed_tools=["outcome"],
            limits={"max_memory_bytes": 2**27},
        )
        late = await session.program(
            source=source,
            inputs={"s": "async def run(ctx, inputs):\n    while True: pass"},
            allowed_tools=["outcome"],
            limits={"timeout_ms": 300},
        )
        left = len(session._runs.active)
    assert result.unwrap() == {"status": "failed", "memory": 2**27}
    assert late.status == "timed_out"
    assert left == 0


async def test_endless_recursion_of_scripts_and_tools_is_an_error(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.nest(depth=50)"
    async with Session(tmp_path, tools=[nest], toolsets=(), journal=":memory:") as session:
        result = await session.program(source=source, allowed_tools=["nest"])
    assert result.error is not None
    assert "8 deep" in result.error.message
