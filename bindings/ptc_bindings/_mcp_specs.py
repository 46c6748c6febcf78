"""Addresses of MCP servers: read from an ``mcpServers`` block, and from a configuration of ptc."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ptc
from ptc._config._file import read_bytes
from ptc._core._arguments import nearest
from ptc._tools._names import RESERVED

__all__ = [
    "OAuthClient",
    "ServerSpec",
    "check_specs",
    "expand_variables",
    "identifier",
    "is_loopback",
    "read_block",
    "read_file",
    "read_settings",
]

_MOST_SERVERS = 64
_BLOCKS = ("mcpServers", "servers")
"""Names of the table in the files of clients."""
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client that is registered with an authorization server."""

    client_id: str
    client_secret: str = field(repr=False)
    issuer: str
    """Address of the authorization server: its metadata must state exactly this text."""
    scope: str = ""
    """Scopes to request, separated by spaces. Empty: those that the server asks for."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server: a command that is started, a URL, or a server object of this process."""

    name: str
    """Name in the configuration."""
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the process, besides a few harmless ones such as PATH."""
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of each request."""
    oauth: OAuthClient | None = None
    """Client that obtains the tokens for the URL; None: none."""
    auth: Any = field(default=None, repr=False)
    """An ``httpx2.Auth`` of the application, such as a login in a browser with the SDK."""
    server: Any = field(default=None, repr=False)
    """Object that the SDK's client can connect to."""
    connect: Callable[[], AbstractAsyncContextManager[Any]] | None = field(default=None, repr=False)
    """Connects a client of another library, whose `session` is of the SDK."""

    @property
    def namespace(self) -> str:
        """Namespace of its tools: ``ctx.<namespace>.<tool>``."""
        return identifier(self.name)

    @property
    def address(self) -> str:
        """Address for messages, without arguments, which may hold secrets."""
        if self.command:
            return f"command {self.command!r:.200}"
        if self.url:
            parts = urlsplit(self.url)
            return f"{parts.scheme}://{parts.netloc}"
        return "an object of this process"

    @property
    def secrets(self) -> dict[str, str]:
        """Values that no message may contain, by name."""
        found = dict(self.env)
        for name, value in self.headers.items():
            found[name] = value
            found[f"{name} token"] = value.partition(" ")[2]
        if self.oauth is not None:
            found["client_secret"] = self.oauth.client_secret
        return {name: value for name, value in found.items() if value}


def identifier(name: str) -> str:
    """Convert a name to one that a script can write after a dot."""
    text = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return f"n{text}" if text[:1].isdigit() else text


def read_file(path: Path, *, named: bool, environment: Mapping[str, str]) -> list[ServerSpec]:
    """Read the servers of an ``mcp.json``.

    Args:
        path: The file. Its folder is the working directory of the servers.
        named: True: the operator named it on the command line; its owner does not matter.
        environment: Values of ``${NAME}``.

    Raises:
        UsageError: If it cannot be read, or a server in it is wrong.
    """
    data = read_bytes(path, None if named else "name it with --mcp-config to use it")
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ptc.UsageError(f"{path} is not valid JSON: {error}") from None
    try:
        return read_block(whole, path.absolute().parent, environment)
    except ptc.UsageError as error:
        raise ptc.UsageError(f"{path}: {error}") from None


def read_block(
    block: object, folder: Path | None, environment: Mapping[str, str]
) -> list[ServerSpec]:
    """Read the servers of an ``mcpServers`` block, or of a table of servers by name.

    Keys that other clients define, such as ``autoApprove``, are ignored: approvals and permissions
    are those of the session.

    Raises:
        UsageError: If a server is wrong.
    """
    if isinstance(block, Mapping):
        block = next((block[name] for name in _BLOCKS if name in block), block)
    if not isinstance(block, Mapping) or not all(isinstance(name, str) for name in block):
        raise ptc.UsageError('there is no table {"mcpServers": {"NAME": {"command": ...}}}')
    specs = []
    for name, entry in block.items():
        if not isinstance(entry, Mapping):
            if entry is None or isinstance(entry, str | bytes | int | float | list | bool):
                raise _wrong(name, "must be a table with `command` or `url`")
            specs.append(_object_spec(name, entry))
        elif entry.get("disabled") is not True and entry.get("enabled") is not False:
            specs.append(_read_entry(name, entry, folder, environment))
    return check_specs(specs)


