"""Requests to the servers of OpenAPI documents, and their responses as data.

Rule 1: each request goes to a server of the application's list, and so does each redirect, which
    must also stay at its server, since the credentials go with it.
    tests/bindings/test_openapi_hostile.py::test_redirect_to_another_server_is_refused
Rule 2: no credential is in a result, an error or a log.
    tests/bindings/test_openapi_hostile.py::test_echoed_credentials_are_redacted
Rule 3: a body never exceeds its limit in memory, even if it is compressed on the wire.
    tests/bindings/test_openapi_hostile.py::test_compressed_body_is_bounded
"""

from __future__ import annotations

import mimetypes
import zlib
from collections.abc import Sequence
from http import HTTPStatus
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import anyio

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._core._redact import Redactor
from ptc._wire._messages import is_media_type

from ._mcp_text import clean_text
from ._openapi_access import Credentials, Servers
from ._openapi_operation import Operation
from ._openapi_request import Request

if TYPE_CHECKING:
    import httpx

__all__ = ["Client", "require_httpx"]

_CONNECT_SECONDS = 10.0
_MOST_ERROR_BYTES = 64 * 1024
_MOST_ERROR_CHARS = 2_000
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = (("Accept-Encoding", "gzip"), ("User-Agent", "ptc-openapi/0.1"))
_RETRYABLE = frozenset({429, 503})
_TEXTS = frozenset((
    "application/xml", "application/javascript", "application/x-www-form-urlencoded",
    "application/yaml", "application/x-yaml", "application/toml", "application/sql",
    "application/graphql", "application/x-ndjson", "application/jsonl",
))  # fmt: skip
"""Media types that are text, besides ``text/*`` and ``*+xml``."""


def require_httpx() -> None:
    """Raise `SetupError` if httpx is missing."""
    try:
        import httpx  # noqa: F401
    except ImportError:
        msg = "OpenAPI tools need httpx; install it with `pip install 'ptc-host[openapi]'`"
        raise ptc.SetupError(msg) from None


class _Response(NamedTuple):
    status: int
    headers: httpx.Headers
    body: bytes
    is_whole: bool
    """False: the body exceeds the limit."""


