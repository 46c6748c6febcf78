"""One GET request of the host: to checked addresses, with a bounded body, in bounded time.

Rule 1: Every hop is checked like the first. (test_a_redirect_is_checked_like_the_first_request)
Rule 2: Nothing of the host goes along: no cookies, proxies, credentials or .netrc.
    (test_request_reveals_nothing_about_the_host)
Rule 3: A body is never larger in memory than its limit, however small it is on the wire.
    (test_a_decompression_bomb_is_stopped_at_the_limit)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from ptc import SetupError, ToolError

from ._addresses import Address, Network, resolve

if TYPE_CHECKING:
    import httpx

__all__ = ["USER_AGENT", "Answer", "get", "load_httpx", "read_while"]

USER_AGENT = "ptc-web-fetch/0.1"
"""Sent with every request; robots.txt may name it as ``ptc-web-fetch``."""

_MAX_URL = 8_192
_CHUNK_BYTES = 65_536
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRIED = 3
"""Addresses of a host that are tried."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said."""

    url: str
    """Where it came from, after all redirects."""
    status: int
    headers: httpx.Headers
    body: bytes
    redirects: tuple[str, ...]
    """Where it was asked for before."""


def load_httpx() -> Any:
    """The package httpx. Raises `SetupError` with the way out if it is not installed."""
    try:
        import httpx
    except ImportError as error:
        msg = 'web tools need httpx; install it with `pip install "ptc-host[web]"`'
        raise SetupError(msg) from error
    return httpx


async def get(
    url: str,
    *,
    max_bytes: int,
    max_redirects: int,
    extra: Sequence[Network] = (),
    user_agent: str = USER_AGENT,
    accept: str = "*/*",
    check: Any = None,
) -> Answer:
    """Get `url`, whatever its status. The caller bounds the time.

    Args:
        url: ``http`` or ``https``.
        max_bytes: Of the body, decoded.
        max_redirects: Hops followed.
        extra: Networks allowed beside the public ones.
        user_agent: What the server is told.
        accept: Content types wished for.
        check: Async; called with the URL of each hop before it is asked for.

    Raises:
        ToolError: ``invalid_url``, ``address_refused``, ``not_found``, ``unreachable``,
            ``too_large``, ``too_many_redirects`` or ``unsupported_content``.
    """
    httpx = load_httpx()
    headers = {"User-Agent": user_agent, "Accept": accept, "Accept-Encoding": "gzip"}
    passed: list[str] = []
    current = _parse(httpx, url)
    while True:
        if check is not None:
            await check(current)
        addresses = await resolve(_host(current), _port(current), extra)
        answer = await _ask(httpx, current, addresses, headers, max_bytes)
        target = answer.headers.get("location")
        if answer.status not in _REDIRECTS or target is None:
            return Answer(str(current), answer.status, answer.headers, answer.body, tuple(passed))
        passed.append(str(current))
        if len(passed) > max_redirects:
            msg = f"{url[:200]} leads on more than {max_redirects} times; ask for its target"
            raise ToolError(msg, code="too_many_redirects", details={"urls": [*passed]})
        following = _parse(httpx, _joined(httpx, current, target))
        if current.scheme == "https" and following.scheme != "https":
            msg = f"{str(current)[:200]} leads from https to http, which is not followed"
            raise ToolError(msg, code="unreachable")
        current = following


def _joined(httpx: Any, base: httpx.URL, target: str) -> str:
    try:
        # A fragment is no part of a request.
        return str(base.join(target).copy_with(fragment=None))
    except (httpx.InvalidURL, ValueError, UnicodeError):
        msg = f"{str(base)[:200]} leads to what is no URL: {target[:200]!r}"
        raise ToolError(msg, code="invalid_url") from None


def _parse(client: Any, text: str) -> httpx.URL:
    if len(text) > _MAX_URL:
        raise _bad(text, f"it is longer than {_MAX_URL:,} characters")
    if not text.isprintable() or " " in text:
        raise _bad(text, "it has a character that no URL has")
    try:
        url: httpx.URL = client.URL(text)
        _ = url.host, url.raw_host, url.port
    except (client.InvalidURL, ValueError, UnicodeError) as error:
        raise _bad(text, str(error)) from None
    if url.scheme not in ("http", "https"):
        raise _bad(text, "only http:// and https:// are fetched")
    if url.port is not None and not 0 < url.port < 65_536:
        raise _bad(text, "there is no such port")
    if not url.host:
        raise _bad(text, "it has no host")
    if url.userinfo:
        raise _bad(text, "it has a user name or password in it, which is not sent")
    return url.copy_with(fragment=None)


