"""FastMCP beyond the contract: servers and clients as sources of tools, and forms for approvals."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ptc import Session, UsageError, tool
from ptc_bindings import fastmcp as binding
from ptc_bindings.mcp_tools import MCPServers

fastmcp = pytest.importorskip("fastmcp", reason="pip install fastmcp")

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = """from fastmcp import FastMCP

server = FastMCP("shop")


@server.tool
def price(item: str) -> float:
    return 3.2


server.run(show_banner=False)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def shop() -> Any:
    server = fastmcp.FastMCP("shop")

    async def price(item: str) -> float:
        """Look up a price."""
        if item == "gold":
            raise fastmcp.exceptions.ToolError("gold has no price")
        return 3.2

    async def order(item: str, ctx: Any) -> dict[str, Any]:
        """Order an item."""
        await ctx.report_progress(1, 2, "packing")
        return {"ordered": item, "tags": ["a"]}

    order.__annotations__["ctx"] = fastmcp.Context
    server.tool(price, annotations={"readOnlyHint": True})
    server.tool(order)
    return server


async def test_server_is_a_namespace_and_its_annotations_hold(tmp_path: Path) -> None:
    server = shop()
    async with Session(tmp_path, tools=[server], toolsets=(), workers=1) as session:
        assert list(session.select_tools(None)) == ["shop.price"]
        source = "return [await ctx.shop.price('tea'), await ctx.shop.order('tea')]"
        result = await session.program(
            source=f"async def run(ctx, inputs):\n    {source}", allowed_tools=["shop"]
        )
        assert result.unwrap() == [3.2, {"ordered": "tea", "tags": ["a"]}]
        failed = await session.tool("shop.price", {"item": "gold"}, allowed_tools=["shop"])
        assert failed.error is not None
        assert "gold has no price" in failed.error.message


async def test_client_connects_with_the_session(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    client = fastmcp.Client(fastmcp.client.transports.StdioTransport(sys.executable, [str(file)]))
    servers = MCPServers({"web": client})
    async with Session(tmp_path, tools=[servers], toolsets=(), workers=1) as session:
        found = await session.tool("web.price", {"item": "tea"}, allowed_tools=["web"])
        assert found.unwrap() == 3.2
    assert not client.is_connected()


async def test_object_that_cannot_be_used_is_refused_with_a_remedy() -> None:
    with pytest.raises(UsageError, match="has no name, and the name is the namespace"):
        binding.tools_from(fastmcp.FastMCP())
    with pytest.raises(UsageError, match=r"needs the context of a server: pass the server"):
        binding.tools_from(await shop().get_tool("order"))
    async with fastmcp.Client(shop(), name="web") as client:
        with pytest.raises(UsageError, match="is connected: pass it before"):
            MCPServers({"web": client})


async def test_cancelled_call_is_cancelled_in_the_server(tmp_path: Path) -> None:
    server = fastmcp.FastMCP("slow")
    begun, ended = threading.Event(), threading.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await anyio.sleep(30)
        except BaseException:
            ended.set()
            raise
        return ""

    server.tool(wait)
    async with Session(tmp_path, tools=[server], toolsets=(), workers=1) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(session.tool, "slow.wait", {}, allowed_tools=["slow"]))
            await anyio.to_thread.run_sync(begun.wait, 30)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 30)


SENT: list[str] = []


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(to: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("name", ["program", "send"])
async def test_user_decides_in_a_form(tmp_path: Path, mode: str, name: str) -> None:
    SENT.clear()
    answers = iter(["decline", "accept"])
    forms: list[str] = []

    async def answer(message: str, *_: Any) -> Any:
        forms.append(message)
        return fastmcp.client.elicitation.ElicitResult(
            action=next(answers), content={"to": "eve"} if SENT == [] and len(forms) == 2 else None
        )

    source = "async def run(ctx, inputs):\n    return await ctx.send('ann')"
    arguments = {"source": source} if name == "program" else {"to": "ann"}
    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        tools = binding.as_tools(session, allowed_tools=["send"], direct=True)
        server = fastmcp.FastMCP("out", tools=tools)
        async with fastmcp.Client(server, elicitation_handler=answer, mode=mode) as client:
            first = await client.call_tool(name, arguments, raise_on_error=False)
            assert (first.is_error, SENT) == (True, [])
            second = await client.call_tool(name, arguments)
    assert second.structured_content == {"value": "sent to eve"}
    assert (SENT, "Approve the call of send?" in forms[0]) == (["eve"], True)


async def test_without_forms_the_run_is_paused(tmp_path: Path) -> None:
    SENT.clear()
    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        server = fastmcp.FastMCP("out", tools=binding.as_tools(session, allowed_tools=["send"]))
        source = "async def run(ctx, inputs):\n    return await ctx.send('ann')"
        async with fastmcp.Client(server) as client:
            result = await client.call_tool("program", {"source": source})
        assert (result.structured_content["status"], SENT) == ("paused", [])
        run_id = result.structured_content["run_id"]
        await session.approve(run_id, by="ben")
        done = await session.resume(run_id, allowed_tools=["send"])
    assert (done.unwrap(), SENT) == ("sent to ann", ["ann"])


async def test_application_can_call_the_tool_of_the_server_itself(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        server = fastmcp.FastMCP("out", tools=binding.as_tools(session))
        result = await server.call_tool("program", {"source": "1 + 1"})
    assert result.structured_content == {"value": 2}
