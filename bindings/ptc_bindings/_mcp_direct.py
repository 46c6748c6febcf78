"""Direct calls of tools by an MCP client, with a preview in place of a large result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ptc
from ptc._core import _json
from ptc._core._redact import safe_text

from ._client_scope import ClientScope
from ._definitions import call_result, structured_value
from ._outcome import FAILURE_CHARS, artifact_uri, truncate

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["call_tool"]

_PREVIEW_CHARS = 2_000
_NOTE_CHARS = 200
"""Room for the address of the rest of a long error."""


async def call_tool(
    session: ptc.Session,
    tool: ptc.Tool,
    arguments: Mapping[str, Any],
    allowed_tools: list[str | ptc.Allow],
    limits: ptc.Limits,
    scope: ClientScope,
) -> CallToolResult:
    """Call a tool. A result over ``limits.max_output_bytes`` is stored, and its start returned."""
    name = tool.name
    try:
        result = await session.tool(name, arguments, allowed_tools=allowed_tools)
        text = _text(result)
        if not result.ok:
            return _failure(session, text, scope)
        data = _json.dumps(result.value, what=name)
    except Exception as error:  # noqa: BLE001  # a tool's rendering is its author's code
        message = safe_text(f"Error: {name}: {type(error).__name__}: {error}")
        return _failure(session, message, scope)
    images = [part for part in result.content if isinstance(part, ptc.ImageContent)]
    used, limit = sum(len(image.data) for image in images), limits.max_tool_result_bytes
    if used > limit:
        problem = (
            f"Error [result_too_large]: the images of {name} have {used:,} bytes, over the "
            f"limit of {limit:,} (max_tool_result_bytes); request fewer or smaller ones"
        )
        return call_result([problem], None, is_error=True)
    files = [ref for ref in result.attachments if isinstance(ref, ptc.AttachmentRef)]
    for ref in files:
        scope.grant_file(ref.id)
    if max(len(data), len(text.encode(errors="replace"))) > limits.max_output_bytes:
        return _preview(session, name, text, data, images, files, scope)
    structured = structured_value(_json.loads(data), tool.result_schema)
    return call_result([text], structured, images=images, files=files)


def _text(result: ptc.ToolResult) -> str:
    """Return the text of a result, with addresses of its files in place of their paths."""
    text = result.text
    for ref in result.attachments:
        if isinstance(ref, ptc.AttachmentRef):
            text = text.replace(ref.path, artifact_uri(ref.id))
    return text


def _failure(session: ptc.Session, text: str, scope: ClientScope) -> CallToolResult:
    """Report a failed call. A long message is stored, and its start returned."""
    if len(text) <= FAILURE_CHARS:
        return call_result([text], None, is_error=True)
    start = truncate(text, FAILURE_CHARS - _NOTE_CHARS)
    try:
        stored = session.artifacts.keep(text.encode(errors="replace"), ".txt")
    except OSError:
        note = f"The whole message has {len(text):,} characters and could not be stored."
    else:
        scope.grant_file(stored.sha256)
        uri = artifact_uri(stored.sha256)
        note = f"This is the start. The whole message has {len(text):,} characters: {uri}"
    return call_result([start, note], None, is_error=True)


def _preview(
    session: ptc.Session,
    name: str,
    text: str,
    data: bytes,
    images: list[ptc.ImageContent],
    files: list[ptc.AttachmentRef],
    scope: ClientScope,
) -> CallToolResult:
    """Store a large result, and return its start with the address of the rest."""
    try:
        stored = session.artifacts.keep(data)
    except OSError as error:
        problem = (
            f"Error [result_too_large]: the result of {name} has {len(data):,} bytes and cannot be "
            f"stored ({error.strerror}); request less"
        )
        return call_result([problem], None, is_error=True)
    scope.grant_file(stored.sha256)
    uri = artifact_uri(stored.sha256)
    shown = truncate(text, _PREVIEW_CHARS)
    note = (
        f"This is the start. The whole result has {len(data):,} bytes: {uri}. To read part of it, "
        f"call {name} in a script and return only what you need."
    )
    preview = {"preview": shown, "bytes": len(data), "uri": uri}
    return call_result([shown, note], preview, images=images, files=files)
