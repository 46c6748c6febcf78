"""Saved programs among the tools that an MCP server and the definitions for providers offer."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import ptc

pytestmark = pytest.mark.anyio

COUNT = '''
async def run(ctx, inputs):
    """Count the matches of a word."""
    return {"count": len(await ctx.grep(pattern=inputs["word"]))}
'''


@pytest.mark.slow
async def test_saved_program_is_a_tool_of_an_mcp_server(root: Path) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    from ptc_bindings.mcp import serve

    with anyio.fail_after(60):
        async with ptc.Session(root, journal=":memory:") as session:
            done = await session.program(
                source=COUNT, inputs={"word": "TODO"}, allowed_tools=["grep"]
            )
            await session.save_program(done.run_id, name="count_word")
            async with mcp.Client(serve(session, direct_tools=True)) as client:
                listed = {tool.name: tool for tool in (await client.list_tools()).tools}
                offered = listed["count_word"]
                assert offered.description.startswith("Count the matches of a word.")
                assert offered.annotations.read_only_hint is True
                assert offered.input_schema["required"] == ["word"]
                called = await client.call_tool("count_word", {"word": "one"})
                assert called.structured_content == {"count": 1}
            server = serve(session, allowed_tools=["count_word"], direct_tools=True)
            async with mcp.Client(server) as narrow:
                refused = await narrow.call_tool("count_word", {"word": "one"})
                assert refused.is_error
                assert "Add to the allow-list: grep" in refused.content[0].text
