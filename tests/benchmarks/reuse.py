"""Forked against restored workers: ``python tests/benchmarks/reuse.py [ROUNDS [RUNS]]``.

Every round measures both in turn, so that other load on the machine affects both. A figure is the
best of all rounds. A million runs without a leak: ``python tests/benchmarks/reuse.py series
1000000``, or a time, as in ``series 540s``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from measure import descendants, machine, private_megabytes

from ptc import Session
from ptc._workers._pool import Pool

_ROUNDS, _RUNS, _WORKERS, _AT_ONCE = 3, 600, 2, 4
_TICK = os.sysconf("SC_CLK_TCK")
_REPORT_EVERY = 5_000
_SCRIPT = "def run(ctx, inputs):\n    return {number}\n"
_VARIED = (
    "import json\ndef run(ctx, inputs):\n    return len(json.dumps([{{'a': i}} for i in range(300)])) * 0 + {number}\n",  # noqa: E501  # one script
    "def run(ctx, inputs):\n    return 1 // 0 + {number}\n",
    "class A:\n    x = {number}\n\ndef run(ctx, inputs):\n    print('x' * 100)\n    return A.x\n",
)


@dataclass
class Usage:
    """Time and page faults of processes, those that have exited included."""

    seconds: float = 0.0
    faults: int = 0


def usage_of_workers() -> Usage:
    """Return the usage of everything below this process."""
    found = Usage()
    for pid in descendants(os.getpid()):
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        found.faults += int(fields[7]) + int(fields[8])
        found.seconds += sum(map(int, fields[11:15])) / _TICK
    return found


async def measure(session: Session, runs: int, *, repeated: bool) -> dict[str, float]:
    """Make runs one after the other and return figures of one."""
    before, own, start = usage_of_workers(), time.process_time(), time.perf_counter()
    for number in range(runs):
        value = 7 if repeated else number
        result = await session.program(source=_SCRIPT.format(number=value))
        assert result.value == value, result.error  # a benchmark
    wall, host = time.perf_counter() - start, time.process_time() - own
    after = usage_of_workers()
    return {
        "runs/s": runs / wall,
        "host CPU ms": 1000 * host / runs,
        "other CPU ms": 1000 * (after.seconds - before.seconds) / runs,
        "page faults": (after.faults - before.faults) / runs,
    }


async def measure_all(reuse: bool, runs: int) -> dict[str, float]:
    """Open a session, warm it up, and return its figures."""
    async with Session(toolsets=(), workers=_WORKERS, reuse_workers=reuse) as session:
        await measure(session, 60, repeated=False)
        found = {
            f"{kind}: {name}": value
            for kind in ("new script", "repeated script")
            for name, value in (
                await measure(session, runs, repeated=kind == "repeated script")
            ).items()
        }
        await asyncio.sleep(0.1)
        pool = session._pool
        assert isinstance(pool, Pool)  # a benchmark of processes
        idle = [worker for worker in pool._ready if worker.killable]
        sizes = [private_megabytes(_pid(worker)) or 0 for worker in idle]
        found["private MB of an idle worker"] = sum(sizes) / max(1, len(sizes))
        return found


def _pid(worker: Any) -> int:
    text = Path(f"/proc/self/fdinfo/{worker._pidfd}").read_text(encoding="ascii")
    return int(text.partition("\nPid:")[2].split(None, 1)[0])


async def series(amount: str) -> None:
    """Make runs in one session with reused workers, and print what grows."""
    seconds = float(amount.removesuffix("s")) if amount.endswith("s") else float("inf")
    runs = 10**12 if amount.endswith("s") else int(amount)
    start, numbers = time.monotonic(), count()

    async def execute(session: Session) -> None:
        while (number := next(numbers)) < runs and time.monotonic() - start < seconds:
            varied = number % 10 == 0
            script = _VARIED[number // 10 % len(_VARIED)] if varied else _SCRIPT
            result = await session.program(source=script.format(number=number))
            fails = varied and "1 // 0" in script
            if result.status != ("failed" if fails else "completed"):
                raise SystemExit(f"run {number}: {result.status}: {result.error}")
            if not fails and result.value != number:
                raise SystemExit(f"run {number} returned {result.value!r}")
            if number % _REPORT_EVERY == 0:
                _show_growth(session, number, time.monotonic() - start)

    async with Session(toolsets=(), workers=_WORKERS, reuse_workers=True) as session:
        async with anyio.create_task_group() as group:
            for _ in range(_AT_ONCE):
                group.start_soon(execute, session)
        _show_growth(session, next(numbers) - _AT_ONCE, time.monotonic() - start)


def _show_growth(session: Session, number: int, seconds: float) -> None:
    pool = session._pool
    assert isinstance(pool, Pool)  # a benchmark of processes
    assert pool._zygote is not None  # it was used
    restorer = pool._zygote._shared.zygote.restorer
    report = {} if restorer is None else restorer.report()
    memory = {pid: private_megabytes(pid) or 0 for pid in descendants(os.getpid())}
    host = private_megabytes(os.getpid()) or 0
    files = {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in memory}
    print(
        f"{number} runs in {seconds:.0f} s; private MB {host:.1f} and, in {len(memory)} other "
        f"processes, {sum(memory.values()):.1f} with {sum(files.values())} open files; "
        f"{pool.describe()} {report}",
        flush=True,
    )


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] == ["series"]:
        asyncio.run(series(sys.argv[2]))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else _RUNS
    figures: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for reuse, found in figures.items():
            found.append(asyncio.run(measure_all(reuse, runs)))
    print(machine())
    print(f"{'':44}{'forked':>12}{'restored':>12}")
    for name in figures[False][0]:
        best = max if name.endswith("runs/s") else min
        forked, restored = (best(row[name] for row in figures[reuse]) for reuse in (False, True))
        print(f"{name:44}{forked:12.2f}{restored:12.2f}")


if __name__ == "__main__":
    main()
