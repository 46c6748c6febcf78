"""Measure ptc against plain CPython and, if it is installed, Monty; print one table.

    python tests/benchmarks/run.py
    python tests/benchmarks/run.py --rounds 9 --only cpu calls.blocking --json numbers.json

Nothing is asserted: a person who knows how busy the machine was judges the numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
from cases import CASES, Bench, BlockingOpener, Opener, WrongValueError, select_cases
from engine import open_blocking_ptc, open_ptc
from measure import Row, machine, table

EPILOG = f"""\
Cases: {", ".join(CASES)}.
A name before a dot selects all cases of that kind: `--only cpu calls`.

Method. Each round samples ptc, Monty and plain CPython in turn. A figure is the median of all
rounds; for the cpu cases it is the minimum, because any excess is disturbance. Runs start when the
pool has its workers ready, except in `sustained`. A cpu figure is the wall time of a run minus that
of a trivial run, measured from outside, because a script has no real clock. Plain CPython compiles
and runs the same source in a new process, without start-up time. A ratio is ptc's figure divided by
the other's: below 1, ptc needs less. Monty: `pip install pydantic-monty`.
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python tests/benchmarks/run.py",
        description=(__doc__ or "").partition("\n")[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="rounds of each case (default: 5)"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="measure these cases only (default: all)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers there")
    parser.add_argument("--no-monty", action="store_true", help="leave Monty out")
    chosen = parser.parse_args()
    if not 1 <= chosen.rounds <= 1_000:
        parser.error(f"--rounds {chosen.rounds}: pass a number from 1 to 1000")
    try:
        select_cases(chosen.only)
    except KeyError as error:
        parser.error(f"--only: there is no case {error}; cases: {', '.join(CASES)}")
    return chosen


async def measure_all(bench: Bench, names: list[str] | None) -> list[Row]:
    """Run the cases in order, naming the current one on standard error."""
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        bench.engines = await bench.open(stack)
        for name, case in select_cases(names).items():
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += await case(bench)
    return rows


def main() -> None:
    """Measure, print, write."""
    chosen = _arguments()
    openers: dict[str, Opener] = {"ptc": open_ptc}
    blocking: dict[str, BlockingOpener] = {"ptc": open_blocking_ptc}
    refusals: tuple[type[Exception], ...] = (WrongValueError,)
    rival = None
    if not chosen.no_monty and importlib.util.find_spec("pydantic_monty") is not None:
        from rival import REFUSAL, VERSION, open_blocking_monty, open_monty

        openers["monty"] = open_monty
        blocking["monty"] = open_blocking_monty
        refusals = (REFUSAL, WrongValueError)
        rival = VERSION
    bench = Bench(
        rounds=chosen.rounds, openers=openers, blocking_openers=blocking, refusals=refusals
    )
    before = machine()
    rows = asyncio.run(measure_all(bench, chosen.only))
    after = machine()
    print(
        f"Python {before['python']}, {before['cores']} cores, {chosen.rounds} rounds, "
        f"load {before['load_1_min']} before and {after['load_1_min']} after, "
        f"monty {rival or 'not measured'}\n"
    )
    print(table(rows, rival=rival is not None))
    for note in bench.notes:
        print(f"note: {note}")
    if chosen.json is not None:
        data = {
            "machine": {**before, "load_1_min_after": after["load_1_min"]},
            "rounds": chosen.rounds,
            "monty": rival,
            "rows": [row.as_data() for row in rows],
            "notes": bench.notes,
        }
        chosen.json.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    if rival is not None:
        # AsyncMonty 1.4.0 now and then aborts the interpreter at exit (SIGABRT, 1 of 12 times),
        # which would look like a failure of the benchmark.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
