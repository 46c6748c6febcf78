"""No legal Python alone reaches the kernel layer: a violation means an attack."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ptc import Limits, Session
from ptc._policy_modules import MODULES

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is for Linux"),
]

SWEEP = Path(__file__).parent.parent.parent / "programs" / "reach" / "sweep.py"
LIMITS = Limits(timeout_ms=100_000, max_memory_bytes=1 << 30, max_stdout_bytes=1 << 26)


async def test_ordinary_use_of_module_names_causes_no_violation(
    tmp_path: Path,
) -> None:
    source = SWEEP.read_text()
    listed = source.partition("MODULES = [")[2].partition("]")[0]
    assert set(re.findall(r"[\w.]+", listed)) >= MODULES.keys() - {"collections.abc", "urllib"}
    async with Session(tmp_path, toolsets=(), limits=LIMITS, ceiling=LIMITS) as session:
        result = await session.program(source=source)
        assert result.error is None
        assert session.violations == ()
    outside, inside = result.value
    assert outside == inside > 20_000


@pytest.mark.parametrize("call", ["gather(work())", "ensure_future(work())", "shield(work())"])
async def test_asyncio_outside_of_a_loop_is_an_ordinary_error(tmp_path: Path, call: str) -> None:
    source = f"import asyncio\nasync def work(): ...\ndef run(ctx, inputs):\n    asyncio.{call}\n"
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=source)
        assert session.violations == ()
    assert result.error is not None
    assert (result.status, result.error.line) == ("failed", 4)
    assert "inside `async def run(ctx, inputs)`" in result.error.message


async def test_relative_paths_cause_no_violation(tmp_path: Path) -> None:
    source = (
        "import os\n[os.path.relpath('a/b', 'a/c'), os.path.relpath('../x'),"
        " os.path.relpath('a'), os.path.relpath('.'), os.path.relpath('/a/b', '/a')]"
    )
    async with Session(tmp_path, toolsets=()) as session:
        result = await session.program(source=source)
        assert session.violations == ()
    assert result.value == ["../b", "../x", "a", ".", "b"]
