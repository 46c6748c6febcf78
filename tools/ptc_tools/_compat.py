"""The toolset ``compat``: the built-in tools under the names of other systems.

Each tool is the built-in one: its checks, records and results are the same. Only names of tools and
parameters are added, so that prompts and scripts of other systems need no change. The page
docs/migration.md lists the names.

Rule 1: a tool by another name has all properties of the built-in one, and its content is recorded
    by size and digest under any name of the parameter.
    tests/tools/test_compat.py::test_content_is_not_recorded_under_any_name
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ptc import Tool, ToolContext, ToolError, Toolset, tool

__all__ = ["compat"]

_PATH = {"file_path": "path", "filePath": "path"}
_ALIASES: dict[str, dict[str, str]] = {
    "read": _PATH,
    "write": _PATH,
    "edit": {
        **_PATH,
        "patch": "diff",
        "old_string": "old",
        "new_string": "new",
        "replaceAll": "replace_all",
    },
    "patch": {"patch": "diff"},
    "grep": {"ignoreCase": "ignore_case"},
    "bash": {"command": "cmd", "timeoutMs": "timeout_ms"},
    "manage_todo_list": {"todoList": "todo_list", "expectedVersion": "expected_version"},
    "get_tool_response": {"executionId": "handle"},
}
"""Other names of parameters, by built-in tool."""
_NAMES = {"read": "readFile", "write": "writeFile"}
"""Other names of tools."""
_ITEMS = {"manage_todo_list": ("todo_list", {"exitCriteria": "exit_criteria"})}
"""A parameter that is a list of objects, and other names of their fields."""
_OPTIONS = {"bash": "opts", "grep": "opts"}
"""A parameter with further arguments in it, as ``bash(cmd, args, {cwd})``."""


def compat(
    *,
    network: bool = False,
    git_writes: bool = False,
    readable: Sequence[str | Path] = (),
    confinement: Literal["required", "available"] = "required",
    max_output_bytes: int | None = None,
) -> Toolset:
    """Create the toolset ``compat``: the built-in tools, also under the names of other systems.

    ::

        Session(root=".", toolsets=["compat"])

    A script may call ``ctx.readFile(path)``, ``ctx.read(file_path=...)``, ``ctx.edit(path,
    patch=...)``, ``ctx.bash("make", [], {"cwd": "src"})`` and ``ctx.tool(name, arguments)``.

    Args:
        network: As for `builtin`.
        git_writes: As for `builtin`.
        readable: As for `builtin`.
        confinement: As for `builtin`.
        max_output_bytes: As for `builtin`.

    Raises:
        SetupError: If ``network=True`` and httpx is not installed.
    """
    from . import builtin, manage_todo_list

    own = builtin(
        network=network,
        git_writes=git_writes,
        readable=readable,
        confinement=confinement,
        max_output_bytes=max_output_bytes,
    )
    found: list[Tool] = []
    for item in (*own, manage_todo_list):
        known = _with_aliases(item)
        found.append(known)
        if item.name in _NAMES:
            # Not Toolset.renamed: the name is not snake_case, which is the point.
            found.append(replace(known, name=_NAMES[item.name]))
    return Toolset("compat", (*found, _call_tool))


@tool(name="tool")
async def _call_tool(ctx: ToolContext, name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Call a tool by its name. Returns its result.

    Args:
        ctx: The call.
        name: Name of the tool.
        arguments: Its arguments.
    """
    return await ctx.call_tool(name, **(arguments or {}))


def _with_aliases(item: Tool) -> Tool:
    """Return `item`, with its parameters also under other names."""
    aliases = _ALIASES.get(item.name, {})
    options = _OPTIONS.get(item.name)
    if not aliases and options is None:
        return item
    properties = dict(item.parameters["properties"])
    fields, names = _ITEMS.get(item.name, ("", {}))
    if fields:
        properties[fields] = deepcopy(properties[fields])
        row = properties[fields]["anyOf"][0]["items"]["properties"]
        row |= {alias: row[name] for alias, name in names.items()}
    # At the end: arguments by position keep their meaning.
    for alias, name in aliases.items():
        properties[alias] = {**properties[name], "description": f"The same as `{name}`."}
        properties[alias].pop("default", None)
    if options is not None:
        text = "Further arguments, by name."
        properties[options] = {"type": "object", "description": text}
    required = [n for n in item.parameters.get("required", ()) if n not in aliases.values()]
    parameters = {**item.parameters, "properties": properties, "required": required}
    validate = item.validate

    def validate_renamed(arguments: Mapping[str, Any]) -> Any:
        return validate(_rename(item.name, arguments, aliases, options))

    private = {alias for alias, name in aliases.items() if name in item.unrecorded}
    return replace(
        item,
        parameters=parameters,
        validate=validate_renamed,
        unrecorded=item.unrecorded | private,
    )


def _rename(
    tool_name: str, arguments: Mapping[str, Any], aliases: Mapping[str, str], options: str | None
) -> dict[str, Any]:
    """Return the arguments under the names of the built-in tool."""
    plain: dict[str, Any] = {}
    pairs = [(key, value) for key, value in arguments.items() if key != options]
    more = arguments.get(options) if options is not None else None
    if more is not None:
        if not isinstance(more, Mapping):
            msg = f"{tool_name}: `{options}` must be an object, not {more!r:.80}"
            raise ToolError(msg, code="invalid_arguments", tool=tool_name)
        pairs += more.items()
    for key, value in pairs:
        name = aliases.get(key, key)
        if name in plain:
            msg = f"{tool_name}: `{key}` and `{name}` are the same argument; pass one"
            raise ToolError(msg, code="invalid_arguments", tool=tool_name)
        plain[name] = value
    fields, names = _ITEMS.get(tool_name, ("", {}))
    if isinstance(plain.get(fields), list):
        plain[fields] = [
            {names.get(key, key): value for key, value in row.items()}
            if isinstance(row, Mapping)
            else row
            for row in plain[fields]
        ]
    return plain
