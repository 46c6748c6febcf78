"""``ptc mcp``: serve a session over MCP, for any client of the Model Context Protocol.

The server offers the tool ``program(source, inputs)`` and, on request, each tool directly. It
defines how results are encoded for the protocol; permissions belong to the session.

Rule 1: the client cannot change its permissions: the operator sets the allow-list and the limits,
    and an argument that would change them is rejected.
    tests/bindings/test_mcp.py::test_a_client_cannot_widen_its_tools_or_limits
Rule 2: standard output carries protocol messages and nothing else.
    tests/bindings/test_mcp_command.py::test_standard_output_contains_only_protocol_messages
Rule 3: errors are reported in the result of the call; the SDK hides the text of exceptions.
    tests/bindings/test_mcp.py::test_failing_tool_is_reported_in_the_result

The SDK is imported on use: ``pip install 'ptc-host[mcp]'``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ptc
from ptc._cli._options import (
    isolation_option,
    journal_in_root_option,
    journal_option,
    limit_options,
    model_option,
    open_session,
    package_option,
    parse_limits,
    root_option,
    split_names,
    toolset_option,
    unprotect_option,
    with_option_names,
)

from ._allowed import allow_list
from ._definitions import (
    PROGRAM,
    call_result,
    program_definition,
    server_instructions,
    structured_value,
    tool_definition,
)

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

__all__ = ["command", "serve"]

NEEDS_SDK = "ptc mcp needs the MCP SDK: pip install 'ptc-host[mcp]'"

_PROGRESS_WAITING = 100
"""Progress messages queued for a slow client; beyond that, the oldest are dropped."""

_CLOSE_SECONDS = 5.0


def serve(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    limits: ptc.Limits | None = None,
    direct_tools: bool = False,
) -> Server[Any]:
    """Create an MCP server over `session`, which the caller opens before and closes after it.

    ::

        async with ptc.Session(root=".") as session:
            server = serve(session, allowed_tools=["read", "grep"])
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    Args:
        session: Runs the programs.
        allowed_tools: Names of the tools that scripts and clients may call. None: all without
            side effects.
        limits: Limits of each program. None: the session's limits.
        direct_tools: True: offer each of these tools directly as well.

    Raises:
        UsageError: If a name is unknown, or a directly offered tool is named ``program``.
        SetupError: If the MCP SDK, 2.0 or newer, is not installed.
    """
    _require_sdk()
    from mcp.server.lowlevel import Server

    handlers = _Handlers(
        session, allowed_tools, limits or session.limits, direct_tools=direct_tools
    )
    return Server(
        "ptc",
        version=ptc.__version__,
        instructions=server_instructions(list(handlers.tools), direct=direct_tools),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
    )


def _require_sdk() -> None:
    """Raise `SetupError` if the SDK is missing, or older than 2.0, which has no `mcp_types`."""
    for name in ("mcp", "mcp_types"):
        if importlib.util.find_spec(name) is None:
            raise ptc.SetupError(NEEDS_SDK)


class _Handlers:
    """Handlers of the protocol requests ``tools/list`` and ``tools/call``."""

    def __init__(
        self,
        session: ptc.Session,
        allowed_tools: Iterable[str | ptc.Allow] | None,
        limits: ptc.Limits,
        *,
        direct_tools: bool,
    ) -> None:
        self._session = session
        self._limits = limits
        self._allowed = allow_list(session, allowed_tools)
        self.tools = session.select_tools(self._allowed)
        self._direct = dict(self.tools) if direct_tools else {}
        if PROGRAM in self._direct:
            msg = (
                f"a tool named {PROGRAM!r} cannot be offered directly: the tool that runs scripts "
                "has this name; rename it"
            )
            raise ptc.UsageError(msg)
        self._offered = [
            program_definition(list(self.tools.values()), limits),
            *map(tool_definition, self._direct.values()),
        ]

    async def list_tools(
        self, ctx: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Answer ``tools/list``."""
        from mcp_types import ListToolsResult

        return ListToolsResult(tools=self._offered)

    async def call_tool(
        self, ctx: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        """Answer ``tools/call``. Only an unknown tool is an error of the protocol."""
        arguments = params.arguments or {}
        if params.name == PROGRAM:
            return await self._program(arguments, ctx.session.report_progress)
        if params.name in self._direct:
            return await self._call(params.name, arguments)
        from mcp.shared.exceptions import MCPError
        from mcp_types import INVALID_PARAMS

        known = ", ".join(tool.name for tool in self._offered)
        msg = f"there is no tool {params.name!r} here; tools: {known}"
        if params.name in self.tools:
            msg += f"; call it from a script: `await ctx.{params.name}(...)`"
        raise MCPError(INVALID_PARAMS, msg)

    async def _program(
        self, arguments: Mapping[str, Any], report: Callable[..., Awaitable[None]]
    ) -> CallToolResult:
        from ._outcome import outcome, outcome_of_error, outcome_texts

        async def run() -> CallToolResult:
            try:
                source, inputs = _program_arguments(arguments)
                result = await self._session.program(
                    source=source,
                    inputs=inputs,
                    allowed_tools=self._allowed,
                    limits=self._limits,
                    on_event=progress.on_event,
                )
            except ptc.PtcError as error:
                data = outcome_of_error(error)
                return call_result([data["error"]["message"]], data, is_error=True)
            return call_result(outcome_texts(result), outcome(result), is_error=not result.ok)

        progress = _Progress(report)
        return await progress.report_during(run)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        from ptc._core import _json
        from ptc._core._redact import safe_text

        try:
            result = await self._session.tool(name, arguments, allowed_tools=self._allowed)
            if not result.ok:
                return call_result([result.text], None, is_error=True)
            data = _json.dumps(result.value, what=name)
            text = result.text
        except Exception as error:  # noqa: BLE001  # a tool's rendering is its author's code
            message = safe_text(f"Error: {name}: {type(error).__name__}: {error}")
            return call_result([message], None, is_error=True)
        images = [part for part in result.content if isinstance(part, ptc.ImageContent)]
        size = max(len(data), len(text.encode(errors="replace")))
        if problem := self._find_excess(name, size, images):
            return call_result([problem], None, is_error=True)
        structured = structured_value(_json.loads(data), self.tools[name].result_schema)
        return call_result([text], structured, images=images)

    def _find_excess(self, name: str, size: int, images: list[ptc.ImageContent]) -> str:
        """Return an error message if a result is over a limit, else an empty string."""
        limit = self._limits.max_output_bytes
        if size > limit:
            return (
                f"Error [result_too_large]: the result of {name} has {size:,} bytes, over the "
                f"limit of {limit:,}; request less, or call {name} in a script of the tool "
                f"{PROGRAM!r} and return only what you need"
            )
        used, limit = sum(len(image.data) for image in images), self._limits.max_tool_result_bytes
        if used > limit:
            return (
                f"Error [result_too_large]: the images of {name} have {used:,} bytes, over the "
                f"limit of {limit:,} (max_tool_result_bytes); request fewer or smaller ones"
            )
        return ""


def _program_arguments(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    unknown = [name for name in arguments if name not in ("source", "inputs")]
    if unknown:
        named = ", ".join(map(repr, unknown))
        msg = (
            f"unknown argument {named}; {PROGRAM} takes source and inputs. Tools and limits are "
            "set by the operator of the server"
        )
        raise ptc.UsageError(msg)
    source, inputs = arguments.get("source"), arguments.get("inputs")
    if not isinstance(source, str):
        msg = f"source must be a string, the text of the script, not {_json_type(source)}"
        raise ptc.UsageError(msg)
    if inputs is not None and not isinstance(inputs, dict):
        msg = f'inputs must be an object, such as {{"query": "TODO"}}, not {_json_type(inputs)}'
        raise ptc.UsageError(msg)
    return source, inputs or {}


def _json_type(value: object) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return "null or missing" if value is None else names.get(type(value), "a number")


class _Progress:
    """Progress messages of one run, one for each finished tool call.

    The SDK sends nothing unless the client requested progress.
    """

    def __init__(self, report: Callable[..., Awaitable[None]]) -> None:
        import anyio

        self._report = report
        self._waiting: deque[tuple[int, str]] = deque(maxlen=_PROGRESS_WAITING)
        self._count = 0
        self._news = anyio.Event()
        self._over = False

    def on_event(self, event: ptc.RunEvent) -> None:
        """Record an event of the run. Must not block."""
        if event.kind == "tool_finished" and event.call is not None:
            self._count += 1
            call = event.call
            self._waiting.append((self._count, f"{call.tool} {call.status}"))
            self._news.set()

    async def report_during(self, run: Callable[[], Awaitable[CallToolResult]]) -> CallToolResult:
        """Await `run` while sending its progress; everything is sent before this returns."""
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._send)
            result = await run()
            self._over = True
            self._news.set()
            return result
        raise AssertionError  # unreachable: nothing cancels this group

    async def _send(self) -> None:
        import anyio

        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                count, text = self._waiting.popleft()
                # The client has disconnected: a cancellation will follow.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._report(count, None, text)
            if self._over:
                return


# --- the command ----------------------------------------------------------------------------------

_HELP = """Serve programs to an agent over MCP, on standard input and output.

The client gets one tool, `program`, which runs a Python script over the tools you allow. These
options fix the tools and limits; the client can change neither.

\b
Examples:
  ptc mcp --root ./repo --allow read,grep --print-config   print the client's configuration
  ptc mcp --root ./repo --allow read,grep                  serve (the client runs this)
  ptc mcp --root ./repo --direct-tools                     offer each tool on its own, too
"""


@click.command("mcp", help=_HELP, short_help="Serve programs to an agent over MCP (stdio).")
@root_option
@click.option(
    "--allow",
    multiple=True,
    metavar="TOOL,...",
    help="Tools that scripts may call; may be repeated; '' allows none. "
    "[default: all without side effects]",
)
@click.option("--direct-tools", is_flag=True, help="Offer each allowed tool directly as well.")
@toolset_option
@limit_options
@isolation_option
@package_option
@unprotect_option
@journal_option
@journal_in_root_option
@model_option
@click.option(
    "--print-config", is_flag=True, help="Print the JSON for a client's configuration and exit."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    root: str,
    allow: tuple[str, ...],
    direct_tools: bool,
    toolsets: tuple[str, ...],
    isolation: str,
    packages: tuple[str, ...],
    unprotected: tuple[str, ...],
    journal: str | None,
    journal_in_root: bool,
    model: str | None,
    print_config: bool,
    **limits: Any,
) -> None:
    """Run the command; `_HELP` is its help text."""
    allowed = split_names(allow) if allow else None
    session = open_session(
        root=root,
        toolsets=toolsets,
        limits=parse_limits(limits),
        isolation=isolation,
        packages=packages,
        unprotected=unprotected,
        journal=journal,
        journal_in_root=journal_in_root,
        model=model,
    )
    try:
        session.select_tools(allowed)
    except ptc.UsageError as error:
        raise with_option_names(error) from None
    if print_config:
        options = _options(allow, direct_tools, toolsets, packages, isolation, limits)
        for name in split_names(unprotected):
            options += ["--unprotect", name]
        options += ["--journal", str(Path(journal).absolute())] if journal else []
        options += ["--journal-in-root"] if journal_in_root else []
        options += ["--model", model] if model else []
        click.echo(json.dumps(_config(session.root, options)))
        return
    try:
        _require_sdk()
    except ptc.SetupError as error:
        click.echo(str(error), err=True)
        ctx.exit(2)
    _serve_stdio(session, allowed, direct_tools=direct_tools)


def _options(
    allow: tuple[str, ...],
    direct_tools: bool,
    toolsets: tuple[str, ...],
    packages: tuple[str, ...],
    isolation: str,
    limits: Mapping[str, Any],
) -> list[str]:
    """Return the options of the command line, for the client to repeat."""
    options = ["--allow", ",".join(split_names(allow))] if allow else []
    options += ["--direct-tools"] if direct_tools else []
    for name in split_names(toolsets):
        options += ["--toolset", name]
    for name in split_names(packages):
        options += ["--package", name]
    for name, values in limits.items():
        for value in values if isinstance(values, tuple) else [values]:
            if value is not None:
                options += [f"--{name.replace('_', '-')}", str(value)]
    return [*options, *(["--isolation", isolation] if isolation != "jail" else [])]


def _config(root: Path, options: list[str]) -> dict[str, Any]:
    # Absolute paths: a client starts servers in its own folder and with its own PATH.
    script = shutil.which("ptc", path=str(Path(sys.executable).parent))
    start = [script] if script else [sys.executable, "-m", "ptc"]
    entry = {"command": start[0], "args": [*start[1:], "mcp", "--root", str(root), *options]}
    return {"mcpServers": {"ptc": entry}}


def _serve_stdio(session: ptc.Session, allowed: list[str] | None, *, direct_tools: bool) -> None:
    import logging

    import anyio

    # The SDK uses the configured logging; plain lines on stderr avoid tracebacks drawn by rich.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="ptc mcp: %(message)s")

    async def main() -> None:
        from mcp.server.stdio import stdio_server

        async with session, anyio.create_task_group() as group:
            server = serve(session, allowed_tools=allowed, direct_tools=direct_tools)
            group.start_soon(_end_on_signal, session)
            group.start_soon(_warm_up, session)
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            group.cancel_scope.cancel()

    try:
        anyio.run(main)
    except* (BrokenPipeError, ConnectionError):
        click.echo("ptc mcp: the client disconnected", err=True)


async def _warm_up(session: ptc.Session) -> None:
    """Start the workers during the client's handshake."""
    try:
        await session.warm_up()
    except ptc.SetupError as error:
        click.echo(f"ptc mcp: scripts cannot run on this machine: {error}", err=True)


async def _end_on_signal(session: ptc.Session) -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await session.aclose()
            # The SDK's reader is in a blocking read of standard input that cannot be interrupted.
            os._exit(128 + number)
