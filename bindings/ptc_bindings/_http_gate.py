"""The checks of each HTTP request, before the MCP SDK sees it.

Rule 1: a page of another site reaches nothing: `Host` must be a name of the server, `Origin` must
    be allowed, so DNS rebinding fails.
    tests/bindings/test_http.py::test_foreign_host_or_origin_is_refused
Rule 2: nothing of a body is read before the token is checked.
    tests/bindings/test_http.py::test_request_without_a_valid_token_is_refused
Rule 3: requests, their bodies and the time they take are bounded, for each client and in total.
    tests/bindings/test_http.py::test_body_over_the_bound_is_refused
    tests/bindings/test_http.py::test_slow_request_is_ended
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from ptc._core._arguments import describe_error

from ._capacity import Capacity
from ._http_clients import Client, Clients

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PATH", "Gate"]

PATH = "/mcp"
MAX_BODY_BYTES = 4_194_304
"""JSON bytes of one request."""
_MAX_BODY_BYTES_OF_CLIENT = 4 * MAX_BODY_BYTES
_MAX_BODY_BYTES_OF_ALL = 32 * MAX_BODY_BYTES
"""Bytes of bodies in memory at once."""
_MAX_CONTAINERS = 250_000
"""Lists and objects in a request: 3 bytes of JSON would make 72 bytes in memory."""
_BODY_SECONDS = 20.0
_RETRY_SECONDS = 1
_LOG_SECONDS = 1.0

_log = logging.getLogger("ptc")


class Refusal(Exception):
    """A refused request."""

    def __init__(
        self, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Route:
    """A client's server."""

    app: ASGIApp
    requests: Capacity
    """Requests, except streams."""
    streams: Capacity
    """Streams for messages of the server, one for each session of the protocol."""


