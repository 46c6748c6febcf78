"""MCP definitions of tools and results, within the length limits of clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import ptc

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

__all__ = [
    "PROGRAM",
    "call_result",
    "program_definition",
    "server_instructions",
    "structured_value",
    "tool_definition",
]

PROGRAM = "program"
"""Name of the tool that runs a script."""

_DESCRIPTION_CHARS = 2_000
"""Claude Code truncates a tool's description and a server's instructions at 2,048 characters
(anthropics/claude-code issues 41593 and 87650), but not schemas. Rules and signatures are longer,
so they are the description of the parameter ``source``."""


def program_definition(tools: list[ptc.Tool], limits: ptc.Limits) -> Tool:
    """Define the tool that runs a script over `tools`."""
    from mcp_types import Tool, ToolAnnotations

    from ptc._policy_modules import MODULES
    from ptc._tools._stubs import describe_program

    from ._outcome import OUTCOME_SCHEMA

    changes = any(tool.side_effect for tool in tools)
    return Tool(
        name=PROGRAM,
        title="Run a script",
        description=_program_description([tool.name for tool in tools]),
        input_schema={
            "type": "object",
            "properties": {
                "source": {
                    "type": "string",
                    "description": describe_program(tools, limits, list(MODULES)),
                },
                "inputs": {
                    "type": "object",
                    "description": "JSON data for the script; its parameter `inputs`.",
                    "default": {},
                },
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        output_schema=OUTCOME_SCHEMA,
        annotations=ToolAnnotations(read_only_hint=not changes, destructive_hint=changes),
    )


def _program_description(names: list[str]) -> str:
    start = (
        "Run a Python script that calls tools and returns one result. Use it instead of a series "
        "of tool calls: it searches, reads, filters, counts and combines in one step, calls run "
        "in parallel, and only what the script returns comes back.\n\n"
        "`source` is the script: it defines `async def run(ctx, inputs)`, tools are methods of ctx "
        "(`await ctx.name(...)`), the return value is the result. The description of the "
        "parameter `source` has the rules, the limits and the typed signatures of the tools: read "
        "it before the first script. Scripts run in a sandbox: files, network and packages are "
        "available only through ctx.\n\nTools on ctx: "
    )
    return start + _list_within(names, _DESCRIPTION_CHARS - len(start))


def server_instructions(names: list[str], *, direct: bool) -> str:
    """Return the instructions of the server; `direct` if it offers each tool directly."""
    start = (
        f"Scripts over tools. The tool `{PROGRAM}` runs one Python script that may call many tools "
        "and returns only the script's result: use it for any task that takes more than one call "
        "or has large intermediate data. "
        + ("Each tool can also be called directly. " if direct else "")
        + "Tools: "
    )
    return start + _list_within(names, _DESCRIPTION_CHARS - len(start))


def _list_within(names: list[str], room: int) -> str:
    """List as many names as fit, then the number of the others."""
    if not names:
        return "none"
    for count in range(len(names), 0, -1):
        rest = len(names) - count
        text = ", ".join(names[:count]) + (f" and {rest} more" if rest else "")
        if len(text) < room:
            return text + "."
    return f"{len(names)}."


def tool_definition(tool: ptc.Tool) -> Tool:
    """Define a tool that clients call directly."""
    from mcp_types import Tool, ToolAnnotations

    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=_output_schema(tool.result_schema),
        annotations=ToolAnnotations(
            read_only_hint=not tool.side_effect, destructive_hint=tool.side_effect
        ),
    )


def structured_value(value: Any, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Wrap a value that is not an object: MCP requires objects until version 2026-07-28.

    Args:
        value: Result of a tool.
        schema: Its result schema, which decides for all its results alike.
    """
    plain = isinstance(value, dict) if schema is None else schema.get("type") == "object"
    return value if plain else {"result": value}


def _output_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema of `structured_value`: the result's own, or one of ``{"result": ...}``."""
    if schema is None or schema.get("type") == "object":
        return None if schema is None else dict(schema)
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return wrapped | {key: schema[key] for key in ("$defs",) if key in schema}


def call_result(
    texts: list[str],
    data: dict[str, Any] | None,
    *,
    is_error: bool = False,
    images: Iterable[ptc.ImageContent] = (),
) -> CallToolResult:
    """Build a result of text blocks, structured content `data` and images."""
    from mcp_types import CallToolResult, ImageContent, TextContent

    # A lone surrogate has no UTF-8: it would close the connection, not only fail this result.
    content = [TextContent(text=t.encode(errors="replace").decode()) for t in texts]
    pictures = [ImageContent(data=image.data, mime_type=image.media_type) for image in images]
    return CallToolResult(content=[*content, *pictures], structured_content=data, is_error=is_error)
