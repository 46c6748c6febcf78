"""`web_fetch` against a server on the loopback, and the addresses that it must refuse."""

from __future__ import annotations

import contextlib
import gzip
import io
import ipaddress
import socket
import ssl
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from ptc import ToolError, UsageError
from ptc_tools import builtin, web_fetch_tool
from ptc_tools.web._addresses import is_allowed, resolve

from ..conftest import Call
from .web_server import Request, Web, serve_web

pytestmark = pytest.mark.anyio

LOCAL = ("127.0.0.0/8",)
HTML = {"Content-Type": "text/html; charset=utf-8"}
FETCH = web_fetch_tool(allowed_networks=LOCAL, robots="ignore")


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as server:
        yield server


async def error_of(call: Call, tool: Any = FETCH, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(tool, **arguments)
    return caught.value


# --- results ----------------------------------------------------------------------------------

PAGE = """<!doctype html><html><head><title>A &amp; B</title><style>no{}</style>
<script>var no = "<p>";</script></head><body><h1>Head</h1><p>Some <b>bold</b>,
<em>it</em> and <code>x = 1</code> <a href="/to">link</a>.</p><ul><li>one<li>two
<ol><li>deep</ol></ul><pre>a
  b</pre><blockquote>said</blockquote><table><tr><th>k<th>v</tr><tr><td>1<td>a|b</tr></table>
<a href="javascript:evil()">js</a><img alt="pic" src="p.png"></body></html>"""


async def test_html_is_converted_to_markdown(call: Call, web: Web) -> None:
    web.routes["/"] = (200, HTML, PAGE.encode())
    page = await call(FETCH, url=web.url())
    assert (page.title, page.status, page.content_type) == ("A & B", 200, "text/html")
    assert page.text == (
        "# Head\n\nSome **bold**, *it* and `x = 1` [link](/to).\n\n- one\n- two\n  1. deep\n\n"
        "```\na\n  b\n```\n> said\n\n| k | v |\n| --- | --- |\n| 1 | a\\|b |\n\n"
        "[js]![pic](p.png)\n"
    )
    assert (page.offset, page.next_offset, page.total_chars) == (0, None, len(page.text))


async def test_html_is_converted_to_text_or_returned_unchanged(call: Call, web: Web) -> None:
    web.routes["/"] = (200, HTML, PAGE.encode())
    page = await call(FETCH, url=web.url(), format="text")
    assert "Head\n\nSome bold,\nit and x = 1 link." in page.text
    assert "no{}" not in page.text
    assert "var no" not in page.text
    assert (await call(FETCH, url=web.url(), format="html")).text == PAGE


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain", "plain é".encode(), "plain é"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json; charset=utf-8", b"{}", "{}"),
        ("text/plain; charset=iso-8859-1", b"caf\xe9 \x93q\x94", "café “q”"),
        ("text/plain; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
        ("text/plain; charset=unicode_escape", b"\\u0041", "\\u0041"),
        ("text/plain; charset=rot13", b"abc", "abc"),
        ("text/plain; charset=nonsense", b"abc", "abc"),
        ("text/plain", b"\xef\xbb\xbfbom", "bom"),
        ("text/plain", b"\xff\xfea\0", "a"),
        ("text/plain", b"bad \xff", "bad \ufffd"),
        ("", b"no type", "no type"),
    ],
)
async def test_text_is_decoded_by_its_declared_character_set(
    call: Call, web: Web, kind: str, body: bytes, text: str
) -> None:
    web.routes["/"] = (200, {"Content-Type": kind}, body)
    assert (await call(FETCH, url=web.url())).text == text


async def test_html_page_can_declare_its_character_set(call: Call, web: Web) -> None:
    body = '<html><meta charset="windows-1251"><p>да</p>'.encode("cp1251")
    web.routes["/"] = (200, {"Content-Type": "text/html"}, body)
    assert (await call(FETCH, url=web.url())).text == "да\n"


async def test_text_of_a_pdf_is_extracted(call: Call, web: Web) -> None:
    web.routes["/"] = (200, {"Content-Type": "application/pdf"}, _pdf("Hello from a PDF"))
    page = await call(FETCH, url=web.url())
    assert page.text.strip() == "Hello from a PDF"
    web.routes["/"] = (200, {"Content-Type": "application/pdf"}, b"%PDF-1.4 broken")
    assert (await error_of(call, url=web.url())).code == "unsupported_content"


def _pdf(text: str) -> bytes:
    stream = f"BT /F1 12 Tf 10 10 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out = io.BytesIO()
    out.write(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj%s\nendobj\n" % (number, content))
    table = out.tell()
    out.write(b"xref\n0 6\n0000000000 65535 f \n")
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % table)
    return out.getvalue()


