"""Kill a host at every step of its journal, resume the run, and compare with an uninterrupted run.

usage: python tests/fuzz/durable.py [--minutes 10] [--points N] [--trees N] [--seed N] [--every]
                                     [--only NAME]

Exit status 1 if there are findings. A point is a step of a program: the process is killed there
with SIGKILL, and another process resumes the run. That process is usually killed as well, until
one finishes. The programs are fixed ones and random trees of tools that call tools. The same seed
selects the same trees and steps.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import anyio  # noqa: E402  # the repository is on the path only now

from ptc import Limits, RunResult, Session  # noqa: E402  # as above
from ptc._journal import _sqlite  # noqa: E402  # as above
from ptc._runs import _history  # noqa: E402  # as above
from tests.fuzz.durable_server import Server, answer  # noqa: E402  # as above
from tests.fuzz.durable_world import (  # noqa: E402  # as above
    PROGRAMS,
    TOOLS,
    Killed,
    KilledWriter,
    program,
    save_programs,
    tools,
)

_RUN = "r"
_SECONDS = 60
"""Time limit for one process; exceeding it is a finding."""
_MOST_DEATHS = 6
_REJECTED = 3
"""The number for which approval is rejected."""


# --- the process that is killed -------------------------------------------------------------


async def drive(folder: Path, name: str) -> dict[str, Any]:
    """Start or resume the program, making the requested decisions, until it finishes."""
    server = Server(folder / "server")
    limits = Limits(max_tool_calls=5_000)
    root = folder / "root"
    root.mkdir(exist_ok=True)
    own = tools(server, Killed.step)
    save_programs(root, own)
    async with Session(root, tools=own, toolsets=(), journal=folder / "journal") as session:
        result = await session.program(
            **program(name), allowed_tools=TOOLS, limits=limits, run_id=_RUN
        )
        while result.status == "paused":
            decide(session, server)
            result = await session.resume(_RUN)
        check_rows(session)
    return {
        "status": result.status,
        "value": result.value,
        "error": result.error.message if result.error else None,
        "stdout": result.stdout,
        "partial": result.partial,
        "calls": [] if "again" in {c.tool for c in result.calls} else comparable_calls(result),
    }


def comparable_calls(result: RunResult) -> list[list[Any]]:
    """Return the calls of a result that do not depend on the kills, unless a tool retries.

    Random numbers of a run and truncated arguments are left out.
    """
    untruncated = re.compile(r'\{"n":-?\d+\}')
    return [
        [c.tool, c.status, c.error_code, untruncated.findall(c.arguments[:30])]
        for c in result.calls
    ]


def decide(session: Session, server: Server) -> None:
    """Decide every pending call by the server's log."""
    for call in session.history.pending(_RUN):
        n = call.arguments["n"]
        if call.kind == "approval":
            if n == _REJECTED:
                session.history.reject(_RUN, call.call, by="ann", comment="not this one")
            else:
                session.history.approve(_RUN, call.call, by="ann")
            continue
        (row,) = (row for row in rows(session) if row.path == call.call)
        requests = server.requests()
        if any((name, n, row.key) in requests for name in (call.tool, f"{call.tool} drawn")):
            session.history.settle(_RUN, call.call, "done", value=answer(call.tool, n), by="ann")
        else:
            session.history.settle(_RUN, call.call, "again", by="ann")


def rows(session: Session) -> Any:
    """Return the recorded calls."""
    return session.history.recorded(_RUN).calls


def check_rows(session: Session) -> None:
    """Check that a finished run has nothing open."""
    recorded = session.history.recorded(_RUN)
    ended = [row for row in recorded.calls if row.end is None]
    assert not ended, f"open: {ended}"
    assert not session.history.pending(_RUN), "nothing waits"


def child(folder: Path, program: str, at: int | None) -> int:
    """Run the forked process and return its exit status."""
    try:
        Killed.steps, Killed.at = 0, at
        # this process belongs to the fuzzer alone
        _history.__dict__["SqliteJournal"] = Killed
        _sqlite.__dict__["Writer"] = KilledWriter
        outcome = anyio.run(drive, folder, program)
        outcome["steps"] = Killed.steps
        (folder / "outcome.part").write_text(json.dumps(outcome))
        (folder / "outcome.part").rename(folder / "outcome")
    except BaseException:  # noqa: BLE001  # this is what is looked for
        (folder / "wrong").write_text(traceback.format_exc())
        return 1
    return 0