def _object_spec(name: str, server: Any) -> ServerSpec:
    if any(base.__module__.partition(".")[0] == "fastmcp" for base in type(server).__mro__):
        from .fastmcp import connection_to

        return ServerSpec(name, connect=connection_to(server))
    return ServerSpec(name, server=server)


def _read_entry(
    name: str, entry: Mapping[str, Any], folder: Path | None, environment: Mapping[str, str]
) -> ServerSpec:
    def text(key: str) -> str:
        value = entry.get(key, "")
        if not isinstance(value, str):
            raise _wrong(name, f"{key} must be text")
        return _expand(name, key, value, environment)

    def table(key: str) -> dict[str, str]:
        value = entry.get(key) or {}
        if not isinstance(value, Mapping) or not all(
            isinstance(item, str) for pair in value.items() for item in pair
        ):
            raise _wrong(name, f"{key} must be a table of names and texts")
        return {k: _expand(name, f"{key}.{k}", v, environment) for k, v in value.items()}

    args = entry.get("args") or []
    if not isinstance(args, list) or not all(isinstance(item, str) for item in args):
        raise _wrong(name, "args must be a list of texts")
    kind = entry.get("type", entry.get("transport"))
    if kind == "sse":
        raise _wrong(name, "the transport sse was replaced; use the server's streamable HTTP URL")
    cwd = text("cwd")
    return ServerSpec(
        name,
        command=text("command"),
        args=tuple(_expand(name, "args", item, environment) for item in args),
        env=table("env"),
        cwd=(folder or Path.cwd()) / cwd if cwd else folder,
        url=text("url") or text("serverUrl"),
        headers=table("headers"),
        oauth=_read_oauth(name, table("oauth")),
        auth=entry.get("auth"),
    )


def _read_oauth(name: str, given: dict[str, str]) -> OAuthClient | None:
    """Read the client of a server; the file may write its names as other clients do."""
    if not given:
        return None
    found = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower(): text for key, text in given.items()}
    wanted = [item.name for item in fields(OAuthClient)]
    for key in found:
        if key not in wanted:
            raise _wrong(name, f"oauth: unknown key {key!r:.80}{nearest(key, wanted)}")
    missing = [key for key in wanted[:-1] if not found.get(key)]
    if missing:
        raise _wrong(
            name,
            f"oauth needs {', '.join(missing)}: ptc obtains tokens with the credentials of a "
            "client (client_credentials). For a login in a browser, pass the SDK's provider as "
            "`auth` in Python",
        )
    return OAuthClient(**found)


