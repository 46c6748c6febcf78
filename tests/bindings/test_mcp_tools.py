"""Tools of MCP servers: over stdio and HTTP, against real servers of the SDK."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc import BlockingSession, Session, SetupError, UsageError
from ptc_bindings.mcp_tools import MCPServers

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

SERVER = Path(__file__).with_name("mcp_tool_server.py")
TOKEN = "token-0123456789abcdef"


def entry(calls: Path, *args: str) -> dict[str, Any]:
    env = {"API_TOKEN": TOKEN, "CALLS_FILE": str(calls)}
    return {"command": sys.executable, "args": [str(SERVER), *args], "env": env}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which the server records some calls."""
    return tmp_path_factory.mktemp("calls") / "calls.txt"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, calls: Path) -> Iterator[BlockingSession]:
    """A session with one server over stdio, which all tests share."""
    servers = MCPServers({"mcpServers": {"tests": entry(calls)}})
    root = tmp_path_factory.mktemp("root")
    with BlockingSession(root, tools=[servers], toolsets=(), journal=":memory:") as opened:
        yield opened


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def recorded(calls: Path) -> list[str]:
    return calls.read_text().splitlines() if calls.exists() else []


VALUES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "a scalar": ("add", {"a": 1, "b": 2}, 3),
    "an object with a schema": (
        "get_issue",
        {"number": 7, "labels": [{"name": "bug"}]},
        {"number": 7, "labels": [{"name": "bug", "color": "red"}]},
    ),
    "text that is JSON": ("text", {"kind": "json"}, {"rows": [1, 2]}),
    "text that is a number": ("text", {"kind": "plain"}, "42"),
    "text that only starts like JSON": ("text", {"kind": "broken"}, '{"a": '),
}


@pytest.mark.parametrize("case", VALUES)
def test_results_are_data(case: str, session: BlockingSession) -> None:
    name, arguments, expected = VALUES[case]
    assert session.tool(f"tests.{name}", arguments).unwrap() == expected


def test_script_calls_tools_in_the_namespace_of_their_server(session: BlockingSession) -> None:
    source = """
async def run(ctx, inputs):
    issue = await ctx.tests.get_issue(number=await ctx.tests.add(a=1, b=2), labels=[{"name": "x"}])
    return [issue.number, issue.labels[0].color]
"""
    result = session.program(source=source)
    assert (result.status, result.value) == ("completed", [3, "red"])
    stubs = session.describe_tools(["tests.get_issue"])
    assert 'color: Literal["red", "blue"] = "red"' in stubs
    assert "-> TestsGetIssueResult" in stubs


def test_binary_content_is_an_attachment_with_a_handle(session: BlockingSession) -> None:
    result = session.tool("tests.several")
    text, picture = result.unwrap()
    assert text == "a"
    (stored,) = result.attachments
    assert isinstance(stored, ptc.AttachmentRef)
    assert (picture["attachment"], picture["mime_type"]) == (stored.id, "image/png")
    assert Path(stored.path).read_bytes() == b"not looked at"


def test_reported_failure_is_a_tool_error_without_secrets(session: BlockingSession) -> None:
    error = session.tool("tests.fail").error
    assert error is not None
    assert error.message.startswith("MCP server 'tests': no such[31m row")
    assert TOKEN not in error.message


def test_effects_follow_annotations_and_fail_closed(session: BlockingSession) -> None:
    tools = {
        name.removeprefix("tests."): tool
        for name, tool in session._session.select_tools(["tests"]).items()
    }
    effects = {name: (tool.side_effect, tool.idempotent) for name, tool in tools.items()}
    assert effects["add"] == (False, True)
    assert effects["create_issue"] == (True, False)
    assert effects["put"] == (True, True)
    assert effects["contradict"] == (True, False)
    source = "async def run(ctx, inputs):\n    return await ctx.tests.create_issue(title='t')\n"
    assert session.program(source=source).status != "completed"
    allowed = session.program(source=source, allowed_tools=["tests.create_issue"])
    assert allowed.value == "t"


