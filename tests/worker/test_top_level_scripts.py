"""Top-level scripts, without `run`: the value of the last expression is the result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import RunResult, Session, tool

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, source: str) -> RunResult:
    return await session.program(source=source, inputs={"n": 3})


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("x = await ctx.add(inputs['n'])\nx", 4),
        ("ctx.add(3)", 4),
        ("[await ctx.add(i) for i in range(3)]", [1, 2, 3]),
        ("import asyncio\nsum(await asyncio.gather(*[ctx.add(i) for i in range(3)]))", 6),
        ("import asyncio\nasync def main():\n    return await ctx.add(5)\nasyncio.run(main())", 6),
        ("async def main():\n    return await ctx.add(5)\nmain()", 6),
        ("if __name__ == '__main__':\n    x = 7\nx", 7),
        ("for i in range(2):\n    await ctx.add(i)", None),
        ("x = await ctx.add(5)", None),
    ],
)
async def test_top_level_script_returns_its_last_expression(
    session: Session, source: str, value: Any
) -> None:
    result = await run(session, source)
    assert (result.status, result.value) == ("completed", value), result.error


async def test_cached_top_level_script_runs_again(tmp_path: Path) -> None:
    source = "y = await ctx.add(1)\ny * 10"
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        values = [(await session.program(source=source)).value for _ in range(3)]
    assert values == [20, 20, 20]


async def test_misnamed_entry_point_is_rejected_with_a_rename_hint(session: Session) -> None:
    result = await run(session, "LIMIT = 3\nasync def main(ctx, inputs):\n    return 1\n")
    assert result.status == "rejected"
    assert result.error is not None
    assert result.error.hint == "rename `main` to `run`: it is called with (ctx, inputs)"


async def test_run_executes_once_even_if_the_script_calls_it_itself(
    session: Session,
) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    return await ctx.add(1)
if __name__ == "__main__":
    asyncio.run(run(ctx, inputs))
"""
    result = await run(session, source)
    assert result.value == 2
    assert len(result.calls) == 1


async def test_error_in_top_level_script_has_its_line_number(session: Session) -> None:
    result = await run(session, "x = await ctx.add(1)\nx / 0\n")
    assert result.error is not None
    assert (result.error.type, result.error.line) == ("ZeroDivisionError", 2)


async def test_asyncio_run_in_a_running_loop_suggests_await(session: Session) -> None:
    source = (
        "import asyncio\nasync def f():\n    return 1\n"
        "async def run(ctx, inputs):\n    return asyncio.run(f())\n"
    )
    result = await run(session, source)
    assert result.error is not None
    assert "write `await` before the coroutine" in result.error.message
