"""Clients of the HTTP server: their tokens, tools and limits, from a file or the environment.

Rule 1: no token is written in a file or an argument: the file has digests or names of environment
    variables. tests/bindings/test_http_clients.py::test_token_in_the_file_is_refused
Rule 2: only the operator can write the file, and no script can.
    tests/bindings/test_http_clients.py::test_file_that_others_may_write_is_refused
Rule 3: each comparison takes the same time for every token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import ptc
from ptc._core._arguments import nearest

from ._client_scope import CLIENT_NAME

__all__ = ["TOKEN_VARIABLE", "Client", "Clients", "create_token", "load_clients"]

TOKEN_VARIABLE = "PTC_MCP_TOKEN"  # noqa: S105  # the name of the variable
_ENVIRONMENT_CLIENT = "default"
_MIN_TOKEN_CHARS = 20
"""A token is compared by its digest, which hides it only if it cannot be guessed."""
_MAX_FILE_BYTES = 1_048_576
_MAX_CALLS = 256
_DEFAULT_CALLS = 8
_LIMITS = sorted(field.name for field in fields(ptc.Limits))


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the server."""

    name: str
    """Part of the ids of its runs. Empty: the server requires no token."""
    allowed_tools: tuple[str, ...] | None = None
    """Its allow-list; None: that of the server."""
    limits: ptc.Limits | None = None
    """Limits of its programs; None: those of the server."""
    max_concurrent_calls: int = _DEFAULT_CALLS
    """Calls at once."""


class Clients:
    """The clients of a server by token."""

    def __init__(self, clients: Mapping[bytes, Client], *, anonymous: Client | None = None) -> None:
        """Create the set of clients.

        Args:
            clients: Clients by the SHA-256 digest of their token.
            anonymous: The client without a token; None: a token is required.
        """
        self._clients = dict(clients)
        self._anonymous = anonymous

    def __iter__(self) -> Iterator[Client]:
        yield from self._clients.values()
        if self._anonymous is not None:
            yield self._anonymous

    @property
    def require_token(self) -> bool:
        """True if a client without a token is refused."""
        return self._anonymous is None

    def find(self, token: bytes | None) -> Client | None:
        """Return the client with this token; None: there is none."""
        if self._anonymous is not None:
            return self._anonymous
        digest = hashlib.sha256(token or b"").digest()
        found = None
        # All of them, and in constant time each: the time says nothing about a token.
        for known, client in self._clients.items():
            if hmac.compare_digest(known, digest):
                found = client
        return found


