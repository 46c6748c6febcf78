"""Pyodide (npm: pyodide) under Node behind the interface of an engine.

One interpreter serves all runs, each with names of its own: runs are neither isolated from each
other nor limited. An isolated run would take a new process, as the row of the first result does.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from engine import Gate, tool_functions

__all__ = ["PyodideError", "open_pyodide", "pyodide_first_result", "pyodide_folder"]

_DRIVER = Path(__file__).with_name("pyodide_driver.mjs")
_LINE_BYTES = 64 << 20


class PyodideError(Exception):
    """A script failed."""


def pyodide_folder() -> Path | None:
    """Return the folder of the npm package: `PYODIDE`, or below the current folder."""
    if shutil.which("node") is None:
        return None
    chosen = os.environ.get("PYODIDE")
    for folder in (Path(chosen) if chosen else None, Path("node_modules/pyodide").absolute()):
        if folder is not None and (folder / "pyodide.mjs").is_file():
            return folder
    return None


def pyodide_first_result(source: str) -> float:
    """Return the seconds from the start of a new process to its first result."""
    request = orjson.dumps({"run": 1, "source": source}) + b"\n"
    started = time.perf_counter()
    done = subprocess.run(
        ["node", str(_DRIVER), str(pyodide_folder())],  # the user's own
        input=request,
        stdout=subprocess.PIPE,
        check=True,
    )
    if "error" in orjson.loads(done.stdout.splitlines()[-1]):
        raise PyodideError(done.stdout[-500:].decode())
    return time.perf_counter() - started


class Pyodide:
    """A process of Node; see the head of this module."""

    def __init__(self, process: asyncio.subprocess.Process, gate: Gate) -> None:
        self._process = process
        self.gate = gate
        self._tools = tool_functions(gate)
        self._numbers = itertools.count(1)
        self._runs: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, source: str) -> Any:
        """See `Engine.run`. It has no blocking calls."""
        number = next(self._numbers)
        self._runs[number] = asyncio.get_running_loop().create_future()
        self._send({"run": number, "source": source})
        return await self._runs[number]

    async def settle(self) -> None:
        """See `Engine.settle`: it is always ready."""

    def workers(self) -> set[int]:
        """See `Engine.workers`."""
        return {self._process.pid}

    def _send(self, row: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(row) + b"\n")

    async def read(self) -> None:
        """Answer calls and collect results until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            row = orjson.loads(line)
            if "call" in row:
                task = asyncio.create_task(self._answer(row))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif "done" in row:
                future = self._runs.pop(row["done"])
                if "error" in row:
                    future.set_exception(PyodideError(row["error"]))
                else:
                    future.set_result(row["value"])

    async def _answer(self, row: dict[str, Any]) -> None:
        value = await self._tools[row["tool"]](**row["arguments"])
        self._send({"answer": row["call"], "value": value})


@asynccontextmanager
async def open_pyodide() -> AsyncIterator[Pyodide]:
    """Start the interpreter."""
    process = await asyncio.create_subprocess_exec(
        "node", str(_DRIVER), str(pyodide_folder()),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=_LINE_BYTES,
    )  # fmt: skip
    assert process.stdout is not None
    await process.stdout.readline()
    engine = Pyodide(process, Gate())
    reading = asyncio.create_task(engine.read())
    try:
        yield engine
    finally:
        process.terminate()
        await process.wait()
        reading.cancel()
