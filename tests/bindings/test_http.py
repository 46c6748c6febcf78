"""``ptc mcp --http``: a real server, real clients, and hostile ones on raw sockets."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import httpx2

from .http_server import (
    HttpServer,
    ask,
    bearer,
    connect,
    head,
    headers_of,
    http_server,
    open_session,
    parse,
    raw,
    read_all,
    rpc,
    token_of,
)
from .mcp_client import COUNT, SECONDS, over_pipes, script, texts

pytestmark = pytest.mark.anyio

MAX_CONNECTIONS = 60
SHORT = 0.5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server with short deadlines; its clients have two calls at once, and two seconds each."""
    root = tmp_path_factory.mktemp("http") / "workspace"
    root.mkdir()
    (root / "a.py").write_text("x = 1  # TODO one\n")
    (root / "b.py").write_text("y = 2\nz = 3  # TODO two\n")
    more = "max_concurrent_calls = 2\n"
    names: list[str] = ["alice", "bob", "carol", "dave"]
    clients: dict[str, str] = dict.fromkeys(names, more)
    constants = {
        "_http_connections._HEAD_SECONDS": SHORT,
        "_http_connections._WRITE_SECONDS": SHORT,
        "_http_connections._MAX_CONNECTIONS": MAX_CONNECTIONS,
        "_http_gate._BODY_SECONDS": 3 * SHORT,
        "_http_gate._MAX_BODY_BYTES_OF_CLIENT": 5_000_000,
    }
    options = ["--timeout-ms", "2000", "--allow-origin", "https://app.example"]
    with http_server(root, *options, clients=clients, constants=constants) as found:
        yield found


@pytest.fixture
def patient_server(tmp_path: Path) -> Iterator[HttpServer]:
    """A server that waits for a slow body for as long as a test may last."""
    constants = {
        "_http_gate._BODY_SECONDS": SECONDS,
        "_http_gate._MAX_BODY_BYTES_OF_CLIENT": 5_000_000,
    }
    with http_server(tmp_path, clients={"bob": "", "dave": ""}, constants=constants) as found:
        yield found


def initialize_head(server: HttpServer, *lines: str) -> bytes:
    return head(server, bearer("alice"), "Content-Type: application/json", *lines)


def is_busy(result: Any) -> bool:
    content = result.structured_content or {}
    return bool(content.get("error", {}).get("code") == "busy")


# --- service ------------------------------------------------------------------------------------


@over_pipes
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_client_runs_a_script_over_http(
    server: HttpServer, mode: Literal["auto", "legacy"]
) -> None:
    async with connect(server, "alice", mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("program", {"source": COUNT, "inputs": {"query": "TODO"}})
    own = ["program", "program_log", "program_status", "program_resume"]
    assert names == [*own, "get_tool_response"]
    assert not result.is_error
    assert result.structured_content["value"]["files"] == ["a.py", "b.py"]


@pytest.mark.slow
@over_pipes
async def test_call_over_the_clients_bound_is_refused_at_once(server: HttpServer) -> None:
    async with connect(server, "alice") as alice, connect(server, "bob") as bob:
        results: list[Any] = []
        refused = other = None

        async def run(body: str) -> None:
            result = None
            # The calls below may hold a slot when this one arrives.
            while result is None or is_busy(result):
                result = await alice.call_tool("program", script(body))
            results.append(result)

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(run, "await asyncio.sleep(600)")
            refused = await alice.call_tool("program", script("return 1"))
            # The calls above have no order relative to these: try until both hold their slots.
            while not is_busy(refused):
                refused = await alice.call_tool("program", script("return 1"))
            assert not results
            other = await bob.call_tool("program", script("return 1"))
        after = await alice.call_tool("program", script("return 1"))
    assert refused is not None
    assert other is not None
    assert "2 calls of this client are in progress" in texts(refused)[0]
    assert other.structured_content == {"value": 1}
    assert [r.structured_content["status"] for r in results] == ["timed_out"] * 2
    assert after.structured_content == {"value": 1}


@pytest.mark.slow
@over_pipes
async def test_disconnected_call_still_counts_against_its_client(server: HttpServer) -> None:
    """A client of the older protocol that calls and hangs up has not cancelled its script."""
    call = rpc("tools/call", {"name": "program", "arguments": script("await asyncio.sleep(600)")})
    with anyio.fail_after(SECONDS):
        async with httpx2.AsyncClient(headers=headers_of("carol")) as http:
            named = await open_session(http, server)
            for number in (1, 2):
                request = {**call, "id": number}
                async with http.stream("POST", server.url, json=request, headers=named) as answer:
                    assert answer.status_code == 200
        async with connect(server, "carol") as client:
            refused = await client.call_tool("program_log", {})
            assert is_busy(refused)
            # Until the scripts have timed out.
            while is_busy(await client.call_tool("program_log", {})):
                await anyio.lowlevel.checkpoint()


# --- hostile requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (None, 401),
        (f"Authorization: Bearer {token_of('mallory')}", 401),
        (f"Authorization: Basic {token_of('alice')}", 401),
        (f"Authorization: {token_of('alice')}", 401),
        (f"Authorization: Bearer {token_of('alice')[:-1]}", 401),
        (f"Authorization: Bearer {token_of('alice')} {token_of('alice')}", 401),
        ("Authorization: Bearer ", 401),
        ("Authorization: Bearer \u00e9\u00ff", 401),
        (f"X-Token: {token_of('alice')}", 401),
        (f"Authorization: Bearer {token_of('alice')}\r\nAuthorization: Bearer x", 400),
    ],
)
def test_request_without_a_valid_token_is_refused(
    server: HttpServer, line: str | None, status: int
) -> None:
    # The body never comes: the answer must not wait for it.
    lines = ["Content-Type: application/json", "Content-Length: 4000000"]
    answer = ask(server, head(server, *lines, *([line] if line else [])))
    assert answer.status == status
    assert answer.headers["connection"] == "close"
    assert answer.headers.get("www-authenticate", "").startswith("Bearer") == (status == 401)
    assert "alice" not in answer.message