class Gate:
    """ASGI application that checks each request, and passes it to the server of its client."""

    def __init__(
        self,
        clients: Clients,
        routes: Mapping[str, Route],
        *,
        hosts: Iterable[str],
        origins: Iterable[str] = (),
    ) -> None:
        """Create the application.

        Args:
            clients: The clients by token.
            routes: Their servers, by name.
            hosts: Values of the header ``Host`` that name this server, with the port.
            origins: Values of the header ``Origin`` that are allowed. Clients other than browsers
                send none.
        """
        self._clients = clients
        self._routes = routes
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._body_bytes: Counter[str] = Counter()
        self._refusals = _RefusalLog()
        self.closing = False
        """True: refuse new requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            msg = f"no {scope['type']} here"
            raise RuntimeError(msg)
        headers = _Headers(scope)
        origin = None
        try:
            self._check_host(headers)
            origin = self._check_origin(headers)
            if scope["method"] == "OPTIONS" and origin:
                await _answer(_with_cors(send, origin), 204, b"", _preflight_headers())
                return
            await self._serve(scope, headers, receive, _with_cors(send, origin))
        except Refusal as refusal:
            self._refusals.add(refusal, scope)
            await _refuse(_with_cors(send, origin), refusal)

    # --- checks -----------------------------------------------------------------------------

    def _check_host(self, headers: _Headers) -> None:
        host = headers.one("host").lower()
        if host not in self._hosts:
            raise Refusal(
                421,
                f"the header Host, {host!r:.80}, does not name this server; its operator can add "
                "names with --allow-host",
            )

    def _check_origin(self, headers: _Headers) -> str | None:
        origin = headers.one("origin", optional=True)
        if origin and origin.lower() not in self._origins:
            raise Refusal(
                403,
                f"requests of pages of {origin!r:.80} are refused; the operator of this server can "
                "allow them with --allow-origin",
            )
        return origin or None

    def _authenticate(self, headers: _Headers) -> Client:
        scheme, _, token = headers.one("authorization", optional=True).partition(" ")
        presented = token.strip().encode("latin-1") if scheme.lower() == "bearer" else None
        client = self._clients.find(presented)
        if client is None:
            problem = "is not valid" if presented else "is missing"
            error = b', error="invalid_token"' if presented else b""
            raise Refusal(
                401,
                f"the token {problem}: send it in the header Authorization, scheme Bearer",
                ((b"www-authenticate", b'Bearer realm="ptc"' + error),),
            )
        return client

    # --- requests ---------------------------------------------------------------------------

    async def _serve(self, scope: Scope, headers: _Headers, receive: Receive, send: Send) -> None:
        client = self._authenticate(headers)
        if scope["path"] != PATH:
            raise Refusal(404, f"there is only {PATH} here")
        if scope["method"] not in ("GET", "POST", "DELETE"):
            raise Refusal(405, "use GET, POST or DELETE", ((b"allow", b"GET, POST, DELETE"),))
        if self.closing:
            raise _busy(503, "the server is shutting down; connect again later")
        route = self._routes[client.name]
        slots = route.streams if scope["method"] == "GET" else route.requests
        if reason := slots.refusal("requests"):
            raise _busy(429 if slots.is_full else 503, reason)
        with ExitStack() as held:
            held.enter_context(slots.hold())
            if scope["method"] == "POST":
                receive = _replay(await self._read_body(client, headers, receive, held), receive)
            try:
                await route.app(scope, receive, send)
            except Exception as error:  # noqa: BLE001  # a traceback for each would fill the log
                # uvicorn answers with 500, or closes the connection if the answer has started.
                self._refusals.add(Refusal(500, describe_error(error)), scope)

    async def _read_body(
        self, client: Client, headers: _Headers, receive: Receive, held: ExitStack
    ) -> bytes:
        """Read the body; its bytes count against the total until the request ends."""
        declared = headers.one("content-length", optional=True)
        if declared.isdigit() and len(declared) <= 20 and int(declared) > MAX_BODY_BYTES:
            raise _too_large()
        body = bytearray()
        with anyio.move_on_after(_BODY_SECONDS) as timer:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refusal(400, "the client disconnected")
                piece = message.get("body", b"")
                if len(body) + len(piece) > MAX_BODY_BYTES:
                    raise _too_large()
                self._reserve(client, len(piece), held)
                body += piece
                if not message.get("more_body", False):
                    break
        if timer.cancelled_caught:
            raise Refusal(408, f"the body did not arrive within {_BODY_SECONDS:.0f} s")
        if body.count(b"[") + body.count(b"{") > _MAX_CONTAINERS:
            raise Refusal(413, f"the body has more than {_MAX_CONTAINERS:,} lists and objects")
        return bytes(body)

    def _reserve(self, client: Client, size: int, held: ExitStack) -> None:
        # Each client has a share, so that none can use up the room of all.
        if self._body_bytes[client.name] + size > _MAX_BODY_BYTES_OF_CLIENT:
            raise _busy(429, "the server is busy: this client has too many large requests open")
        if self._body_bytes.total() + size > _MAX_BODY_BYTES_OF_ALL:
            raise _busy(503, "the server is busy: too many large requests are open")
        self._body_bytes[client.name] += size
        held.callback(self._release, client, size)

    def _release(self, client: Client, size: int) -> None:
        self._body_bytes[client.name] -= size


class _Headers:
    """Headers of a request. A repeated one is refused: who reads the other one may be misled."""

    def __init__(self, scope: Scope) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def one(self, name: str, *, optional: bool = False) -> str:
        key = name.encode()
        values = [value for found, value in self._pairs if found == key]
        if len(values) > 1 or (not values and not optional):
            raise Refusal(400, f"the request must have one header {name!r}, not {len(values)}")
        return values[0].decode("latin-1").strip() if values else ""


class _RefusalLog:
    """Logs refused requests, at most one each second: a log must not grow with an attack."""

    def __init__(self) -> None:
        self._next = 0.0
        self._omitted = 0

    def add(self, refusal: Refusal, scope: Scope) -> None:
        now = time.monotonic()
        if now < self._next:
            self._omitted += 1
            return
        address = (scope.get("client") or ("?", 0))[0]
        more = f" ({self._omitted} more refused before)" if self._omitted else ""
        _log.warning(
            "refused %s from %s with %d: %s%s",
            scope["method"],
            address,
            refusal.status,
            refusal.message,
            more,
        )
        self._next, self._omitted = now + _LOG_SECONDS, 0


def _busy(status: int, reason: str) -> Refusal:
    return Refusal(status, reason, ((b"retry-after", str(_RETRY_SECONDS).encode()),))


def _too_large() -> Refusal:
    return Refusal(
        413,
        f"the body has more than {MAX_BODY_BYTES:,} bytes; pass less, or references that tools can "
        "look up",
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields `body` first, then the end of the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_next


# --- answers ------------------------------------------------------------------------------------


async def _answer(
    send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    size = [(b"content-length", str(len(body)).encode())] if status != 204 else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *size]})
    await send({"type": "http.response.body", "body": body})


async def _refuse(send: Send, refusal: Refusal) -> None:
    """Answer with an error of JSON-RPC, whose text clients of the protocol show."""
    error = {"code": -32_600 if refusal.status < 500 else -32_603, "message": refusal.message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    kind = (b"content-type", b"application/json")
    # A connection with the unread rest of a body is of no further use.
    await _answer(send, refusal.status, body, (kind, (b"connection", b"close"), *refusal.headers))


def _preflight_headers() -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (
            b"access-control-allow-headers",
            b"authorization, content-type, accept, last-event-id, mcp-session-id, "
            b"mcp-protocol-version, mcp-method, mcp-name",
        ),
        (b"access-control-max-age", b"600"),
    ]


def _with_cors(send: Send, origin: str | None) -> Send:
    """Let the pages of an allowed origin read the answer."""
    if origin is None:
        return send
    more = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"origin"),
    ]

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with_cors