async def test_content_that_is_not_text_is_reported_as_unsupported(call: Call, web: Web) -> None:
    web.routes["/"] = (200, {"Content-Type": "image/png"}, b"\x89PNG")
    error = await error_of(call, url=web.url())
    assert error.code == "unsupported_content"
    assert "image/png" in error.message


async def test_long_page_is_returned_in_contiguous_parts(call: Call, web: Web) -> None:
    whole = "".join(f"line {n}\n" for n in range(1000))
    web.routes["/"] = (200, {"Content-Type": "text/plain"}, whole.encode())
    text, offset, parts = "", 0, 0
    while offset is not None:
        page = await call(FETCH, url=web.url(), offset=offset, max_chars=3_000)
        assert page.total_chars == len(whole)
        text, offset, parts = text + page.text, page.next_offset, parts + 1
    assert (text, parts) == (whole, 3)
    assert FETCH.render is not None
    first = await call(FETCH, url=web.url(), max_chars=10)
    assert FETCH.render(first).endswith("[8,880 more characters; continue with offset=10]")


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (404, False), (429, True), (503, True)]
)
async def test_http_error_status_is_a_tool_error(
    call: Call, web: Web, status: int, retryable: bool
) -> None:
    web.routes["/"] = (status, {"Retry-After": "7"}, b"sorry")
    error = await error_of(call, url=web.url())
    assert (error.code, error.retryable) == ("http_error", retryable)
    assert error.details == {"status": status, "url": web.url(), "retry_after_s": 7}


async def test_request_reveals_nothing_about_the_host(
    call: Call, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    web.routes["/"] = (200, {"Set-Cookie": "a=b", "Content-Type": "text/plain"}, b"x")
    await call(FETCH, url=web.url())
    await call(FETCH, url=web.url("/?q#fragment"))
    for request in web.requests:
        assert request.headers.keys() == {
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
            "connection",
        }
        assert request.headers["user-agent"] == "ptc-web-fetch/0.1"
        assert request.headers["host"] == f"127.0.0.1:{web.port}"
    assert web.paths == ["/", "/?q"]


# --- limits -----------------------------------------------------------------------------------


async def test_a_page_over_the_limit_is_refused(call: Call, web: Web) -> None:
    tool = web_fetch_tool(allowed_networks=LOCAL, robots="ignore", max_bytes=1_000)
    plain = {"Content-Type": "text/plain"}
    web.routes["/at"] = (200, plain, b"x" * 1_000)
    web.routes["/over"] = (200, plain, b"x" * 1_001)
    # Without a length: the end of the connection ends the body.
    endless = {**plain, "Content-Length": "", "Connection": "close"}
    web.routes["/unsaid"] = (200, endless, b"x" * 100_000)
    assert (await call(tool, url=web.url("/at"))).total_chars == 1_000
    for path in ("/over", "/unsaid"):
        assert (await error_of(call, tool, url=web.url(path))).code == "too_large"


async def test_gzip_content_is_decompressed_and_validated(call: Call, web: Web) -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    web.routes["/"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, packed)
    assert (await call(FETCH, url=web.url())).text == "one two"
    for body, code in ((packed[:-5], "unreachable"), (b"no gzip", "unsupported_content")):
        web.routes["/"] = (200, {"Content-Encoding": "gzip"}, body)
        assert (await error_of(call, url=web.url())).code == code
    web.routes["/"] = (200, {"Content-Encoding": "br"}, b"x")
    assert (await error_of(call, url=web.url())).code == "unsupported_content"


@pytest.mark.slow
async def test_a_decompression_bomb_is_stopped_at_the_limit(call: Call, web: Web) -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(512)) + packer.flush()
    assert len(bomb) < 600_000
    web.routes["/"] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, bomb)
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (await error_of(call, url=web.url())).code == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


async def test_slow_server_is_abandoned_at_the_timeout(call: Call, web: Web) -> None:
    free = threading.Event()

    def slow(_: Request) -> tuple[int, dict[str, str], bytes]:
        free.wait(20)
        return 200, {}, b""

    web.routes["/"] = slow
    try:
        error = await error_of(call, url=web.url(), timeout_ms=200)
    finally:
        free.set()
    assert (error.code, error.retryable) == ("timeout", True)