# --- the process that kills -----------------------------------------------------------------


def spawn(folder: Path, program: str, at: int | None) -> str:
    """Fork a process and wait for it: ``ended``, ``killed``, or the problem."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(child(folder, program, at))
    end = time.monotonic() + _SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"still at work after {_SECONDS} s"
        time.sleep(0.002)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    if os.WEXITSTATUS(status) == 0:
        return "ended"
    wrong = folder / "wrong"
    return wrong.read_text() if wrong.exists() else f"status {status}"


def outcome_of(folder: Path) -> dict[str, Any]:
    """Return the output of a process that finished."""
    found: dict[str, Any] = json.loads((folder / "outcome").read_text())
    found["calls"].sort(key=repr)
    return found


def differences(folder: Path, straight: Path) -> Iterator[str]:
    """Return the differences between an interrupted and an uninterrupted run."""
    mine, other = outcome_of(folder), outcome_of(straight)
    for name in ("status", "value", "error", "stdout", "partial", "calls"):
        if mine[name] != other[name]:
            was, now = other[name], mine[name]
            if name == "calls":
                was, now = ([c for c in a if c not in b] for a, b in ((was, now), (now, was)))
            yield f"{name}: {now!r:.2000}\n  in place of {was!r:.2000}"
    done, wanted = (Server(f / "server").effects() for f in (folder, straight))
    if done != wanted:
        yield f"done too often: {done - wanted}; lost: {wanted - done}"


def one(program: str, steps: list[int], straight: Path, folder: Path) -> tuple[int, list[str]]:
    """Kill at these steps in order, then let the run finish; return kills and problems."""
    folder.mkdir(parents=True)
    deaths = 0
    for at in [*steps, None]:
        how = spawn(folder, program, at)
        if how == "ended":
            return deaths, list(differences(folder, straight))
        if how != "killed":
            return deaths, [how]
        deaths += 1
    return deaths, ["the process that was let be was killed"]


def points(chance: Random, steps: dict[str, int], every: bool) -> Iterator[tuple[str, list[int]]]:
    """Yield programs and the steps to kill them at: endlessly, or with `every`, each step once."""
    if every:
        for program, most in steps.items():
            for at in range(1, most + 1):
                yield program, [at]
        return
    while True:
        program = chance.choice(sorted(steps))
        deaths = 1
        while deaths < _MOST_DEATHS and chance.random() < 0.6:
            deaths += 1
        yield program, [chance.randint(1, steps[program]) for _ in range(deaths)]


def programs(options: argparse.Namespace, chance: Random) -> list[str]:
    """Return the names of the programs to kill."""
    if options.only:
        return [options.only]
    return [*PROGRAMS, *(f"tree {chance.randrange(10**6)}" for _ in range(options.trees))]


def work(options: argparse.Namespace) -> int:
    """Kill until time or points are used up; return the number of findings."""
    chance, found, killed = Random(options.seed), 0, 0
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder, steps = Path(name), {}
        for program in programs(options, chance):
            straight = folder / program
            straight.mkdir()
            how = spawn(straight, program, None)
            if how != "ended":
                raise RuntimeError(f"{program}: {how}")
            steps[program] = int(outcome_of(straight)["steps"])
            say(f"{program}: {steps[program]} steps")
        for number, (program, at) in enumerate(points(chance, steps, options.every)):
            used = time.monotonic() - started
            if number >= options.points or used > options.minutes * 60:
                break
            deaths, wrong = one(program, at, folder / program, folder / str(number))
            killed += deaths
            counts[program] += deaths
            for text in wrong:
                found += 1
                say(f"{program} killed at {at}: {text}")
    used = time.monotonic() - started
    say(f"seed {options.seed}: {killed} deaths in {used:.0f} s")
    for program, count in sorted(counts.items()):
        say(f"  {program}: {count}")
    say(f"  findings: {found}")
    return found


def say(text: str) -> None:
    """Print and flush."""
    print(text, flush=True)  # noqa: T201  # a command


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--points", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--trees", type=int, default=12, help="random trees among the programs")
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock")
    parser.add_argument("--every", action="store_true", help="each step of each program, once")
    parser.add_argument("--only", metavar="NAME", help="one program, as 'nested' or 'tree 7'")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    return 1 if work(options) else 0


if __name__ == "__main__":
    sys.exit(main())
