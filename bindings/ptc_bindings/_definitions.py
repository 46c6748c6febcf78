"""MCP definitions of tools and results, within the length limits of clients."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import ptc
from ptc._runs._program_tool import DESCRIPTION_CHARS, PROGRAM
from ptc._tools._names import list_within

from ._previews import is_recall

if TYPE_CHECKING:
    from mcp_types import CallToolResult, Tool

__all__ = [
    "PROGRAM",
    "PROGRAM_LOG",
    "PROGRAM_RESUME",
    "PROGRAM_STATUS",
    "RESERVED",
    "call_result",
    "run_definitions",
    "runs_as_program",
    "server_instructions",
    "server_program",
    "structured_value",
    "tool_definition",
]

PROGRAM_LOG = "program_log"
PROGRAM_RESUME = "program_resume"
PROGRAM_STATUS = "program_status"
RESERVED = (PROGRAM, PROGRAM_LOG, PROGRAM_RESUME, PROGRAM_STATUS)
"""Names of the server's own tools."""


def server_program(
    session: ptc.Session, allowed_tools: list[str | ptc.Allow], limits: ptc.Limits
) -> Tool:
    """Define the tool ``program`` of a server, which fixes the allow-list and the limits."""
    from mcp_types import Tool, ToolAnnotations

    from ._outcome import OUTCOME_SCHEMA

    row = session.program_definition("mcp", allowed_tools, limits)
    schema = row["inputSchema"]
    properties = {name: schema["properties"][name] for name in ("source", "inputs")}
    return Tool(
        name=row["name"],
        title="Run a script",
        description=row["description"],
        input_schema={**schema, "properties": properties, "required": ["source"]},
        output_schema=OUTCOME_SCHEMA,
        annotations=ToolAnnotations.model_validate(row["annotations"]),
    )


def run_definitions(tools: list[ptc.Tool]) -> list[Tool]:
    """Define the tools for runs that were started before."""
    from mcp_types import Tool, ToolAnnotations

    from ._outcome import OUTCOME_SCHEMA

    changes = any(tool.side_effect for tool in tools)
    run_id = {"type": "string", "description": "Id of the run, as in its result."}
    source = {
        "type": "string",
        "description": "Corrected script, which runs from its beginning: calls with the same "
        "arguments as before return their recorded results.",
    }
    reads = {
        "enum": ["reuse", "refresh"],
        "default": "reuse",
        "description": "With source: `refresh` repeats calls that only read.",
    }
    allow_unmatched = {
        "type": "boolean",
        "default": False,
        "description": "With source: continue although it does not make all calls whose effects "
        "are recorded.",
    }
    accept_changed_tools = {
        "type": "boolean",
        "default": False,
        "description": "Resume although tools changed since the run was recorded. Only if the user "
        "agrees: an effect could be repeated.",
    }
    first = {"type": "integer", "minimum": 1, "description": "First call to list.", "default": 1}

    def schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        }

    return [
        Tool(
            name=PROGRAM_LOG,
            description="Show the calls and the output of a run. Default: the latest run.",
            input_schema=schema({"run_id": run_id, "first": first}),
            annotations=ToolAnnotations(read_only_hint=True),
        ),
        Tool(
            name=PROGRAM_STATUS,
            description="Show whether a run is paused, running or finished, and what it waits for.",
            input_schema=schema({"run_id": run_id}, "run_id"),
            annotations=ToolAnnotations(read_only_hint=True),
        ),
        Tool(
            name=PROGRAM_RESUME,
            description="Resume a paused run after a person has decided, or continue a failed run "
            "with a corrected script (`source`). Finished calls are not repeated. Returns the "
            "result of the script.",
            input_schema=schema(
                {
                    "run_id": run_id,
                    "source": source,
                    "reads": reads,
                    "allow_unmatched": allow_unmatched,
                    "accept_changed_tools": accept_changed_tools,
                },
                "run_id",
            ),
            output_schema=OUTCOME_SCHEMA,
            annotations=ToolAnnotations(read_only_hint=not changes, destructive_hint=changes),
        ),
    ]


def server_instructions(names: list[str], *, direct: bool) -> str:
    """Return the instructions of the server; `direct` if it offers each tool directly."""
    start = (
        f"Scripts over tools. The tool `{PROGRAM}` runs one Python script that may call many tools "
        "and returns only the script's result: use it for any task that takes more than one call "
        "or has large intermediate data. "
        + ("Each tool can also be called directly. " if direct else "")
        + "Tools: "
    )
    return start + list_within(names, DESCRIPTION_CHARS - len(start))


def tool_definition(tool: ptc.Tool) -> Tool:
    """Define a tool that clients call directly."""
    from mcp_types import Tool, ToolAnnotations

    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=_output_schema(tool),
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


_PREVIEW_SCHEMA = {
    "type": "object",
    "description": "In place of a result that is too large.",
    "properties": {
        "preview": {"type": "string"},
        "bytes": {"type": "integer"},
        "uri": {"type": "string", "description": "Resource with the whole result."},
        "next": {"type": "string", "description": "How to read the rest."},
    },
    "required": ["preview", "bytes", "uri"],
}


def _output_schema(tool: ptc.Tool) -> dict[str, Any] | None:
    """Return the schema of a direct result: `structured_value`, a preview, or a script's outcome.

    Clients validate structured content, so each form has to be in the schema.
    """
    from ._outcome import OUTCOME_SCHEMA

    if is_recall(tool):
        # The description has the fields, in fewer characters.
        return {"type": "object", "required": ["value"]}
    if runs_as_program(tool):
        return OUTCOME_SCHEMA
    schema = tool.result_schema
    if schema is None or '"$ref":"#"' in json.dumps(schema, separators=(",", ":")):
        # Inside `anyOf`, a reference to the root would mean another schema.
        return None
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "$schema")}
    if schema.get("type") != "object":
        inner = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {"type": "object", "anyOf": [inner, _PREVIEW_SCHEMA]} | {
        key: schema[key] for key in ("$defs", "$schema") if key in schema
    }


def runs_as_program(tool: ptc.Tool) -> bool:
    """True if a direct call runs as a script of one line, which can pause for an approval."""
    return tool.needs_approval is not False


def call_result(
    texts: list[str],
    data: dict[str, Any] | None,
    *,
    is_error: bool = False,
    images: Iterable[ptc.ImageContent] = (),
    files: Iterable[ptc.AttachmentRef] = (),
    run_id: str = "",
) -> CallToolResult:
    """Build a result.

    Args:
        texts: Text blocks.
        data: Structured content.
        is_error: True: the call failed.
        images: Images, sent inline.
        files: Stored files, sent as links.
        run_id: The run, for the client; a model does not see it.
    """
    from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent

    from ptc._records._preview import address_of

    # A lone surrogate has no UTF-8: it would close the connection, not only fail this result.
    content = [TextContent(text=t.encode(errors="replace").decode()) for t in texts]
    pictures = [ImageContent(data=image.data, mime_type=image.media_type) for image in images]
    links = [
        ResourceLink(
            uri=address_of(ref.id), name=ref.name, mime_type=ref.media_type, size=ref.size_bytes
        )
        for ref in files
    ]
    return CallToolResult(
        content=[*content, *pictures, *links],
        structured_content=data,
        is_error=is_error,
        _meta={"ptc/run_id": run_id} if run_id else None,
    )
