"""No legal Python alone reaches the kernel layer: a violation means an attack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ptc import Limits, Session
from ptc._policy_modules import MODULES

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is for Linux"),
    pytest.mark.shared_zygote,
]


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One event loop: none reaches into the worker."""
    return str(request.param)


SWEEP = Path(__file__).parent.parent.parent / "programs" / "reach" / "sweep.py"
LIMITS = Limits(timeout_ms=100_000, max_memory_bytes=1 << 30, max_stdout_bytes=1 << 26)


@pytest.mark.parametrize(
    "methods", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["names", "methods"]
)
async def test_ordinary_use_of_module_names_causes_no_violation_and_shows_plain_names(
    tmp_path: Path, methods: bool
) -> None:
    importable = sorted(MODULES)
    source = f"import {', '.join(importable)}\nMODULES = [{', '.join(importable)}]\n"
    source += SWEEP.read_text()
    async with Session(tmp_path, toolsets=(), limits=LIMITS, ceiling=LIMITS) as session:
        result = await session.program(source=source, inputs={"methods": methods})
        assert session.violations == ()
        assert result.error is None
    (outside, inside, *more), leaked = result.value
    assert leaked == []
    assert outside == inside > 30_000
    assert all(calls > 50_000 for calls in more)
    assert len(more) == (2 if methods else 0)


@pytest.mark.parametrize("call", ["gather(work())", "ensure_future(work())", "shield(work())"])
async def test_asyncio_outside_of_a_loop_causes_no_violation(tmp_path: Path, call: str) -> None:
    source = f"import asyncio\nasync def work(): ...\ndef run(ctx, inputs):\n    asyncio.{call}\n"
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=source)
        assert session.violations == ()
    assert result.status == "completed"


async def test_relative_paths_cause_no_violation(tmp_path: Path) -> None:
    source = (
        "import os\n[os.path.relpath('a/b', 'a/c'), os.path.relpath('../x'),"
        " os.path.relpath('a'), os.path.relpath('.'), os.path.relpath('/a/b', '/a')]"
    )
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=source)
        assert session.violations == ()
    assert result.value == ["../b", "../x", "a", ".", "b"]


SPELLINGS = """
import typing
async def run(ctx, inputs):
    made = type("X", (typing.NamedTuple,), {"__annotations__": {"a": int, "\\uff41": int}})
    return made._fields
"""


async def test_two_spellings_of_one_field_cause_no_violation(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=SPELLINGS)
    assert (result.error, result.value) == (None, ["a"])


@pytest.mark.parametrize("value", [-1, "zzz", None])
@pytest.mark.parametrize("name", ["line", "_line", "tool", "_tool", "withdraw", "_withdraw"])
async def test_attributes_that_a_script_sets_on_a_call_cause_no_violation(
    tmp_path: Path, name: str, value: object
) -> None:
    source = f"async def run(ctx, inputs):\n    call = ctx.ls('.')\n    call.{name} = {value!r}\n"
    async with Session(tmp_path) as session:
        result = await session.program(source=source, allowed_tools=["ls"])
        assert session.violations == ()
    assert result.status == "completed", result.error
    assert [(each.code, each.line) for each in result.warnings] == [("not_awaited", 2)]


DEADLINE = """
import queue
class Length(float):
    def __radd__(self, other): return self
    def __sub__(self, other): return self
    def __rsub__(self, other): return self
    def __gt__(self, other): return other == 0.0
    def __lt__(self, other): return False
    def __ge__(self, other): return True
    def __le__(self, other): return False
    def __repr__(self): return '0.5, "more"'
def run(ctx, inputs):
    try:
        queue.Queue().get(timeout=Length(0.05))
    except queue.Empty:
        return "empty"
"""


async def test_length_of_a_wait_with_its_own_repr_causes_no_violation(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=DEADLINE)
    assert (result.error, result.value) == (None, "empty")
