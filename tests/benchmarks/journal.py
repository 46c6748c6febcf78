"""Measure the cost of recording: a read, a side effect, a run, and resuming; print one table.

    python tests/benchmarks/journal.py
    python tests/benchmarks/journal.py --rounds 60 --folder /var/tmp

Nothing is asserted: a person who knows how busy the machine was judges the numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import best, machine, median

from ptc import Limits, Session, Tool, define_tool

EPILOG = """\
Method. Two sessions, one with and one without recording, alternate within each round. CPU time is
that of the host's process with all its threads, including the writer, until everything is written.
A figure is the minimum of all samples, because any excess is disturbance; figures that depend on
the disk are medians. The floor of a side effect is a row as large as a call's start, committed by
sqlite3 with synchronous=FULL in the same folder.
"""
CALLS = 1_000
"""Calls of the run that is measure_resume."""
READS = 250
"""Calls of a run that measures reads: few, so that some samples are undisturbed."""
EFFECTS = 100
RUNS = 20
RESUMED_EVERY = 4
"""Rounds of resuming, which takes longer than all other measures."""
_LIMITS = Limits(max_tool_calls=2 * CALLS)

AWAITED = """
async def run(ctx, inputs):
    for n in range(CALLS):
        await ctx.look(n=n)
    await ctx.last()
"""
GATHERED = """
import asyncio
async def run(ctx, inputs):
    await asyncio.gather(*(ctx.look(n=n) for n in range(CALLS)))
    await ctx.last()
"""
EFFECTS_ONLY = f"""
async def run(ctx, inputs):
    for n in range({EFFECTS}):
        await ctx.put(n=n)
"""
TRIVIAL = "async def run(ctx, inputs):\n    return 1\n"
NAMES = ("look", "put", "last")


class Gate:
    """True if the tool `last` returns, and does not wait to be interrupted."""

    def __init__(self) -> None:
        self.open = True
        self.reached = asyncio.Event()

    def tools(self) -> list[Tool]:
        """Create the tools of every session."""

        async def look(arguments: Mapping[str, Any]) -> Any:
            return {"n": arguments["n"]}

        async def last(arguments: Mapping[str, Any]) -> None:
            self.reached.set()
            if not self.open:
                await asyncio.Event().wait()

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return [
            define_tool("look", "Look.", schema, look),
            define_tool("put", "Put.", schema, look, side_effect=True, idempotent=True),
            define_tool("last", "Be last.", schema, last),
        ]


@asynccontextmanager
async def open_session(folder: str, gate: Gate, *, recorded: bool) -> AsyncIterator[Session]:
    """Open a session in a new folder with ready workers."""
    with TemporaryDirectory(dir=folder) as root:
        async with Session(
            root,
            tools=gate.tools(),
            toolsets=(),
            journal=Path(root) / "journal.sqlite3",
            journal_in_root=True,  # In the requested folder.
        ) as session:
            if not recorded:
                setattr(session.history, "follow", lambda *_, **__: None)  # noqa: B010  # it is a method
            await session.warm_up()
            yield session


async def measure_runs(session: Session, source: str, times: int = 1) -> tuple[float, float]:
    """Return CPU and wall seconds of runs; the CPU time includes recording them."""
    await asyncio.sleep(0.1)  # the pool has its workers, and earlier records are written
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        (await session.program(source=source, allowed_tools=list(NAMES), limits=_LIMITS)).unwrap()
    wall = time.perf_counter() - wall
    await session.history.journal.runs()  # after all that was appended before
    return time.process_time() - cpu, wall


def committed(folder: str) -> float:
    """Return the wall seconds of one durable commit of a row such as a call's start."""
    with TemporaryDirectory(dir=folder) as root:
        db = sqlite3.connect(Path(root) / "floor.sqlite3", isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE calls(run INTEGER, path TEXT, key TEXT, PRIMARY KEY(run, path))")
        began = time.perf_counter()
        for number in range(EFFECTS):
            db.execute("INSERT INTO calls VALUES(1, ?, ?)", (str(number), "k" * 64))
        seconds = (time.perf_counter() - began) / EFFECTS
        db.close()
        return seconds


async def measure_resume(session: Session, gate: Gate, source: str) -> float:
    """Return the wall seconds of resuming a run that was interrupted after its thousandth call."""
    gate.open, gate.reached = False, asyncio.Event()
    run_id = f"r{time.monotonic_ns()}"
    task = asyncio.create_task(
        session.program(source=source, allowed_tools=list(NAMES), limits=_LIMITS, run_id=run_id)
    )
    await gate.reached.wait()
    task.cancel()
    await asyncio.wait([task])
    gate.open = True
    await asyncio.sleep(0.1)
    began = time.perf_counter()
    (await session.resume(run_id)).unwrap()
    return time.perf_counter() - began


async def measure(rounds: int, folder: str) -> list[tuple[str, str, float, float, str]]:
    """Return lines of the table: name, unit, ptc, rival, and the rival's name."""
    gate = Gate()
    samples: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)

    cases: dict[str, tuple[str, int, int]] = {
        "awaited": (AWAITED.replace("CALLS", str(READS)), 1, READS),
        "gathered": (GATHERED.replace("CALLS", str(READS)), 1, READS),
        "effects": (EFFECTS_ONLY, 1, EFFECTS),
        "trivial": (TRIVIAL, RUNS, RUNS),
    }
    async with (
        open_session(folder, gate, recorded=True) as ours,
        open_session(folder, gate, recorded=False) as bare,
    ):
        for at in range(rounds):
            for name, (source, times, parts) in cases.items():
                for which, session in (("ours", ours), ("bare", bare)):
                    cpu, wall = await measure_runs(session, source, times)
                    note(f"{name} cpu {which}", cpu / parts)
                    note(f"{name} wall {which}", wall / parts)
            note("commit", await asyncio.to_thread(committed, folder))
            if at % RESUMED_EVERY:
                continue
            for name, source in (("awaited", AWAITED), ("gathered", GATHERED)):
                whole = source.replace("CALLS", str(CALLS))
                note(f"{name} whole", (await measure_runs(ours, whole))[1])
                note(f"{name} resume", await measure_resume(ours, gate, whole))
    return rows_of(samples)