async def test_slow_html_parsing_is_abandoned_at_the_timeout(
    call: Call, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ptc_tools.web._documents

    monkeypatch.setattr(ptc_tools.web._documents, "_TIMEOUT_MS", 500)
    # CVE-2025-6069: quadratic in versions before its fix, and merely long in others.
    web.routes["/"] = (200, HTML, b"<!doctype html>" + b"<a foo=bar<" * 400_000)
    seen = None
    with contextlib.suppress(ToolError):
        seen = await call(FETCH, url=web.url())
    # In time either way, and the next call succeeds.
    assert seen is None or seen.status == 200
    web.routes["/"] = (200, HTML, b"<p>next")
    monkeypatch.undo()
    assert (await call(FETCH, url=web.url())).text == "next\n"


@pytest.mark.parametrize("arguments", [
    {"url": ""}, {"url": "x" * 8_193}, {"max_chars": 0}, {"max_chars": 100_001}, {"offset": -1},
    {"timeout_ms": 0}, {"timeout_ms": 120_001}, {"format": "pdf"}, {"headers": {}},
])  # fmt: skip
async def test_web_fetch_refuses_arguments_out_of_range(
    call: Call, arguments: dict[str, Any]
) -> None:
    error = await error_of(call, **{"url": "http://example.org", **arguments})
    assert error.code == "invalid_arguments"


@pytest.mark.parametrize("options", [
    {"allowed_networks": ["nonsense"]}, {"allowed_networks": ["10.0.0.1/8"]}, {"max_bytes": 0},
    {"max_bytes": 60_000_000}, {"max_redirects": -1}, {"max_redirects": 21}, {"user_agent": ""},
    {"user_agent": "a\nb: c"}, {"robots": "maybe"}, {"confinement": "none"},
])  # fmt: skip
def test_invalid_web_fetch_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        web_fetch_tool(**options)


# --- redirects --------------------------------------------------------------------------------


async def test_redirects_are_followed_and_reported(call: Call, web: Web) -> None:
    web.routes["/"] = (301, {"Location": "/two"}, b"")
    web.routes["/two"] = (
        302,
        {"Location": web.url("/three", host="127.0.0.2").replace("127.0.0.2", "127.0.0.1")},
        b"",
    )
    web.routes["/three"] = (200, {"Content-Type": "text/plain"}, b"there")
    page = await call(FETCH, url=web.url())
    assert (page.text, page.url) == ("there", web.url("/three"))
    assert page.redirects == [web.url(), web.url("/two")]


async def test_too_many_redirects_are_an_error(call: Call, web: Web) -> None:
    web.routes["/"] = (302, {"Location": "/"}, b"")
    error = await error_of(call, url=web.url())
    assert error.code == "too_many_redirects"
    assert len(web.requests) == 6


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("http://127.0.0.1:{port}/secret", "address_refused"),
        ("http://localhost:{port}/secret", "address_refused"),
        ("//127.0.0.1:{port}/secret", "address_refused"),
        ("http://[::ffff:127.0.0.1]:{port}/secret", "address_refused"),
        ("http://2130706433:{port}/secret", "address_refused"),
        ("file:///etc/passwd", "invalid_url"),
        ("gopher://127.0.0.2/", "invalid_url"),
        ("http://user:pw@127.0.0.2:{port}/secret", "invalid_url"),
    ],
)
async def test_a_redirect_is_checked_like_the_first_request(
    call: Call, web: Web, target: str, code: str
) -> None:
    # Only this one address of the loopback is allowed; the server listens on the other.
    tool = web_fetch_tool(allowed_networks=["127.0.0.2/32"], robots="ignore")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.2", 0))
        server.listen()
        location = target.format(port=web.port)

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(10_000)
                client.sendall(
                    f"HTTP/1.1 302 x\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
                )

        thread = threading.Thread(target=answer)
        thread.start()
        error = await error_of(call, tool, url=f"http://127.0.0.2:{server.getsockname()[1]}/")
        thread.join()
    assert error.code == code
    assert web.requests == []


# --- addresses --------------------------------------------------------------------------------


NOT_PUBLIC = [
    "0.0.0.0",  # noqa: S104 - nothing is bound to it
    "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "127.0.0.1", "127.255.255.254",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1",
    "2002:7f00:1::", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
    "5f00::1", "fe80::1%lo", "2606:4700::1%eth0",
]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    NOT_PUBLIC,
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_allowed(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1",
     "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"],
)  # fmt: skip
def test_a_public_address_is_allowed(address: str) -> None:
    assert is_allowed(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
        "017700000001", "127.0.0.1.", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]", "169.254.169.254", "[fe80::1%25lo]", "127.0.0.1%00.example.org",
        "①②⑦.⓪.⓪.①", "127。0。0。1", "ⓛocalhost",
    ],
)  # fmt: skip
async def test_no_spelling_of_the_loopback_is_fetched(call: Call, web: Web, host: str) -> None:
    tool = web_fetch_tool(robots="ignore")
    error = await error_of(call, tool, url=f"http://{host}:{web.port}/")
    assert error.code in {"address_refused", "invalid_url", "not_found"}
    assert web.requests == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://example.org/", "example.org", "http:///x", "http://a b/",
     "http://a\nb/", "javascript:1", "data:text/plain,x", "http://u:p@example.org/", "http://x:99999/",
     "unix:///run/x", "HTTP+UNIX://x/"],
)  # fmt: skip
async def test_invalid_web_url_is_refused(call: Call, url: str) -> None:
    assert (await error_of(call, url=url)).code == "invalid_url"