def test_process_has_only_the_named_variables(
    session: BlockingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = session.tool("tests.environment").unwrap()
    assert {"API_TOKEN", "CALLS_FILE"} <= set(names)
    harmless = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM"}
    assert set(names) - {"API_TOKEN", "CALLS_FILE"} <= harmless | {"TMPDIR", "TZ", "USER"}


def test_invalid_arguments_are_rejected_before_the_server_sees_them(
    session: BlockingSession,
) -> None:
    error = session.tool("tests.add", {"a": "1", "b": 2}).error
    assert error is not None
    assert error.code == "invalid_arguments"


@pytest.mark.slow
def test_progress_is_reported_and_cancellation_reaches_the_server(
    session: BlockingSession, calls: Path
) -> None:
    seen: list[Any] = []

    def collect(event: ptc.RunEvent) -> None:
        seen.append(event)

    source = "async def run(ctx, inputs):\n    return await ctx.tests.slow()\n"
    before = len(recorded(calls))
    result = session.program(source=source, limits={"timeout_ms": 3_000}, on_event=collect)
    assert result.status == "timed_out"
    assert [event.value for event in seen if event.kind == "progress"] == [
        {"done": 1.0, "total": 3.0, "message": "one of three"}
    ]
    wait_for(lambda: "slow cancelled" in recorded(calls)[before:])


def test_call_under_way_when_the_server_dies_is_not_repeated(
    session: BlockingSession, calls: Path
) -> None:
    before = recorded(calls).count("die")
    error = session.tool("tests.die").error
    assert error is not None
    assert error.code == "connection_lost"
    assert "unknown whether" in error.message
    # The next call starts the server again.
    assert session.tool("tests.add", {"a": 2, "b": 2}).unwrap() == 4
    assert recorded(calls).count("die") == before + 1


def test_server_that_does_not_start_is_reported_with_its_standard_error(tmp_path: Path) -> None:
    broken = {"mcpServers": {"bad": entry(tmp_path / "c", "--broken"), "gone": {"command": "nope"}}}
    session = BlockingSession(tmp_path, tools=[MCPServers(broken)], journal=":memory:")
    with pytest.raises(SetupError) as caught, session:
        pass
    message = str(caught.value)
    assert f"MCP server 'bad' (command {sys.executable!r}) does not work: " in message
    assert "cannot[2J start with [secret API_TOKEN]" in message
    assert "MCP server 'gone' (command 'nope') does not work: the command or its folder" in message


def test_no_process_or_thread_is_left(tmp_path: Path) -> None:
    threads = threading.active_count()
    code = (
        f"import os, runpy, sys; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()));"
        f"sys.argv = ['server']; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
    )
    servers = MCPServers({"here": {"command": sys.executable, "args": ["-c", code]}})
    with BlockingSession(tmp_path, tools=[servers], toolsets=(), journal=":memory:") as session:
        assert session.knows_all_tools
        assert "here.add" in session.tool_names()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    wait_for(lambda: threading.active_count() <= threads)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_allow_list_and_limits_are_checked_when_the_tools_are_known(tmp_path: Path) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("own")
    server.tool()(_ping)

    def create(**options: Any) -> Session:
        tools: list[Any] = [server]  # the same as MCPServers({"own": server})
        return Session(tmp_path, tools=tools, toolsets=(), journal=":memory:", **options)

    async with create(allowed_tools=["own.ping"]) as session:
        assert list(session.select_tools()) == ["own.ping"]
        assert await session.tool("own.ping", {}) is not None
    for wrong in (
        {"allowed_tools": ["own.pong"]},
        {"limits": ptc.Limits(max_calls_by_tool={"x": 1})},
    ):
        with pytest.raises(UsageError, match=r"own\.pong|'x'"):
            async with create(**wrong):
                pass


def _ping() -> str:
    """Answer."""
    return "pong"


# --- HTTP ----------------------------------------------------------------------------------------


@pytest.fixture
def http_server(unused_port: int) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A function that starts the server on a loopback port, and waits for it."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, SERVER, "--http", str(unused_port)])
        started.append(process)
        wait_for(lambda: is_listening(unused_port))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_listening(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.slow
def test_http_server_is_used_and_found_again_after_its_restart(
    http_server: Callable[[], subprocess.Popen[bytes]], unused_port: int, tmp_path: Path
) -> None:
    process = http_server()
    url = f"http://127.0.0.1:{unused_port}/mcp"
    servers = MCPServers({"web": {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}}})
    with BlockingSession(tmp_path, tools=[servers], toolsets=(), journal=":memory:") as session:
        assert session.tool("web.add", {"a": 1, "b": 2}).unwrap() == 3
        process.kill()
        process.wait()
        error = session.tool("web.create_issue", {"title": "t"}).error
        assert error is not None
        assert error.code == "unavailable", error
        assert "was not made" in error.message
        http_server()
        wait_for(lambda: session.tool("web.add", {"a": 1, "b": 2}).ok)


# --- addresses -----------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "no table": ([], "there is no table"),
    "neither command nor url": ({"a": {}}, "mcp_servers.a: needs either `command`"),
    "both": ({"a": {"command": "x", "url": "https://x"}}, "needs either `command`"),
    "args as text": ({"a": {"command": "x", "args": "-v"}}, "args must be a list"),
    "number in env": ({"a": {"command": "x", "env": {"A": 1}}}, "env must be a table"),
    "reserved namespace": ({"log": {"command": "x"}}, "choose another name"),
    "same namespace": ({"a-b": {"command": "x"}, "a_b": {"command": "x"}}, "same namespace"),
    "http elsewhere": ({"a": {"url": "http://example.com"}}, "not a loopback address"),
    "password": ({"a": {"url": "https://u:p@example.com"}}, "must not hold a password"),
    "sse": ({"a": {"url": "https://x", "type": "sse"}}, "streamable HTTP"),
    "unset variable": ({"a": {"command": "${PTC_NOT_SET}"}}, "PTC_NOT_SET is not set"),
    "unknown variable": ({"a": {"command": "${input:key}"}}, "is not a variable"),
    "text": ({"a": "npx"}, "must be a table"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_server_is_an_error(case: str) -> None:
    block, message = WRONG[case]
    with pytest.raises(UsageError) as caught:
        MCPServers(block)
    assert message in str(caught.value)


def test_file_of_another_client_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    (tmp_path / "mcp.json").write_text(
        """{"mcpServers": {
            "shop": {"type": "http", "url": "https://shop.example/${PART:-mcp}",
                     "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}, "autoApprove": ["x"]},
            "off": {"command": "x", "disabled": true},
            "my-files": {"command": "x", "args": ["${env:SHOP_TOKEN}"], "cwd": "sub"}}}"""
    )
    servers = MCPServers.from_file(tmp_path / "mcp.json")
    shop, files = servers._specs
    assert shop.url == "https://shop.example/mcp"
    assert shop.headers["Authorization"] == f"Bearer {TOKEN}"
    assert (files.namespace, files.cwd) == ("my_files", tmp_path / "sub")
    assert TOKEN not in repr(servers._specs) + servers.name
