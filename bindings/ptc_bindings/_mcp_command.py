"""The command ``ptc mcp``: options, the client's configuration, and the server's process."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ptc
from ptc._cli._options import RUN_KEYS, command_line, open_session, settings_options
from ptc._cli._terminal import result_file, standard_output

from ._http_clients import create_token
from ._http_command import HttpCommand, artifact_folder, client_config, http_options
from ._mcp_server import require_sdk, serve
from ._previews import PREVIEW_CHARS

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from ptc._config._settings import Settings

__all__ = ["command"]

_CLOSE_SECONDS = 5.0

_HELP = """Serve programs to an agent over MCP, on standard input and output or over HTTP.

The client gets the tool `program`, which runs a Python script over the tools you allow, and tools
that report and resume its runs. These options fix the tools and limits; the client can change
neither.

\b
Examples:
  ptc mcp --root ./repo --allow read,grep --print-config   print the client's configuration
  ptc mcp --root ./repo --allow read,grep                  serve (the client runs this)
  ptc mcp --root ./repo --direct-tools                     offer each tool on its own, too
  ptc mcp --new-token alice                                create a token for an HTTP client
  ptc mcp --root ./repo --http 8765 --tokens tokens.toml   serve HTTP on 127.0.0.1:8765
"""


@click.command("mcp", help=_HELP, short_help="Serve programs to an agent over MCP (stdio or HTTP).")
@click.option("--direct-tools", is_flag=True, help="Offer each allowed tool directly as well.")
@click.option(
    "--ask-client/--no-ask-client",
    default=True,
    help="Let the client's user decide on calls that require approval, if the client supports "
    "forms. Otherwise such runs pause until `ptc approve`.",
)
@click.option(
    "--preview-chars",
    type=click.IntRange(0, 1_000_000),
    default=PREVIEW_CHARS,
    metavar="N",
    help="Characters of a result that the model reads whole. Of a longer one it reads the start, "
    "and get_tool_response, if allowed, reads the rest. 0: limits.max_output_bytes alone applies. "
    f"[default: {PREVIEW_CHARS}]",
)
@settings_options(*RUN_KEYS)
@http_options
@click.option(
    "--print-config", is_flag=True, help="Print the JSON for a client's configuration and exit."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    direct_tools: bool,
    ask_client: bool,
    preview_chars: int,
    settings: Settings,
    http: str | None,
    tokens: str | None,
    new_token: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    max_concurrent_calls: int,
    grace_ms: int,
    print_config: bool,
) -> None:
    """Run the command; `_HELP` is its help text."""
    if new_token is not None:
        token, table = create_token(new_token)
        click.echo(f"# The token, which is shown only now: {token}\n{table}", nl=False)
        return
    if tokens is not None and http is None:
        raise ptc.UsageError("--tokens is for --http: pass an address such as --http 8765")
    session = open_session(
        settings,
        artifacts=artifact_folder(settings) if tokens is not None else None,
        workers=1 if http is None else 4,
    )
    if print_config and http is not None:
        standard_output().line(json.dumps(client_config(http, token=tokens is not None)))
        return
    if print_config:
        options = [*command_line(settings), *(["--direct-tools"] if direct_tools else [])]
        options += [] if ask_client else ["--no-ask-client"]
        if preview_chars != PREVIEW_CHARS:
            options += ["--preview-chars", str(preview_chars)]
        standard_output().line(json.dumps(_config(session.root, options)))
        return
    require_sdk()
    # The SDK uses the configured logging; plain lines on stderr avoid tracebacks drawn by rich.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="ptc mcp: %(message)s")
    if http is not None:
        server = HttpCommand(http, tokens, hosts, origins, max_concurrent_calls, grace_ms)
        ctx.exit(
            server.run(
                session,
                preview_chars=preview_chars or None,
                direct_tools=direct_tools,
                ask_client=ask_client,
            )
        )
    make = partial(
        serve,
        preview_chars=preview_chars or None,
        direct_tools=direct_tools,
        ask_client=ask_client,
    )
    _serve_stdio(session, make)


def _config(root: Path, options: list[str]) -> dict[str, Any]:
    # Absolute paths: a client starts servers in its own folder and with its own PATH.
    script = shutil.which("ptc", path=str(Path(sys.executable).parent))
    start = [script] if script else [sys.executable, "-m", "ptc"]
    entry = {"command": start[0], "args": [*start[1:], "mcp", "--root", str(root), *options]}
    return {"mcpServers": {"ptc": entry}}


def _serve_stdio(session: ptc.Session, make: Callable[[ptc.Session], Server[Any]]) -> None:
    import anyio

    async def main() -> None:
        from mcp.server.stdio import stdio_server

        async with session, anyio.create_task_group() as group:
            server = make(session)
            group.start_soon(_end_on_signal, session)
            group.start_soon(_warm_up, session)
            # Without a file, the SDK would take what standard output is by now: standard error.
            async with stdio_server(stdout=anyio.wrap_file(result_file())) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
            group.cancel_scope.cancel()

    try:
        anyio.run(main)
    except* (BrokenPipeError, ConnectionError):
        click.echo("ptc mcp: the client disconnected", err=True)
        # From 3.14 on, files report what they cannot write when they are finalized.
        sys.unraisablehook = _report_all_but_broken_pipes


def _report_all_but_broken_pipes(event: sys.UnraisableHookArgs) -> None:
    if not issubclass(event.exc_type, BrokenPipeError):
        sys.__unraisablehook__(event)


async def _warm_up(session: ptc.Session) -> None:
    """Start the workers during the client's handshake."""
    try:
        await session.warm_up()
    except ptc.SetupError as error:
        click.echo(f"ptc mcp: scripts cannot run on this machine: {error}", err=True)


async def _end_on_signal(session: ptc.Session) -> None:
    import anyio

    from ptc._core._signals import receive_signals

    with receive_signals(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await session.aclose()
            # The SDK's reader is in a blocking read of standard input that cannot be interrupted.
            os._exit(128 + number)
