"""Measure the page of `ptc ui` in headless Chromium: first paint, first rows, and frames on scroll.

    python tests/benchmarks/ui.py [--runs 100000] [--calls 5000] [--rounds 5]

A journal of many runs is recorded, and a run of many calls in it. `ptc ui` serves it in a process
of its own, and each round opens both pages in a new browser profile, without a cache. Times count
from the start of the navigation. While a page is scrolled by 300 pixels a frame, 300 times, the
time between two frames is taken: 16.7 ms is one of 60 frames in a second. The same is taken at
rest, which shows what the other processes of the machine cost.

It needs playwright, and Chromium: that of the system, or Playwright's own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

import ptc
from ptc import Limits, Session, tool
from ptc.journal import CallEnd, CallRow, RunRow, open_journal

REPOSITORY = Path(ptc.__file__).parents[1]
PARTS = (".", "tools", "bindings")
END = CallEnd("succeeded", True, b"1", 2, 0.0, b'{"requests":1,"cost_usd":0.01}')
STATUSES = ("completed", "completed", "completed", "failed")
MANY = """
import asyncio
async def run(ctx, inputs):
    for first in range(0, inputs["calls"], 50):
        await asyncio.gather(*[ctx.look(n=n) for n in range(first, first + 50)])
"""
SCROLL = """
([selector, frames, step]) => new Promise(resolve => {
  const port = document.querySelector(selector);
  const times = [];
  let last = performance.now();
  const frame = now => {
    times.push(now - last);
    last = now;
    port.scrollTop += step;
    if (times.length > frames) resolve({times: times.slice(1), top: port.scrollTop});
    else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})
"""
SEEN = """
selector => {
  window.seen = null;
  const look = () => {
    if (document.querySelector(selector)) window.seen = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}
"""
PAINTS = """
() => Object.fromEntries(performance.getEntriesByType("paint").map(e => [e.name, e.startTime]))
"""
BYTES = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter(e => e.name.includes("/static/") || e.entryType === "navigation")
  .reduce((sum, e) => sum + e.encodedBodySize, 0)
"""


@tool
async def look(n: int) -> dict[str, Any]:
    """Return a small result."""
    return {"number": n, "text": "x" * 40}


async def record(journal: Path, root: Path, runs: int, calls: int) -> str:
    """Fill the journal, and return the id of the run of many calls."""
    store = open_journal(journal)
    start = time.time_ns() // 1_000_000 - runs * 1_000
    call = CallRow("1", "look", b"{}", "key", False, 1, 1, 1, "", END)
    for number in range(runs):
        created = start + number * 1_000
        row = RunRow(f"{number:032x}", "1", f"job-{number % 97}.py", b"{}", b"{}", 7, 1.5, created)
        lease = store.start_run(row)
        store.append(lease, call)
        store.end_run(lease, STATUSES[number % 4], b"{}", created + number % 5_000)
        if number % 500 == 0 or number == runs - 1:
            await store.barrier(lease)
    await store.close()
    limits = Limits(max_tool_calls=calls + 50)
    async with Session(
        root, tools=[look], toolsets=(), journal=str(journal), limits=limits
    ) as session:
        result = await session.program(source=MANY, filename="many.py", inputs={"calls": calls})
        assert result.ok, result.error
        assert result.run_id is not None
        return result.run_id


@contextmanager
def serve(journal: Path, root: Path, state: Path) -> Iterator[str]:
    """Serve the page, and return a link that signs in."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in PARTS),
        "XDG_STATE_HOME": str(state),
    }
    command = [sys.executable, "-P", "-W", "ignore", "-m", "ptc", "ui", "--root", str(root)]
    command += ["--journal", str(journal), "--read-only"]
    with subprocess.Popen(
        command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.terminate()
            process.wait(30)


def measure(browser: Any, state: Any, address: str, row: str, port: str) -> dict[str, float]:
    """Open a page in a new profile, and scroll it."""
    context = browser.new_context(storage_state=state, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(f"({SEEN})({row!r})")
    page.goto(address)
    page.wait_for_function("() => window.seen !== null", timeout=60_000)
    paints = page.evaluate(PAINTS)
    rest = page.evaluate(SCROLL, [port, 300, 0])["times"]
    scrolled = page.evaluate(SCROLL, [port, 300, 300])
    times = sorted(scrolled["times"])
    found = {
        "first paint": paints["first-paint"],
        "first contentful paint": paints["first-contentful-paint"],
        "first rows": page.evaluate("window.seen"),
        "longest frame at rest": max(rest),
        "longest frame": times[-1],
        "99 % of frames": times[len(times) * 99 // 100 - 1],
        "median frame": statistics.median(times),
        "KB of the page": page.evaluate(BYTES) / 1_000,
        "pixels scrolled": scrolled["top"],
    }
    context.close()
    return found


def main() -> None:
    """Measure both pages and print a table."""
    # Without types: it is no dependency of the project.
    sync_api: Any = importlib.import_module("playwright.sync_api")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    system = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root, journal = folder / "root", folder / "journal" / "runs.db"
        root.mkdir()
        journal.parent.mkdir()
        started = time.perf_counter()
        run = anyio.run(record, journal, root, options.runs, options.calls)
        print(
            f"{options.runs:,} runs and one of {options.calls:,} calls, recorded in "
            f"{time.perf_counter() - started:.0f} s; load {os.getloadavg()[0]:.1f}"
        )
        chromium = sync_api.sync_playwright()
        with serve(journal, root, folder / "state") as link, chromium as playwright:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=system, args=arguments)
            page = browser.new_page()
            page.goto(link)
            page.wait_for_selector("#bar nav")
            state = page.context.storage_state()
            origin = link.partition("/#")[0]
            for label, address, row, port in (
                ("list of runs", "/", ".run", ".runs .port"),
                ("run of many calls", f"/runs/{run}", ".call", ".port.calls"),
            ):
                rounds = [
                    measure(browser, state, origin + address, row, port)
                    for _ in range(options.rounds)
                ]
                print(f"{label}, median and slowest of {options.rounds}:")
                for name in rounds[0]:
                    values = [one[name] for one in rounds]
                    unit = "" if name.startswith(("KB", "pixels")) else " ms"
                    print(
                        f"  {name}: {statistics.median(values):,.1f}{unit}, "
                        f"{max(values):,.1f}{unit}"
                    )
            browser.close()


if __name__ == "__main__":
    main()
