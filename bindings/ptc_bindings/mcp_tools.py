"""Tools of MCP servers for scripts and agents: ``ctx.github.create_issue(...)``.

::

    from ptc_bindings.mcp_tools import MCPServers

    async with Session(tools=[MCPServers.from_file("mcp.json")]) as session:
        result = await session.program(source=text, allowed_tools=["github.list_issues"])

The servers start with the session and end with it. They run in an event loop of their own, in a
thread, so that a session on asyncio or trio can be closed from any task, and a server that sends
much does not delay scripts.

The SDK is imported on use: ``pip install 'ptc-host[mcp]'``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

import ptc
from ptc import ToolContext
from ptc._config._tool_files import files_of_servers
from ptc._core._reactor import Signal, caller_of_loop
from ptc._tools._provider import ToolProvider
from ptc._tools._untrusted import UntrustedMode

from ._mcp_connection import Server
from ._mcp_server import require_sdk
from ._mcp_specs import ServerSpec, check_specs, read_block, read_file, read_settings
from ._mcp_text import clean_text
from ._mcp_tool import convert_tools

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

__all__ = ["MCPServers", "configured_servers", "tools_from"]

_T = TypeVar("_T")
_MOST_PROGRESS_CHARS = 300


class MCPServers(ToolProvider):
    """MCP servers whose tools a session has; pass it in ``Session(tools=[...])``.

    A tool that does not declare ``readOnlyHint`` has a side effect: a script may call it only if
    the allow-list names it. The tools are those that the server lists when the session opens.
    """

    def __init__(
        self,
        servers: Mapping[str, Any],
        *,
        folder: str | Path | None = None,
        untrusted: UntrustedMode | None = "mark",
    ) -> None:
        """Describe the servers; nothing is started.

        Args:
            servers: The block ``mcpServers`` of a client's configuration, or the table in it:
                servers by name, each with ``command``, ``args``, ``env`` and ``cwd``, or with
                ``url`` and ``headers``. ``${NAME}`` in a value is an environment variable. Instead
                of a table, a server object of the SDK or of FastMCP runs in this process, and a
                client of FastMCP is connected.
            folder: Working directory of the servers. None: the current folder.
            untrusted: Treatment of the texts of the tools for a model, as the option of `ptc.tool`.

        Raises:
            UsageError: If a server is wrong.
        """
        self._specs = read_block(servers, None if folder is None else Path(folder), os.environ)
        self._untrusted: UntrustedMode | None = untrusted
        self._files: tuple[Path, ...] = ()
        self._host: _Host | None = None

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read the servers of an ``mcp.json``. They start in its folder.

        Raises:
            UsageError: If it cannot be read, or a server in it is wrong.
        """
        file = Path(path)
        return cls._of(read_file(file, named=True, environment=os.environ), file)

    @classmethod
    def _of(cls, specs: list[ServerSpec], file: Path | None) -> Self:
        made = cls.__new__(cls)
        made._specs = check_specs(specs)
        made._untrusted = "mark"
        made._files = () if file is None else (file,)
        made._host = None
        return made

    @property
    def name(self) -> str:
        """Names of the servers."""
        return "MCP servers " + ", ".join(spec.name for spec in self._specs)

    @property
    def files(self) -> tuple[Path, ...]:
        """The programs of the servers, as far as commands name files, and their ``mcp.json``."""
        found = list(self._files)
        for spec in self._specs:
            words = {spec.name: {"command": spec.command, "args": spec.args}}
            found += files_of_servers(words, spec.cwd or Path.cwd())
        return tuple(path.absolute() for path in found)

    async def open(self) -> Sequence[ptc.Toolset]:
        """Start the servers, and return a toolset for each.

        Raises:
            SetupError: If the SDK is missing, or a server does not start.
            UsageError: If they are open already.
        """
        if self._host is not None:
            raise ptc.UsageError("the MCP servers belong to another session; create them again")
        require_sdk()
        host = self._host = _Host(self._specs)
        try:
            listed = await host.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return [
            ptc.Toolset(
                spec.name,
                tuple(convert_tools(spec.name, spec.namespace, tools, _Calls(host, spec.name))),
            ).untrusted(mode=self._untrusted)
            for spec, tools in zip(self._specs, listed, strict=True)
        ]

    async def aclose(self) -> None:
        """End the servers and wait for their processes."""
        host, self._host = self._host, None
        if host is not None:
            await host.stop()


def tools_from(server: Any) -> MCPServers | None:
    """Take a server object of the SDK, which runs in this process; its name is the namespace.

    Raises:
        UsageError: If its name cannot be a namespace.
    """
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    if not isinstance(server, MCPServer | Server):
        return None
    return MCPServers({server.name: server})


