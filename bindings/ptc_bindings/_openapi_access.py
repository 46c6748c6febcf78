"""Servers that requests may reach, and the credentials that they carry.

Rule 1: a request reaches only a server of the application's list, below its path.
    tests/bindings/test_openapi_hostile.py::test_server_outside_of_the_list_is_refused
Rule 2: a credential comes from the application, never from a document or a script.
    tests/bindings/test_openapi_hostile.py::test_variable_in_a_document_is_not_expanded
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import ptc
from ptc._core._arguments import nearest
from ptc._core._credentials import SECRET_NAME

from ._mcp_specs import expand_variables, is_loopback
from ._openapi_document import Document

__all__ = ["Credentials", "Servers", "check_header", "read_credentials"]

_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


def check_header(name: str, value: str) -> str | None:
    """Return the problem of a header; None if it is valid."""
    if not _TOKEN.fullmatch(name):
        return f"the header name {name!r:.80} is invalid"
    if not _VALUE.fullmatch(value) or value != value.strip():
        # CR and LF would start another header, or another request.
        return f"the value of the header {name} must be visible ASCII characters in one line"
    return None


@dataclass(frozen=True, slots=True)
class _Base:
    scheme: str
    host: str
    port: int
    path: str
    """Without the slash at its end."""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    def contains(self, other: _Base) -> bool:
        same = (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)
        return same and f"{other.path}/".startswith(f"{self.path}/")


def _parse(url: str) -> _Base:
    """Parse the address of a server. Raises `ValueError` with the problem."""
    if not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>{}'):
        raise ValueError("it is not a URL")
    parts = urlsplit(url)
    port = parts.port
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("it must be http://... or https://...")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it must have no user name, password, query or fragment")
    if any(unquote(part) in (".", "..") for part in re.split(r"/|%2f", parts.path, flags=re.I)):
        raise ValueError("its path has a segment . or ..")
    path = parts.path.rstrip("/")
    return _Base(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


class Servers:
    """The list of the application: base URLs below which requests are allowed."""

    def __init__(self, urls: Iterable[str]) -> None:
        """Parse the list. Raises `UsageError`."""
        self._bases: list[_Base] = []
        for url in urls:
            try:
                self._bases.append(_parse(url))
            except ValueError as error:
                raise ptc.UsageError(f"servers: {url!r:.200}: {error}") from None
        if not self._bases:
            raise ptc.UsageError("servers must name at least one base URL that requests may reach")

    @property
    def urls(self) -> list[str]:
        """The base URLs."""
        return [base.url for base in self._bases]

    def require_encryption(self) -> None:
        """Raise `UsageError` if a credential would be sent over a network in the clear."""
        for base in self._bases:
            if base.scheme == "http" and not is_loopback(base.host):
                msg = f"servers: {base.url}: credentials need https, or a loopback address"
                raise ptc.UsageError(msg)

    def choose(self, nodes: Sequence[Any]) -> str | None:
        """Return the first server of a document that is on the list; None if there is none.

        Args:
            nodes: Servers of the document. Empty: the first of the list. A relative URL, and a
                variable without a value, are completed by the first of the list and the default.
        """
        if not nodes:
            return self._bases[0].url
        for node in nodes:
            url = urljoin(f"{self._bases[0].url}/", _fill(node))
            if self.permits(url):
                return _parse(url).url
        return None

    def permits(self, url: str) -> bool:
        """Return True if requests may reach a URL; its query does not count."""
        try:
            wanted = _parse(url.partition("?")[0])
        except ValueError:
            return False
        return any(base.contains(wanted) for base in self._bases)


def _fill(node: Any) -> str:
    """Return the URL of a server in a document, with the defaults of its variables."""
    if not isinstance(node, Mapping) or not isinstance(node.get("url"), str):
        raise ptc.UsageError(f"a server should have a `url`, not be {node!r:.80}")
    variables = Document.table(node, "variables")

    def default(found: re.Match[str]) -> str:
        variable = variables.get(found[1])
        value = variable.get("default") if isinstance(variable, Mapping) else None
        return value if isinstance(value, str) else found[0]

    return re.sub(r"\{([^{}]*)\}", default, node["url"])


@dataclass(frozen=True, slots=True)
class _Credential:
    place: str
    """``header``, ``query`` or ``cookie``."""
    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers and credentials of the application."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """Headers of each request."""
    owned_headers: frozenset[str]
    """Names of headers that no script sets, in lower case."""
    schemes: Mapping[str, _Credential] = field(repr=False)
    """Credentials by security scheme of the document."""
    secrets: Mapping[str, str] = field(repr=False)
    """Values that no text may contain, by name."""

    def chosen(self, requirements: Sequence[Any]) -> tuple[list[_Credential], list[str]]:
        """Return the credentials of an operation, and the schemes that lack one.

        Args:
            requirements: Alternatives, each a table of schemes that are needed together.
        """
        tables = [table for table in requirements if isinstance(table, Mapping)]
        for table in tables:
            if table and all(name in self.schemes for name in table):
                return [self.schemes[name] for name in table], []
        if not tables or any(not table for table in tables):
            return [], []
        return [], list(tables[0])

    def owns(self, place: str, name: str) -> bool:
        """True for a parameter that the application sets, so that no script may."""
        if place == "header":
            return name.lower() in self.owned_headers
        return any((own.place, own.name) == (place, name) for own in self.schemes.values())


def read_credentials(
    document: Document,
    headers: Mapping[str, str],
    credentials: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    key_header: str | None = None,
) -> Credentials:
    """Read headers and credentials, with ``${NAME}`` as the environment variable of that name.

    Args:
        document: Its security schemes say where credentials are sent.
        headers: Headers of each request.
        credentials: Values by name of a security scheme.
        environment: Environment variables.
        key_header: Header of idempotency keys.

    Raises:
        UsageError: If a value is invalid, a variable is not set, or the document has no such
            security scheme.
    """
    secrets: dict[str, str] = {}
    sent = []
    for name, text in headers.items():
        value = _expand(f"headers.{name}", text, environment)
        if problem := check_header(name, value):
            raise ptc.UsageError(f"headers: {problem}")
        sent.append((name, value))
        if value != text or SECRET_NAME.search(name.lower()):
            secrets[name] = value
            secrets[f"{name} token"] = value.partition(" ")[2]
    known = Document.table(Document.table(document.root, "components"), "securitySchemes")
    schemes = {}
    for name, text in credentials.items():
        if name not in known:
            near = nearest(name, known) or f"; it has: {', '.join(known) or 'none'}"
            raise ptc.UsageError(f"credentials: the document has no security scheme {name!r}{near}")
        value = _expand(f"credentials.{name}", text, environment)
        secrets[name] = value
        schemes[name] = _credential(name, document.resolve(known[name]), value, secrets)
    owned = {name for name, _ in sent} | {c.name for c in schemes.values() if c.place == "header"}
    owned |= {key_header} if key_header else set()
    return Credentials(
        tuple(sent),
        frozenset(name.lower() for name in owned),
        schemes,
        {name: value for name, value in secrets.items() if value},
    )


def _expand(where: str, text: object, environment: Mapping[str, str]) -> str:
    if not isinstance(text, str):
        raise ptc.UsageError(f"{where} must be text")
    try:
        return expand_variables(text, environment)
    except ValueError as error:
        raise ptc.UsageError(f"{where}: {error}") from None


def _credential(
    name: str, scheme: Mapping[str, Any], value: str, secrets: dict[str, str]
) -> _Credential:
    kind, place, key = scheme.get("type"), scheme.get("in"), scheme.get("name")
    if not value:
        raise ptc.UsageError(f"credentials.{name} is empty")
    if kind == "apiKey" and place in ("header", "query", "cookie") and isinstance(key, str):
        found = _Credential(str(place), key, value if place == "header" else quote(value, safe=""))
    elif kind == "http" and str(scheme.get("scheme")).lower() == "basic":
        user, colon, password = value.partition(":")
        if not colon:
            raise ptc.UsageError(f"credentials.{name} must be `user:password`")
        secrets[f"{name} password"] = password or user
        pair = base64.b64encode(value.encode()).decode()
        found = _Credential("header", "Authorization", f"Basic {pair}")
    elif kind in ("http", "oauth2", "openIdConnect"):
        # Of http, only bearer: others, such as digest, are more than a header.
        if kind == "http" and str(scheme.get("scheme")).lower() != "bearer":
            raise ptc.UsageError(f"credentials.{name}: only bearer and basic are supported")
        found = _Credential("header", "Authorization", f"Bearer {value}")
    else:
        raise ptc.UsageError(f"credentials.{name}: its security scheme is not supported")
    if found.place == "header" and (problem := check_header(found.name, found.text)):
        raise ptc.UsageError(f"credentials.{name}: {problem}")
    if not _TOKEN.fullmatch(found.name):
        raise ptc.UsageError(f"credentials.{name}: the name {found.name!r:.80} is invalid")
    return found
