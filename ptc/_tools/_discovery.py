"""Search among many tools: `ctx.search_tools` and `ctx.describe`.

Both see only the tools of the caller's allow-list.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core._arguments import nearest
from .._schema._check import raw_validator
from ..errors import ToolError
from ._stubs import render_stubs
from ._tool import Tool, ToolFunction

__all__ = ["DISCOVERY_NAMES", "Found", "discovery_tools", "search"]

DISCOVERY_NAMES = ("search_tools", "describe")
"""Methods of `ctx` that this module implements; their names are reserved."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that matches a search."""

    name: str
    """Name; ``ctx.<name>(...)`` calls it."""
    summary: str
    """First line of the description."""


def _words(text: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    # A plural matches its singular.
    return [word.rstrip("s") or word for word in re.findall(r"[a-z0-9]+", spaced.lower())]


def search(query: str, tools: Iterable[Tool], limit: int = 10) -> list[Found]:
    """Find tools by words in their names, descriptions and parameters, best match first.

    A word that fewer tools have weighs more (as in BM25), and a word in a name counts three times.
    An empty query returns the first tools in their order.
    """
    listed = list(tools)
    texts = {
        tool.name: Counter(
            _words(tool.name) * 3
            + _words(tool.description)
            + _words(" ".join(tool.parameter_names))
        )
        for tool in listed
    }
    wanted = set(_words(query))
    spread = Counter(word for text in texts.values() for word in text)
    scores = {}
    for tool in listed:
        text = texts[tool.name]
        length = 0.5 + 0.5 * sum(text.values()) / 40
        scores[tool.name] = sum(
            math.log(1 + len(listed) / spread[word]) * text[word] / (text[word] + length)
            for word in wanted & text.keys()
        )
    chosen = sorted(listed, key=lambda tool: -scores[tool.name])
    if wanted:
        chosen = [tool for tool in chosen if scores[tool.name] > 0]
    return [Found(t.name, t.description.splitlines()[0]) for t in chosen[:limit]]


def discovery_tools(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Create `ctx.search_tools` and `ctx.describe` for a run with these tools."""

    async def search_tools(arguments: dict[str, object]) -> list[Found]:
        return search(str(arguments["query"]), tools.values(), int(str(arguments["limit"])))

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