def configured_servers(
    servers: Mapping[str, Mapping[str, Any]],
    folder: Path,
    file: Path | None,
    *,
    named: bool,
    environment: Mapping[str, str],
) -> MCPServers:
    """Create the servers of a configuration: of the keys ``mcp_servers`` and ``mcp_config``.

    Args:
        servers: Value of ``mcp_servers``.
        folder: Working directory of these servers.
        file: Path of an ``mcp.json``; None: there is none.
        named: True: the operator named the file on the command line.
        environment: Environment variables.

    Raises:
        UsageError: If a server is wrong.
    """
    specs = read_settings(servers, folder, environment)
    if file is not None:
        specs += read_file(file, named=named, environment=environment)
    return MCPServers._of(specs, file)


class _Host:
    """The thread and event loop of the servers."""

    def __init__(self, specs: list[ServerSpec]) -> None:
        self._specs = specs
        self._servers: dict[str, Server] = {}
        self._context: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._stopping: anyio.Event | None = None

    async def start(self) -> list[list[ListedTool]]:
        """Start all servers at once; return their tools, in order."""
        self._context = start_blocking_portal("asyncio")
        self._portal = await anyio.to_thread.run_sync(self._context.__enter__)
        ready = Signal()
        self._portal.start_task_soon(self._run, ready)
        await ready.wait()
        return await self.submit(self._open)

    async def stop(self) -> None:
        """End all servers and the thread."""
        if self._portal is None or self._context is None:
            return
        await self.submit(self._close)
        await anyio.to_thread.run_sync(self._context.__exit__, None, None, None)
        self._portal = None

    async def submit(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Run a function in the event loop of the servers. Cancellation cancels it there."""
        if self._portal is None:
            raise ptc.ToolError("the session is closing", code="cancelled")
        future = self._portal.start_task_soon(function)
        done = Signal()
        future.add_done_callback(lambda _: done.set())
        try:
            await done.wait()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def server(self, name: str) -> Server:
        """Return a server by its name."""
        return self._servers[name]

    # --- in the thread ----------------------------------------------------------------------

    async def _run(self, ready: Signal) -> None:
        self._stopping = anyio.Event()
        async with anyio.create_task_group() as group:
            self._servers = {spec.name: Server(spec, group) for spec in self._specs}
            ready.set()
            await self._stopping.wait()
            group.cancel_scope.cancel()

    async def _open(self) -> list[list[ListedTool]]:
        # Takes half a second, here and not in the event loop of the session.
        import mcp  # noqa: F401

        listed: dict[str, list[ListedTool]] = {}
        failures: dict[str, ptc.SetupError] = {}

        async def open_one(name: str, server: Server) -> None:
            try:
                listed[name] = await server.open()
            except ptc.SetupError as error:
                failures[name] = error

        async with anyio.create_task_group() as group:
            for name, server in self._servers.items():
                group.start_soon(open_one, name, server)
        if failures:
            raise ptc.SetupError(
                "\n".join(str(failures[n]) for n in self._servers if n in failures)
            )
        return [listed[name] for name in self._servers]

    async def _close(self) -> None:
        async with anyio.create_task_group() as group:
            for server in self._servers.values():
                group.start_soon(server.close)
        assert self._stopping is not None  # noqa: S101  # `start` waited for it
        self._stopping.set()


class _Calls:
    """Calls of the tools of one server, from the event loop of the session."""

    def __init__(self, host: _Host, server: str) -> None:
        self._host = host
        self._server = server

    async def call(self, tool: str, arguments: dict[str, Any], ctx: ToolContext) -> CallToolResult:
        """Call a tool by the name that the server knows."""
        progress = _Progress(ctx)
        server = self._host.server(self._server)
        try:
            return await self._host.submit(partial(server.call, tool, arguments, progress.receive))
        except ptc.ToolError as error:
            raise self.failure(error) from None
        finally:
            progress.close()

    def redact(self, value: Any) -> Any:
        """Remove the secrets of the server from a result."""
        return self._host.server(self._server).redactor.data(value)

    def failure(self, error: ptc.ToolError) -> ptc.ToolError:
        """Add the name of the server to an error, and remove secrets."""
        server = self._host.server(self._server)
        return server.error(error.message, error.code, retryable=error.retryable)


class _Progress:
    """Passes progress on to the session's event loop: the latest, if it arrives too fast."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._call_soon = caller_of_loop()
        self._latest: tuple[float, float | None, str] | None = None
        self._closed = False
        self._lock = threading.Lock()

    async def receive(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a notification, in the thread of the servers."""
        text = clean_text(message or "", _MOST_PROGRESS_CHARS)
        with self._lock:
            waiting = self._latest is not None
            self._latest = (progress, total, text)
        if not waiting:
            self._call_soon(self._report)

    def _report(self) -> None:
        with self._lock:
            latest, self._latest = self._latest, None
        if latest is not None and not self._closed:
            self._ctx.progress(*latest)

    def close(self) -> None:
        """Drop what arrives after the call."""
        self._closed = True
