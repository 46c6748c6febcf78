"""``ptc mcp``: a session as an MCP server, for any client that speaks the Model Context Protocol.

The server offers one tool, ``program(source, inputs)``, and on request each tool singly. It owns
the shape of answers on this protocol and nothing else: what a script may do is the session's.

Rule 1: the client never chooses what it may do: the allow-list and the limits are the operator's,
    and an argument that would change them is refused.
    tests/bindings/test_mcp.py::test_a_client_cannot_widen_its_tools_or_limits
Rule 2: standard output carries protocol messages and nothing else.
    tests/bindings/test_mcp_command.py::test_standard_output_is_only_protocol
Rule 3: what goes wrong is told in the result of the call; the SDK hides the text of exceptions.
    tests/bindings/test_mcp.py::test_a_broken_tool_is_told_of_in_the_result

The SDK is imported only where it is needed: ``pip install 'ptc[mcp]'``.
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
    in_words_of_options,
    isolation_option,
    journal_in_root_option,
    journal_option,
    limit_options,
    limits_of,
    model_option,
    names_of,
    open_session,
    package_option,
    root_option,
    toolset_option,
    unprotect_option,
)

from ._allowed import allow_list

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        Tool,
    )

__all__ = ["command", "serve"]

NEEDS_SDK = "ptc mcp needs the MCP SDK: pip install 'ptc[mcp]'"

PROGRAM = "program"
"""Name of the tool that runs a script."""

_DESCRIPTION_CHARS = 2_000
"""Claude Code cuts a tool's description and a server's instructions at 2,048 characters
(anthropics/claude-code issues 41593 and 87650), so rules and signatures, which are longer, are the
description of the parameter ``source``: schemas are not cut."""

_PROGRESS_WAITING = 100
"""Progress messages that may wait for a slow client; the oldest are dropped beyond."""

_CLOSE_SECONDS = 5.0


def serve(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    limits: ptc.Limits | None = None,
    direct_tools: bool = False,
) -> Server[Any]:
    """An MCP server over `session`, which the caller has opened and closes after the server.

    ::

        async with ptc.Session(root=".") as session:
            server = serve(session, allowed_tools=["read", "grep"])
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    Args:
        session: Runs the programs.
        allowed_tools: Names of the tools that scripts and clients may call. None: all without a
            side effect.
        limits: Limits of each program. None: the session's.
        direct_tools: True: offer each of the tools singly as well.

    Raises:
        UsageError: If a name is unknown, or a tool to be offered singly is called ``program``.
        SetupError: If the MCP SDK, 2.0 or newer, is not installed.
    """
    _require_sdk()
    from mcp.server.lowlevel import Server

    door = _Door(session, allowed_tools, limits or session.limits, direct_tools=direct_tools)
    return Server(
        "ptc",
        version=ptc.__version__,
        instructions=_instructions(list(door.tools), direct=direct_tools),
        on_list_tools=door.list_tools,
        on_call_tool=door.call_tool,
    )


def _require_sdk() -> None:
    """Raise `SetupError` if the SDK is missing, or older than 2.0, which has no `mcp_types`."""
    for name in ("mcp", "mcp_types"):
        if importlib.util.find_spec(name) is None:
            raise ptc.SetupError(NEEDS_SDK)


class _Door:
    """Answers to the two requests of the protocol that matter here."""

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
                f"a tool called {PROGRAM!r} cannot be offered singly: the name is taken; rename it"
            )
            raise ptc.UsageError(msg)
        self._offered = [
            _program_tool(list(self.tools.values()), limits),
            *map(_direct_tool, self._direct.values()),
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
        """Answer ``tools/call``. Only a tool that is not there is an error of the protocol."""
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
            msg += f"; a script calls it: `await ctx.{params.name}(...)`"
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
                return _result([data["error"]["message"]], data, is_error=True)
            return _result(outcome_texts(result), outcome(result), is_error=not result.ok)

        progress = _Progress(report)
        return await progress.during(run)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        from ptc import _json
        from ptc._redact import safe_text

        try:
            result = await self._session.tool(name, arguments, allowed_tools=self._allowed)
            if not result.ok:
                return _result([result.text], None, is_error=True)
            data = _json.dumps(result.value, what=name)
            text = result.text
        except Exception as error:  # noqa: BLE001  # a tool's rendering is its author's code
            message = safe_text(f"Error: {name}: {type(error).__name__}: {error}")
            return _result([message], None, is_error=True)
        most = self._limits.max_output_bytes
        if max(len(data), len(text.encode(errors="replace"))) > most:
            msg = (
                f"Error [result_too_large]: the result of {name} has {len(data):,} bytes, over the "
                f"limit of {most:,}; ask for less, or call {name} in a script of the tool "
                f"{PROGRAM!r} and return only what is needed"
            )
            return _result([msg], None, is_error=True)
        images = [part for part in result.content if isinstance(part, ptc.ImageContent)]
        used, most = sum(len(image.data) for image in images), self._limits.max_tool_result_bytes
        if used > most:
            msg = (
                f"Error [result_too_large]: the images of {name} have {used:,} bytes, over the "
                f"limit of {most:,} (max_tool_result_bytes); ask for fewer or smaller ones"
            )
            return _result([msg], None, is_error=True)
        value = _json.loads(data)
        schema = self.tools[name].result_schema
        shown = value if _is_plain(value, schema) else {"result": value}
        return _result([text], shown, images=images)


def _program_arguments(arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    unknown = [name for name in arguments if name not in ("source", "inputs")]
    if unknown:
        named = ", ".join(map(repr, unknown))
        msg = (
            f"unknown argument {named}; {PROGRAM} takes source and inputs. Tools and limits are "
            "set by whoever started the server"
        )
        raise ptc.UsageError(msg)
    source, inputs = arguments.get("source"), arguments.get("inputs")
    if not isinstance(source, str):
        msg = f"source is a string, the text of the script, not {_json_type(source)}"
        raise ptc.UsageError(msg)
    if inputs is not None and not isinstance(inputs, dict):
        msg = f'inputs is an object, for example {{"query": "TODO"}}, not {_json_type(inputs)}'
        raise ptc.UsageError(msg)
    return source, inputs or {}


def _json_type(value: object) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", dict: "an object"}
    return "null or missing" if value is None else names.get(type(value), "a number")


class _Progress:
    """Progress of one run: a message for each tool call that has ended.

    The SDK sends nothing unless the client asked for progress.
    """

    def __init__(self, report: Callable[..., Awaitable[None]]) -> None:
        import anyio

        self._report = report
        self._waiting: deque[tuple[int, str]] = deque(maxlen=_PROGRESS_WAITING)
        self._count = 0
        self._news = anyio.Event()
        self._over = False

    def on_event(self, event: ptc.RunEvent) -> None:
        """Take note of an event of the run; called where nothing may wait."""
        if event.kind == "tool_finished" and event.call is not None:
            self._count += 1
            call = event.call
            self._waiting.append((self._count, f"{call.tool} {call.status}"))
            self._news.set()

    async def during(self, run: Callable[[], Awaitable[CallToolResult]]) -> CallToolResult:
        """`run`, its progress being sent meanwhile; all of it is sent before this returns."""
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._send)
            result = await run()
            self._over = True
            self._news.set()
        return result

    async def _send(self) -> None:
        import anyio

        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                count, text = self._waiting.popleft()
                # The client has gone: its cancellation is on the way.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await self._report(count, None, text)
            if self._over:
                return


# --- what the client is told ----------------------------------------------------------------------


def _program_tool(tools: list[ptc.Tool], limits: ptc.Limits) -> Tool:
    from mcp_types import Tool, ToolAnnotations

    from ptc._policy_modules import MODULES
    from ptc._tools._instructions import describe_program

    from ._outcome import OUTCOME_SCHEMA

    changes = any(tool.side_effect for tool in tools)
    return Tool(
        name=PROGRAM,
        title="Run a script",
        description=_program_description([tool.name for tool in tools]),
        input_schema={
            "type": "object",
            "properties": {
                "source": {
                    "type": "string",
                    "description": describe_program(tools, limits, list(MODULES)),
                },
                "inputs": {
                    "type": "object",
                    "description": "JSON data for the script; its parameter `inputs`.",
                    "default": {},
                },
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        output_schema=OUTCOME_SCHEMA,
        annotations=ToolAnnotations(read_only_hint=not changes, destructive_hint=changes),
    )


def _program_description(names: list[str]) -> str:
    start = (
        "Run a Python script that calls tools and returns one result. Use it instead of a series "
        "of tool calls: it searches, reads, filters, counts and combines in one step, calls run "
        "in parallel, and only what the script returns comes back.\n\n"
        "`source` is the script: `async def run(ctx, inputs)`, tools are methods of ctx "
        "(`await ctx.name(...)`), the value returned is the result. The description of the "
        "parameter `source` has the rules, the limits and the typed signatures of the tools: read "
        "it before the first script. It runs in a sandbox without files, network or packages "
        "other than through ctx.\n\nTools on ctx: "
    )
    return start + _as_many(names, _DESCRIPTION_CHARS - len(start))


def _instructions(names: list[str], *, direct: bool) -> str:
    start = (
        f"Scripts over tools. The tool `{PROGRAM}` runs one Python script that may call many tools "
        "and gives back only what the script returns: use it for anything that takes more than one "
        "call, or whose intermediate data is large. "
        + ("Each tool can also be called singly. " if direct else "")
        + "Tools: "
    )
    return start + _as_many(names, _DESCRIPTION_CHARS - len(start))


def _as_many(names: list[str], room: int) -> str:
    """Names as far as they fit, then how many there are besides."""
    if not names:
        return "none"
    for count in range(len(names), 0, -1):
        rest = len(names) - count
        text = ", ".join(names[:count]) + (f" and {rest} more" if rest else "")
        if len(text) < room:
            return text + "."
    return f"{len(names)}."


def _direct_tool(tool: ptc.Tool) -> Tool:
    from mcp_types import Tool, ToolAnnotations

    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=_output_schema(tool.result_schema),
        annotations=ToolAnnotations(
            read_only_hint=not tool.side_effect, destructive_hint=tool.side_effect
        ),
    )


def _is_plain(value: object, schema: Mapping[str, Any] | None) -> bool:
    """True if the value goes as it is: structured content must be an object until 2026-07-28."""
    return isinstance(value, dict) if schema is None else schema.get("type") == "object"


def _output_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Schema of the structured content: the result's own, or that of ``{"result": ...}``."""
    if schema is None or schema.get("type") == "object":
        return None if schema is None else dict(schema)
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return wrapped | {key: schema[key] for key in ("$defs",) if key in schema}


