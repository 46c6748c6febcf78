"""Data too large for a script's memory exceeds `max_memory_bytes`; it is never a violation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ptc import Limits, RunResult, Session, tool

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@tool
async def names(number: int) -> list[str]:
    """Give names."""
    return ["x" * 10] * number


@tool
async def text(length: int) -> str:
    """Give a text."""
    return "x" * length


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[names, text], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, body: str, inputs: Any, memory_bytes: int) -> RunResult:
    source = f"def run(ctx, inputs):\n    return {body}\n"
    limits = replace(Limits(), max_memory_bytes=memory_bytes)
    return await session.program(source=source, inputs=inputs, limits=limits)


def check_memory_breach(result: RunResult) -> None:
    assert result.status == "limit_exceeded", result.error
    assert result.error is not None
    assert result.error.code == "memory"
    assert result.error.breach is not None
    assert result.error.breach.limit == "max_memory_bytes"
    assert "max_memory_bytes" in result.error.hint


GIVEN = {"many names": {"a": ["x" * 10] * 150_000}, "one text": {"a": "x" * 2_000_000}}


@pytest.mark.parametrize("name", list(GIVEN))
async def test_inputs_that_do_not_fit_breach_the_memory_limit(session: Session, name: str) -> None:
    # 1 MiB has no room for the bytes, the others none to read them.
    for memory in (1 * MIB, 4 * MIB, 8 * MIB):
        check_memory_breach(await run(session, "len(inputs['a'])", GIVEN[name], memory))
    assert (await run(session, "len(inputs['a'])", GIVEN[name], 256 * MIB)).ok


@pytest.mark.parametrize("call", ["ctx.names(150_000)", "ctx.text(2_000_000)"])
async def test_tool_result_that_does_not_fit_breaches_the_memory_limit(
    session: Session, call: str
) -> None:
    for memory in (1 * MIB, 4 * MIB, 8 * MIB):
        check_memory_breach(await run(session, f"len({call})", None, memory))
    assert (await run(session, f"len({call})", None, 256 * MIB)).ok


async def test_memory_error_of_a_tool_result_can_be_caught(session: Session) -> None:
    source = (
        "def run(ctx, inputs):\n    try:\n        return len(ctx.names(150_000))\n"
        "    except MemoryError:\n        return len(ctx.names(6))\n"
    )
    limits = Limits(max_memory_bytes=8 * MIB)
    assert (await session.program(source=source, limits=limits)).value == 6


async def test_source_that_does_not_fit_in_memory_is_reported(session: Session) -> None:
    source = "".join(f"def f{n}(a, b):\n    return [a, b, {n}]\n" for n in range(2_500))
    source += "def run(ctx, inputs):\n    return 1\n"
    for memory in (1, 1 << 18, 1 << 19, MIB):
        limits = Limits(max_memory_bytes=memory)
        result = await session.program(source=f"{source}# {memory}\n", limits=limits)
        assert result.error is not None
        if result.status == "rejected":
            assert "there is not enough memory to compile it" in result.error.message
            assert "max_memory_bytes" in result.error.hint
        else:
            check_memory_breach(result)
    assert (await session.program(source=source)).value == 1


async def test_extremely_nested_error_is_still_reported(session: Session) -> None:
    source = """
def run(ctx, inputs):
    error = ValueError("the innermost")
    for _ in range(30_000):
        error = ExceptionGroup("a group", [error, error])
    raise error
"""
    result = await session.program(source=source)
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == "exception"
