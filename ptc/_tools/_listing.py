"""Tools as a model reads them: typed stubs of a few, a list of the names of many."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ._names import list_within
from ._stub_text import one_line
from ._stubs import is_method_name, render_stubs
from ._tool import Tool

__all__ = ["TOOLS_CHARS", "describe_tools"]

TOOLS_CHARS = 16_000
"""Most characters of the tools in a description of scripts, about 4,000 tokens. Tools with longer
stubs are listed, and a script looks up those that it needs."""
_SUMMARY_CHARS = 100
_NAME_CHARS = 80
_LEAST_GROUP_CHARS = 60
_LAST_ROW_CHARS = 40


def describe_tools(tools: Sequence[Tool], most_chars: int = TOOLS_CHARS) -> str:
    """Return stubs of the tools, or if those are too long a list within `most_chars`.

    The list has a line for each tool with its summary, or if that is too long a line for each
    namespace with names, as many as fit.
    """
    stubs = render_stubs(tools, most_chars)
    if stubs is not None:
        return stubs
    head = (
        f"# {len(tools):,} tools: too many to show their parameters. In a script, find tools and "
        "return\n# their typed signatures; then write the script that calls them:\n"
        "#   found = await ctx.search_tools('words of the task', limit=5)  # [{name, summary}]\n"
        "#   return [await ctx.describe(tool.name) for tool in found]"
    )
    groups = _group(tools)
    room = most_chars - len(head)
    rows = _rows_with_summaries(groups)
    if sum(len(row) + 1 for row in rows) > room:
        rows = _rows_of_names(groups, room)
    return "\n".join([head, *rows])


def _group(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    """Group tools by the object that has them as methods; ``""`` if `ctx.call` calls them."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        namespace = tool.name.rpartition(".")[0]
        prefix = "ctx" + (f".{namespace}" if namespace else "")
        groups.setdefault(prefix if is_method_name(tool.name) else "", []).append(tool)
    return groups


def _short_name(prefix: str, tool: Tool) -> str:
    name = tool.name.rpartition(".")[2] if prefix else json.dumps(tool.name)
    return one_line(name, _NAME_CHARS)


def _rows_with_summaries(groups: dict[str, list[Tool]]) -> list[str]:
    rows = []
    for prefix, tools in groups.items():
        for tool in tools:
            name = _short_name(prefix, tool)
            call = f"{prefix}.{name}" if prefix else f"ctx.call({name}, {{...}})"
            summary = one_line(tool.description.splitlines()[0], _SUMMARY_CHARS)
            rows.append(f"# {call}: {summary}")
    return rows


def _rows_of_names(groups: dict[str, list[Tool]], room: int) -> list[str]:
    """List the names of each group on a line; a long line is truncated to an equal share."""
    rows: list[str] = []
    tools_left, groups_left = sum(map(len, groups.values())), len(groups)
    for prefix, tools in groups.items():
        # Short lines leave their share to the later ones.
        share = max(room // groups_left, _LEAST_GROUP_CHARS)
        if room < share + _LAST_ROW_CHARS and groups_left > 1:
            return [*rows, f"# ... and {tools_left:,} more tools"]
        label = one_line(f"# {prefix or 'ctx.call(name, {...})'} ({len(tools):,}):", _NAME_CHARS)
        names = list_within([_short_name(prefix, tool) for tool in tools], share - len(label) - 2)
        rows.append(f"{label} {names}")
        room -= len(rows[-1]) + 1
        tools_left, groups_left = tools_left - len(tools), groups_left - 1
    return rows
