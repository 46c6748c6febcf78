"""A real HTTP server process on loopback, real clients of it, and raw sockets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

from .mcp_client import SECONDS, environment

LEGACY = "2025-06-18"


def token_of(name: str) -> str:
    return f"{name}-0123456789abcdef"


def token_file(path: Path, clients: Mapping[str, str]) -> Path:
    """Write a file with a table for each client; the values are further lines of the tables."""
    tables = [
        f'[tokens.{name}]\nsha256 = "{hashlib.sha256(token_of(name).encode()).hexdigest()}"\n{more}'
        for name, more in clients.items()
    ]
    path.write_text("\n".join(tables))
    path.chmod(0o600)
    return path


@dataclass(frozen=True)
class HttpServer:
    process: subprocess.Popen[bytes]
    log: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextmanager
def http_server(
    root: Path,
    *options: str,
    clients: Mapping[str, str] | None = None,
    constants: Mapping[str, float] | None = None,
    env: Mapping[str, str] | None = None,
    number: int = 0,
) -> Iterator[HttpServer]:
    """Start a server.

    Args:
        root: Its root.
        options: Further options of the command.
        clients: Tables of its file of tokens.
        constants: Module-level names of the bindings to replace, such as a shorter deadline.
        env: Further environment variables.
        number: Number of this server, for its log.
    """
    arguments = ["ptc", "mcp", "--root", str(root), "--http", "127.0.0.1:0", *options]
    if clients is not None:
        arguments += ["--tokens", str(token_file(root.parent / f"tokens{number}.toml", clients))]
    lines = ["import sys, importlib, ptc._cli"]
    for name, value in (constants or {}).items():
        module, _, constant = name.rpartition(".")
        lines.append(f"importlib.import_module('ptc_bindings.{module}').{constant} = {value!r}")
    lines += [f"sys.argv = {arguments!r}", "ptc._cli.main()"]
    log = root.parent / f"server{number}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", "\n".join(lines)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**environment(), **(env or {})},
            start_new_session=True,
        )
    try:
        until = time.monotonic() + SECONDS
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/mcp", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            select.select([], [], [], 0.02)
        yield HttpServer(process, log, int(found[1]))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def headers_of(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token_of(name)}"}


@asynccontextmanager
async def connect(
    server: HttpServer, name: str, *, mode: Literal["auto", "legacy"] = "auto"
) -> AsyncIterator[mcp.Client]:
    with anyio.fail_after(SECONDS):
        async with (
            httpx2.AsyncClient(headers=headers_of(name), timeout=SECONDS) as http,
            mcp.Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
        ):
            yield client


# --- raw requests -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["error"]["message"])


def head(server: HttpServer, *lines: str, method: str = "POST", host: str | None = None) -> bytes:
    """Build a request head; a token must be among the lines."""
    host = f"127.0.0.1:{server.port}" if host is None else host
    accept = "Accept: application/json, text/event-stream"
    rows = [f"{method} /mcp HTTP/1.1", f"Host: {host}", accept, *lines]
    return "\r\n".join([*rows, "", ""]).encode("latin-1")


def bearer(name: str) -> str:
    return f"Authorization: Bearer {token_of(name)}"


@contextmanager
def raw(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as opened:
        yield opened


def read_all(opened: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    data = b""
    try:
        while piece := opened.recv(65_536):
            data += piece
    except ConnectionResetError:
        # It did not read all that was sent.
        pass
    return data


def parse(data: bytes) -> Answer:
    start, _, body = data.partition(b"\r\n\r\n")
    status, *rows = start.decode("latin-1").split("\r\n")
    pairs = (row.split(": ", 1) for row in rows)
    return Answer(int(status.split()[1]), {key.lower(): value for key, value in pairs}, body)


def ask(server: HttpServer, data: bytes) -> Answer:
    """Send bytes on a connection of their own, and return the answer."""
    with raw(server) as opened:
        opened.sendall(data)
        return parse(read_all(opened))


def rpc(method: str, params: Mapping[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}


async def open_session(http: httpx2.AsyncClient, server: HttpServer) -> dict[str, str]:
    """Open a session of the protocol, and return the headers that name it."""
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    accept = {"accept": "application/json, text/event-stream"}
    answer = await http.post(server.url, json=rpc("initialize", hello), headers=accept)
    assert answer.status_code == 200, answer.text
    named = {
        **accept,
        "mcp-session-id": answer.headers["mcp-session-id"],
        "mcp-protocol-version": LEGACY,
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(server.url, json=ready, headers=named)).status_code == 202
    return named
