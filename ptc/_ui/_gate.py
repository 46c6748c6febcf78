"""The checks of each HTTP request, before a route sees it.

Rule 1: a page of another site reaches nothing: ``Host`` must name this machine, so that DNS
    rebinding fails, and ``Origin`` must be this server.
    tests/ui/test_gate.py::test_foreign_host_is_refused
    tests/ui/test_gate.py::test_cross_origin_post_is_refused
Rule 2: data is sent only to a signed-in browser, and never as a page or a script.
    tests/ui/test_gate.py::test_data_needs_a_session
Rule 3: each answer forbids inline scripts, foreign content, frames and guessing of its type.
    tests/ui/test_gate.py::test_every_answer_has_the_security_headers
Rule 4: a body is bounded before it is decoded.
    tests/ui/test_gate.py::test_body_over_the_bound_is_refused
"""

from __future__ import annotations

from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ._access import Access

__all__ = ["KEY_HEADER", "MAX_BODY_BYTES", "Gate", "cookie_of"]

KEY_HEADER: Final = "x-ptc-key"
"""Header with the half of a session that is not a cookie."""
MAX_BODY_BYTES: Final = 2 << 20
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_OPEN_API: Final = "/api/login"
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class _Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Gate:
    """ASGI application that checks each request, and passes it to the application behind it."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        *,
        cookie: str,
        hosts: Iterable[str] = (),
        read_only: bool = False,
    ) -> None:
        """Put the checks before an application.

        Args:
            app: The application.
            access: The people who may use it.
            cookie: Name of the cookie of a session.
            hosts: Further names of this server, beside those of the loopback interface.
            read_only: True: refuse requests that change something.
        """
        self._app = app
        self._access = access
        self._cookie = cookie
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # A WebSocket, which needs no CORS and so is open to pages of other sites.
            await send({"type": "websocket.close", "code": 1008})
            return
        sender = _secured(send, is_data=scope["path"].startswith("/api/"))
        try:
            self._check(scope)
            await self._app(scope, receive, sender)
        except _Refusal as refusal:
            answer = JSONResponse({"error": refusal.message}, status_code=refusal.status)
            await answer(scope, receive, sender)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = self._check_host(headers)
        self._check_origin(headers, host, scope)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise _Refusal(405, f"the method {scope['method']!r:.20} is not supported")
        if scope["method"] == "POST":
            self._check_post(headers, scope["path"])
        if scope["path"].startswith("/api/") and scope["path"] != _OPEN_API:
            visitor = self._access.find(
                cookie_of(headers, self._cookie), headers.get(KEY_HEADER, "")
            )
            if visitor is None:
                raise _Refusal(401, "open the link that `ptc ui` printed in its terminal")
            scope.setdefault("state", {})["visitor"] = visitor

    def _check_host(self, headers: Headers) -> str:
        values = headers.getlist("host")
        host = values[0].lower() if len(values) == 1 else ""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in self._hosts or "@" in host or "/" in host:
            raise _Refusal(
                421,
                f"the header Host, {host!r:.80}, does not name this server; its operator can add "
                "names with --allow-host",
            )
        return host

    def _check_origin(self, headers: Headers, host: str, scope: Scope) -> None:
        is_data = scope["path"].startswith("/api/")
        site = headers.get("sec-fetch-site")
        if is_data and site not in (None, "same-origin"):
            raise _Refusal(403, "requests of other sites are refused")
        origin = headers.get("origin")
        if origin is None:
            # Browsers send it with each POST. Without it, another program must know the key.
            return
        if origin.lower() not in (f"http://{host}", f"https://{host}"):
            raise _Refusal(403, f"requests of pages of {origin!r:.80} are refused")

    def _check_post(self, headers: Headers, path: str) -> None:
        if self._read_only and path not in (_OPEN_API, "/api/logout", "/api/replay"):
            raise _Refusal(403, "this page is read-only (--read-only)")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # A form of another site can send neither this type nor the key.
        if kind != "application/json":
            raise _Refusal(415, "send application/json")
        # Browsers state it, and the HTTP parser accepts no byte more than it states.
        length = headers.get("content-length", "")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            raise _Refusal(411, "send the length of the body in Content-Length")
        if len(length) > 12 or int(length) > MAX_BODY_BYTES:
            raise _Refusal(413, f"the body may have {MAX_BODY_BYTES:,} bytes")


def cookie_of(headers: Headers, name: str) -> str:
    """Return the value of a cookie; ``""`` if it is missing."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(headers.get("cookie", "")[:8_192])
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _secured(send: Send, *, is_data: bool) -> Send:
    async def secured(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers["cache-control"] = "no-store" if is_data else "no-cache"
        await send(message)

    return secured
