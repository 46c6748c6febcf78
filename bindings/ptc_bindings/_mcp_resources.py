"""Resources of the MCP server: records of runs, and stored files.

Rule 1: an address names a run or a digest, never a path, and a file is sent only if it matches its
    digest. tests/bindings/test_mcp_outcome.py::test_resource_address_reaches_no_other_file
"""

from __future__ import annotations

import base64
import mimetypes
from typing import TYPE_CHECKING

import anyio.to_thread

import ptc

from ._client_scope import ClientScope
from ._mcp_programs import Programs

if TYPE_CHECKING:
    from mcp_types import ReadResourceResult, ResourceTemplate

__all__ = ["read_resource", "resource_templates"]

_RUNS = "ptc://runs/"
_ARTIFACTS = "ptc://artifacts/"
_TEXT_TYPES = ("text/", "application/json", "application/xml")


def resource_templates() -> list[ResourceTemplate]:
    """List the kinds of resources; their names are random, so there is no list of them."""
    from mcp_types import ResourceTemplate

    return [
        ResourceTemplate(
            uri_template=f"{_RUNS}{{run_id}}",
            name="run",
            description="Record of a run: script, inputs, calls, output and result.",
            mime_type="application/json",
        ),
        ResourceTemplate(
            uri_template=f"{_ARTIFACTS}{{digest}}",
            name="artifact",
            description="Stored file: a value that was too large, or an attachment of a tool.",
        ),
    ]


async def read_resource(
    session: ptc.Session, programs: Programs, scope: ClientScope, uri: str
) -> ReadResourceResult:
    """Answer ``resources/read``. Raises `MCPError` if there is no such resource."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import (
        INVALID_PARAMS,
        BlobResourceContents,
        ReadResourceResult,
        TextResourceContents,
    )

    try:
        name, data = await _load(session, programs, scope, uri)
    except ptc.PtcError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith(_TEXT_TYPES):
        text = data.decode(errors="replace")
        return ReadResourceResult(
            contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)]
        )
    blob = base64.b64encode(data).decode()
    return ReadResourceResult(contents=[BlobResourceContents(uri=uri, mime_type=kind, blob=blob)])


async def _load(
    session: ptc.Session, programs: Programs, scope: ClientScope, uri: str
) -> tuple[str, bytes]:
    if uri.startswith(_RUNS):
        return "run.json", await programs.record(uri.removeprefix(_RUNS))
    if uri.startswith(_ARTIFACTS):
        digest = uri.removeprefix(_ARTIFACTS)
        if scope.may_read(digest):
            found = await anyio.to_thread.run_sync(session.artifacts.read, digest)
            if found is not None:
                return found
    msg = f"there is no resource {uri!r:.120}; resources: {_RUNS}RUN and {_ARTIFACTS}DIGEST"
    raise ptc.UsageError(msg)
