"""An MCP server of the SDK with tools of every kind: over stdio, or HTTP on a loopback port."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("tests")
log = Path(os.environ.get("CALLS_FILE", os.devnull))


class Label(BaseModel):
    name: str
    color: Literal["red", "blue"] = "red"


class Issue(BaseModel):
    number: int
    labels: list[Label]


def note(text: str) -> None:
    """Record that a call arrived, in a file that outlives this process."""
    with log.open("a") as file:
        file.write(f"{text}\n")


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=READS)
def get_issue(number: int, labels: list[Label]) -> Issue:
    """Return an issue."""
    return Issue(number=number, labels=labels)


@server.tool(annotations=READS, structured_output=False)
def text(kind: str) -> str:
    """Return text."""
    texts = {"json": json.dumps({"rows": [1, 2]}), "plain": "42", "broken": '{"a": '}
    return texts[kind]


@server.tool(annotations=READS)
def picture() -> Image:
    """Return a picture."""
    return Image(data=base64.b64decode("iVBORw0KGgo="), format="png")


@server.tool(annotations=READS, structured_output=False)
def several() -> CallToolResult:
    """Return two parts."""
    data = base64.b64encode(b"not looked at").decode()
    return CallToolResult(
        content=[
            TextContent(type="text", text="a"),
            ImageContent(type="image", data=data, mime_type="image/png"),
        ]
    )


@server.tool(annotations=READS, structured_output=False)
def fail() -> CallToolResult:
    """Fail, and quote the token."""
    shown = f"no such\x1b[31m row; token {os.environ.get('API_TOKEN', 'none')}"
    return CallToolResult(content=[TextContent(type="text", text=shown)], is_error=True)


@server.tool(name="create-issue")
def create_issue(title: str) -> str:
    """Create an issue. It declares nothing."""
    note(f"created {title}")
    return title


@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
def put(value: str) -> str:
    """Store a value."""
    return value


@server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
def contradict() -> str:
    """Claim to read and to destroy."""
    return ""


@server.tool(annotations=READS)
def environment() -> list[str]:
    """Return the names of the variables."""
    return sorted(os.environ)


@server.tool(annotations=READS)
async def slow(ctx: Context[Any, Any]) -> str:
    """Report progress, then wait for ever."""
    await ctx.report_progress(1, 3, "one of\x07 three")
    note("slow started")
    try:
        await anyio.sleep_forever()
    except BaseException:
        note("slow cancelled")
        raise
    return ""


@server.tool()
def die() -> str:
    """End the process during the call."""
    note("die")
    os._exit(3)


if __name__ == "__main__":
    if "--broken" in sys.argv:
        sys.exit(f"cannot\x1b[2J start with {os.environ.get('API_TOKEN')}")
    if "--http" in sys.argv:
        import uvicorn

        port = int(sys.argv[sys.argv.index("--http") + 1])
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error")
    else:
        anyio.run(server.run_stdio_async)
