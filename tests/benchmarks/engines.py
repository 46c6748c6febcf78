"""Both engines side by side: ``python -m tests.benchmarks.engines [ROUNDS]``.

It prints the best of some rounds for each, since other load on the machine only adds time. The
engine `wasm` must be compiled (`ptc warm-up`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any

from ptc import Limits, Session, tool

CALLS = 500
RUNS = 100
AT_ONCE = 8
BLOCKING = f"""
def run(ctx, inputs):
    for n in range({CALLS}):
        ctx.add(a=n, b=1)
"""
GATHERED = f"""
import asyncio
async def run(ctx, inputs):
    await asyncio.gather(*(ctx.add(a=n, b=1) for n in range({CALLS})))
"""
FIB = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def run(ctx, inputs):
    return fib(22)
"""
LOOP = """
def run(ctx, inputs):
    n = 0
    for i in range(500_000):
        n += i * i % 7
    return n
"""
ROWS = 'def run(ctx, inputs):\n    return [{"id": n, "name": f"row {n}"} for n in range(14_000)]'


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def timed(make: Callable[[], Awaitable[Any]]) -> float:
    """Return the milliseconds that `make()` takes."""
    started = time.perf_counter()
    await make()
    return (time.perf_counter() - started) * 1_000


async def measure(engine: Any, root: str, rounds: int) -> dict[str, float]:
    """Return the best time of each case, in the unit that its name has."""
    limits = Limits(max_tool_calls=10_000, timeout_ms=60_000, max_output_bytes=8 << 20)
    best: dict[str, float] = {}

    def note(name: str, value: float) -> None:
        best[name] = min(best.get(name, value), value)

    started = time.perf_counter()
    async with Session(
        root, tools=[add], toolsets=(), limits=limits, engine=engine, journal=":memory:"
    ) as session:

        async def run(source: str) -> None:
            (await session.program(source=source)).unwrap()

        async def many() -> None:
            free = asyncio.Semaphore(AT_ONCE)

            async def one() -> None:
                async with free:
                    await run("1 + 1")

            await asyncio.gather(*(one() for _ in range(RUNS)))

        await run("1 + 1")
        note("first result, ms", (time.perf_counter() - started) * 1_000)
        for _ in range(rounds):
            for _ in range(10):
                await asyncio.sleep(0.05)  # the pool starts another worker
                note("trivial run, ms", await timed(lambda: run("1 + 1")))
            note("blocking call, us", await timed(lambda: run(BLOCKING)) * 1_000 / CALLS)
            note("gathered call, us", await timed(lambda: run(GATHERED)) * 1_000 / CALLS)
            note("fib(22), ms", await timed(lambda: run(FIB)))
            note("loop of 500,000, ms", await timed(lambda: run(LOOP)))
            note("500 KB of rows returned, ms", await timed(lambda: run(ROWS)))
            note(f"a run of {RUNS}, {AT_ONCE} at once, ms", await timed(many) / RUNS)
    return best


def main() -> None:
    """Print a table with a column for each engine."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    columns = []
    for engine in ("process", "wasm"):
        with TemporaryDirectory() as root:
            columns.append(asyncio.run(measure(engine, root, rounds)))
    print(f"{'':34}{'process':>10}{'wasm':>10}")
    for name, value in columns[0].items():
        print(f"{name:34}{value:10.1f}{columns[1][name]:10.1f}")


if __name__ == "__main__":
    main()
