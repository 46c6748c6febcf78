"""A call on ctx has started when it is made; what asyncio does with coroutines works with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import RunResult, Session, tool

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, body: str) -> RunResult:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"import asyncio\nasync def run(ctx, inputs):\n{lines}\n"
    return await session.program(source=source)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("t = asyncio.create_task(ctx.add(1), name='n')\nreturn [await t, t.get_name()]", [2, "n"]),
        ("t = asyncio.ensure_future(ctx.add(1))\nreturn await t", 2),
        ("done, _ = await asyncio.wait([asyncio.create_task(ctx.add(1))])\nreturn len(done)", 1),
        (
            "async with asyncio.TaskGroup() as group:\n"
            "    tasks = [group.create_task(ctx.add(n)) for n in range(3)]\n"
            "return [task.result() for task in tasks]",
            [1, 2, 3],
        ),
        ("return await asyncio.wait_for(ctx.add(1), 5)", 2),
        (
            "return sorted([await c for c in asyncio.as_completed([ctx.add(1), ctx.add(2)])])",
            [2, 3],
        ),
    ],
)
async def test_a_call_can_be_a_task(session: Session, body: str, value: Any) -> None:
    result = await run(session, body)
    assert (result.value, result.warnings) == (value, ()), result.error


async def test_task_of_a_non_awaitable_is_refused_as_in_python(session: Session) -> None:
    group = "async with asyncio.TaskGroup() as group:\n    group.create_task(1)"
    for body in ("asyncio.create_task(1)", group):
        result = await run(session, body)
        assert result.error is not None
        assert "a coroutine was expected, got 1" in result.error.message