class _Entry(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sha256: str | None = None
    env: str | None = None
    allow: list[str] | None = None
    limits: dict[str, Any] = Field(default_factory=dict)
    max_concurrent_calls: int = Field(default=_DEFAULT_CALLS, ge=1, le=_MAX_CALLS)


def create_token(name: str) -> tuple[str, str]:
    """Return a new token, and the table of the file for it.

    Raises:
        UsageError: If the name is invalid.
    """
    _check_name(name, "--new-token")
    token = secrets.token_urlsafe(32)
    digest = hashlib.sha256(token.encode()).hexdigest()
    return token, f'[tokens.{name}]\nsha256 = "{digest}"\n'


def load_clients(
    file: Path | None, environment: Mapping[str, str], limits: ptc.Limits, root: Path
) -> dict[bytes, Client]:
    """Load the clients of the file, and of the variable `TOKEN_VARIABLE`.

    Args:
        file: The file; None: none.
        environment: Environment variables.
        limits: Limits of a client that does not set its own.
        root: Root of the session, which must not contain the file.

    Raises:
        UsageError: If the file is invalid, or other users or scripts may write it. The message has
            the file and the key.
    """
    clients: dict[bytes, Client] = {}
    if file is not None:
        for name, table in _read_tables(file, root).items():
            where = f"{file}: tokens.{name}"
            _check_name(name, where)
            entry = _parse_entry(table, where)
            _add(
                clients,
                _digest_of(entry, where, environment),
                _client_of(entry, name, limits, where),
                where,
            )
    if token := environment.get(TOKEN_VARIABLE, ""):
        client = Client(_ENVIRONMENT_CLIENT, limits=limits)
        if any(other.name == client.name for other in clients.values()):
            msg = (
                f"{TOKEN_VARIABLE} is the token of the client {client.name!r}, which {file} has, "
                "too; rename that one"
            )
            raise ptc.UsageError(msg)
        _add(clients, _digest_of_token(token, TOKEN_VARIABLE), client, TOKEN_VARIABLE)
    return clients


def _add(clients: dict[bytes, Client], digest: bytes, client: Client, where: str) -> None:
    if digest in clients:
        msg = (
            f"{where}: the client {clients[digest].name!r} has the same token; create one for each "
            "with `ptc mcp --new-token NAME`"
        )
        raise ptc.UsageError(msg)
    clients[digest] = client


def _check_name(name: str, where: str) -> None:
    if not CLIENT_NAME.fullmatch(name):
        msg = (
            f"{where}: {name!r:.80} is not a valid name of a client: use 1 to 32 letters, digits, "
            "_ and -, starting with a letter or digit"
        )
        raise ptc.UsageError(msg)


# --- the file -----------------------------------------------------------------------------------


def _read_tables(file: Path, root: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(_read_checked(file, root).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{file}: this is not TOML: {error}"
        raise ptc.UsageError(msg) from None
    for key in data:
        if key != "tokens":
            msg = f"{file}: {key!r:.80} is not a known key{nearest(key, ['tokens'])}"
            raise ptc.UsageError(msg)
    tables = data.get("tokens")
    if not isinstance(tables, dict) or not tables:
        msg = (
            f"{file}: there is no token; add a table such as [tokens.alice], which "
            "`ptc mcp --new-token alice` prints"
        )
        raise ptc.UsageError(msg)
    return tables


def _read_checked(file: Path, root: Path) -> bytes:
    """Read the file. Raises `UsageError` if anybody but the operator could have written it."""
    try:
        # Non-blocking: a pipe of that name must not stop the server.
        with open(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:
            # Of the open file: its name may mean another one by now.
            found = os.fstat(opened.fileno())
            _check_owner(file, found)
            data = opened.read(_MAX_FILE_BYTES + 1)
        inside = file.resolve().is_relative_to(root.resolve())
    except OSError as error:
        msg = f"--tokens: {file} cannot be read: {error.strerror}"
        raise ptc.UsageError(msg) from None
    if inside:
        msg = (
            f"--tokens: {file} is inside --root, where a script might change it; move it out of "
            f"{root}"
        )
        raise ptc.UsageError(msg)
    if len(data) > _MAX_FILE_BYTES:
        msg = f"--tokens: {file} has more than {_MAX_FILE_BYTES:,} bytes"
        raise ptc.UsageError(msg)
    return data


def _check_owner(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        msg = f"--tokens: {file} is not a file"
        raise ptc.UsageError(msg)
    if os.name == "nt":  # It has neither owners of this kind nor these permissions.
        return
    if found.st_uid not in (os.geteuid(), 0):
        msg = f"--tokens: {file} belongs to another user (uid {found.st_uid}); own it yourself"
        raise ptc.UsageError(msg)
    if found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        msg = (
            f"--tokens: other users may read or write {file} (mode {found.st_mode & 0o777:04o}); "
            f"run: chmod 600 {file}"
        )
        raise ptc.UsageError(msg)


def _parse_entry(table: Any, where: str) -> _Entry:
    try:
        return _Entry.model_validate(table)
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        key = str(found["loc"][0]) if found["loc"] else ""
        path = ".".join([where, *map(str, found["loc"])])
        if found["type"] != "extra_forbidden":
            raise ptc.UsageError(f"{path}: {found['msg']}") from None
        if key in ("token", "secret", "bearer", "key"):
            msg = (
                f"{path}: a token must not be in the file; put its digest here, "
                "`sha256 = ...`, or name a variable, `env = ...`"
            )
            raise ptc.UsageError(msg) from None
        msg = f"{path} is not a known key{nearest(key, list(_Entry.model_fields))}"
        raise ptc.UsageError(msg) from None


def _client_of(entry: _Entry, name: str, limits: ptc.Limits, where: str) -> Client:
    for key in entry.limits:
        if key not in _LIMITS:
            msg = f"{where}.limits.{key} is not a known limit{nearest(key, _LIMITS)}"
            raise ptc.UsageError(msg)
    try:
        limits = replace(limits, **entry.limits)
    except ptc.UsageError as error:
        raise ptc.UsageError(f"{where}.limits: {error}") from None
    allowed = None if entry.allow is None else tuple(entry.allow)
    return Client(name, allowed, limits, entry.max_concurrent_calls)


# --- tokens -------------------------------------------------------------------------------------


def _digest_of(entry: _Entry, where: str, environment: Mapping[str, str]) -> bytes:
    if (entry.sha256 is None) == (entry.env is None):
        msg = f"{where}: set either `sha256` or `env`; `ptc mcp --new-token NAME` prints a table"
        raise ptc.UsageError(msg)
    if entry.env is not None:
        token = environment.get(entry.env, "")
        if not token:
            msg = f"{where}.env: the environment variable {entry.env!r:.80} is not set"
            raise ptc.UsageError(msg)
        return _digest_of_token(token, f"{where}.env")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", entry.sha256 or ""):
        msg = f"{where}.sha256: this is not a SHA-256 digest of 64 hexadecimal digits"
        raise ptc.UsageError(msg)
    digest = bytes.fromhex(entry.sha256 or "")
    if digest == hashlib.sha256(b"").digest():
        msg = f"{where}.sha256: this is the digest of an empty token; `ptc mcp --new-token NAME`"
        raise ptc.UsageError(msg)
    return digest


def _digest_of_token(token: str, where: str) -> bytes:
    if len(token) < _MIN_TOKEN_CHARS or not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", token):
        msg = (
            f"{where}: the token must have at least {_MIN_TOKEN_CHARS} characters, of letters, "
            "digits and . _ ~ + / = -; `ptc mcp --new-token NAME` creates one"
        )
        raise ptc.UsageError(msg)
    return hashlib.sha256(token.encode()).digest()
