"""Those who watch a run or read what it gives, and are slow or go wrong: no run suffers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, field_validator

from ptc import (
    Limits,
    RunEvent,
    ToolError,
    tool,
)

from ..ready_session import ready_session

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.usefixtures("nothing_left")]


# --- who watches and who reads ---------------------------------------------------------------


async def test_raising_subscriber_does_not_affect_the_run(tmp_path: Path) -> None:
    @tool
    async def one() -> int:
        """One."""
        return 1

    def watch(event: RunEvent, kind: str) -> None:
        if event.kind == kind:
            msg = "no such luck"
            raise KeyError(msg)

    async with ready_session(tmp_path, one) as session:
        for kind in ("started", "stdout", "emitted", "tool_started", "tool_finished"):
            result = await session.program(
                source="print(1)\nctx.emit(2)\nawait ctx.one()", on_event=partial(watch, kind=kind)
            )
            assert (result.status, result.value) == ("completed", 1)
            assert result.stdout == "1\n"
            assert "on_event raised KeyError: 'no such luck'" in result.warnings[0].message


async def test_raising_validator_is_an_output_schema_error(tmp_path: Path) -> None:
    class Model(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def check(cls, value: int) -> int:
            raise ZeroDivisionError(value)

    async with ready_session(tmp_path) as session:
        result = await session.program(source='{"a": 1}', output_schema=Model)
        assert result.status == "failed"
        assert result.error is not None
        assert "its check raised ZeroDivisionError" in result.error.message
        assert result.value == {"a": 1}


async def test_unserializable_tool_error_reaches_the_script_with_its_code(
    tmp_path: Path,
) -> None:
    @tool
    async def odd() -> None:
        """Fail with a message that is no text, as names of files may be."""
        raise ToolError("no file named \udcff", code="not_found", details={"name": "\udcff"})

    @tool
    async def long() -> None:
        """Fail at length."""
        raise ToolError("x" * (2 << 20), code="long", details={"rows": ["y" * 80] * (1 << 15)})

    source = """
async def run(ctx, inputs):
    codes = []
    for name in ("odd", "long"):
        try:
            await ctx.call(name, {})
        except ToolError as error:
            codes.append([error.code, len(error.message) < 100_000])
    return codes
"""
    async with ready_session(tmp_path, odd, long) as session:
        result = await session.program(source=source)
        assert result.value == [["not_found", True], ["long", True]], result.error


async def test_value_that_cannot_be_stored_is_returned_truncated(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    source = "['x' * 100 for _ in range(100)]"
    async with ready_session(tmp_path, artifacts=tmp_path / "artifacts") as session:
        result = await session.program(source=source, limits=Limits(max_output_bytes=1_000))
        assert result.status == "completed"
        assert result.value[0] == "x" * 100
        assert any("could not be stored" in warning.message for warning in result.warnings)


async def test_script_that_reads_no_results_stops_further_calls(tmp_path: Path) -> None:
    made: list[int] = []

    @tool
    async def big(n: int) -> str:
        """Give a megabyte."""
        made.append(n)
        return "x" * (1 << 20)

    # All calls are made, then the script computes until its time is up and reads nothing.
    source = """
import asyncio
async def run(ctx, inputs):
    calls = [ctx.big(n) for n in range(90)]
    print("x" * 100_000)  # so that what is queued is sent
    while True:
        pass
"""
    async with ready_session(tmp_path, big) as session:
        limits = Limits(timeout_ms=500, max_in_flight=1, max_tool_calls=100)
        result = await session.program(source=source, limits=limits)
        assert result.status == "timed_out"
        assert 4 <= len(made) <= 8
        assert result.usage.tool_calls == 90


async def test_slow_event_reader_receives_all_output(tmp_path: Path) -> None:
    source = "for n in range(5000): print(n)"
    async with ready_session(tmp_path) as session:
        text, count = "", 0
        async with session.stream(source=source) as events:
            async for event in events:
                if event.kind == "started":
                    # Until the script is done.
                    while session._runs.active:
                        await anyio.sleep(0.001)
                text += event.text or "" if event.kind == "stdout" else ""
                count += 1
        assert text == "".join(f"{n}\n" for n in range(5000))
        assert count < 3000
