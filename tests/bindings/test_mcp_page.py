"""Each entry for a client in `docs/mcp.md` starts a server that an MCP client can use."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest

from tests.bindings.mcp_client import SECONDS, environment, over_pipes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(json|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def entries() -> Iterator[tuple[str, Any]]:
    """The entries of the page, by the key under which the client looks for them."""
    for language, text in BLOCK.findall(PAGE):
        data = json.loads(text) if language == "json" else tomllib.loads(text)
        ((key, servers),) = data.items()
        yield key, servers["ptc"]


ENTRIES = dict(entries())


def test_page_has_the_keys_of_the_clients() -> None:
    assert list(ENTRIES) == ["mcpServers", "servers", "mcp_servers", "context_servers"]


@pytest.mark.slow
@pytest.mark.anyio
@over_pipes
@pytest.mark.parametrize("key", ENTRIES)
async def test_entry_starts_a_server_with_the_tool_program(key: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tea")
    entry = ENTRIES[key]
    assert entry["command"] == "/.../ptc"
    places = {"/.../repo": str(tmp_path), "${workspaceFolder}": str(tmp_path)}
    arguments = ["-m", "ptc", *(places.get(each, each) for each in entry["args"])]
    server = mcp.StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    with anyio.fail_after(SECONDS):
        async with mcp.Client(server) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[0] == "program"
            source = "[hit.path for hit in await ctx.grep('tea')]"
            done = await client.call_tool("program", {"source": source})
    assert done.structured_content is not None
    assert done.structured_content["value"] == ["a.txt"]