def _bad(text: str, why: str) -> ToolError:
    return ToolError(f"{text[:200]!r} cannot be fetched: {why}", code="invalid_url")


def _host(url: httpx.URL) -> str:
    # As it goes to the resolver: in ASCII.
    return url.raw_host.decode("ascii").strip("[]")


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


async def _ask(
    httpx: Any, url: httpx.URL, addresses: list[Address], headers: dict[str, str], max_bytes: int
) -> Answer:
    failure: Exception | None = None
    for address in addresses[:_TRIED]:
        try:
            return await _ask_at(httpx, url, address, headers, max_bytes)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            failure = error
        except httpx.HTTPError as error:
            failure = error
            break
    why = str(failure) or type(failure).__name__
    msg = f"{str(url)[:200]} cannot be fetched: {why}"
    raise ToolError(msg, code="unreachable", retryable=True) from failure


async def _ask_at(
    httpx: Any, url: httpx.URL, address: Address, headers: dict[str, str], max_bytes: int
) -> Answer:
    # The address in place of the name: nothing is looked up again between check and connection.
    pinned = url.copy_with(host=str(address))
    extensions = {"sni_hostname": _host(url)} if url.scheme == "https" else {}
    # Of `netloc`: the name and, unless it is the usual one, the port.
    own = {**headers, "Host": url.netloc.decode("ascii")}
    # One connection for one request: a kept one would be reused by address, whatever its name.
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client:
        request = client.build_request("GET", pinned, headers=own, extensions=extensions)
        response = await client.send(request, stream=True)
        try:
            body = await _body(response, url, max_bytes)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await response.aclose()
    return Answer(str(url), response.status_code, response.headers, body, ())


async def _body(response: httpx.Response, url: httpx.URL, max_bytes: int) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:18]) > max_bytes:
        raise _too_large(url, max_bytes)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        msg = f"{str(url)[:200]} is encoded as {encoding[:40]!r} although gzip was asked for"
        raise ToolError(msg, code="unsupported_content")
    body = bytearray()
    inflate = _Inflate() if "gzip" in encoding else None

    broken: list[str] = []

    def take(chunk: bytes) -> bool:
        # No more than one byte over the limit is ever inflated.
        room = max_bytes + 1 - len(body)
        try:
            body.extend(chunk if inflate is None else inflate.feed(chunk, room))
        except zlib.error as error:
            broken.append(str(error))
            return False
        return len(body) <= max_bytes

    if not await read_while(response, take):
        if not broken:
            raise _too_large(url, max_bytes)
        msg = f"{str(url)[:200]} is not the gzip it says it is: {broken[0]}"
        raise ToolError(msg, code="unsupported_content")
    if inflate is not None and not inflate.complete:
        msg = f"{str(url)[:200]} ended in the middle"
        raise ToolError(msg, code="unreachable", retryable=True)
    return bytes(body)


async def read_while(response: httpx.Response, take: Callable[[bytes], bool]) -> bool:
    """Hand the body, as it was sent, to `take` until that says no; return whether it never did.

    The rest is given up by cancelling: an exception from within closes the generators that httpx
    has inside one another; leaving the loop would leave them to the garbage collector.
    """
    enough = False
    with anyio.CancelScope() as scope:
        async for chunk in response.aiter_raw(_CHUNK_BYTES):
            if not enough and not take(chunk):
                enough = True
                scope.cancel()
    return not enough


class _Inflate:
    """gzip, of several members too."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._begun = False

    @property
    def complete(self) -> bool:
        """True at the end of a member, or if there was nothing at all."""
        return self._member.eof or not self._begun

    def feed(self, data: bytes, most: int) -> bytes:
        """What comes out, at most `most` bytes: more is lost, and so was too much."""
        out = bytearray()
        while data and len(out) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            self._begun = True
            out += self._member.decompress(data, most - len(out))
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return bytes(out)


def _too_large(url: httpx.URL, max_bytes: int) -> ToolError:
    msg = f"{str(url)[:200]} is larger than {max_bytes:,} bytes, which is as much as is fetched"
    return ToolError(msg, code="too_large", details={"max_bytes": max_bytes})
