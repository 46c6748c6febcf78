"""Hosts that are killed while a corrected script continues a run, at each step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

_CHILD = '''
import os, signal, sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from ptc import Session, ToolContext, define_tool
from ptc.journal import _sqlite_batches
from ptc.journal._sqlite import SqliteJournal

folder, at = Path(sys.argv[1]), int(sys.argv[2])
steps = 0


def step():
    global steps
    steps += 1
    if steps == at:
        os.kill(os.getpid(), signal.SIGKILL)


def watched(name):
    inner = getattr(SqliteJournal, name)

    def call(*args, **options):
        step()
        found = inner(*args, **options)
        step()
        return found

    setattr(SqliteJournal, name, call)


for name in ("append", "acquire", "revise", "_acquire", "end_run", "release", "barrier"):
    watched(name)


def take(name, n, key):
    step()
    data = f"{name} {n} {key}\\n".encode()
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, data)
    os.close(log)
    step()


def simple(name, **options):
    async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        n = arguments["n"]
        if name == "deep":
            return [await ctx.call_tool("pay", n=n), await ctx.call_tool("put", n=n)]
        if ctx.side_effect:
            take(name, n, ctx.idempotency_key)
        return n

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return define_tool(name, f"{name}.", schema, work, **options)


WRONG = """
async def run(ctx, inputs):
    await ctx.look(n=1)
    await ctx.pay(n=1)
    await ctx.deep(n=2)
    raise ValueError
"""
FIXED = """
import asyncio
async def run(ctx, inputs):
    first = await asyncio.gather(ctx.pay(n=5), ctx.deep(n=2), ctx.look(n=1), ctx.pay(n=1))
    return [first, await ctx.put(n=6), await ctx.deep(n=7)]
"""


async def decide(session):
    log = (folder / "log").read_text().splitlines()
    for call in await session.pending("r"):
        done = f"{call.tool} {call.arguments['n']} {call.idempotency_key}" in log
        outcome = "done" if done else "again"
        value = call.arguments["n"]
        await session.history.settle("r", call.call, outcome, by="ann", value=value)


async def main():
    own = [
        simple("pay", side_effect=True),
        simple("put", side_effect=True, idempotent=True),
        simple("look"),
        simple("deep"),
    ]
    async with Session(
        folder, tools=own, toolsets=(), journal=folder / "j", journal_in_root=True,
        max_attempts=1_000,
    ) as session:
        row = await session.history.find("r")
        if row is None:
            await session.program(source=WRONG, allowed_tools=["pay", "put", "look", "deep"],
                                  run_id="r")
            print("first", flush=True)
            return
        if row.revision == 1:
            result = await session.resume("r", source=FIXED)
        else:
            result = await session.resume("r")
        while result.status == "paused":
            await decide(session)
            result = await session.resume("r")
        assert result.unwrap() == [[5, [2, 2], 1, 1], 6, [7, 7]], result
        assert [c.tool for c in result.calls if c.parent is None] == [
            "pay", "deep", "look", "pay", "put", "deep"]
        assert (await session.history.recorded("r.1")).run.status == "failed"
        print("steps", steps, flush=True)


anyio.run(main)
'''


def run_child(folder: Path, at: int) -> tuple[int, str]:
    """Execute a host that is killed at step `at`; 0: never."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), str(at)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout


def check_killed(folder: Path, at: int, every: int) -> int:
    """Kill the host of a corrected run at step `at`, and its successors; return its deaths."""
    folder.mkdir()
    assert run_child(folder, 0) == (0, "first\n")
    deaths, code = 0, -signal.SIGKILL
    while code != 0:
        code, _ = run_child(folder, at + every * deaths if deaths < 4 else 0)
        deaths += code != 0
    log = Counter((folder / "log").read_text().splitlines())
    made = {tuple(line.split()[:2]) for line in log}
    assert made == {
        *(("pay", n) for n in "1257"),
        *(("put", n) for n in "267"),
    }
    keys = Counter(line.split()[2] for line in log)
    assert set(keys.values()) == {1}, "two effects have one key"
    pays = {line: count for line, count in log.items() if line.startswith("pay")}
    assert set(pays.values()) == {1}, f"killed at step {at}: {log}"
    return deaths


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_host_killed_at_any_step_of_a_correction_repeats_no_effect(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    run_child(tmp_path / "whole", 0)
    _, out = run_child(tmp_path / "whole", 0)
    steps = int(out.split()[1])
    assert steps > 40
    deaths = sum(check_killed(tmp_path / f"at{at}", at, 7) for at in range(1, steps + 1, 2))
    assert deaths > steps // 2