Reduce = Callable[[list[float]], float | None]


def rows_of(samples: Mapping[str, list[float]]) -> list[tuple[str, str, float, float, str]]:
    """Reduce the samples."""

    def of(name: str, reduce: Reduce, scale: float) -> float:
        return (reduce(samples[name]) or 0.0) * scale

    rows = []
    for name in ("awaited", "gathered"):
        for kind in ("cpu", "wall"):
            ours, bare = (of(f"{name} {kind} {who}", best, 1e6) for who in ("ours", "bare"))
            rows.append((f"a read, {name}: {kind}", "us/call", ours, bare, "no journal"))
    ours, bare = (of(f"effects wall {who}", median, 1e3) for who in ("ours", "bare"))
    rows.append(("a side effect: wall", "ms/call", ours, bare, "no journal"))
    commit = of("commit", median, 1e3)
    rows.append(("a side effect: cost of recording", "ms/call", ours - bare, commit, "a commit"))
    for kind in ("cpu", "wall"):
        ours, bare = (of(f"trivial {kind} {who}", best, 1e6) for who in ("ours", "bare"))
        rows.append((f"a trivial run: {kind}", "us/run", ours, bare, "no journal"))
    for name in ("awaited", "gathered"):
        resume, run = of(f"{name} resume", best, 1e3), of(f"{name} whole", best, 1e3)
        rows.append((f"resuming after {CALLS:,} calls, {name}", "ms", resume, run, "the run"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python tests/benchmarks/journal.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="rounds (default: 30)")
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="where the journals are (default: here)"
    )
    chosen = parser.parse_args()
    if not 1 <= chosen.rounds <= 1_000:
        parser.error(f"--rounds {chosen.rounds}: pass a number from 1 to 1000")
    before = machine()
    rows = asyncio.run(measure(chosen.rounds, chosen.folder))
    print(
        f"Python {before['python']}, {before['cores']} cores, {chosen.rounds} rounds, "
        f"load {before['load_1_min']} before and {machine()['load_1_min']} after\n"
    )
    print(f"{'measure':<36} {'unit':<8} {'ptc':>9} {'beside':>9} {'more':>9} {'ratio':>6}")
    for name, unit, ours, beside, what in rows:
        ratio = ours / beside if beside else float("nan")
        line = f"{name:<36} {unit:<8} {ours:>9,.2f} {beside:>9,.2f} {ours - beside:>9,.2f}"
        print(f"{line} {ratio:>6.2f}  {what}")


if __name__ == "__main__":
    main()
