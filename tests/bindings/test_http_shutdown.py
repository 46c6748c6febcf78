"""Shutdown of the HTTP server: calls finish or are cancelled within a bound; records are whole."""

from __future__ import annotations

import signal
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import httpx2
from mcp.shared.exceptions import MCPError

from .http_server import HttpServer, connect, headers_of, http_server, open_session
from .mcp_client import SECONDS, descendants, is_alive, over_pipes, script, texts, wait_until

pytestmark = pytest.mark.anyio

CLIENTS = {"alice": "limits = { max_tool_calls = 1000 }\n"}
WAIT = """
while "go" not in [entry.path for entry in await ctx.ls(".")]:
    await asyncio.sleep(0.05)
return "finished"
"""


def statuses(journal: Path) -> list[str]:
    with closing(sqlite3.connect(journal)) as opened:
        assert opened.execute("pragma integrity_check").fetchone() == ("ok",)
        return [status for (status,) in opened.execute("select status from runs")]


def is_running(journal: Path) -> bool:
    try:
        return "running" in statuses(journal)
    except sqlite3.Error:
        # It is being created.
        return False


async def call_until_stopped(
    server: HttpServer,
    root: Path,
    body: str,
    number: signal.Signals,
    *,
    repeat: bool = False,
    mode: Literal["auto", "legacy"] = "auto",
) -> Any:
    """Run a script, send signals while it runs, and return its result after the server ended."""
    results: list[Any] = []
    below = descendants(server.process.pid)

    async def run() -> None:
        try:
            async with connect(server, "alice", mode=mode) as client:
                # As agents do. The SDK validates results against this list.
                await client.list_tools()
                results.append(await client.call_tool("program", script(body)))
        except (MCPError, httpx2.HTTPError) as error:
            results.append(error)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            journal = server.log.parent / "journal"
            await wait_until(lambda: journal.exists() and is_running(journal), "the run")
            below |= descendants(server.process.pid)
            server.process.send_signal(number)
            await wait_until(lambda: "stopping: waiting" in server.log.read_text(), "the stop")
            async with connect(server, "alice") as late:
                refused = await late.call_tool("program", script("return 1"))
            assert "the server is shutting down" in texts(refused)[0]
            (root / "go").touch()
            if repeat:
                server.process.send_signal(number)
        await wait_until(lambda: server.process.poll() is not None, "the end of the server")
        await wait_until(lambda: not any(map(is_alive, below)), "the end of its processes")
    return results[0]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_call_in_progress_finishes_before_the_server_stops(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    journal = root.parent / "journal"
    with http_server(root, "--journal", str(journal), clients=CLIENTS) as server:
        result = await call_until_stopped(server, root, WAIT, signal.SIGTERM, mode=mode)
        assert result.structured_content == {"value": "finished"}
        assert server.process.wait() == 0
    assert statuses(journal) == ["completed"]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("repeat", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_call_that_does_not_finish_is_cancelled_and_recorded(
    root: Path, repeat: bool
) -> None:
    journal = root.parent / "journal"
    options = ["--journal", str(journal), "--grace-ms", "600000" if repeat else "3000"]
    with http_server(root, *options, clients=CLIENTS) as server:
        started = time.monotonic()
        result = await call_until_stopped(
            server, root, "await asyncio.sleep(25)", signal.SIGINT, repeat=repeat
        )
        assert result.structured_content["status"] == "cancelled"
        assert server.process.wait() == 130
        assert time.monotonic() - started < SECONDS
        assert "cancelling 1 calls" in server.log.read_text()
        assert "Traceback" not in server.log.read_text()
    assert statuses(journal) == ["cancelled"]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.slow
async def test_open_streams_and_idle_connections_do_not_delay_the_end(root: Path) -> None:
    with http_server(root, "--grace-ms", "600000", clients=CLIENTS) as server:
        with anyio.fail_after(SECONDS):
            async with httpx2.AsyncClient(headers=headers_of("alice"), timeout=SECONDS) as http:
                named = await open_session(http, server)
                with socket.create_connection(("127.0.0.1", server.port)):
                    async with http.stream("GET", server.url, headers=named) as stream:
                        assert stream.status_code == 200
                        assert await anyio.to_thread.run_sync(server.stop) == 0
        assert "Traceback" not in server.log.read_text()
        assert "Exception" not in server.log.read_text()
