"""Hosts that are killed while a corrected script continues a run, at each step."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, Tool, ToolContext, define_tool
from tests.fuzz import durable_fork
from tests.fuzz.durable_steps import Steps

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
VALUE = [[5, [2, 2], 1, 1], 6, [7, 7]]
RUN = "r"


def take(folder: Path, name: str, n: int, key: str | None) -> None:
    """Have an effect, which the log proves."""
    Steps.step()
    log = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{name} {n} {key}\n".encode())
    os.close(log)
    Steps.step()


def tools(folder: Path) -> list[Tool]:
    def simple(name: str, **options: Any) -> Tool:
        async def work(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            n = arguments["n"]
            if name == "deep":
                return [await ctx.call_tool("pay", n=n), await ctx.call_tool("put", n=n)]
            if ctx.side_effect:
                take(folder, name, n, ctx.idempotency_key)
            return n

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return define_tool(name, f"{name}.", schema, work, **options)

    return [
        simple("pay", side_effect=True),
        simple("put", side_effect=True, idempotent=True),
        simple("look"),
        simple("deep"),
    ]


async def decide(session: Session, folder: Path) -> None:
    log = (folder / "log").read_text().splitlines()
    for call in await session.pending(RUN):
        done = f"{call.tool} {call.arguments['n']} {call.idempotency_key}" in log
        outcome: Any = "done" if done else "again"
        value = call.arguments["n"]
        await session.history.settle(RUN, call.call, outcome, by="ann", value=value)


async def drive(folder: Path) -> dict[str, Any]:
    """Execute the wrong script; in later processes, go on with the corrected one until it ends."""
    async with Session(
        folder, tools=tools(folder), toolsets=(), journal=folder / "j", journal_in_root=True,
        max_attempts=1_000,
    ) as session:  # fmt: skip
        row = await session.history.find(RUN)
        if row is None:
            allowed = ["pay", "put", "look", "deep"]
            await session.program(source=WRONG, allowed_tools=allowed, run_id=RUN)
            return {"revision": 1}
        if row.status == "completed":  # its end was recorded before the last host was killed
            assert row.result is not None
            assert json.loads(row.result)["value"] == VALUE
            return {"revision": 2}
        if row.revision == 1:
            result = await session.resume(RUN, source=FIXED)
        else:
            result = await session.resume(RUN)
        while result.status == "paused":
            await decide(session, folder)
            result = await session.resume(RUN)
        assert result.unwrap() == VALUE, result
        assert [call.tool for call in result.calls if call.parent is None] == [
            "pay", "deep", "look", "pay", "put", "deep"]  # fmt: skip
        assert (await session.history.recorded("r.1")).run.status == "failed"
        return {"revision": 2}


def fail_first(folder: Path) -> None:
    """Execute the wrong script in a process that is not killed."""
    folder.mkdir()
    assert durable_fork.spawn(drive, folder, None) == "ended"
    assert durable_fork.outcome_of(folder)["revision"] == 1


def check_killed(folder: Path, at: int, every: int) -> int:
    """Kill the host of a corrected run at step `at`, and its successors; return its deaths."""
    fail_first(folder)
    deaths, how = 0, "killed"
    while how == "killed":
        how = durable_fork.spawn(drive, folder, at + every * deaths if deaths < 4 else None)
        deaths += how == "killed"
    assert how == "ended", how
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
    fail_first(tmp_path / "whole")
    assert durable_fork.spawn(drive, tmp_path / "whole", None) == "ended"
    durable_fork.warm_up(tmp_path / "whole")
    steps = durable_fork.outcome_of(tmp_path / "whole")["steps"]
    assert steps > 40
    deaths = sum(check_killed(tmp_path / f"at{at}", at, 7) for at in range(1, steps + 1, 2))
    assert deaths > steps // 2
