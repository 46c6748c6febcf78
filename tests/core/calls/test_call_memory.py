"""Memory that a finished call of a long run holds."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from ptc import Limits, Session, tool
from ptc._calls._call import OpenCall
from ptc._tools._tool import ToolCall

_CALLS = 500


def test_short_arguments_are_cached_in_their_own_size() -> None:
    calls = [OpenCall(ToolCall(name="t", arguments={"x": n}, seq=n + 1)) for n in range(_CALLS)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert [call.encode_arguments() for call in calls][-1] == b'{"x":%d}' % (_CALLS - 1)
        held = (tracemalloc.get_traced_memory()[0] - before) / _CALLS
    finally:
        tracemalloc.stop()
    assert held < 200


@pytest.mark.anyio
async def test_run_keeps_no_call_that_has_ended_but_its_record(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    @tool
    async def add(a: int) -> int:
        """Add one."""
        return a + 1

    @tool
    async def look() -> int:
        """Measure."""
        gc.collect()
        calls = sum(1 for each in gc.get_objects() if type(each) is OpenCall)
        seen.append((calls, tracemalloc.get_traced_memory()[0]))
        return 0

    source = """
async def run(ctx, inputs):
    for _ in range(2):
        for number in range(inputs["calls"]):
            await ctx.add(a=1_000 + number)
        await ctx.look()
"""
    async with Session(
        tmp_path, tools=[add, look], toolsets=(), workers=1, journal=None
    ) as session:
        tracemalloc.start()
        try:
            result = await session.program(
                source=source, inputs={"calls": _CALLS}, limits=Limits(max_tool_calls=2_000)
            )
        finally:
            tracemalloc.stop()
    assert result.ok, result.error
    assert len(result.calls) == 2 * _CALLS + 2
    (before, used), (after, held) = seen
    assert after == before
    assert (held - used) / _CALLS < 1_700
