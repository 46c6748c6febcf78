"""A script's own world: its time, its order, its output, its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Limits, RunResult, Session, tool

from .timed_tool import after

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[after], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, source: str, **options: Any) -> RunResult:
    return await session.program(source=source, **options)


async def test_clock_advances_with_messages_from_the_host(session: Session) -> None:
    source = """
import asyncio, time
async def run(ctx, inputs):
    start = time.monotonic()
    await asyncio.sleep(0.05)
    slept = time.monotonic() - start
    await ctx.after(30)
    return [slept >= 0.05, time.monotonic() - start >= 0.08]
"""
    assert (await run(session, source)).value == [True, True]


async def test_tool_method_has_the_name_of_its_tool(session: Session) -> None:
    source = """
import functools
def retry(function):
    @functools.wraps(function)
    async def call(*args, **options):
        return await function(*args, **options)
    return call
async def run(ctx, inputs):
    again = retry(ctx.after)
    return [ctx.after.__name__, again.__name__, await again(ms=1)]
"""
    assert (await run(session, source)).value == ["after", "after", 1]


async def test_refused_metaclass_names_the_alternatives(session: Session) -> None:
    result = await run(session, "import abc\nclass A(abc.ABCMeta): pass\nA()")
    assert result.error is not None
    assert "may not subclass ABCMeta; use __init_subclass__" in result.error.message


async def test_tool_is_a_coroutine_function_where_its_call_is_awaited(session: Session) -> None:
    source = """
import asyncio, functools, inspect
async def call(fn):
    return await fn() if asyncio.iscoroutinefunction(fn) else fn()
async def run(ctx, inputs):
    later = functools.partial(ctx.after, ms=1)
    return [await call(later), inspect.iscoroutinefunction(ctx.after), await call(lambda: 2)]
"""
    assert (await run(session, source)).value == [1, True, 2]
    source = (
        "import inspect\ndef run(ctx, inputs):\n    return inspect.iscoroutinefunction(ctx.after)"
    )
    assert (await run(session, source)).value is False


async def test_sync_script_can_sleep(session: Session) -> None:
    source = """
import time
def run(ctx, inputs):
    start = time.monotonic()
    time.sleep(0.05)
    return time.monotonic() - start >= 0.05
"""
    result = await run(session, source)
    assert result.value is True
    assert result.usage.duration_ms >= 50


async def test_results_are_handled_one_at_a_time_in_the_order_they_arrive(session: Session) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    order = []
    async def one(ms):
        await ctx.after(ms)
        order.append(ms)
        await asyncio.sleep(0)
        order.append(-ms)
    await asyncio.gather(*(one(ms) for ms in (60, 5, 30)))
    return order
"""
    assert (await run(session, source)).value == [5, -5, 30, -30, 60, -60]


async def test_task_group_failure_reports_the_error_of_the_task(session: Session) -> None:
    source = """
import asyncio
async def bad():
    raise ValueError("inside the group")
async def run(ctx, inputs):
    async with asyncio.TaskGroup() as group:
        group.create_task(bad())
"""
    result = await run(session, source)
    assert result.error is not None
    assert result.error.message == "ValueError: inside the group"


async def test_background_tasks_end_when_the_script_returns(session: Session) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    async def for_ever():
        while True:
            await asyncio.sleep(0.01)
    asyncio.create_task(for_ever())
    return "done"
"""
    result = await run(session, source, limits=Limits(timeout_ms=5_000))
    assert (result.status, result.value) == ("completed", "done")


async def test_a_traceback_shows_the_frames_of_the_script_only(session: Session) -> None:
    source = """
def inner(rows):
    return [1 / n for n in rows]

async def run(ctx, inputs):
    return inner([1, 0])
