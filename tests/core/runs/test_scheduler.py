"""A cancelled call frees its slot, and the remaining calls are executed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ptc import Limits, Session, tool

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.both_loops,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.shared_zygote,
]

BODY = """
import asyncio
async def run(ctx, inputs):
    ended = []
    for _ in range(5):
        try:
            await asyncio.wait_for(ctx.{tool}(), 0.01)
        except TimeoutError:
            pass
        ended.append(await ctx.add(len(ended)))
    return [ended, await asyncio.gather(*(ctx.add(n) for n in range(50)))]
"""


@tool
async def add(n: int) -> int:
    """Give n + 1."""
    return n + 1


@tool
async def patient() -> int:
    """Wait until it is cancelled."""
    await anyio.sleep_forever()
    return 1


@tool
async def stubborn() -> int:
    """Wait until it is cancelled, and give a value all the same."""
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return 1
    return 2


@pytest.mark.parametrize("name", ["patient", "stubborn"])
@pytest.mark.parametrize("servers", [1, 3])
async def test_remaining_calls_are_executed_after_others_were_cancelled(
    tmp_path: Path, name: str, servers: int
) -> None:
    async with Session(tmp_path, tools=[add, patient, stubborn], toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            result = await session.program(
                source=BODY.format(tool=name), limits=Limits(max_in_flight=servers)
            )
    assert result.error is None, result.error
    assert result.value == [[1, 2, 3, 4, 5], [n + 1 for n in range(50)]]
    assert [call.tool for call in result.calls].count(name) == 5


async def test_call_cancelled_before_its_start_frees_its_slot(
    tmp_path: Path,
) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    first = ctx.patient()
    waiting = [asyncio.create_task(ctx.patient()) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in waiting:
        task.cancel()
    first = asyncio.ensure_future(first)
    first.cancel()
    return await ctx.add(1)
"""
    async with Session(tmp_path, tools=[add, patient], toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            result = await session.program(source=source, limits=Limits(max_in_flight=1))
    assert result.value == 2, result.error
