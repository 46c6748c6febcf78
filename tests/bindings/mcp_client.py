"""A real MCP client of our server, over standard input and output and in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from ptc import Session
from ptc_bindings.mcp import serve

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import mcp
from mcp_types import CallToolResult, TextContent

SECONDS = 20.0
"""Upper bound of each wait; far more than any takes."""

COUNT = """
import asyncio

async def run(ctx, inputs):
    hits = await ctx.grep(inputs["query"], glob="*.py")
    texts = await asyncio.gather(*(ctx.read(path=hit.path) for hit in hits))
    print("looked at", len(texts), "files")
    ctx.log("done")
    return {"files": [hit.path for hit in hits], "chars": sum(map(len, texts)), "none": None}
"""


over_pipes = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of a server process, whose event loop is its own: the client's makes no difference."""


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


async def read(client: mcp.Client, uri: str) -> Any:
    """Read the one file of a resource."""
    (contents,) = (await client.read_resource(uri)).contents
    return contents


def script(body: str) -> dict[str, Any]:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return {"source": f"import asyncio\n\nasync def run(ctx, inputs):\n{lines}\n"}


def server_command(root: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "ptc", "mcp", "--root", str(root), *options]


def environment() -> dict[str, str]:
    # The packages under test, wherever they were imported from.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@asynccontextmanager
async def stdio(
    root: Path, *options: str, mode: Literal["auto", "legacy"] = "auto"
) -> AsyncIterator[mcp.Client]:
    start, *arguments = server_command(root, *options)
    parameters = mcp.StdioServerParameters(command=start, args=arguments, env=environment())
    with anyio.fail_after(SECONDS):
        async with mcp.Client(parameters, mode=mode) as client:
            yield client


@asynccontextmanager
async def in_process(
    root: Path, *tools: Any, **options: Any
) -> AsyncIterator[tuple[mcp.Client, Session]]:
    with anyio.fail_after(SECONDS):
        async with (
            Session(root, tools=tools, toolsets=(), workers=1) as session,
            mcp.Client(serve(session, **options)) as client,
        ):
            yield client, session


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, as far down as they go."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may hold anything, brackets too.
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found


def is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


async def wait_until(condition: Callable[[], object], what: str) -> None:
    with anyio.move_on_after(SECONDS):
        while not condition():  # other processes set no event of ours
            await anyio.sleep(0.01)
        return
    pytest.fail(f"waited {SECONDS:.0f} s for {what}")
