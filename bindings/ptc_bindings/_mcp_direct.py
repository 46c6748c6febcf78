"""Direct calls of tools by an MCP client, with a preview in place of a large result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ptc

from ._client_scope import ClientScope
from ._definitions import call_result, structured_value
from ._previews import Previews
from ._reply import Preview, reply_of_tool

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["call_tool"]


async def call_tool(
    session: ptc.Session,
    tool: ptc.Tool,
    arguments: Mapping[str, Any],
    allowed_tools: list[str | ptc.Allow],
    previews: Previews,
    scope: ClientScope,
) -> CallToolResult:
    """Call a tool. A result that is too long is stored, and its start returned."""
    reply = await reply_of_tool(session, tool, arguments, allowed_tools, previews)
    for digest in (*reply.stored, *(ref.id for ref in reply.files)):
        scope.grant_file(digest)
    if reply.is_error:
        return call_result(list(reply.texts), None, is_error=True)
    if isinstance(reply.data, Preview):
        structured = reply.data.to_dict()
    else:
        structured = structured_value(reply.data, tool.result_schema)
    return call_result(list(reply.texts), structured, images=reply.images, files=reply.files)
