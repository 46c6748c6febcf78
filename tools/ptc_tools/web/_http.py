"""GET requests of the host, to checked addresses and with a bounded body.

Rule 1: Every hop is checked like the first. (test_a_redirect_is_checked_like_the_first_request)
Rule 2: A request carries no data of the host: no cookies, proxies, credentials or .netrc.
    (test_request_reveals_nothing_about_the_host)
Rule 3: A body never exceeds its limit in memory, even if it is compressed on the wire.
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
_MAX_ATTEMPTS = 3
"""Addresses of a host to try."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a server."""

    url: str
    """URL of the response, after all redirects."""
    status: int
    headers: httpx.Headers
    body: bytes
    redirects: tuple[str, ...]
    """URLs of the redirects before it."""


def load_httpx() -> Any:
    """Import httpx. Raises `SetupError` with the install command if it is missing."""
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
    """Get `url` and return the response with any status. The caller limits the time.

    Args:
        url: ``http`` or ``https``.
        max_bytes: Maximum size of the decoded body.
        max_redirects: Maximum number of redirects.
        extra: Networks allowed in addition to the public ones.
        user_agent: Value of the header User-Agent.
        accept: Value of the header Accept.
        check: Async; called with the URL of each hop before its request.

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
            msg = f"{url[:200]} redirects more than {max_redirects} times; fetch its target"
            raise ToolError(msg, code="too_many_redirects", details={"urls": [*passed]})
        following = _parse(httpx, _join(httpx, current, target))
        if current.scheme == "https" and following.scheme != "https":
            msg = f"{str(current)[:200]} redirects from https to http, which is not allowed"
            raise ToolError(msg, code="unreachable")
        current = following


def _join(httpx: Any, base: httpx.URL, target: str) -> str:
    try:
        # A fragment is not part of a request.
        return str(base.join(target).copy_with(fragment=None))
    except (httpx.InvalidURL, ValueError, UnicodeError):
        msg = f"{str(base)[:200]} redirects to an invalid URL: {target[:200]!r}"
        raise ToolError(msg, code="invalid_url") from None


def _parse(client: Any, text: str) -> httpx.URL:
    if len(text) > _MAX_URL:
        raise _bad(text, f"it is longer than {_MAX_URL:,} characters")
    if not text.isprintable() or " " in text:
        raise _bad(text, "it has a character that is not allowed in a URL")
    try:
        url: httpx.URL = client.URL(text)
        _ = url.host, url.raw_host, url.port
    except (client.InvalidURL, ValueError, UnicodeError) as error:
        raise _bad(text, str(error)) from None
    if url.scheme not in ("http", "https"):
        raise _bad(text, "only http:// and https:// are supported")
    if url.port is not None and not 0 < url.port < 65_536:
        raise _bad(text, "its port is invalid")
    if not url.host:
        raise _bad(text, "it has no host")
    if url.userinfo:
        raise _bad(text, "it has a user name or password; credentials are never sent")
    return url.copy_with(fragment=None)


def _bad(text: str, why: str) -> ToolError:
    return ToolError(f"{text[:200]!r} cannot be fetched: {why}", code="invalid_url")


def _host(url: httpx.URL) -> str:
    # The resolver needs ASCII.
    return url.raw_host.decode("ascii").strip("[]")


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


async def _ask(
    httpx: Any, url: httpx.URL, addresses: list[Address], headers: dict[str, str], max_bytes: int
) -> Answer:
    failure: Exception | None = None
    for address in addresses[:_MAX_ATTEMPTS]:
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
    # DNS rebinding: connect to the checked address instead of resolving the name again.
    pinned = url.copy_with(host=str(address))
    extensions = {"sni_hostname": _host(url)} if url.scheme == "https" else {}
    # `netloc` is the name and, unless it is the default, the port.
    own = {**headers, "Host": url.netloc.decode("ascii")}
    # One connection for each request: a pooled one would be reused by address for another name.
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
        msg = f"{str(url)[:200]} is encoded as {encoding[:40]!r}, but only gzip was accepted"
        raise ToolError(msg, code="unsupported_content")
    body = bytearray()
    inflate = _Inflate() if "gzip" in encoding else None

    broken: list[str] = []

    def take(chunk: bytes) -> bool:
        # Decompression bomb: inflate at most one byte over the limit.
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
        msg = f"{str(url)[:200]} is not valid gzip: {broken[0]}"
        raise ToolError(msg, code="unsupported_content")
    if inflate is not None and not inflate.complete:
        msg = f"{str(url)[:200]} ended before the body was complete"
        raise ToolError(msg, code="unreachable", retryable=True)
    return bytes(body)


async def read_while(response: httpx.Response, take: Callable[[bytes], bool]) -> bool:
    """Pass the raw body to `take` in chunks; return False if `take` stopped it with False.

    The rest is abandoned by cancellation, which closes the nested generators of httpx; breaking
    the loop would leave them to the garbage collector.
    """
    enough = False
    with anyio.CancelScope() as scope:
        async for chunk in response.aiter_raw(_CHUNK_BYTES):
            if not enough and not take(chunk):
                enough = True
                scope.cancel()
    return not enough


class _Inflate:
    """A decompressor of gzip, also with several members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._started = False

    @property
    def complete(self) -> bool:
        """True at the end of a member, or before the first byte."""
        return self._member.eof or not self._started

    def feed(self, data: bytes, most: int) -> bytes:
        """Decompress `data` to at most `most` bytes and drop the rest."""
        out = bytearray()
        while data and len(out) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            self._started = True
            out += self._member.decompress(data, most - len(out))
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return bytes(out)


def _too_large(url: httpx.URL, max_bytes: int) -> ToolError:
    msg = f"{str(url)[:200]} is larger than {max_bytes:,} bytes, the limit of a fetch"
    return ToolError(msg, code="too_large", details={"max_bytes": max_bytes})
