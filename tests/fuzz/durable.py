"""Kill hosts, workers and servers at the steps of a journal, and compare the resumed runs.

usage: python -m tests.fuzz.durable [--store sqlite|postgres] [--deaths KIND,...] [--minutes 10]
           [--count N] [--trees N] [--seed N] [--state FILE] [--only NAME] [--mutant NAME]
           [--engine process|wasm]

Exit status 1 if there are findings. A point is a program with steps of its journal. At each step a
process dies or is frozen, and the run is resumed until it ends. Then its result, calls and effects
must be those of an uninterrupted run. The programs are fixed ones and random trees of tools that
call tools. The same seed selects the same trees and steps; `--state` continues a series.

  host         the host is killed with SIGKILL; another process resumes the run
  worker       the process that executes the script is killed; the host resumes the run
  zygote       the parent of these processes is killed
  guest        with --engine wasm, in place of these two: the guest that executes the script is
               stopped, or traps since its memory was erased; the host resumes the run
  server       PostgreSQL is killed with SIGKILL, as a whole or one backend, and starts again
  connections  all connections to PostgreSQL are terminated
  frozen       the host is stopped for longer than its lease, and continues when the run has ended
  two          the same, and two processes resume the run at the same time
  clock        the clock of the host jumps by an hour; another host, whose clock is also wrong,
               tries to resume the run meanwhile
  cancel       the task of the run is cancelled, and the host resumes it
  queue        workers that take runs of a queue in PostgreSQL are killed at steps and at any time,
               and the process that decides about the runs, cancels and resumes them
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.durable_mutants import MUTANTS  # noqa: E402  # the path is complete only now
from tests.fuzz.durable_series import DEATHS, DEATHS_OF_ENGINES, Series  # noqa: E402  # as above
from tests.fuzz.durable_world import PROGRAMS  # noqa: E402  # as above

_MOST_DEATHS = 12
_PROGRESS_SECONDS = 15.0


def programs(options: argparse.Namespace) -> list[str]:
    """Return the names of the programs to interrupt."""
    if options.only:
        return [options.only]
    chance = Random(options.seed)
    return [*PROGRAMS, *(f"tree {chance.randrange(10**6)}" for _ in range(options.trees))]


class Totals:
    """Numbers of a series, which a file holds between two processes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        if path is not None and path.exists():
            found = json.loads(path.read_text())
            self.counts.update(found["counts"])
            self.findings = found["findings"]

    def add(self, counts: Mapping[str, int], wrong: Iterable[str], title: str, name: str) -> None:
        """Add the numbers of a point, and print its problems."""
        self.counts.update(counts)
        for text in wrong:
            self.findings.append(f"{name}: {text}")
            say(f"{title}: {self.findings[-1]}")

    def save(self) -> None:
        """Write the file."""
        if self._path is not None:
            text = json.dumps({"counts": self.counts, "findings": self.findings})
            part = self._path.with_suffix(".part")
            part.write_text(text)
            part.rename(self._path)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"{numbers}, findings {len(self.findings)}"


def _series_of(death: str) -> type[Series]:
    if death != "queue":
        return Series
    from tests.fuzz.durable_queue_series import QueueSeries

    return QueueSeries


def work(options: argparse.Namespace, death: str) -> Totals:
    """Interrupt runs until time or points are used up."""
    state = None if options.state is None else Path(f"{options.state}.{options.store}.{death}")
    totals = Totals(state)
    names = programs(options)
    started = told = time.monotonic()
    title = f"{options.store} {options.engine} {death} seed {options.seed}"
    with (
        tempfile.TemporaryDirectory() as folder,
        _series_of(death)(
            *(Path(folder), options.store, death, options.mutant, options.engine)
        ) as series,
    ):
        straight = {name: series.straight(name) for name in names}
        say(f"{title}: {len(names)} programs, {sum(s['steps'] for s in straight.values())} steps")
        until = time.monotonic() + options.minutes * 60
        while time.monotonic() < until and totals.counts["deaths"] < options.count:
            number = totals.counts["points"]
            chance = Random(f"{options.seed} {number}")
            name = chance.choice(names)
            steps = [chance.randint(1, straight[name]["steps"])]
            while len(steps) < _MOST_DEATHS and chance.random() < 0.7:
                steps.append(chance.randint(1, straight[name]["steps"]))
            counts, wrong = series.point(number, name, steps, chance, straight[name])
            totals.add({**counts, "points": 1}, wrong, title, f"{name} point {number} at {steps}")
            if wrong and options.first:
                break
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                totals.save()
                say(f"{title}: {totals}")
        if not (totals.findings and options.first):
            totals.add(*series.finish(), title, "last runs")
    totals.counts["seconds"] += round(time.monotonic() - started)
    totals.save()
    say(f"{title}: {totals}")
    return totals


def say(text: str) -> None:
    """Print and flush."""
    print(text, flush=True)  # noqa: T201  # a command


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--deaths", default="host", help=f"of {','.join(DEATHS)}; or 'all'")
    parser.add_argument("--minutes", type=float, default=10, help="for each kind of death")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="deaths of each kind")
    parser.add_argument("--trees", type=int, default=12, help="random trees among the programs")
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock")
    parser.add_argument("--state", metavar="FILE", help="continue the series of these files")
    parser.add_argument("--only", metavar="NAME", help="one program, as 'nested' or 'tree 7'")
    parser.add_argument("--first", action="store_true", help="stop at the first finding")
    parser.add_argument("--engine", choices=tuple(DEATHS_OF_ENGINES), default="process")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="a known defect")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    foreign = {
        death
        for engine, deaths in DEATHS_OF_ENGINES.items()
        for death in deaths
        if engine != options.engine
    }
    kinds = [*DEATHS] if options.deaths == "all" else options.deaths.split(",")
    if options.deaths == "all":
        kinds = [kind for kind in kinds if kind not in foreign]
    if foreign & set(kinds):
        names = ", ".join(sorted(foreign & set(kinds)))
        parser.error(f"the engine {options.engine} has no deaths of this kind: {names}")
    if options.store == "sqlite":
        kinds = [kind for kind in kinds if kind not in ("server", "connections", "queue")]
    totals = [work(options, kind) for kind in kinds]
    findings = sum(len(each.findings) for each in totals)
    say(f"findings: {findings}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