def test_token_in_the_address_is_not_accepted(server: HttpServer) -> None:
    data = head(server).replace(b"/mcp", f"/mcp?access_token={token_of('alice')}".encode(), 1)
    assert ask(server, data).status == 401


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example", None, 421),
        ("evil.example:{port}", None, 421),
        ("127.0.0.1:{port}.evil.example", None, 421),
        ("127.0.0.1", None, 421),
        ("127.0.0.1:1", None, 421),
        ("127.0.0.1:{port}@evil.example", None, 421),
        ("", None, 421),
        ("127.0.0.1:{port}", "https://evil.example", 403),
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 403),
        ("127.0.0.1:{port}", "null", 403),
        ("127.0.0.1:{port}", "https://app.example.evil.example", 403),
        ("127.0.0.1:{port}\r\nHost: evil.example", None, 400),
    ],
)
def test_foreign_host_or_origin_is_refused(
    server: HttpServer, host: str, origin: str | None, status: int
) -> None:
    lines = [bearer("alice"), "Content-Length: 0"]
    if origin is not None:
        lines.append("Origin: " + origin.format(port=server.port))
    answer = ask(server, head(server, *lines, host=host.format(port=server.port)))
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("name", ["LOCALHOST", "localhost", "127.0.0.1", "[::1]"])
def test_names_of_loopback_are_accepted(server: HttpServer, name: str) -> None:
    data = head(server, bearer("alice"), method="PUT", host=f"{name}:{server.port}")
    assert ask(server, data).status == 405


def test_allowed_origin_may_read_answers(server: HttpServer) -> None:
    origin = "Origin: https://app.example"
    preflight = ask(server, head(server, origin, "Connection: close", method="OPTIONS"))
    assert preflight.status == 204
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    refused = ask(server, head(server, origin, "Content-Length: 0"))
    assert refused.status == 401
    for answer in (preflight, refused):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_other_paths_do_not_exist(server: HttpServer) -> None:
    data = head(server, bearer("alice")).replace(b"/mcp", b"/mcp/../etc/passwd", 1)
    assert ask(server, data).status == 404
    assert ask(server, head(server).replace(b"/mcp", b"/other", 1)).status == 401


def test_body_over_the_bound_is_refused(server: HttpServer) -> None:
    declared = ask(server, initialize_head(server, "Content-Length: 4194305"))
    assert (declared.status, "4,194,304 bytes" in declared.message) == (413, True)
    with raw(server) as opened:
        opened.sendall(initialize_head(server, "Transfer-Encoding: chunked"))
        piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        try:
            for _ in range(70):
                opened.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        data = read_all(opened)
    # The answer may be lost with the connection, which the server closes with unread data.
    assert not data or parse(data).status == 413


def test_large_bodies_of_one_client_leave_room_for_others(patient_server: HttpServer) -> None:
    server = patient_server
    lines = ["Content-Type: application/json", "Connection: close"]
    held = [*lines, "Content-Length: 3000000"]
    # The last byte is the one too many: the server has read all when it answers. Otherwise the
    # connection is reset, and the answer may be lost.
    more = [*lines, "Content-Length: 2000002"]
    refused, other = None, 0
    started = time.monotonic()
    while refused is None and time.monotonic() - started < SECONDS:
        with raw(server) as opened:
            opened.sendall(head(server, bearer("bob"), *held) + b" " * 2_999_999)
            # The server reads from its connections in turn: it may not have read the first one yet,
            # or may refuse that one, since another holds more at this moment.
            for _ in range(10):
                answer = ask(server, head(server, bearer("bob"), *more) + b" " * 2_000_002)
                if answer.status == 429:
                    refused = answer
                    other = ask(
                        server, head(server, bearer("dave"), *more) + b" " * 2_000_002
                    ).status
                    break
    assert refused is not None
    assert "this client has too many large requests open" in refused.message
    assert other == 400


