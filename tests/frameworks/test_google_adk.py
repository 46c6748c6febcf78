"""Google ADK beyond the contract: errors in results, tools with a context, repeated pauses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ptc import Session, UsageError, tool, tool_from
from ptc_bindings import google_adk as binding

from .peers.google_adk import converse, model_that_calls

adk = pytest.importorskip("google.adk", reason="pip install google-adk")

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def look_up(item: str) -> dict[str, Any]:
    """Look up an item."""
    if item == "gold":
        return {"error": "no such item"}
    return {"price": 3.2, "error": None}


def remember(item: str, tool_context: Any) -> str:
    """Remember an item."""
    tool_context.state["item"] = item
    return "remembered"


async def test_result_with_an_error_is_a_failure(tmp_path: Path) -> None:
    from google.adk.tools import FunctionTool

    async with Session(tmp_path, tools=[FunctionTool(look_up)], toolsets=(), workers=1) as session:
        found = await session.tool("look_up", {"item": "tea"}, allowed_tools=["look_up"])
        failed = await session.tool("look_up", {"item": "gold"}, allowed_tools=["look_up"])
    assert found.unwrap() == {"price": 3.2, "error": None}
    assert failed.error is not None
    assert failed.error.message == "no such item"


async def test_tool_with_a_context_needs_one(tmp_path: Path) -> None:
    from google.adk.tools import FunctionTool, google_search, load_memory

    remembering = FunctionTool(remember)
    remembering.func.__annotations__["tool_context"] = adk.tools.ToolContext
    with pytest.raises(UsageError, match=r"ADK passes tool_context to it. Pass .*with_context"):
        tool_from(remembering)
    with pytest.raises(UsageError, match="it is not a FunctionTool"):
        tool_from(google_search)
    with pytest.raises(UsageError, match="ADK passes tool_context"):
        tool_from(load_memory)
    context = SimpleNamespace(state={})
    made = binding.with_context(remembering, lambda _: context)
    async with Session(tmp_path, tools=[made], toolsets=(), workers=1) as session:
        await session.tool("remember", {"item": "tea"}, allowed_tools=["remember"])
    assert context.state == {"item": "tea"}


async def test_long_running_tools_and_toolsets_are_refused() -> None:
    from google.adk.tools import LongRunningFunctionTool
    from google.adk.tools.base_toolset import BaseToolset

    class Shop(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            return []

    with pytest.raises(UsageError, match="is long-running"):
        tool_from(LongRunningFunctionTool(look_up))
    with pytest.raises(UsageError, match=r"tools=await toolset\.get_tools"):
        tool_from(Shop())


SENT: list[str] = []


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(to: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


async def test_each_pause_needs_its_own_confirmation(tmp_path: Path) -> None:
    SENT.clear()
    source = "async def run(ctx, inputs):\n    return [await ctx.send('a'), await ctx.send('b')]"
    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        tools = binding.as_tools(session, allowed_tools=["send"])
        model = model_that_calls("program", {"source": source})
        results = await converse(model, tools, confirmed=True)
    assert [result.response.get("status", "completed") for result in results] == [
        "paused",
        "paused",  # of the first confirmation; ADK shows no other one for this function call
        "paused",
        "completed",
    ]
    assert results[-1].response == {"value": ["sent to a", "sent to b"]}
    assert SENT == ["a", "b"]


async def test_direct_call_is_confirmed_or_rejected(tmp_path: Path) -> None:
    SENT.clear()
    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        tools = binding.as_tools(session, allowed_tools=["send"], direct=True)
        model = model_that_calls("send", {"to": "ann"})
        rejected = (await converse(model, tools, confirmed=False))[-1].response
        assert ("rejected" in rejected["error"], SENT) == (True, [])
        confirmed = (await converse(model, tools, confirmed=True))[-1].response
    assert (confirmed, SENT) == ({"value": "sent to ann"}, ["ann"])


async def test_state_cannot_name_the_run_of_another_session(tmp_path: Path) -> None:
    from google.adk.tools.tool_confirmation import ToolConfirmation

    SENT.clear()

    def context(user: str, call: str, state: dict[str, Any], confirmed: bool = False) -> Any:
        return SimpleNamespace(
            state=state,
            user_id=user,
            session=SimpleNamespace(app_name="app", user_id=user, id="s"),
            function_call_id=call,
            tool_confirmation=ToolConfirmation(confirmed=True) if confirmed else None,
            request_confirmation=lambda hint: None,
            actions=SimpleNamespace(skip_summarization=False),
        )

    async with Session(tmp_path, tools=[send], toolsets=(), workers=1) as session:
        [_, direct] = binding.as_tools(session, allowed_tools=["send"], direct=True)
        victim: dict[str, Any] = {}
        await direct.run_async(args={"to": "ann"}, tool_context=context("ann", "1", victim))
        stolen = {"ptc_run_2": victim["ptc_run_1"]}
        found = await direct.run_async(
            args={"to": "ann"}, tool_context=context("eve", "2", stolen, confirmed=True)
        )
        assert (found["status"], SENT) == ("paused", [])
        assert found["run_id"] != victim["ptc_run_1"]
        done = await direct.run_async(
            args={"to": "ann"}, tool_context=context("ann", "1", victim, confirmed=True)
        )
    assert (done, SENT) == ({"value": "sent to ann"}, ["ann"])
