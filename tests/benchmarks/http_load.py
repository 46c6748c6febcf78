"""Load of the HTTP server: many clients at once, each with its own token, tools and values.

    python tests/benchmarks/http_load.py --clients 200 --programs 2000

Each program reads a file that only its client's scripts are sent to, calls a tool of its client's
allow-list, and returns a value that names client and program. The clients check that each answer is
their own, and that a tool of the allow-list of others is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

HEADER = "async def run(ctx, inputs):\n"
TOOLS = ("read", "grep", "glob", "ls")


def token_of(number: int) -> str:
    return f"client-{number:04}-0123456789abcdef"


def write_inputs(folder: Path, clients: int) -> tuple[Path, Path]:
    """Write the root and the file of tokens; each client may call one of four tools."""
    root = folder / "root"
    root.mkdir()
    tables = []
    for number in range(clients):
        (root / f"file-{number}.txt").write_text(f"content {number}\n")
        digest = hashlib.sha256(token_of(number).encode()).hexdigest()
        tool = TOOLS[number % len(TOOLS)]
        tables.append(f'[tokens.client-{number}]\nsha256 = "{digest}"\nallow = ["{tool}"]\n')
    tokens = folder / "tokens.toml"
    tokens.write_text("\n".join(tables))
    tokens.chmod(0o600)
    return root, tokens


def start_server(folder: Path, root: Path, tokens: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server, and return it with its port."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "ptc", "mcp", "--root", str(root), "--http", "0"]
    options = ["--tokens", str(tokens), "--journal", str(folder / "journal")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with log.open("wb") as errors:
        process = subprocess.Popen([*command, *options], stderr=errors, env=environment)
    while not (found := re.search(r"127\.0\.0\.1:(\d+)/mcp", log.read_text())):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        select.select([], [], [], 0.05)
    return process, int(found[1])


def body_of(number: int) -> str:
    """Return a script that calls the tool of one client and tries that of the next one."""
    calls = {
        "read": f"(await ctx.read('file-{number}.txt')).strip()",
        "grep": f"(await ctx.grep('content {number}$'))[0].path",
        "glob": f"(await ctx.glob('file-{number}.txt'))[0]",
        "ls": f"[e.name for e in await ctx.ls('.') if e.name == 'file-{number}.txt'][0]",
    }
    own, other = TOOLS[number % len(TOOLS)], TOOLS[(number + 1) % len(TOOLS)]
    return f"""{HEADER}
    own = {calls[own]}
    try:
        await getattr(ctx, {other!r})('file-0.txt')
        widened = True
    except AttributeError:
        widened = False
    return [own, inputs["client"], inputs["program"], widened]
"""


class Load:
    """Counts of the answers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.outcomes: Counter[str] = Counter()
        self.run_ids: set[str] = set()

    def check(self, result: mcp.types.CallToolResult, number: int, program: int) -> bool:
        """Count an answer; False: the server was busy, call again."""
        content: dict[str, Any] = result.structured_content or {}
        if content.get("error", {}).get("code") == "busy":
            self.outcomes["busy, repeated"] += 1
            return False
        value = content.get("value")
        tool = TOOLS[number % len(TOOLS)]
        own = f"content {number}" if tool == "read" else f"file-{number}.txt"
        run_id = str((result.meta or {}).get("ptc/run_id"))
        right = value == [own, number, program, False]
        right = right and run_id.startswith(f"mcp-client-{number}-") and run_id not in self.run_ids
        self.run_ids.add(run_id)
        self.outcomes["right" if right else f"wrong: {json.dumps(content)[:200]}"] += 1
        return True


async def run_client(port: int, number: int, programs: list[int], load: Load) -> None:
    """Run the programs of one client, one after the other on one connection."""
    headers = {"authorization": f"Bearer {token_of(number)}"}
    url = f"http://127.0.0.1:{port}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=300) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for program in programs:
            arguments = {
                "source": body_of(number),
                "inputs": {"client": number, "program": program},
            }
            started = time.perf_counter()
            while not load.check(await client.call_tool("program", arguments), number, program):
                await anyio.sleep(0.2)
            load.seconds.append(time.perf_counter() - started)


def memory_of(pid: int) -> dict[str, float]:
    """Return the resident MiB of a process, and the proportional MiB of it and its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, todo = [pid], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    resident = _kib(pid, "status", "VmRSS")
    shared = sum(_kib(each, "smaps_rollup", "Pss") for each in found)
    return {
        "host RSS MiB": resident / 1024,
        "PSS of all MiB": shared / 1024,
        "processes": len(found),
        "host CPU s": _cpu_seconds(pid),
    }


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, without that of its workers."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kib(pid: int, file: str, key: str) -> float:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError:
        return 0
    found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    return float(found[1]) if found else 0


async def apply_load(
    process: subprocess.Popen[bytes], port: int, clients: int, programs: int
) -> Load:
    """Run all clients at once, and print the memory of the server during that."""
    load = Load()
    peak: dict[str, float] = {}
    took = 0.0

    async def watch() -> None:
        while True:
            for name, value in memory_of(process.pid).items():
                peak[name] = max(peak.get(name, 0), value)
            await anyio.sleep(0.5)

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(clients):
                mine = list(range(number, programs, clients))
                group.start_soon(run_client, port, number, mine, load)
        took = time.perf_counter() - started
        watching.cancel_scope.cancel()
    cut = statistics.quantiles(load.seconds, n=100)
    print(f"{clients} clients, {programs} programs in {took:.1f} s: {programs / took:.0f}/s")
    low, high, top = (cut[percent - 1] * 1_000 for percent in (50, 95, 99))
    print(f"latency ms: median {low:.0f}, 95 % {high:.0f}, 99 % {top:.0f}")
    print("peak:", {name: round(value, 1) for name, value in peak.items()})
    return load


def main() -> int:
    """Start a server, load it, and return 1 if an answer was wrong or missing."""
    parser = argparse.ArgumentParser(description="Load of the HTTP server")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--programs", type=int, default=2_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root, tokens = write_inputs(Path(name), options.clients)
        process, port = start_server(Path(name), root, tokens)
        try:
            select.select([], [], [], 1)
            print("idle:", {k: round(v, 1) for k, v in memory_of(process.pid).items()})
            load = anyio.run(apply_load, process, port, options.clients, options.programs)
            print("after:", {k: round(v, 1) for k, v in memory_of(process.pid).items()})
        finally:
            process.terminate()
            status = process.wait(60)
    print("answers:", dict(load.outcomes), "distinct runs:", len(load.run_ids), "exit:", status)
    complete = load.outcomes["right"] == len(load.run_ids) == options.programs
    return 0 if complete and status == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
