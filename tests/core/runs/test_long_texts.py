"""A long text needs room for itself, wherever a script hands it over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ptc import Limits, RunResult, Session, tool

pytestmark = pytest.mark.anyio

MOST = 64 << 20


@tool
async def measure(text: str, more: list[str]) -> int:
    """Length of all texts."""
    return len(text) + sum(map(len, more))


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    small = Limits(max_memory_bytes=MOST, timeout_ms=20_000)
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[measure], toolsets=(), limits=small, workers=1) as opened:
        yield opened


async def run(session: Session, body: str, **limits: Any) -> RunResult:
    source = "def run(ctx, inputs):\n    ctx.emit('begun')\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return await session.program(source=source, limits=replace(session.limits, **limits))


TEXTS = (
    "return text",
    "return {'a': [1, {'text': text}]}",
    "ctx.emit(text)",
    "return ctx.measure(text, [])",
)
LARGE = {"max_output_bytes": 8 << 20, "max_emit_bytes": 16 << 20, "max_argument_bytes": 14 << 20}


async def test_long_text_needs_memory_for_its_actual_size_only(
    session: Session,
) -> None:
    # 8 bytes for each character, as the encoder asks for by itself, would be 80 MB.
    for use in TEXTS:
        result = await run(session, f"text = 'a' * 10_000_000\n{use}", **LARGE)
        assert result.status == "completed", (use, result.error)
        if "return" in use and "measure" not in use:
            assert result.cut is not None
            whole = json.loads(session.artifacts.path(result.cut.sha256).read_bytes())
            assert whole in ("a" * 10_000_000, {"a": [1, {"text": "a" * 10_000_000}]})
        elif "emit" in use:
            assert result.partial == ("begun", "a" * 10_000_000)
        else:
            assert result.value == 10_000_000


async def test_long_text_is_written_beside_data_that_fills_most_of_the_memory(
    session: Session,
) -> None:
    # Regression: a copy of the text as JSON was too much here.
    beside = "held = 'b' * 42_000_000\ntext = 'a' * 12_000_000\n"
    for use in TEXTS:
        result = await run(session, beside + use, **LARGE)
        assert result.status == "completed", (use, result.error)


async def test_script_without_memory_for_its_text_can_catch_the_error(session: Session) -> None:
    held = "held = ['b' * 20_000_000, 'c' * 20_000_000]\n"
    for use in TEXTS:
        body = f"{held}try:\n    text = 'a' * 30_000_000\n    {use}\n"
        body += "except MemoryError:\n    return 'went on'"
        assert (await run(session, body, **LARGE)).value == "went on"


async def test_several_long_texts_are_passed_to_a_tool_at_once(session: Session) -> None:
    body = """
held = 'b' * 30_000_000
texts = [str(n) * 3_900_000 for n in range(4)]
return ctx.measure('', texts)
"""
    result = await run(session, body, max_argument_bytes=16_000_000)
    assert result.value == 4 * 3_900_000, result.error
