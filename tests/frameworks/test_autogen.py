"""AutoGen beyond the contract: typed results, tokens, workbenches."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Session, ToolError, tool, tool_from
from ptc_bindings import autogen as binding

autogen_core = pytest.importorskip("autogen_core", reason="pip install autogen-core")

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Price(BaseModel):
    amount: float


async def test_result_is_data_with_its_schema(tmp_path: Path) -> None:
    from autogen_core.tools import FunctionTool

    async def price(item: str) -> Price:
        return Price(amount=3.2)

    async def lines(item: str) -> str:
        return '[{"item": "tea"}]'

    tools = [FunctionTool(price, description="Price."), FunctionTool(lines, description="Lines.")]
    made = tool_from(tools[0])
    assert made.result_schema is not None
    assert made.result_schema["properties"]["amount"]["type"] == "number"
    assert (made.side_effect, made.idempotent) == (True, False)
    async with Session(tmp_path, tools=tools, toolsets=(), workers=1) as session:
        source = "[(await ctx.price('tea'))['amount'], await ctx.lines('tea')]"
        result = await session.program(source=source, allowed_tools=["price", "lines"])
    assert result.unwrap() == [3.2, [{"item": "tea"}]]


async def test_cancelled_call_cancels_the_token(tmp_path: Path) -> None:
    from autogen_core.tools import FunctionTool

    started, tokens = asyncio.Event(), []

    async def wait(item: str, cancellation_token: Any) -> str:
        tokens.append(cancellation_token)
        started.set()
        await asyncio.sleep(30)
        return ""

    wait.__annotations__["cancellation_token"] = autogen_core.CancellationToken
    tools = [FunctionTool(wait, description="Wait.")]
    async with Session(tmp_path, tools=tools, toolsets=(), workers=1) as session:
        call = asyncio.ensure_future(session.tool("wait", {"item": "tea"}, allowed_tools=["wait"]))
        await asyncio.wait_for(started.wait(), 30)
        call.cancel()
        await asyncio.wait([call], timeout=30)
    assert [token.is_cancelled() for token in tokens] == [True]


@tool
async def find(item: str) -> dict[str, Any]:
    """Find an item."""
    if item == "gold":
        raise ToolError("gold is not here", code="not_found")
    if item == "slow":
        await asyncio.sleep(30)
    return {"item": item}


async def test_workbench_marks_failures_and_its_token_cancels(tmp_path: Path) -> None:
    from autogen_core.tools import StaticWorkbench

    async with Session(tmp_path, tools=[find], toolsets=(), workers=1) as session:
        bench = StaticWorkbench(binding.as_tools(session, direct=True))
        names = [row["name"] for row in await bench.list_tools()]
        assert names == ["program", "find"]
        found = await bench.call_tool("find", {"item": "tea"})
        assert (found.is_error, found.to_text()) == (False, '{"item":"tea"}')
        failed = await bench.call_tool("find", {"item": "gold"})
        assert (failed.is_error, "[not_found]: gold is not here" in failed.to_text()) == (
            True,
            True,
        )
        token = autogen_core.CancellationToken()
        call = asyncio.ensure_future(bench.call_tool("find", {"item": "slow"}, token))
        await asyncio.sleep(0)
        token.cancel()
        await asyncio.wait([call], timeout=30)
        assert call.done()
