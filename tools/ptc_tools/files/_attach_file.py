"""`attach_file`: an image or a document as an attachment, to be sent to a language model.

It is the only way from a path to a model: a prompt of a script names stored files by their digest.
An allow-list without this tool, or a rule on its path, decides which files a script can send.

Rule 1: a protected file is not attached, nor is text, which `read` returns.
    tests/tools/files/test_attach_file.py::test_secret_files_cannot_be_attached
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath

from ptc import Attachment, ToolContext, ToolError, tool
from ptc._records._media import detect_media_type

from ._path_errors import quote
from ._paths import Root

__all__ = ["MAX_ATTACHED_BYTES", "AttachedFile", "attach_file"]

MAX_ATTACHED_BYTES = 33_554_432
"""Largest file (32 MiB), as many bytes as a prompt can have."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A stored copy of a file."""

    name: str
    """Name of the file."""
    media_type: str
    """Media type by the content."""
    size_bytes: int
    id: str
    """Handle of the copy: the SHA-256 of its content."""


@tool
def attach_file(ctx: ToolContext, path: str) -> AttachedFile:
    """Store a copy of an image or document, to pass it to generate_object.

    For PNG, JPEG, GIF and WebP images, PDF, docx, xlsx and pptx files; read returns text files. Use
    the result as a part of the prompt: `prompt=["Extract the invoice.", await
    ctx.attach_file(path="scan.pdf")]`.

    Args:
        ctx: The call.
        path: File, relative to the workspace root.
    """
    data = _read(ctx, path)
    media_type = detect_media_type(data)
    if media_type is None or media_type == "text/plain":
        if media_type is None:
            found = "is neither an image nor a document that models read"
        else:
            found = "is text; read it with read(path)"
        raise ToolError(f"{quote(path)} {found}", code="not_media")
    name = PurePosixPath(path).name
    stored = ctx.attach(Attachment(name if name.isprintable() else "file", media_type, data))
    return AttachedFile(stored.name, media_type, stored.size_bytes, stored.id)


def _read(ctx: ToolContext, path: str) -> bytes:
    with Root(ctx.root, unprotected=ctx.unprotected, protected=ctx.protected) as root:
        # A slot refuses protected paths, which `open_file` opens for reading.
        with root.slot(path) as slot:
            fd = os.dup(slot.fd) if slot.fd is not None else root.open_file(path)
        with open(fd, "rb") as file:
            data = file.read(MAX_ATTACHED_BYTES + 1)
    if len(data) > MAX_ATTACHED_BYTES:
        msg = f"{quote(path)} has more than {MAX_ATTACHED_BYTES:,} bytes; attach a part of it"
        raise ToolError(msg, code="too_large", details={"max_bytes": MAX_ATTACHED_BYTES})
    return data
