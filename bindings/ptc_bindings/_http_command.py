"""Options of ``ptc mcp`` for HTTP, and the process of the server."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import signal
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import ptc
from ptc.journal._location import journal_of, lies_in

from ._http_clients import TOKEN_VARIABLE, Client, Clients, load_clients

if TYPE_CHECKING:
    from ptc._config._settings import Settings

__all__ = ["HttpCommand", "artifact_folder", "client_config", "http_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]/\s]+):)?(?P<port>[0-9]{1,5})")


def http_options(command: _Command) -> _Command:
    """Add the options of the HTTP server to `command`."""
    options = [
        click.option(
            "--http",
            metavar="[HOST:]PORT",
            help="Serve streamable HTTP at http://HOST:PORT/mcp instead of standard input. "
            "[HOST default: 127.0.0.1]",
        ),
        click.option(
            "--tokens",
            metavar="FILE",
            help="TOML file with a table [tokens.NAME] for each client: its token's digest, tools "
            f"and limits. One token without a file: the variable {TOKEN_VARIABLE}.",
        ),
        click.option(
            "--new-token",
            metavar="NAME",
            help="Print a new token and its table for --tokens, and exit.",
        ),
        click.option(
            "--allow-host",
            "hosts",
            multiple=True,
            metavar="HOST[:PORT]",
            help="Value of the header Host to accept, such as the name of a proxy; may be "
            "repeated. [default: the address of --http]",
        ),
        click.option(
            "--allow-origin",
            "origins",
            multiple=True,
            metavar="ORIGIN",
            help="Web pages that may send requests, as https://app.example; may be repeated. "
            "[default: none]",
        ),
        click.option(
            "--max-concurrent-calls",
            type=click.IntRange(1, 10_000),
            default=256,
            metavar="N",
            help="Calls of all HTTP clients at once; more are refused. [default: 256]",
        ),
        click.option(
            "--grace-ms",
            type=click.IntRange(0, 3_600_000),
            default=10_000,
            metavar="N",
            help="Time that calls have to finish when the HTTP server stops. [default: 10,000]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class HttpCommand:
    """The values of `http_options`."""

    address: str
    tokens: str | None
    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    max_concurrent_calls: int
    grace_ms: int

    def run(
        self,
        session: ptc.Session,
        *,
        preview_chars: int | None,
        direct_tools: bool,
        ask_client: bool,
    ) -> int:
        """Serve until a signal, and return the exit status.

        Raises:
            UsageError: If an option or the file of tokens is invalid, or the address is in use.
        """
        import anyio

        from ._http_server import HttpOptions, run_http_server

        # They log a line for each malformed request, which an attacker could send for ever.
        for name in ("mcp", "uvicorn"):
            logging.getLogger(name).setLevel(logging.ERROR)

        clients = self._clients(session)
        for client in clients:
            _check_client(session, client, self.tokens)
        host, port = parse_address(self.address)
        address = _resolve(host, port)
        _require_protection(address[-1][0], clients, self.hosts)
        listener = _bind(address)
        bound: tuple[Any, ...] = listener.getsockname()
        options = HttpOptions(
            preview_chars=preview_chars,
            direct_tools=direct_tools,
            ask_client=ask_client,
            hosts=_host_names(host, bound, self.hosts),
            origins=self.origins,
            max_concurrent_calls=self.max_concurrent_calls,
            grace_seconds=self.grace_ms / 1000,
        )

        def report(text: str) -> None:
            click.echo(
                f"ptc mcp: {_greeting(bound, clients) if text == 'ready' else text}", err=True
            )

        number = anyio.run(run_http_server, session, clients, listener, options, report)
        # A shell expects 130 after Ctrl-C; a service manager expects 0 when it stopped a service.
        return 130 if number == signal.SIGINT else 0

    def _clients(self, session: ptc.Session) -> Clients:
        file = Path(self.tokens) if self.tokens else None
        found = load_clients(file, os.environ, session.limits, session.root)
        # Commands of tools inherit the environment of this process.
        os.environ.pop(TOKEN_VARIABLE, None)
        anonymous = None if found else Client("", max_concurrent_calls=self.max_concurrent_calls)
        return Clients(found, anonymous=anonymous)


def artifact_folder(settings: Settings) -> Path:
    """Return the folder of stored values and files of a server for several clients.

    It is outside the root, by default beside the journal: below the root, the scripts of one client
    could read the files of another one with the tool ``read``.

    Raises:
        UsageError: If the journal is in memory, or it or the folder is inside the root.
    """
    folder = settings.root.resolve()
    journal = settings.path("journal")
    try:
        path = journal_of(folder) if journal is None else journal.absolute()
    except ptc.JournalError as error:
        raise ptc.UsageError(str(error)) from None
    if settings["journal"] == ":memory:" or lies_in(folder, path):
        msg = (
            f"--tokens: the journal {path} is in memory, or lies inside --root, where scripts of "
            "one client can read the runs of another; choose a narrower --root, or a --journal "
            "outside it"
        )
        raise ptc.UsageError(msg)
    chosen = settings.artifacts()
    if isinstance(chosen, str):
        msg = (
            f"--tokens: the store {chosen} of --artifacts has its cache below --root, where "
            "scripts of one client can read the files of another; choose a folder outside it"
        )
        raise ptc.UsageError(msg)
    if chosen is None:
        return path.with_name(f"{path.name}.artifacts")
    if lies_in(folder, chosen.absolute()):
        msg = (
            f"--tokens: the folder {chosen} of --artifacts lies inside --root, where scripts of "
            "one client can read the files of another; choose a folder outside it"
        )
        raise ptc.UsageError(msg)
    return chosen


def client_config(address: str, *, token: bool) -> dict[str, Any]:
    """Return the configuration of a client for the server at an address."""
    host, port = parse_address(address)
    shown = f"[{host}]" if ":" in host else host
    entry: dict[str, Any] = {"type": "http", "url": f"http://{shown}:{port}/mcp"}
    if token:
        entry["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
    return {"mcpServers": {"ptc": entry}}


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``. Raises `UsageError` if it is invalid."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        msg = f"--http: {text!r:.80} is not HOST:PORT, as in 127.0.0.1:8765"
        raise ptc.UsageError(msg)
    return (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])


def _resolve(host: str, port: int) -> tuple[Any, ...]:
    """Return the first address of a host, as `socket.getaddrinfo` describes it."""
    # One family: `localhost` has an address of each, and a client may choose either.
    family = socket.AF_INET if host == "localhost" else socket.AF_UNSPEC
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except OSError as error:
        msg = f"--http: the address of {host!r:.80} cannot be found: {error.strerror}"
        raise ptc.UsageError(msg) from None


def _bind(resolved: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, address = resolved
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Else `::` would listen on every IPv4 address, too.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        msg = (
            f"--http: cannot listen on {address[0]}, port {address[1]}: {error.strerror}; choose "
            "another address"
        )
        raise ptc.UsageError(msg) from None
    return listener


def _require_protection(address: str, clients: Clients, hosts: Iterable[str]) -> None:
    """Refuse to serve a network without tokens, or without names to check ``Host`` against."""
    bound = ipaddress.ip_address(address.partition("%")[0])
    if not bound.is_loopback and not clients.require_token:
        msg = (
            f"--http: {address} is not a loopback address, so everybody on the network could run "
            f"scripts: pass --tokens FILE or set {TOKEN_VARIABLE}"
        )
        raise ptc.UsageError(msg)
    if bound.is_unspecified and not list(hosts):
        msg = (
            f"--http: {address} stands for every address of this machine: pass --allow-host with "
            "the name that clients use, as in --allow-host ptc.example:8765"
        )
        raise ptc.UsageError(msg)


def _host_names(host: str, bound: tuple[Any, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    address = ipaddress.ip_address(str(bound[0]).partition("%")[0])
    names = [f"[{address}]" if address.version == 6 else str(address)]
    if address.is_loopback:
        names += ["localhost", "127.0.0.1", "[::1]"]
    elif address.is_unspecified:
        names = []
    if host.strip("[]") != str(address) and ":" not in host and names:
        names.append(host)
    found = [f"{name}:{bound[1]}" for name in names]
    # Clients leave out the default port.
    return tuple(dict.fromkeys([*found, *(names if bound[1] == 80 else []), *more]))


def _check_client(session: ptc.Session, client: Client, file: str | None) -> None:
    """Check a client against the session. Raises `UsageError`, which names its table."""
    where = f"{file}: tokens.{client.name}"
    limits = client.limits or session.limits
    if over := limits.over(session.ceiling):
        msg = f"{where}.limits: above the ceiling of the server: {', '.join(over)}"
        raise ptc.UsageError(msg)
    if not session.knows_all_tools:
        return  # `serve` checks the rest once the servers of the tools have started
    try:
        session.select_tools(client.allowed_tools)
    except ptc.UsageError as error:
        text = str(error).removeprefix("allowed_tools: ")
        raise ptc.UsageError(f"{where}.allow: {text}") from None
    try:
        # The limits may name tools.
        session.describe_tools(client.allowed_tools, limits)
    except ptc.UsageError as error:
        raise ptc.UsageError(f"{where}.{error}") from None


def _greeting(bound: tuple[Any, ...], clients: Clients) -> str:
    host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    names = [client.name for client in clients]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    who = f"clients: {shown}" if clients.require_token else "no token: any local user can connect"
    warning = ""
    if not ipaddress.ip_address(str(bound[0]).partition("%")[0]).is_loopback:
        warning = "; tokens travel unencrypted, so put a proxy with TLS in front"
    return f"serving http://{host}:{bound[1]}/mcp ({who}{warning})"