def _expand(name: str, key: str, text: str, environment: Mapping[str, str]) -> str:
    try:
        return expand_variables(text, environment)
    except ValueError as error:
        raise _wrong(name, f"{key}: {error}") from None


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Replace each ``${NAME}``, or ``${NAME:-DEFAULT}``, by an environment variable.

    Raises:
        ValueError: If a variable is not set, or not written in this form.
    """

    def value(found: re.Match[str]) -> str:
        known = environment.get(found[1], found[2])
        if known is None:
            raise ValueError(f"the environment variable {found[1]} is not set")
        return known

    expanded = _VARIABLE.sub(value, text)
    if unknown := re.search(r"\$\{[^}]{0,40}\}", _VARIABLE.sub("", text)):
        raise ValueError(f"{unknown[0]} is not a variable; write ${{NAME}}")
    return expanded


def read_settings(
    servers: Mapping[str, Mapping[str, Any]], folder: Path, environment: Mapping[str, str]
) -> list[ServerSpec]:
    """Read the servers of the configuration key ``mcp_servers``.

    Args:
        servers: Fields by name of server, validated: ``command``, ``args``, ``env``, ``cwd``;
            or ``url``, ``token_env`` or ``oauth``.
        folder: Working directory of the servers, and folder of relative paths.
        environment: Environment variables.

    Raises:
        UsageError: If a server is wrong, or a variable that it names is not set.
    """
    specs = []
    for name, entry in servers.items():
        oauth = dict(entry.get("oauth") or {})
        named = [entry.get("token_env"), oauth.get("client_secret_env")]
        wanted = [*entry.get("env", ()), *filter(None, named)]
        if unset := [variable for variable in wanted if variable not in environment]:
            raise _wrong(name, f"not set in the environment: {', '.join(unset)}")
        token = environment[entry["token_env"]] if "token_env" in entry else ""
        if secret := oauth.pop("client_secret_env", None):
            oauth["client_secret"] = environment[secret]
        specs.append(
            ServerSpec(
                name,
                command=os.path.expanduser(entry.get("command", "")),
                args=tuple(entry.get("args", ())),
                env={variable: environment[variable] for variable in entry.get("env", ())},
                cwd=folder / os.path.expanduser(entry.get("cwd", ".")),
                url=entry.get("url", ""),
                headers={"Authorization": f"Bearer {token}"} if token else {},
                oauth=_read_oauth(name, oauth),
            )
        )
    return check_specs(specs)


def check_specs(specs: list[ServerSpec]) -> list[ServerSpec]:
    """Check servers, each by itself and their names against one another. Raises `UsageError`."""
    seen: dict[str, str] = {}
    if len(specs) > _MOST_SERVERS:
        raise ptc.UsageError(f"there are {len(specs)} MCP servers; at most {_MOST_SERVERS} work")
    for spec in specs:
        space = spec.namespace
        if not space or not spec.name.isprintable() or len(space) > 32 or space in RESERVED:
            raise _wrong(
                spec.name,
                "choose another name: 1-32 letters, digits, _ and -, and none of "
                f"{', '.join(sorted(RESERVED))}; it is the namespace of the tools",
            )
        if space in seen:
            raise _wrong(spec.name, f"{seen[space]!r} has the same namespace, {space}; rename one")
        seen[space] = spec.name
        if spec.server is None and spec.connect is None:
            _check_address(spec)
    return specs


def _check_address(spec: ServerSpec) -> None:
    if bool(spec.command) == bool(spec.url):
        raise _wrong(spec.name, "needs either `command` (with args) or `url`")
    if spec.command:
        if any("\0" in text for text in (spec.command, *spec.args, *spec.env, *spec.env.values())):
            raise _wrong(spec.name, "a text contains a NUL character")
        return
    try:
        parts = urlsplit(spec.url)
        host = parts.hostname or ""
    except ValueError:
        raise _wrong(spec.name, "url is not a URL") from None
    if parts.scheme not in ("http", "https") or not host or not spec.url.isprintable():
        raise _wrong(spec.name, "url must be https://..., or http:// with a loopback address")
    if parts.username is not None or parts.password is not None:
        raise _wrong(spec.name, "url must not hold a password; use token_env or headers")
    if parts.scheme == "http" and not is_loopback(host):
        raise _wrong(spec.name, f"{host!r} is not a loopback address: http does not encrypt")
    if spec.oauth is not None and "authorization" in {name.lower() for name in spec.headers}:
        raise _wrong(spec.name, "has oauth and a header Authorization; use one of them")


def is_loopback(host: str) -> bool:
    """Return True for ``localhost`` and loopback addresses."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(name: str, problem: str) -> ptc.UsageError:
    return ptc.UsageError(f"mcp_servers.{name:.80}: {problem}")
