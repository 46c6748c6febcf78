"""The line of an error that no line of the script raised: a time-out, a value without JSON form."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import pytest

from ptc import Limits, RunResult, Session, tool

pytestmark = pytest.mark.anyio


@tool
async def wait(seconds: float) -> str:
    """Wait for some seconds."""
    await anyio.sleep(seconds)
    return "waited"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[wait], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, source: str) -> RunResult:
    source = f"import asyncio, threading, time\n{source}"
    with anyio.fail_after(30):
        return await session.program(source=source, limits=Limits(timeout_ms=400))


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("async def run(ctx, inputs):\n    await ctx.wait(60)\n", 3, "waiting for wait on line 3"),
        ("def run(ctx, inputs):\n    return ctx.wait(60)\n", 3, "waiting for wait on line 3"),
        ("await ctx.wait(60)\n", 2, "waiting for wait on line 2"),
        ("async def run(ctx, inputs):\n    await asyncio.sleep(60)\n", 3, "waiting on line 3"),
        ("def run(ctx, inputs):\n    time.sleep(60)\n", 3, "waiting on line 3"),
        ("import time\ntime.sleep(60)\n", 3, "waiting on line 3"),
        ("await asyncio.sleep(60)\n", 2, "waiting on line 2"),
        (
            "async def inner():\n    await asyncio.sleep(60)\n"
            "async def run(ctx, inputs):\n    await inner()\n",
            3,
            "waiting on line 3",
        ),
        (
            "async def inner():\n    await asyncio.sleep(60)\n"
            "async def run(ctx, inputs):\n    await asyncio.gather(inner(), inner())\n",
            5,
            "waiting on line 5",
        ),
        (
            "def run(ctx, inputs):\n    t = threading.Thread(target=time.sleep, args=(60,))\n"
            "    t.start()\n    t.join()\n",
            5,
            "waiting on line 5",
        ),
    ],
)
async def test_timeout_of_a_waiting_script_has_its_line(
    session: Session, source: str, line: int, says: str
) -> None:
    result = await run(session, source)
    assert result.error is not None
    assert (result.status, result.error.code, result.error.line) == ("timed_out", "timeout", line)
    assert says in result.error.message
    assert result.error.excerpt.strip()


async def test_timeout_of_a_loop_over_the_clock_says_so(session: Session) -> None:
    source = """
def run(ctx, inputs):
    while time.time() < 4e9:
        pass
"""
    result = await run(session, source)
    assert result.error is not None
    # From 3.14 on, the jump back belongs to the line of `pass`.
    line = 5 if sys.version_info >= (3, 14) else 4
    assert (result.status, result.error.line) == ("timed_out", line)
    assert f"reading the clock in a loop on line {line}" in result.error.message
    assert "0.1 ms" in result.error.hint


async def test_timeout_of_a_computation_names_the_last_call(session: Session) -> None:
    source = """
def run(ctx, inputs):
    time.time()
    ctx.wait(0)
    while True: pass
"""
    result = await run(session, source)
    assert result.error is not None
    assert (result.status, result.error.line) == ("timed_out", 6)
    assert result.error.message.endswith("computing on line 6 (its last call was wait, on line 5)")


COMPUTING = {
    "a loop": "def run(ctx, inputs):\n    while True:\n        n = 1\n",
    "a function": "def work():\n    while True: n = 1\ndef run(ctx, inputs):\n    work()\n",
    "a task": "async def work():\n    while True: n = 1\nawait asyncio.gather(work())\n",
    "a thread": "def work():\n    while True: n = 1\nthreading.Thread(target=work).start()\n",
    "an expression": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\n",
    "prints": "def run(ctx, inputs):\n    while True: print('x')\n",
}


@pytest.mark.parametrize("limits", [Limits(timeout_ms=300), Limits(max_cpu_ms=200)], ids=["t", "c"])
@pytest.mark.parametrize("name", list(COMPUTING))
async def test_script_that_computes_is_stopped_with_its_line(
    session: Session, name: str, limits: Limits
) -> None:
    limits = replace(limits, max_stdout_bytes=64 << 20, max_messages=1_000_000)
    with anyio.fail_after(30):
        result = await session.program(
            source=f"import asyncio, threading\n{COMPUTING[name]}", limits=limits
        )
    assert result.error is not None
    assert result.error.breach is not None
    assert result.error.line in {3, 4}
    assert f"computing on line {result.error.line}" in result.error.message
    assert result.error.excerpt.strip()


async def test_script_inside_of_one_long_instruction_is_stopped_without_a_line(
    session: Session,
) -> None:
    result = await run(session, "def run(ctx, inputs):\n    return sum(range(10**12))\n")
    assert result.error is not None
    assert (result.status, result.error.line) == ("timed_out", 0)
    assert result.error.message.endswith("; it was computing")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def run(ctx, inputs):\n    if inputs: return None\n    return print\n", 4),
        ("async def run(ctx, inputs):\n    x = print\n    return [x]\n", 4),
        ("x = 1\n[print]\n", 3),
        ("def run(ctx, inputs):\n    if inputs: return [print]\n    return [len]\n", 4),
    ],
)
async def test_value_without_json_form_has_the_line_that_returned_it(
    session: Session, source: str, line: int
) -> None:
    result = await run(session, source)
    assert [(warning.code, warning.line) for warning in result.warnings] == [("replaced", line)]
