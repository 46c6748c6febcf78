"""Measure how the cost of a run grows with its tools, calls, lines, inputs, sessions and journal.

    python tests/benchmarks/growth.py
    python tests/benchmarks/growth.py --only tools journal --json growth.json

Each line has a size, the cost at that size, and the growth since the size before: the exponent of
the cost, 0 for a constant one, 1 for a linear one. The cost of a run of size zero is part of every
figure. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
from measure import machine
from run_lists import fill

from ptc import Limits, Session, define_tool
from ptc.journal import Journal, RunQuery, open_journal

ROUNDS = 9
"""Runs for each figure, which is their median."""
TRIVIAL = "def run(ctx, inputs):\n    return 1\n"
GATHER = """\
import asyncio
async def run(ctx, inputs):
    values = await asyncio.gather(*[ctx.tool_0(x=n) for n in range(inputs["calls"])])
    return len(values)
"""
SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["x"],
}


@dataclass(frozen=True, slots=True)
class Point:
    """The cost at one size."""

    what: str
    unit: str
    size: int
    cost_ms: float
    exponent: float | None
    """Growth since the size before; None: this is the first."""


async def _double(arguments: dict[str, int]) -> int:
    return 2 * arguments["x"]


def session_of(folder: str, tools: int = 1, **options: object) -> Session:
    """Return a session with so many tools and generous limits."""
    made = [define_tool(f"tool_{n}", "Doubles a number.", SCHEMA, _double) for n in range(tools)]
    limits = Limits(
        timeout_ms=120_000,
        max_tool_calls=10_000,
        max_source_bytes=8 << 20,
        max_inputs_bytes=64 << 20,
        max_memory_bytes=1 << 30,
    )
    arguments = {"journal": ":memory:", "limits": limits, "ceiling": limits, **options}
    return Session(folder, toolsets=(), tools=made, **arguments)  # type: ignore[arg-type]  # options


async def median_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median time of some rounds, after one that is not counted."""
    await work()
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await work()
        taken.append((time.perf_counter() - started) * 1_000)
    return statistics.median(taken)


async def _checked(session: Session, source: str, **options: object) -> None:
    result = await session.program(source=source, **options)  # type: ignore[call-overload]  # options
    result.unwrap()


async def tools(folder: str) -> AsyncIterator[tuple[int, float]]:
    """A trivial run of a session with so many tools."""
    for size in (10, 100, 1_000):
        async with session_of(folder, size) as session:
            yield size, await median_ms(lambda s=session: _checked(s, TRIVIAL))  # type: ignore[misc]


async def calls(folder: str) -> AsyncIterator[tuple[int, float]]:
    """A run that gathers so many calls."""
    async with session_of(folder) as session:
        for size in (100, 1_000, 10_000):
            yield (
                size,
                await median_ms(
                    lambda n=size: _checked(session, GATHER, inputs={"calls": n})  # type: ignore[misc]
                ),
            )


async def lines(folder: str) -> AsyncIterator[tuple[int, float]]:
    """The first run of a script of so many lines."""
    number = 0
    async with session_of(folder) as session:
        for size in (25, 250, 2_500):

            async def first(size: int = size) -> None:
                nonlocal number
                number += 1
                body = "".join(f"    a{n} = [{n}, {number}][0] + len('x')\n" for n in range(size))
                await _checked(session, f"def run(ctx, inputs):\n{body}    return a0\n")

            yield size, await median_ms(first)


async def inputs(folder: str) -> AsyncIterator[tuple[int, float]]:
    """A run with inputs of so many kilobytes, of which it returns the length."""
    source = "def run(ctx, inputs):\n    return len(inputs['rows'])\n"
    async with session_of(folder) as session:
        for size in (100, 1_000, 10_000):
            rows = [{"id": n, "name": "x" * 20, "ok": True} for n in range(size * 1_000 // 50)]
            yield (
                size,
                await median_ms(
                    lambda rows=rows: _checked(session, source, inputs={"rows": rows})  # type: ignore[misc]
                ),
            )


async def sessions(folder: str) -> AsyncIterator[tuple[int, float]]:
    """A trivial run of one of so many open sessions, in turn."""
    for size in (1, 8, 64):
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(session_of(folder, workers=1)) for _ in range(size)
            ]

            async def each(opened: list[Session] = opened) -> None:
                for session in opened:
                    await _checked(session, TRIVIAL)

            yield size, await median_ms(each) / size


async def journal(folder: str) -> AsyncIterator[tuple[int, float]]:
    """A trivial run, and a list of 50, with so many runs in the journal."""
    for size in (1_000, 10_000, 100_000):
        path = Path(folder, f"{size}.db")
        store = open_journal(path)
        await fill(store, size)
        await store.close()
        reader = open_journal(path)
        async with session_of(folder, journal=str(path), journal_in_root=True) as session:

            async def both(session: Session = session, reader: Journal = reader) -> None:
                await _checked(session, TRIVIAL)
                await reader.runs(RunQuery(limit=50))

            yield size, await median_ms(both)
        await reader.close()


CASES = {
    "tools": (tools, "tools"),
    "calls": (calls, "calls"),
    "lines": (lines, "lines"),
    "inputs": (inputs, "kB"),
    "sessions": (sessions, "sessions"),
    "journal": (journal, "runs"),
}


async def measure(names: list[str]) -> list[Point]:
    """Return the points of the cases, and print each."""
    points: list[Point] = []
    for name in names:
        case, unit = CASES[name]
        before: tuple[int, float] | None = None
        with tempfile.TemporaryDirectory() as folder:
            async for size, cost in case(folder):
                exponent = None
                if before is not None:
                    exponent = math.log(cost / before[1]) / math.log(size / before[0])
                before = size, cost
                points.append(Point(name, unit, size, cost, exponent))
                growth = "" if exponent is None else f"  growth {exponent:5.2f}"
                print(f"{name:10} {size:9,} {unit:9} {cost:10.2f} ms{growth}", flush=True)
    return points


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python tests/benchmarks/growth.py", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers there")
    chosen = parser.parse_args()
    before = machine()
    print(f"Python {before['python']}, {before['cores']} cores, load {before['load_1_min']}")
    points = asyncio.run(measure(chosen.only or list(CASES)))
    if chosen.json is not None:
        rows = [
            {"what": p.what, "unit": p.unit, "size": p.size, "ms": p.cost_ms, "growth": p.exponent}
            for p in points
        ]
        data = {"machine": before, "rows": rows}
        chosen.json.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    worst = max((p.exponent for p in points if p.exponent is not None), default=0.0)
    print(f"highest growth: {worst:.2f}", file=sys.stderr)


if __name__ == "__main__":
    main()