def _result(
    texts: list[str],
    data: dict[str, Any] | None,
    *,
    is_error: bool = False,
    images: Iterable[ptc.ImageContent] = (),
) -> CallToolResult:
    from mcp_types import CallToolResult, ImageContent, TextContent

    # A lone surrogate has no UTF-8: it would end the connection, not just this answer.
    content = [TextContent(text=t.encode(errors="replace").decode()) for t in texts]
    pictures = [ImageContent(data=image.data, mime_type=image.media_type) for image in images]
    return CallToolResult(content=[*content, *pictures], structured_content=data, is_error=is_error)


# --- the command ----------------------------------------------------------------------------------

_HELP = """Serve programs to an agent over MCP, on standard input and output.

The client gets one tool, `program`, which runs a Python script over the tools you allow. What it
may do is fixed here: it can choose neither tools nor limits.

\b
  ptc mcp --root ./repo --allow read,grep            start it (a client does this)
  ptc mcp --root ./repo --print-config               what to put into a client's configuration
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
@click.option("--direct-tools", is_flag=True, help="Offer each allowed tool singly as well.")
@toolset_option
@limit_options
@isolation_option
@package_option
@unprotect_option
@journal_option
@journal_in_root_option
@model_option
@click.option(
    "--print-config", is_flag=True, help="Print the line for a client's configuration and exit."
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
    **given: Any,
) -> None:
    """Run the command; `_HELP` is the text for users."""
    allowed = names_of(allow) if allow else None
    session = open_session(
        root=root,
        toolsets=toolsets,
        limits=limits_of(given),
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
        raise in_words_of_options(error) from None
    if print_config:
        options = _options(allow, direct_tools, toolsets, packages, isolation, given)
        for name in names_of(unprotected):
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
    """The options that were given, as a client has to repeat them."""
    options = ["--allow", ",".join(names_of(allow))] if allow else []
    options += ["--direct-tools"] if direct_tools else []
    for name in names_of(toolsets):
        options += ["--toolset", name]
    for name in names_of(packages):
        options += ["--package", name]
    for name, given in limits.items():
        for value in given if isinstance(given, tuple) else [given]:
            if value is not None:
                options += [f"--{name.replace('_', '-')}", str(value)]
    return [*options, *(["--isolation", isolation] if isolation != "jail" else [])]


def _config(root: Path, options: list[str]) -> dict[str, Any]:
    # Absolute paths: a client starts servers in a folder and with a PATH of its own.
    script = shutil.which("ptc", path=str(Path(sys.executable).parent))
    start = [script] if script else [sys.executable, "-m", "ptc"]
    entry = {"command": start[0], "args": [*start[1:], "mcp", "--root", str(root), *options]}
    return {"mcpServers": {"ptc": entry}}


def _serve_stdio(session: ptc.Session, allowed: list[str] | None, *, direct_tools: bool) -> None:
    import logging

    import anyio

    # The SDK logs to whatever is set up; a plain line on stderr keeps tracebacks of rich away.
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
        click.echo("ptc mcp: the client has gone", err=True)


async def _warm_up(session: ptc.Session) -> None:
    """Start the workers while the client introduces itself."""
    try:
        await session.warm_up()
    except ptc.SetupError as error:
        click.echo(f"ptc mcp: scripts cannot run here, and will be refused: {error}", err=True)


async def _end_on_signal(session: ptc.Session) -> None:
    import anyio

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await session.aclose()
            # The SDK's reader sits in a blocking read of standard input, which nothing can end.
            os._exit(128 + number)
