"""Trace context in `_meta` of MCP: received by our server, and sent to the servers of tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mcp
import pytest

from ptc import BlockingSession, Session
from ptc_bindings.mcp import serve
from ptc_bindings.mcp_tools import MCPServers

from .recorded import Recorded, span_id

SERVER = """
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("echo")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def trace(ctx: Context) -> str:
    "Return the context of the request."
    return str((ctx.request_context.meta or {}).get("traceparent"))

server.run("stdio")
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.anyio
async def test_run_of_the_server_continues_the_trace_of_the_client(tmp_path: Path) -> None:
    recorded = Recorded()
    async with (
        Session(tmp_path, toolsets=(), workers=1, telemetry=recorded.telemetry) as session,
        mcp.Client(serve(session)) as client,
    ):
        meta: Any = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        source = {"source": "1 + 1"}
        await client.session.call_tool("program", source, meta=meta)
    span = recorded.span("invoke_workflow")
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE


@pytest.mark.slow
def test_server_of_a_tool_receives_the_context_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    recorded = Recorded()
    with BlockingSession(
        tmp_path,
        tools=[MCPServers({"mcpServers": {"echo": entry}})],
        toolsets=(),
        journal=":memory:",
        telemetry=recorded.telemetry,
    ) as session:
        result = session.program(source="ctx.echo.trace()", allowed_tools=["*"])
    call = recorded.span("execute_tool")
    assert call.context is not None
    expected = f"00-{call.context.trace_id:032x}-{span_id(call):016x}-"
    assert str(result.value).startswith(expected), result
