"""`CallTimeout`: many calls, one timer, and each call has all of its own time."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from ptc import Limits, Session, tool

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_each_of_many_calls_is_cancelled_at_its_own_time(tmp_path: Path) -> None:
    cancelled: list[str] = []

    @tool
    async def hang(name: str) -> None:
        """Wait for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(name)

    @tool
    async def wait(event: int) -> str:
        """Wait for the first cancellation."""
        while not cancelled:
            await anyio.sleep(0.005)
        return "finished"

    codes: dict[str, str] = {}

    async def call(name: str) -> None:
        result = await session.tool("hang", {"name": name})
        assert result.error is not None
        codes[name] = result.error.code

    limits = Limits(tool_timeout_ms=1_200)
    async with Session(tmp_path, tools=[hang, wait], toolsets=(), limits=limits) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(call, "first")
            await anyio.sleep(0.6)
            group.start_soon(call, "second")
            # It starts in time to outlive the first call, and is not cancelled with it.
            assert (await session.tool("wait", {"event": 1})).value == "finished"
            assert cancelled == ["first"]
        assert cancelled == ["first", "second"]
        assert codes == {"first": "timeout", "second": "timeout"}
        # The timer starts again after it had nothing left to do.
        await call("third")
        assert codes["third"] == "timeout"
