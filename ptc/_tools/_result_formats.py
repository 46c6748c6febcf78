"""Results in the formats of other standards, converted to `ToolResult`.

A format in which a result can mean failure is recognized as a failure: a script must never take
such a result for data. Three formats are known:

* MCP: ``{"content", "isError", "structuredContent"}``, as a mapping or an object.
* The Standard Agents specification: ``{"status", "result", "error", "stack", "attachments"}``.
* Messages with a tool's result: ``content`` with ``status="error"``, as Bedrock and LangChain
  have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from .._core import _json
from .._records._content import Attachment, AttachmentRef, TextContent, content_of
from ..errors import ToolError
from ._tool_result import ToolResult

__all__ = ["result_of"]

_MCP_FIELDS = {
    "content": "content",
    "isError": "isError",
    "is_error": "isError",
    "structuredContent": "structuredContent",
    "structured_content": "structuredContent",
    "_meta": "_meta",
}
"""Keys of a result of MCP, as the protocol and as Python code spell them."""
_STANDARD_KEYS = frozenset({"status", "result", "error", "stack", "attachments"})
_MESSAGE_KEYS = frozenset({"status", "content", "toolUseId"})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes, list, tuple})
_NO_MESSAGE = "the tool failed without an error message"
_MAX_STACK_CHARS = 20_000


def result_of(value: Any, schema: Mapping[str, Any] | None = None) -> ToolResult | None:
    """Convert a tool's return value to a `ToolResult`; None for a plain value.

    Args:
        value: The value.
        schema: Result schema of the tool. A value is plain data if the schema declares the field
            that would mean success or failure.

    Raises:
        ToolError: ``bad_content`` if a part of the content is neither text nor an image,
            ``bad_attachment`` if an attachment is invalid.
    """
    if isinstance(value, ToolResult):
        return value
    if type(value) in _PLAIN:
        return None
    if isinstance(value, Mapping):
        if "status" in value:
            return None if _declares(schema, "status") else _from_status(value)
        return None if _declares(schema, "isError", "is_error") else _from_mcp(value)
    if hasattr(value, "isError") or hasattr(value, "is_error"):
        row = {name: getattr(value, name) for name in _MCP_FIELDS if hasattr(value, name)}
        return None if _declares(schema, "isError", "is_error") else _from_mcp(row)
    if getattr(value, "status", None) == "error" and hasattr(value, "content"):
        failure = ToolResult.failure(_text_of(value.content) or _NO_MESSAGE)
        return None if _declares(schema, "status") else failure
    return None


def _declares(schema: Any, *names: str) -> bool:
    """True if the schema, or a part of it, describes an object with one of these fields."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        found = isinstance(properties, Mapping) and any(name in properties for name in names)
        return found or any(_declares(part, *names) for part in schema.values())
    return isinstance(schema, list | tuple) and any(_declares(part, *names) for part in schema)


def _from_mcp(value: Mapping[str, Any]) -> ToolResult | None:
    row = {_MCP_FIELDS[name]: value[name] for name in value if name in _MCP_FIELDS}
    if row.get("isError") is True:
        # Whatever else is in it: a failure in an unusual shape is still one.
        details = row.get("structuredContent")
        return ToolResult.failure(
            _text_of(row.get("content")) or _text_of(value.get("error")) or _NO_MESSAGE,
            details=dict(details) if isinstance(details, Mapping) else None,
        )
    content = row.get("content")
    if not isinstance(content, list) or not all(name in _MCP_FIELDS for name in value):
        return None
    if not all(_kind_of(part) is not None for part in content):
        return None
    parts = content_of(content)
    text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
    data = row.get("structuredContent")
    return ToolResult(value=text if data is None else data, content=parts)


def _from_status(value: Mapping[str, Any]) -> ToolResult | None:
    status, names = value["status"], value.keys()
    if status == "error" and names <= _MESSAGE_KEYS:
        return ToolResult.failure(_text_of(value.get("content")) or _NO_MESSAGE)
    if names > {"status"} and names <= _STANDARD_KEYS:
        attachments = tuple(map(_attachment, value.get("attachments") or ()))
        if status == "error":
            stack = value.get("stack")
            return ToolResult.failure(
                _text_of(value.get("error")) or _text_of(value.get("result")) or _NO_MESSAGE,
                attachments=attachments,
                metadata={"stack": stack[:_MAX_STACK_CHARS]} if isinstance(stack, str) else None,
            )
        if status == "success" and value.get("error") is None:
            return ToolResult.success(value.get("result"), attachments=attachments)
    return None


def _attachment(item: Any) -> Attachment | AttachmentRef:
    """Convert an attachment of the specification; the store refuses anything else."""
    if not isinstance(item, Mapping):
        return cast(Attachment, item)
    size = {name: item.get(name) for name in ("width", "height")}
    text = str(item.get("description") or "")
    # The constructors refuse anything but text.
    name: Any = item.get("name")
    media_type: Any = item.get("mimeType", item.get("media_type"))
    if "data" in item:
        return Attachment(name, media_type, item["data"], **size, description=text)
    if not isinstance(item.get("path"), str) or not isinstance(item.get("id"), str):
        msg = f"an attachment needs data, or the id and path of a stored file, not {item!r:.80}"
        raise ToolError(msg, code="bad_attachment")
    stored = item.get("size", item.get("size_bytes"))
    return AttachmentRef(
        item["id"],
        name,
        media_type,
        item["path"],
        stored if isinstance(stored, int) else -1,
        **size,
        description=text,
    )


def _text_of(content: Any) -> str:
    """Return the text of an error message: text, parts of content, or any other value as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        return "\n".join(filter(None, map(_part_text, content)))
    try:
        return _json.dumps(content).decode()
    except _json.JsonError:
        return _json.plain_text(repr(content), 2_000)


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", part)
    return text if isinstance(text, str) else ""


def _kind_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else getattr(part, "type", None)
