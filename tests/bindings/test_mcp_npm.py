"""The number of characters that a model reads, through clients by other authors.

Run with ``-s`` to see the numbers. The tests do not install the npm packages (tests/README.md).
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

from .http_server import HttpServer, headers_of, http_server
from .mcp_client import over_pipes, script, server_command
from .npm_clients import Client, Name, Reply, Target, connect, node_script, require_npm

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SUCCESS_CHARS = 40
FAILURE_CHARS = 1_500
PREVIEW_CHARS = 4_600

TOOLS = '''
from ptc import ImageContent, ToolError, ToolResult, tool


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail(text: str) -> None:
    """Fail with a message."""
    raise ToolError(text, code="gone")


@tool
async def rows(count: int) -> list[str]:
    """List rows."""
    return [f"row {n} é" for n in range(count)]


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


@tool
async def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@tool
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
async def test_image_content() -> ToolResult:
    """Return an image."""
    return ToolResult.success(None, text="red", content=[ImageContent("iVBORw==", "image/png")])


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def test_elicitation(message: str) -> str:
    """Return the message that a person approved."""
    return message
'''
ALLOWED = "add,fail,rows,pay"

SIXTY_CALLS = script("return sum(await asyncio.gather(*(ctx.add(n) for n in range(60))))")
PAY = script("return await ctx.pay(5)")

FAILURES: dict[str, tuple[str, dict[str, Any], str]] = {
    "exception after 30 calls": (
        "program",
        script("for n in range(30):\n    await ctx.add(n)\nraise KeyError('total')"),
        "total",
    ),
    "over a limit": (
        "program",
        script("for n in range(101):\n    await ctx.add(n)"),
        "max_tool_calls",
    ),
    "unknown tool": ("program", script("await ctx.ad(1)"), "did you mean add"),
    "bad argument": ("program", script("await ctx.add('x' * 9_000)"), "add"),
    "long traceback": (
        "program",
        script("def f(n):\n    return f(n - 1) if n else 1 / n\nreturn f(80)"),
        "division by zero",
    ),
    "long message": ("program", script("raise ValueError('é\"\\n' * 9_000)"), "é"),
    "long message of a tool": ("program", script("await ctx.fail('é\"\\n' * 9_000)"), "é"),
    "bad source": ("program", {"source": 5}, "source must be a string"),
    "unknown argument": ("program", {"source": "", '\x00"é\\' * 2_000: 1}, "unknown argument"),
    "direct call": ("fail", {"text": 'é"\n' * 9_000}, "gone"),
    "direct call, bad argument": ("add", {"a": 1, "é" * 9_000: 1}, "add"),
}
FEW = ("long traceback",)
"""Failures for a client that is a process for each request."""


@pytest.fixture(scope="module")
def npm() -> Path:
    return require_npm()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("npm") / "workspace"
    root.mkdir()
    (root / "tools.py").write_text(TOOLS)
    return root


def options(root: Path, allowed: str) -> tuple[str, ...]:
    tools = str(root / "tools.py")
    return ("--tools", tools, "--allow", allowed, "--direct-tools", "--max-tool-calls", "100")


@pytest.fixture(scope="module")
def server(npm: Path, workspace: Path) -> Iterator[HttpServer]:
    with http_server(workspace, *options(workspace, ALLOWED), clients={"alice": ""}) as server:
        yield server


@pytest.fixture
def target(request: pytest.FixtureRequest, npm: Path, workspace: Path) -> Target:
    if request.param == "stdio":
        return Target(tuple(server_command(workspace, *options(workspace, ALLOWED))))
    server: HttpServer = request.getfixturevalue("server")
    return Target(url=server.url, headers=headers_of("alice"))


def count(reply: Reply) -> tuple[int, int]:
    """Count the characters that a client shows, as structured content and as text."""
    if "error" in reply:
        return 0, len(reply["error"]["message"])
    result = reply["result"]
    data = result.get("structuredContent")
    structured = 0 if data is None else len(json.dumps(data, ensure_ascii=False))
    return structured, sum(len(part.get("text", "")) for part in result["content"])


def show(row: str) -> None:
    print(row)  # noqa: T201  # a report


@dataclass(frozen=True)
class Measurement:
    """Checks the size of what one client shows, and prints it."""

    client: Client
    title: str

    async def call(self, case: str, tool: str, arguments: dict[str, Any], most: int) -> Reply:
        """Call a tool.

        Args:
            case: Name of the row.
            tool: The tool.
            arguments: Its arguments.
            most: Maximum characters, of structured content and of text.
        """
        reply = await self.client.request("tools/call", {"name": tool, "arguments": arguments})
        self.check(case, reply, most)
        return reply

    async def read(self, uri: str) -> str:
        reply = await self.client.request("resources/read", {"uri": uri})
        (contents,) = reply["result"]["contents"]
        assert contents["uri"] == uri
        return str(contents["text"])

    def check(self, case: str, reply: Reply, most: int) -> None:
        structured, text = count(reply)
        show(f"{self.title:16} {case:28} structured {structured:5,}  text {text:5,}")
        assert max(structured, text) <= most, (case, reply)


@over_pipes
@pytest.mark.parametrize("target", ["stdio", "http"], indirect=True)
@pytest.mark.parametrize("name", ["python", "sdk", "client", "inspector"])
async def test_model_reads_few_characters_through_every_client(
    name: Name, target: Target, npm: Path, tmp_path: Path
) -> None:
    async with connect(name, target, npm, tmp_path) as client:
        measured = Measurement(client, f"{name} {'http' if target.url else 'stdio'}")
        reply = await measured.call("60 calls", "program", SIXTY_CALLS, SUCCESS_CHARS)
        assert reply["result"]["structuredContent"] == {"value": 1_890}
        run_id = reply["result"]["_meta"]["ptc/run_id"]
        record = json.loads(await measured.read(f"ptc://runs/{run_id}"))
        assert len(record["calls"]) == 60

        for case in FEW if name == "inspector" else FAILURES:
            tool, arguments, part = FAILURES[case]
            reply = await measured.call(case, tool, arguments, FAILURE_CHARS)
            assert reply["result"]["isError"], (case, reply)
            assert part in reply["result"]["content"][0]["text"], (case, reply)

        result = (await measured.call("pause", "program", PAY, FAILURE_CHARS))["result"]
        assert not result.get("isError")
        assert result["structuredContent"]["status"] == "paused"
        for shown in (result["content"][0]["text"], result["structuredContent"]["next"]):
            assert "ptc approve" in shown
            assert "program_resume" in shown

        if name == "inspector" and not target.url:
            return  # each request starts a server: the other cases are those of HTTP
        tools = (await client.request("tools/list", {}))["result"]["tools"]
        show(f"{measured.title:16} tools/list {len(json.dumps(tools, ensure_ascii=False)):,}")
        assert len(tools) == 4 + len(ALLOWED.split(","))
        reply = await measured.call("large value", "rows", {"count": 9_000}, PREVIEW_CHARS)
        preview = reply["result"]["structuredContent"]
        assert preview["uri"] in reply["result"]["content"][1]["text"]
        assert len(json.loads(await measured.read(preview["uri"]))) == 9_000

        if name == "inspector":
            return  # it looks the tool up in the list itself
        reply = await measured.call("no such tool", "x" * 9_000, {}, FAILURE_CHARS)
        assert "tools: program," in reply["error"]["message"]
        reply = await client.request("resources/read", {"uri": "ptc://runs/" + "x" * 9_000})
        measured.check("no such resource", reply, FAILURE_CHARS)


APPLICABLE = {
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-error",
    "tools-call-elicitation",
    "server-sse-multiple-streams",
    "resources-list",
    "dns-rebinding-protection",
}
"""Scenarios of the conformance suite for the parts of the protocol that the server has.

The others need a server with prompts, completions, sampling, log levels, subscriptions, audio, or
particular resources and forms.
"""


def test_conformance_suite_passes_for_the_parts_of_the_protocol_in_use(
    npm: Path, workspace: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    origin = f"http://127.0.0.1:{port}"
    names = "test_simple_text,test_error_handling,test_image_content,test_elicitation"
    # The suite sends the server's own address as origin, which only a page could do.
    start = (*options(workspace, names), "--http", f"127.0.0.1:{port}", "--allow-origin", origin)
    with http_server(workspace, *start, number=1) as server:
        done = subprocess.run(
            [
                *node_script(npm, "conformance"),
                *("server", "--url", server.url, "--suite", "all", "-o", str(tmp_path)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    show(summary)
    rows = re.findall(r"(\S) ([\w-]+): (\d+) passed, (\d+) failed", summary)
    passed = {name for _, name, good, bad in rows if int(good) and not int(bad)}
    assert passed >= APPLICABLE, done.stdout + done.stderr
