"""A real PostgreSQL, a database for each test, and real worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import RunResult, Session
from ptc._runs._program_row import load_result

_DATABASES = count()
TOOLS = """
import os, time
import ptc
from pathlib import Path

def note(word, ctx):
    with open("LOG", "a") as file:
        file.write(f"{word} {os.getpid()} {ctx.run_id} {ctx.epoch} {time.time()}\\n")

@ptc.tool
def work(ms: int, ctx: ptc.ToolContext) -> int:
    "Work for a time, and note who did it."
    note("start", ctx)
    time.sleep(ms / 1000)
    note("end", ctx)
    return os.getpid()

@ptc.tool(side_effect=True, needs_approval=True)
def pay(cents: int, ctx: ptc.ToolContext) -> int:
    "Pay."
    with open("LOG", "a") as file:
        file.write(f"pay {cents} {ctx.idempotency_key}\\n")
    return cents

@ptc.tool
async def hang() -> None:
    "Wait for ever."
    import anyio
    with open("LOG", "a") as file:
        file.write("hang\\n")
    await anyio.sleep(3600)

@ptc.tool
def die() -> None:
    "Kill the worker."
    os.kill(os.getpid(), 9)
"""
WORK = "async def run(ctx, inputs): return await ctx.work(ms=inputs['ms'])"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(database: str) -> str:
    pytest.importorskip("pgqueuer", reason="pip install 'ptc-host[postgres]'")
    return database


class Fleet:
    """Worker processes of a test, and a session that submits to them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.log = folder / "log.txt"
        self.tools = folder / "shop.py"
        self.tools.write_text(TOOLS.replace('"LOG"', repr(str(self.log))))
        self.processes: list[subprocess.Popen[bytes]] = []

    def session(self, **options: Any) -> Session:
        """Return a session with the tools, which executes nothing itself."""
        return Session.from_config(
            self.folder,
            settings={"tools": [str(self.tools)], "toolsets": [], "journal": self.url},
            **options,
        )

    def start(self, *options: str, lease: float = 2, tools: Path | None = None) -> Any:
        """Start a worker."""
        command = [sys.executable, "-m", "ptc", "worker", "--journal", self.url]
        config = self.folder / f"worker{len(self.processes)}.toml"
        config.write_text(f"toolsets = []\ntools = ['{tools or self.tools}']\n")
        command += ["--root", str(self.folder), "--config", str(config)]
        command += ["--lease-seconds", str(lease), *options]
        with (self.folder / f"worker{len(self.processes)}.log").open("w") as file:
            process = subprocess.Popen(command, stderr=file, env=dict(os.environ), cwd=self.folder)
        self.processes.append(process)
        return process

    def lines(self) -> list[str]:
        """Return the log of the tools."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def close(self) -> None:
        """Kill the workers."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(url, tmp_path)
    yield fleet
    fleet.close()


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until `condition`, a function or an async one, is true."""
    with anyio.fail_after(seconds):
        while True:
            value = condition()
            if hasattr(value, "__await__"):
                value = await value
            if value:
                return
            await anyio.sleep(0.02)


async def result_of(session: Session, run_id: str, seconds: float = 30) -> RunResult:
    """Wait for the result of a run."""
    with anyio.fail_after(seconds):
        while True:
            row = await session.history.run(run_id)
            if row.status not in ("queued", "running"):
                result = load_result(row)
                assert result is not None
                return result
            await anyio.sleep(0.02)
