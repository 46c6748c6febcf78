"""A script that makes 5,000 calls at once, and whose host is killed in the middle."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, Session, ToolContext, define_tool

CALLS = 5_000
SOURCE = f"""
import asyncio
async def run(ctx, inputs):
    found = await asyncio.gather(*(ctx.put(n=n) if n % 10 == 0 else ctx.look(n=n)
                                   for n in range({CALLS})))
    return sum(found)
"""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(folder: Path, deaths: bool) -> dict[str, Any]:
    """Execute or resume the run; with `deaths`, kill this process in the middle."""
    calls: Counter[str] = Counter()

    def simple(name: str, **options: Any) -> Any:
        async def make(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            calls[name] += 1
            if deaths and calls.total() == CALLS // 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "put":
                with (folder / "effects").open("a") as file:
                    file.write(f"{arguments['n']} {ctx.idempotency_key}\n")
            return arguments["n"]

        return define_tool(name, f"{name}.", SCHEMA, make, **options)

    async def run() -> dict[str, Any]:
        own = [simple("look"), simple("put", side_effect=True, uses_key=True)]
        async with Session(
            folder / "root", tools=own, toolsets=(), journal=folder / "journal", workers=1
        ) as session:
            # A forked process begins with the memory of its parent.
            began, before = time.perf_counter(), peak_mb()
            result = await session.program(
                source=SOURCE,
                allowed_tools=["look", "put"],
                limits=Limits(max_tool_calls=CALLS),
                run_id="r",
            )
            return {
                "value": result.value,
                "status": result.status,
                "calls": calls,
                "seconds": time.perf_counter() - began,
                "mb": peak_mb() - before,
            }

    return anyio.run(run)


def fork(folder: Path, *, deaths: bool) -> int:
    """Execute `work` in a process of its own; return the status of its end."""
    pid = os.fork()
    if pid == 0:
        try:
            found = work(folder, deaths)
            (folder / "found").write_text(json.dumps(found))
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_half_done_gather_of_5000_calls_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    assert os.WTERMSIG(fork(tmp_path, deaths=True)) == signal.SIGKILL
    fork(tmp_path, deaths=False)
    found = json.loads((tmp_path / "found").read_text())
    print({name: found[name] for name in ("seconds", "mb", "calls")})  # noqa: T201  # with -s
    assert (found["status"], found["value"]) == ("completed", CALLS * (CALLS - 1) // 2)
    rows = (tmp_path / "effects").read_text().splitlines()
    assert len(set(rows)) == CALLS // 10, "each effect has one key"
    repeated = len(rows) - CALLS // 10
    assert repeated <= CALLS // 10
    assert found["mb"] < 600
