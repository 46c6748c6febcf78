"""``ptc tools``: list the tools, or describe one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ._options import (
    TOOL_KEYS,
    json_option,
    load_tools,
    open_session,
    require_tool,
    settings_options,
)
from ._status import COMPLETED

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._tools._tool import Tool
    from ._terminal import Stream

__all__ = ["command"]

_HELP = """List the tools, or describe the tool NAME.

Parameters in brackets are optional. A script may call a tool with side effects only if --allow
names it. Off a terminal each tool is one line with tab-separated columns.

\b
Examples:
  ptc tools
  ptc tools grep
  ptc tools --json | jq '.[].name'
"""


@click.command("tools", short_help="List the tools, or describe one.", help=_HELP)
@click.argument("name", metavar="[NAME]", required=False)
@settings_options(*TOOL_KEYS)
@json_option("Print the definitions as JSON, as models receive them.")
def command(*, name: str | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    from ._table import write_table
    from ._terminal import standard_output

    session = open_session(settings)
    load_tools(session)
    if name is not None:
        require_tool(name, session.tool_names())
    names = [name] if name is not None else session.tool_names()
    output = standard_output()
    if as_json:
        output.json(session.tool_definitions(names))
        return COMPLETED
    tools = session.select_tools(names)
    if name is not None:
        _describe(output, tools[name])
        return COMPLETED
    columns = (("tool", ""), ("parameters", "wrap"), ("side effect", ""), ("description", "wrap"))
    rows = [
        (
            tool.name,
            _signature(tool.parameters),
            "yes" if tool.side_effect else "no",
            tool.description.splitlines()[0],
        )
        for tool in tools.values()
    ]
    write_table(output, columns, rows)
    return COMPLETED


def _describe(output: Stream, tool: Tool) -> None:
    from ._table import write_table

    output.line(f"{tool.name} {_signature(tool.parameters)}".rstrip(), "bold")
    output.line()
    output.line(tool.description)
    if tool.side_effect:
        output.line("\nIt has side effects: a script may call it only if --allow names it.")
    properties = tool.parameters.get("properties", {})
    if not properties:
        return
    output.line()
    required = tool.parameters.get("required", ())
    rows = [
        (
            name,
            describe_type(schema, tool.parameters.get("$defs", {})),
            "required" if name in required else _default(schema),
            str(schema.get("description", "")),
        )
        for name, schema in properties.items()
    ]
    columns = (("parameter", ""), ("type", "wrap"), ("default", "wrap"), ("description", "wrap"))
    write_table(output, columns, rows)


def _signature(parameters: Mapping[str, Any]) -> str:
    required = parameters.get("required", ())
    names = parameters.get("properties", {})
    return " ".join(name if name in required else f"[{name}]" for name in names)


def _default(schema: Mapping[str, Any]) -> str:
    from .._core import _json

    return _json.dumps(schema["default"]).decode() if "default" in schema else "optional"


def describe_type(schema: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Describe the type of a JSON Schema in a few words; `named` holds its ``$defs``."""
    from .._core import _json

    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        target = named.get(name, {})
        return describe_type(target, {}) if "enum" in target else name
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(describe_type(item, named) for item in schema[choice]))
    if "enum" in schema:
        return " or ".join(_json.dumps(item).decode() for item in schema["enum"])
    if "const" in schema:
        return _json.dumps(schema["const"]).decode()
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {describe_type(schema['items'], named)}"
    return str(kind)
