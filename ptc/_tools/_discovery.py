"""Search among many tools: `ctx.search_tools` and `ctx.describe`.

Both see only the tools of the caller's allow-list.
"""

from __future__ import annotations

from typing import Any

from .._core._arguments import nearest
from .._schema._check import raw_validator
from ..errors import ToolError
from ._search import Found
from ._stubs import render_stubs
from ._table import ToolTable
from ._tool import Tool, ToolFunction

__all__ = ["DISCOVERY_NAMES", "discovery_tools"]

DISCOVERY_NAMES = ("search_tools", "describe")
"""Methods of `ctx` that this module implements; their names are reserved."""


def discovery_tools(table: ToolTable) -> dict[str, Tool]:
    """Create `ctx.search_tools` and `ctx.describe` for a run with these tools."""
    tools = table.tools

    async def search_tools(arguments: dict[str, object]) -> list[Found]:
        return table.index.find(str(arguments["query"]), int(str(arguments["limit"])))

    async def describe(arguments: dict[str, object]) -> str:
        name = str(arguments["name"])
        if name not in tools:
            msg = f"there is no tool {name!r}{nearest(name, tools)}; search with ctx.search_tools"
            raise ToolError(msg, code="unknown_tool", tool="describe")
        return render_stubs([tools[name]])

    text = {"type": "string"}
    many = {"type": "integer", "minimum": 1, "maximum": 100}
    found = {"type": "array", "items": {"type": "object", "properties": {"name": text}}}
    return {
        tool.name: tool
        for tool in (
            _tool("search_tools", {"query": text, "limit": many}, search_tools, found),
            _tool("describe", {"name": text}, describe, text),
        )
    }


def _tool(
    name: str, properties: dict[str, Any], function: ToolFunction, result: dict[str, Any]
) -> Tool:
    # Not with `define_tool`, which rejects these two names: they are reserved.
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Tool(
        name=name,
        description=f"ctx.{name}",
        parameters=parameters,
        function=function,
        validate=raw_validator(name, parameters),
        result_schema=result,
        spread=False,
    )