def test_body_of_many_containers_is_refused_before_it_is_parsed(server: HttpServer) -> None:
    body = b"[" + b"[]," * 250_000 + b"[]]"
    answer = ask(server, initialize_head(server, f"Content-Length: {len(body)}") + body)
    assert (answer.status, "250,000 lists and objects" in answer.message) == (413, True)


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b"{}", b"[" * 100_000, b'"\xff"'])
def test_body_that_is_no_message_is_refused(server: HttpServer, body: bytes) -> None:
    lines = [f"Content-Length: {len(body)}", "Connection: close"]
    assert ask(server, initialize_head(server, *lines) + body).status == 400


def test_smuggled_second_request_is_not_served(server: HttpServer) -> None:
    """Two lengths: a proxy that follows the other one would see another request."""
    lines = ["Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close"]
    inner = head(server, bearer("alice"), method="DELETE")
    answers = ask(server, initialize_head(server, *lines) + b"0\r\n\r\n" + inner)
    assert b"HTTP/1.1" not in answers.body
    assert (
        ask(server, initialize_head(server, "Content-Length: 1", "Content-Length: 2")).status == 400
    )


@pytest.mark.parametrize(
    "data", [b"", b"POST /m", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\n"]
)
def test_slow_request_is_ended(server: HttpServer, data: bytes) -> None:
    with raw(server) as opened:
        opened.sendall(data)
        answer = read_all(opened)
    assert not answer or parse(answer).status == 400


def test_slow_head_is_ended_however_often_a_byte_arrives(server: HttpServer) -> None:
    with raw(server) as opened:
        opened.sendall(b"POST /mcp HTTP/1.1\r\n")
        started = time.monotonic()
        opened.settimeout(SHORT / 10)
        ended = False
        while not ended and time.monotonic() - started < SECONDS:
            try:
                opened.sendall(b"X: y\r\n")
                ended = opened.recv(100) == b""
            except (BrokenPipeError, ConnectionResetError):
                ended = True
            except TimeoutError:
                continue
    assert ended


@pytest.mark.slow
def test_slow_body_is_ended_however_often_a_byte_arrives(server: HttpServer) -> None:
    data = b""
    with raw(server) as opened:
        opened.sendall(initialize_head(server, "Content-Length: 1000"))
        started = time.monotonic()
        opened.settimeout(SHORT / 10)
        while not data and time.monotonic() - started < SECONDS:
            opened.sendall(b" ")
            try:
                data = opened.recv(10_000)
            except TimeoutError:
                continue
    assert parse(data).status == 408


async def session_head(server: HttpServer, message: dict[str, Any]) -> bytes:
    """Open a session, and return a request in it."""
    async with httpx2.AsyncClient(headers=headers_of("alice")) as http:
        named = await open_session(http, server)
    body = json.dumps(message).encode()
    lines = [f"{name}: {value}" for name, value in named.items() if name != "accept"]
    return initialize_head(server, f"Content-Length: {len(body)}", *lines) + body


@over_pipes
async def test_flood_behind_a_request_ends_the_connection(server: HttpServer) -> None:
    call = {"name": "program", "arguments": script("await asyncio.sleep(600)")}
    request = await session_head(server, rpc("tools/call", call))
    with raw(server) as opened, pytest.raises((BrokenPipeError, ConnectionResetError)):
        # Far more than the kernel stores.
        opened.sendall(request + b" " * 50_000_000)


@over_pipes
async def test_client_that_does_not_read_its_answer_is_disconnected(server: HttpServer) -> None:
    async with connect(server, "alice") as client:
        result = None
        # The script of the test before this one may still hold a slot.
        while result is None or is_busy(result):
            result = await client.call_tool("program", script("return 'x' * 12_000_000"))
    uri = result.structured_content["truncated"]["uri"]
    request = await session_head(server, rpc("resources/read", {"uri": uri}))
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        opened.connect(("127.0.0.1", server.port))
        opened.sendall(request)
        ended = select.poll()
        ended.register(opened, 0)
        assert await anyio.to_thread.run_sync(ended.poll, SECONDS * 1_000)


@over_pipes
async def test_idle_connections_do_not_lock_others_out(server: HttpServer) -> None:
    idle = [
        socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * MAX_CONNECTIONS)
    ]
    try:
        async with connect(server, "dave") as client:
            result = await client.call_tool("program", script("return 1"))
    finally:
        for each in idle:
            each.close()
    assert result.structured_content == {"value": 1}


def test_requests_of_a_client_are_bounded(server: HttpServer) -> None:
    """Four for each call and sixteen more."""
    ping = initialize_head(server, "Content-Length: 10", "Connection: close")
    with ExitStack() as stack:
        for _ in range(4 * 2 + 16):
            stack.enter_context(raw(server)).sendall(ping)
        # The server reads from all of its connections in turn.
        answers = [ask(server, ping + b" " * 10) for _ in range(3)]
        other = ask(server, ping.replace(b"alice", b"bob") + b" " * 10)
    refused = answers[-1]
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "24 requests of this client are in progress" in refused.message
    assert other.status == 400
