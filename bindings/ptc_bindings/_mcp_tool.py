"""Tools of MCP servers as tools of ptc: names, schemas, effects and results.

Rule 1: a tool that does not declare that it only reads has a side effect, and one that does not
    declare that it may be repeated is not, so that scripts may call it only if it is allowed by
    name.
    tests/bindings/test_mcp_tools.py::test_effects_follow_annotations_and_fail_closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import ptc
from ptc import ToolContext
from ptc._core import _json
from ptc._schema._check import value_check

from ._foreign import MOST_DESCRIPTION, data_of, foreign_tool, store_file
from ._mcp_specs import identifier
from ._mcp_text import clean_text

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

__all__ = ["Calls", "convert_tool", "convert_tools"]

_MOST_SCHEMA_BYTES = 65_536
_MOST_ALL_BYTES = 4 * 1024 * 1024
_MOST_PARTS = 1_000
_log = logging.getLogger("ptc")


class Calls(Protocol):
    """Calls of the tools of one server."""

    async def call(
        self, tool: str, arguments: dict[str, Any], ctx: ToolContext
    ) -> CallToolResult: ...  # by the name that the server knows

    def redact(self, value: Any) -> Any: ...  # the value without secrets of the server

    def failure(self, error: ptc.ToolError) -> ptc.ToolError: ...  # with the server's name


def convert_tools(
    server: str, namespace: str, listed: list[ListedTool], calls: Calls
) -> list[ptc.Tool]:
    """Convert the tools of a server. Log a warning for one that cannot be used, and leave it out.

    Args:
        server: Name of the server, for messages.
        namespace: Namespace of the tools.
        listed: The tools as the server lists them.
        calls: Makes the calls.
    """
    found: dict[str, ptc.Tool] = {}
    size = 0
    for item in listed:
        name = f"{namespace}.{identifier(item.name)}"
        shown = clean_text(item.name, 80)
        try:
            size += _check_size(item)
            if size > _MOST_ALL_BYTES:
                msg = f"the definitions of the server have more than {_MOST_ALL_BYTES:,} bytes"
                raise ptc.UsageError(msg)
            if name in found:
                raise ptc.UsageError(f"another tool has the name {name}")
            found[name] = convert_tool(name, item, calls)
        except (ptc.UsageError, _json.JsonError, RecursionError) as error:
            reason = clean_text(str(error), 300)
            _log.warning("MCP server %r: its tool %r is left out: %s", server, shown, reason)
    return list(found.values())


def _check_size(item: ListedTool) -> int:
    size = len(_json.dumps([item.input_schema, item.output_schema]))
    if size > _MOST_SCHEMA_BYTES:
        msg = f"its schemas have {size:,} bytes; at most {_MOST_SCHEMA_BYTES:,} are accepted"
        raise ptc.UsageError(msg)
    if not identifier(item.name) or len(item.name) > 128:
        raise ptc.UsageError("its name has no letter or digit, or more than 128 characters")
    return size + min(len(item.description or ""), MOST_DESCRIPTION)


def convert_tool(name: str, item: ListedTool, calls: Calls) -> ptc.Tool:
    wrapped = _is_wrapped(item.output_schema)
    result_schema = item.output_schema
    if result_schema is not None and wrapped:
        result_schema = _unwrap_schema(result_schema)
    check = None
    if item.output_schema is not None:
        check = value_check(item.output_schema, "the structured result")
    remote = item.name

    async def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
        result = await calls.call(remote, arguments, ctx)
        try:
            value = _read_result(result, ctx, check=check, wrapped=wrapped)
        except ptc.ToolError as error:
            raise calls.failure(error) from None
        # Not the value itself: one with a field `isError` or `status` is data here.
        return ptc.ToolResult.success(calls.redact(value))

    side_effect, idempotent = _effects(item)
    return foreign_tool(
        name,
        item.description or item.title or "",
        item.input_schema,
        run,
        side_effect=side_effect,
        idempotent=idempotent,
        result_schema=result_schema,
        tags=("mcp",),
    )


def _effects(item: ListedTool) -> tuple[bool, bool]:
    """Return whether a tool has a side effect, and whether its calls may be repeated."""
    hints = item.annotations
    if hints is None:
        return True, False
    # Contradictory hints count as the worse one.
    reads = hints.read_only_hint is True and hints.destructive_hint is not True
    return not reads, reads or hints.idempotent_hint is True


def _is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Return True if the schema is an object whose only field is ``result``.

    MCP's structured content must be an object, so the SDKs wrap other values in this form.
    """
    if schema is None:
        return False
    return list(schema.get("properties", ())) == ["result"] and schema.get("required") == ["result"]


def _unwrap_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = schema["properties"]["result"]
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {**definitions, **inner} if isinstance(inner, Mapping) else {}


# --- results ------------------------------------------------------------------------------------


def _read_result(
    result: CallToolResult,
    ctx: ToolContext,
    *,
    check: Callable[[Any], list[str]] | None,
    wrapped: bool,
) -> Any:
    """Convert the result of a call to data: structured content, or else the content.

    Text that is a JSON object or list becomes data. Images, sounds and binary resources are stored
    as attachments, and are described in the data. Several parts become a list.

    Raises:
        ToolError: If the server reports a failure, or the data violates its own schema.
    """
    if len(result.content) > _MOST_PARTS:
        msg = f"the result has {len(result.content):,} parts; at most {_MOST_PARTS:,} are accepted"
        raise ptc.ToolError(msg, code="bad_result")
    if result.is_error:
        texts = [part.text for part in result.content if part.type == "text"]
        raise ptc.ToolError("\n".join(texts).strip() or "the tool failed without a message")
    parts = [_read_part(part, number, ctx) for number, part in enumerate(result.content, 1)]
    data = result.structured_content
    if data is not None:
        if check is not None and (problems := check(data)):
            msg = f"the result violates the tool's own schema: {'; '.join(problems[:3])}"
            raise ptc.ToolError(msg, code="bad_result")
        return data["result"] if wrapped else data
    if check is not None:
        msg = "the tool declares a schema of its result and returned no structured content"
        raise ptc.ToolError(msg, code="bad_result")
    return parts[0] if len(parts) == 1 else parts or None


def _read_part(part: Any, number: int, ctx: ToolContext) -> Any:
    if part.type == "text":
        return data_of(part.text)
    if part.type in ("image", "audio"):
        return store_file(part.data, part.mime_type, ctx, number=number)
    if part.type == "resource_link":
        return {"uri": part.uri, "name": part.name, "mime_type": part.mime_type}
    resource = part.resource
    facts = {"uri": resource.uri, "mime_type": resource.mime_type}
    if hasattr(resource, "text"):
        return {**facts, "text": resource.text}
    media_type = resource.mime_type or "application/octet-stream"
    return {**facts, **store_file(resource.blob, media_type, ctx, number=number)}
