"""Both engines beside Monty and Pyodide: ``python tests/benchmarks/engines.py [ROUNDS]``.

Every round measures each of them in turn, so that other load on the machine affects all. A figure
is the best of all rounds. The engine `wasm` must be compiled (`ptc warm-up`). A rival that is not
installed is left out: ``pip install pydantic-monty``; ``npm install pyodide`` with Node, in the
current folder, or elsewhere with its folder in `PYODIDE`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path

from cases import CALLS
from engine import WORKERS, Engine, open_ptc
from measure import descendants, machine, process_seconds
from rival_pyodide import open_pyodide, pyodide_first_result, pyodide_folder
from scripts import CPU, TRIVIAL

RUNS = 50
AT_ONCE = 8
_CALL = {
    "blocking": f"def run(ctx, inputs):\n    for n in range({CALLS}):\n        ctx.noop(x=n)\n",
    "awaited": f"async def run(ctx, inputs):\n    for n in range({CALLS}):\n"
    "        await ctx.noop(x=n)\n",
    "gathered": f"import asyncio\nasync def run(ctx, inputs):\n"
    f"    await asyncio.gather(*[ctx.noop(x=n) for n in range({CALLS})])\n",
}
_HOLD = "async def run(ctx, inputs):\n    return await ctx.hold()\n"
_WORK = {name: CPU[name] for name in ("fib(25)", "add 1e6", "regex 1 MB", "json 1 MB")}
_FIRST = """
from ptc import BlockingSession
with BlockingSession(toolsets=(), engine={engine!r}) as session:
    session.program(source={source!r}).unwrap()
"""
_FIRST_MONTY = """
from pydantic_monty import Monty
with Monty() as pool, pool.checkout() as session:
    session.feed_run("1")
"""
Opener = Callable[[], AbstractAsyncContextManager[Engine]]
Figures = dict[str, dict[str, float]]


def openers() -> tuple[dict[str, Opener], dict[str, Callable[[], float]]]:
    """Return how each is opened, and how the first result of a new process is timed."""
    chosen: dict[str, Opener] = {}
    first: dict[str, Callable[[], float]] = {}
    for engine in ("process", "wasm"):
        chosen[engine] = partial(open_ptc, engine)
        code = _FIRST.format(engine=engine, source=TRIVIAL)
        first[engine] = partial(process_seconds, code)
    if importlib.util.find_spec("pydantic_monty") is not None:
        from rival import open_monty

        chosen["monty"], first["monty"] = open_monty, partial(process_seconds, _FIRST_MONTY)
    else:
        print("monty is not installed: pip install pydantic-monty")
    if pyodide_folder() is not None:
        chosen["pyodide"] = open_pyodide
        first["pyodide"] = partial(pyodide_first_result, TRIVIAL)
    else:
        print("pyodide is not installed: npm install pyodide, with Node")
    return chosen, first


def _note(figures: Figures, name: str, which: str, value: float) -> None:
    row = figures.setdefault(name, {})
    row[which] = min(row.get(which, value), value)


async def _seconds(engine: Engine, source: str) -> float:
    await engine.settle()
    started = time.perf_counter()
    await engine.run(source)
    return time.perf_counter() - started


async def _many(engine: Engine) -> float:
    """Return the seconds of one of many runs, some at once."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with free:
            await engine.run(TRIVIAL)

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(RUNS)))
    return (time.perf_counter() - started) / RUNS


async def _round(which: str, engine: Engine, figures: Figures) -> None:
    note = partial(_note, figures)
    for _ in range(10):
        note("trivial run, ms", which, 1e3 * await _seconds(engine, TRIVIAL))
    for kind, source in _CALL.items():
        if which == "pyodide" and kind == "blocking":
            continue  # it would need a stack that can be switched
        await _try(figures, f"{kind} call, us", which, 1e6 / CALLS, _seconds(engine, source))
    for name, source in _WORK.items():
        await _try(figures, f"{name}, ms", which, 1e3, _seconds(engine, source))
    await _try(figures, f"a run with {AT_ONCE} at once, ms", which, 1e3, _many(engine))


async def _try(
    figures: Figures, name: str, which: str, scale: float, taking: Awaitable[float]
) -> None:
    try:
        _note(figures, name, which, scale * await taking)
    except Exception as error:  # a script that a rival cannot execute
        if which in {"process", "wasm"}:
            raise
        print(f"{which}: {name}: {str(error).strip().splitlines()[-1][:150]}")


def _megabytes() -> float:
    """Return the memory of this process and of those below it; shared pages are divided."""
    total = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has exited
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


async def _memory(make: Opener) -> float:
    """Return the memory of an engine while each of its workers has a run that waits for a call."""
    before = _megabytes()
    async with make() as engine:
        runs = [asyncio.create_task(engine.run(_HOLD)) for _ in range(WORKERS)]
        await engine.gate.full(WORKERS)
        after = _megabytes()
        engine.gate.release()
        await asyncio.gather(*runs)
    return after - before


async def measure(rounds: int) -> tuple[list[str], Figures]:
    """Return the names of the engines, and the best figure of each case."""
    figures: Figures = {}
    chosen, first = openers()
    for _ in range(rounds):
        for which, start in first.items():
            _note(figures, "new process to first result, ms", which, 1e3 * start())
    for which, make in chosen.items():  # before another one has loaded its parts
        _note(figures, f"memory with {WORKERS} runs, MB", which, await _memory(make))
    async with AsyncExitStack() as stack:
        engines = {w: await stack.enter_async_context(make()) for w, make in chosen.items()}
        for _ in range(rounds):
            for which, engine in engines.items():
                await _round(which, engine, figures)
    return list(chosen), figures


def main() -> None:
    """Print a table with a column for each engine."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    # Measured first: the table itself loads the machine.
    before = machine()
    names, figures = asyncio.run(measure(rounds))
    print(
        f"Python {before['python']}, {before['cores']} cores, {rounds} rounds, load "
        f"{before['load_1_min']} before and {machine()['load_1_min']} after"
    )
    print(f"{'':34}" + "".join(f"{name:>10}" for name in names))
    for case, row in figures.items():
        cells = (f"{row[name]:10.1f}" if name in row else f"{'-':>10}" for name in names)
        print(f"{case:34}" + "".join(cells))
    sys.stdout.flush()
    os._exit(0)  # as in `run.py`: AsyncMonty can abort the interpreter at its exit


if __name__ == "__main__":
    main()