class Client:
    """Connections to the servers of one document."""

    def __init__(
        self,
        servers: Servers,
        credentials: Credentials,
        *,
        most_bytes: int,
        response_headers: Sequence[str],
        proxy: str | None,
        tls: SSLContext | None,
    ) -> None:
        import httpx

        self._servers = servers
        self._credentials = credentials
        self._most_bytes = most_bytes
        self._response_headers = tuple(response_headers)
        self._redactor = Redactor(credentials.secrets)
        # Not a client of httpx: that logs each URL, which may hold a key, reads proxies and .netrc
        # of the environment, and keeps the cookies that servers set.
        self._transport = httpx.AsyncHTTPTransport(
            verify=True if tls is None else tls,
            trust_env=False,
            proxy=proxy,
            limits=httpx.Limits(max_connections=32, max_keepalive_connections=8),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def call(self, operation: Operation, request: Request, ctx: ToolContext) -> Any:
        """Send a request, and return its result as data.

        Raises:
            ToolError: If it fails, or the response is not as it says.
        """
        missing = self._authorize(operation, request)
        try:
            response = await self._follow(operation, request)
            if not 200 <= response.status < 300:
                raise _refusal(response, missing)
            value = self._read(response, ctx)
            if self._response_headers:
                found = {n: response.headers.get(n) for n in self._response_headers}
                value = {"body": value, "headers": found}
            return self._redactor.data(value)
        except ptc.ToolError as error:
            text = self._redactor.error_text(clean_text(error.message, _MOST_ERROR_CHARS))
            raise ptc.ToolError(
                text, code=error.code, retryable=error.retryable, details=error.details
            ) from None

    def _authorize(self, operation: Operation, request: Request) -> list[str]:
        """Add headers and credentials; return the schemes that lack a credential."""
        for name, value in self._credentials.headers:
            if name.lower() == "cookie":
                request.cookies.append(value)
            else:
                request.headers.append((name, value))
        chosen, missing = self._credentials.chosen(operation.security)
        for credential in chosen:
            if credential.place == "header":
                request.headers.append((credential.name, credential.text))
            else:
                pairs = request.query if credential.place == "query" else request.cookies
                pairs.append(f"{credential.name}={credential.text}")
        if request.cookies:
            request.headers.append(("Cookie", "; ".join(request.cookies)))
        return missing

    async def _follow(self, operation: Operation, request: Request) -> _Response:
        """Send a request, and follow redirects if it only reads."""
        url = request.url + ("?" + "&".join(request.query) if request.query else "")
        for _ in range(_MOST_REDIRECTS + 1):
            response = await self._send(operation, request, url)
            target = response.headers.get("location")
            if response.status not in _REDIRECTS or target is None:
                return response
            if operation.side_effect:
                msg = f"HTTP {response.status}: it redirects, which only GET and HEAD may"
                raise ptc.ToolError(msg, code="redirect_refused")
            following = _join(url, target)
            if following is None:
                msg = f"HTTP {response.status}: it redirects to another server, {_origin(target)}"
                raise ptc.ToolError(msg, code="redirect_refused")
            url = following
        msg = f"it redirects more than {_MOST_REDIRECTS} times"
        raise ptc.ToolError(msg, code="redirect_refused")

    async def _send(self, operation: Operation, request: Request, url: str) -> _Response:
        import httpx

        if not self._servers.permits(url):
            msg = f"the URL is not below one of the servers {', '.join(self._servers.urls)}"
            raise ptc.ToolError(msg, code="not_allowed")
        # The last of each name counts: a header of the application is its decision.
        headers = {name.lower(): value for name, value in [*_HEADERS, *request.headers]}
        # The time of the whole call is limited by the time-out of the tool.
        extensions = {"timeout": {"connect": _CONNECT_SECONDS}}
        try:
            message = httpx.Request(
                request.method, url, headers=headers, content=request.content, extensions=extensions
            )
        except httpx.InvalidURL as error:
            raise ptc.ToolError(f"the URL is invalid: {error}", code="invalid_arguments") from None
        try:
            response = await self._transport.handle_async_request(message)
            try:
                return await self._receive(response)
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            msg = f"{_origin(url)} cannot be reached, so the call was not made: {_words(error)}"
            raise ptc.ToolError(msg, code="unreachable", retryable=True) from None
        except httpx.HTTPError as error:
            msg = f"the connection to {_origin(url)} failed during the call: {_words(error)}"
            if not operation.idempotent:
                msg += ". It is unknown whether the call had an effect: check before you repeat it"
            raise ptc.ToolError(
                msg, code="connection_lost", retryable=operation.idempotent
            ) from None

    async def _receive(self, response: httpx.Response) -> _Response:
        """Read the body up to the limit."""
        most = self._most_bytes if response.is_success else _MOST_ERROR_BYTES
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            msg = f"the response is encoded as {encoding[:40]!r}, but only gzip was accepted"
            raise ptc.ToolError(msg, code="bad_result")
        body = bytearray()
        with anyio.CancelScope() as scope:
            # Left by cancellation, which closes the nested generators of httpx.
            async for chunk in response.aiter_raw():
                body += chunk[: most + 1 - len(body)]
                if len(body) > most:
                    scope.cancel()
        data = bytes(body)
        if "gzip" in encoding and data:
            data = _decompress(data, most)
        is_whole = max(len(body), len(data)) <= most
        return _Response(response.status_code, response.headers, data[:most], is_whole)

    # --- responses --------------------------------------------------------------------------

    def _read(self, response: _Response, ctx: ToolContext) -> Any:
        """Convert a successful response to data.

        Raises:
            ToolError: If it is too large, or not as it says.
        """
        if not response.is_whole:
            msg = (
                f"the call succeeded with HTTP {response.status}, but its response has more than "
                f"{self._most_bytes:,} bytes; request less, or raise max_response_bytes"
            )
            raise ptc.ToolError(msg, code="too_large")
        body = response.body
        if not body:
            return None
        declared, _, parameters = response.headers.get("content-type", "").partition(";")
        kind = declared.strip().lower()
        if kind == "application/json" or kind.endswith("+json"):
            try:
                return _json.loads(body)
            except (ValueError, RecursionError) as error:
                msg = f"the call succeeded with HTTP {response.status}, but its response is not "
                raise ptc.ToolError(f"{msg}valid JSON: {error}", code="bad_result") from None
        if not kind:
            try:
                return body.decode()
            except UnicodeDecodeError:
                kind = "application/octet-stream"
        if _is_text(kind):
            return _decode(body, parameters)
        return _attach(body, kind, ctx)


def _decompress(data: bytes, most: int) -> bytes:
    """Decompress gzip, to at most one byte over a limit."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        plain = inflate.decompress(data, most + 1)
    except zlib.error as error:
        raise ptc.ToolError(f"the response is not valid gzip: {error}", code="bad_result") from None
    if not inflate.eof and max(len(data), len(plain)) <= most:
        raise ptc.ToolError("the response ends before its end of gzip", code="bad_result")
    return plain


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS


def _decode(body: bytes, parameters: str) -> str:
    charset = parameters.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
    try:
        return body.decode(charset, errors="replace")
    except (LookupError, ValueError):  # an unknown charset
        return body.decode(errors="replace")


def _attach(body: bytes, kind: str, ctx: ToolContext) -> dict[str, Any]:
    media_type = kind if is_media_type(kind) else "application/octet-stream"
    suffix = mimetypes.guess_extension(media_type) or ".bin"
    name = f"{ctx.tool_name.replace('.', '_')}{suffix}"
    stored = ctx.attach(ptc.Attachment(name, media_type, body))
    return {
        "attachment": stored.id,
        "name": stored.name,
        "mime_type": stored.media_type,
        "size_bytes": stored.size_bytes,
    }


def _refusal(response: _Response, missing: list[str]) -> ptc.ToolError:
    """Return the error of a response that is not a success."""
    status = response.status
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    text = _decode(response.body, response.headers.get("content-type", "")).strip()
    msg = f"HTTP {status} {phrase}".strip() + (f": {text}" if text else "")
    if missing and status in (401, 403):
        msg = f"{msg[:1_000]} (no credential was configured for {', '.join(missing)})"
    details: dict[str, object] = {"status": status}
    after = response.headers.get("retry-after", "")
    if after.isascii() and after.isdigit() and len(after) < 7:
        details["retry_after_s"] = int(after)
    return ptc.ToolError(
        msg, code=f"http_{status}", retryable=status in _RETRYABLE, details=details
    )


def _join(url: str, target: str) -> str | None:
    """Return the URL of a redirect; None if it leads to another server."""
    try:
        following = urljoin(url, target.partition("#")[0])
        return following if urlsplit(following)[:2] == urlsplit(url)[:2] else None
    except ValueError:
        return None


def _origin(url: str) -> str:
    """Return scheme, host and port: a path or a query may hold a secret."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.hostname}{port}"


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