"""
    result = await run(session, source, filename="job.py")
    assert result.error is not None
    lines = result.error.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "job.py", line 6, in run'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "ptc" not in result.error.traceback
    assert (result.error.line, result.error.column) == (3, 13)
    assert result.error.excerpt == "    return [1 / n for n in rows]\n            ^^^^^"


async def test_columns_count_characters_not_bytes(session: Session) -> None:
    source = "def run(ctx, inputs):\n    é = 'ñandú'; return 1 / 0\n"
    result = await run(session, source)
    assert result.error is not None
    text, caret = result.error.excerpt.split("\n")
    assert text[caret.index("^") : caret.rindex("^") + 1] == "1 / 0"


@pytest.mark.parametrize(
    "stop", ["raise SystemExit(1)", "raise KeyboardInterrupt", "raise BaseException('x')"]
)
async def test_run_stopped_by_any_exception_is_failed(session: Session, stop: str) -> None:
    result = await run(session, f"def run(ctx, inputs):\n    {stop}\n")
    assert result.status == "failed"
    assert result.value is None


@pytest.mark.parametrize(
    "body",
    [
        "'x'.encode('no-such-codec')",
        "1 is 1",
        "'\\d'",
        "import json; json.loads('{')",
        "compile",
        "import datetime; datetime.datetime.strptime('2024', '%Y')",
        "import traceback; traceback.format_exc()",
        "import logging; logging.warning('x')",
        "'é'.encode('cp1252')",
        "(1",
    ],
)
async def test_ordinary_mistakes_are_not_reported_as_violations(
    session: Session, body: str
) -> None:
    result = await run(session, f"def run(ctx, inputs):\n    {body}\n")
    assert result.status in {"completed", "failed", "rejected"}, result.error


async def test_format_exc_names_the_line_of_the_error(session: Session) -> None:
    source = """
import traceback
def run(ctx, inputs):
    try:
        1 / 0
    except ZeroDivisionError:
        return traceback.format_exc()
"""
    result = await run(session, source)
    assert result.status == "completed", result.error
    assert 'script.py", line 5, in run' in result.value


async def test_traceback_shows_the_lines_of_the_script(session: Session) -> None:
    # Lines that do not parse by themselves: CPython opens the file of such text to quote from it.
    source = """
import traceback
def run(ctx, inputs):
    shown = []
    def note():
        shown.append(traceback.format_exc())
    try: raise KeyError("a")
    except KeyError: note()
    try:
        if [][1]: pass
    except IndexError: note()
    try:
        x = (1 +
             int("b"))
    except ValueError: note()
    try:
        with 1: pass
    except TypeError: note()
    return shown
"""
    lines = ["try: raise KeyError", "if [][1]: pass", 'int("b")', "with 1: pass"]
    result = await run(session, source)
    assert result.status == "completed", result.error
    assert [line in text for line, text in zip(lines, result.value, strict=True)] == [True] * 4


async def test_tools_and_fields_may_have_the_names_of_powerful_attributes(tmp_path: Path) -> None:
    class Row(BaseModel):
        format: str
        obj: int

    @tool
    async def func(parser: str) -> list[Row]:
        """Give a row."""
        return [Row(format=parser, obj=1)]

    source = """
async def run(ctx, inputs):
    (row,) = await ctx.func("x")
    return [row.format, row.obj, row["format"]]
"""
    async with Session(tmp_path, tools=[func], toolsets=(), workers=1) as session:
        result = await session.program(source=source)
    assert result.value == ["x", 1, "x"], result.error


async def test_values_of_many_types_are_returned_as_json_data(session: Session) -> None:
    source = """
import dataclasses, datetime, decimal, enum, uuid, collections
@dataclasses.dataclass
class Row:
    name: str
    _hidden: int = 1
class Colour(enum.Enum):
    RED = "red"
Pair = collections.namedtuple("Pair", "left right")
def run(ctx, inputs):
    return {
        "row": Row("a"), "colour": Colour.RED, "pair": Pair(1, 2), "set": {2, 1},
        "date": datetime.date(2026, 1, 2), "decimal": decimal.Decimal("1.10"),
        "counter": collections.Counter("aab"), "tuple": (1, None), "range": range(3),
        "keys": {"a": 1}.keys(), "deque": collections.deque([1]),
    }
"""
    result = await run(session, source)
    assert result.status == "completed", result.error
    assert result.value == {
        "row": {"name": "a", "_hidden": 1},
        "colour": "red",
        "pair": {"left": 1, "right": 2},
        "set": [1, 2],
        "date": "2026-01-02",
        "decimal": "1.10",
        "counter": {"a": 2, "b": 1},
        "tuple": [1, None],
        "range": [0, 1, 2],
        "keys": ["a"],
        "deque": [1],
    }


async def test_each_run_has_its_own_random_seed_and_the_same_hash_seed(
    tmp_path: Path,
) -> None:
    source = """
import random, uuid
def run(ctx, inputs):
    return [random.random(), str(uuid.uuid4()), hash("text")]
"""
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        first = await session.program(source=source)
        second = await session.program(source=source)
    # Another run has another seed, and the same hash seed.
    assert first.value[:2] != second.value[:2]
    assert first.value[2] == second.value[2]
