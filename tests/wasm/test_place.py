"""A script that computes until it is stopped: the error names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Limits, Session

pytestmark = pytest.mark.anyio

LOOP = "x = 1\nn = 0\nwhile True:\n    n += 1\n"
RECURSION = (
    "def deep(n):\n    if n:\n        return deep(n - 1)\n    total = 0\n"
    "    for i in range(10**10):\n        total += i * i\n"
    "def run(ctx, inputs):\n    return deep(50)\n"
)
REGEX = (
    "import re\n\ndef run(ctx, inputs):\n    a = 1\n"
    "    return re.match(r'(a+)+$', 'a' * 40 + 'b')\n"
)
POWER = "def run(ctx, inputs):\n    x = 7\n\n    return x ** 10 ** 8\n"
TASKS = (
    "import asyncio\nasync def inner():\n    await asyncio.sleep(0)\n    while True: pass\n"
    "async def run(ctx, inputs):\n    await asyncio.gather(inner(), inner())\n"
)
COMPARISON = (
    "class A:\n    def __lt__(self, other):\n        while 1: pass\n\n"
    "def run(ctx, inputs):\n    return sorted([A(), A()])\n"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (LOOP, {3, 4}), (RECURSION, {5, 6}), (REGEX, {5}), (POWER, {4}), (TASKS, {4}),
        (COMPARISON, {3}),
    ],
    ids=["loop", "recursion", "regex", "power", "tasks", "comparison"],
)  # fmt: skip
async def test_time_out_names_the_line_that_computes(
    tmp_path: Path, source: str, lines: set[int]
) -> None:
    async with Session(tmp_path, toolsets=(), engine="wasm", workers=1) as session:
        result = await session.program(source=source, limits=Limits(timeout_ms=400))
    assert result.status == "timed_out"
    assert result.error is not None
    assert result.error.line in lines
    assert "it was computing on line" in result.error.message


async def test_cpu_limit_names_the_line_that_computes(tmp_path: Path) -> None:
    limits = Limits(timeout_ms=10_000, max_cpu_ms=300)
    async with Session(tmp_path, toolsets=(), engine="wasm", workers=1) as session:
        result = await session.program(source=RECURSION, limits=limits)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.line in {5, 6}
