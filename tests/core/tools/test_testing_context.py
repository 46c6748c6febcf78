"""`ptc.testing.tool_context`: unit tests of functions that read the context of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Attachment, ToolContext, ToolError, UsageError, current_tool_context, tool
from ptc.testing import tool_context

pytestmark = pytest.mark.anyio


@tool
async def charge(ctx: ToolContext, cents: int) -> str:
    """Charge an account."""
    return f"{cents} {ctx.idempotency_key} {ctx.env}"


def where() -> Path:
    context = current_tool_context()
    assert context is not None
    return context.root


async def test_tool_can_be_called_in_a_test_with_a_context(tmp_path: Path) -> None:
    with tool_context(root=tmp_path, idempotency_key="k1", env="e", attempt=2) as ctx:
        assert await charge(5) == "5 k1 e"
        assert where() == tmp_path
        assert current_tool_context() is ctx
        assert (ctx.attempt, ctx.cancelled, ctx.calls_left) == (2, False, None)
        assert not await ctx.is_watched()
        ctx.progress(1, 2)
        ctx.output({"a": 1})
        ctx.log("done", rows=1)
        with pytest.raises(ToolError, match="stores no files"):
            ctx.attach(Attachment("a", "a/b", b""))
    assert current_tool_context() is None
    with pytest.raises(UsageError, match="no tool call is under way"):
        await charge(5)


async def test_nested_calls_go_to_the_function_of_the_test() -> None:
    async def answer(name: str, **arguments: object) -> list[object]:
        return [name, arguments]

    with tool_context(call_tool=answer) as ctx:
        assert await ctx.call_tool("price", item="tea") == ["price", {"item": "tea"}]
    with tool_context(call_tool=lambda name: name) as ctx:
        assert await ctx.call_tool("price") == "price"
    with tool_context() as ctx:
        assert not ctx.tools
        with pytest.raises(ToolError, match="pass tool_context"):
            await ctx.call_tool("price")


def test_contexts_nest_and_the_outer_one_returns() -> None:
    with tool_context(call_id="a") as outer:
        with tool_context(call_id="b", cancelled=True) as inner:
            assert current_tool_context() is inner
            assert inner.cancelled
        assert current_tool_context() is outer