def _answers(*addresses: str) -> Any:
    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in addresses]

    return getaddrinfo


async def test_dns_rebinding_cannot_change_the_checked_address(
    call: Call, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replace the name server, which a test cannot provide."""
    asked = 0

    async def rebinding(host: str, port: int, **_: Any) -> list[Any]:
        nonlocal asked
        asked += 1
        address = "127.0.0.3" if asked == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(anyio, "getaddrinfo", rebinding)
    tool = web_fetch_tool(allowed_networks=["127.0.0.3/32"], robots="ignore")
    error = await error_of(call, tool, url=f"http://rebind.example:{web.port}/")
    # It connected to the checked address, where no server listens, and resolved the name once.
    assert error.code == "unreachable"
    assert asked == 1
    assert web.requests == []


async def test_host_header_has_the_name_although_the_address_is_pinned(
    call: Call, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anyio, "getaddrinfo", _answers("127.0.0.1"))
    web.routes["/"] = (200, {"Content-Type": "text/plain"}, b"x")
    page = await call(FETCH, url=f"http://pinned.example:{web.port}/")
    assert page.url == f"http://pinned.example:{web.port}/"
    assert web.requests[0].headers["host"] == f"pinned.example:{web.port}"


async def test_tls_handshake_uses_the_name_although_the_address_is_pinned(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anyio, "getaddrinfo", _answers("127.0.0.1"))
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)

    def answer(server: socket.socket) -> None:
        client, _ = server.accept()
        # The server has no certificate: the handshake ends after the name was sent.
        with client, contextlib.suppress(OSError):
            context.wrap_socket(client, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=[server])
        thread.start()
        port = server.getsockname()[1]
        error = await error_of(call, url=f"https://named.example:{port}/")
        thread.join()
    assert error.code == "unreachable"
    assert asked == ["named.example"]


async def test_name_with_any_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anyio, "getaddrinfo", _answers("1.1.1.1", "10.0.0.1"))
    with pytest.raises(ToolError) as caught:
        await resolve("mixed.example", 80)
    assert caught.value.code == "address_refused"
    monkeypatch.setattr(anyio, "getaddrinfo", _answers("1.1.1.1", "8.8.8.8"))
    assert [str(a) for a in await resolve("fine.example", 80)] == ["1.1.1.1", "8.8.8.8"]


async def test_refusal_does_not_reveal_the_resolved_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anyio, "getaddrinfo", _answers("10.11.12.13"))
    with pytest.raises(ToolError) as caught:
        await resolve("internal.example", 80)
    assert "10.11" not in caught.value.message + str(caught.value.details)


# --- robots -----------------------------------------------------------------------------------


async def test_page_disallowed_by_robots_txt_is_not_fetched(call: Call, web: Web) -> None:
    tool = web_fetch_tool(allowed_networks=LOCAL)
    web.routes["/robots.txt"] = (200, {}, b"User-agent: ptc-web-fetch\nDisallow: /private\n")
    web.routes["/private/x"] = web.routes["/public"] = (200, {"Content-Type": "text/plain"}, b"x")
    assert (await call(tool, url=web.url("/public"))).text == "x"
    assert (await error_of(call, tool, url=web.url("/private/x"))).code == "robots"
    assert web.paths == ["/robots.txt", "/public"]


@pytest.mark.parametrize(("status", "fetched"), [(404, True), (403, True), (500, False)])
async def test_robots_txt_error_status_allows_or_blocks_fetching(
    call: Call, web: Web, status: int, fetched: bool
) -> None:
    tool = web_fetch_tool(allowed_networks=LOCAL)
    web.routes["/robots.txt"] = (status, {}, b"User-agent: *\nDisallow: /\n")
    web.routes["/"] = (200, {"Content-Type": "text/plain"}, b"x")
    if fetched:
        await call(tool, url=web.url())
    else:
        assert (await error_of(call, tool, url=web.url())).code == "robots"


# --- in a session -----------------------------------------------------------------------------


def test_web_tools_are_offered_only_with_the_network_enabled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SEARXNG_URL", "BRAVE_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    names = [tool.name for tool in builtin()]
    assert "web_fetch" not in names
    assert "web_search" not in names
    assert [tool.name for tool in builtin(network=True)] == [*names, "web_fetch"]
    monkeypatch.setenv("BRAVE_API_KEY", "key")
    assert [tool.name for tool in builtin(network=True)] == [*names, "web_fetch", "web_search"]
    assert [tool.name for tool in builtin()] == names
