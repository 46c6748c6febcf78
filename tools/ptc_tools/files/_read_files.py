"""`read_files`: many text files in one call, with a report of each omission and error."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ._path_errors import quote
from ._paths import Root
from ._read import MAX_BYTES, text_of

__all__ = ["MAX_FILES", "MAX_TOTAL_BYTES", "FileProblem", "FileRest", "FileText", "read_files"]

MAX_FILES = 1_000
"""Maximum number of files in one call."""

MAX_TOTAL_BYTES = 4_194_304
"""Maximum text of one call (4 MiB): half of the default limit of a tool result."""


@dataclass(frozen=True, slots=True)
class FileRest:
    """The rest of a file that was not returned in full."""

    next_offset: int
    """Line at which to continue: `read(path, offset=next_offset)`."""
    bytes_left: int
    """Bytes of the file from that line on."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """The reason that a file could not be read."""

    code: str
    """Error code of `read`: ``not_found``, ``outside_root``, ``not_text`` ..."""
    message: str


@dataclass(frozen=True, slots=True)
class FileText:
    """One file: its text, or an error."""

    path: str
    """Path as requested."""
    text: str
    """Whole lines from the start of the file; ``""`` if there is an error."""
    size_bytes: int | None = None
    """Size of the file; None if there is an error."""
    rest: FileRest | None = None
    """The part left out; None if `text` is the whole file."""
    error: FileProblem | None = None
    """None if the file was read."""


def _render(files: list[FileText]) -> str:
    parts = []
    for file in files:
        if file.error is not None:
            parts.append(f"=== {file.path}\nError [{file.error.code}]: {file.error.message}\n")
            continue
        end = "" if file.text.endswith("\n") or not file.text else "\n"
        more = ""
        if file.rest is not None:
            more = (
                f"[truncated: {file.rest.bytes_left:,} more bytes; continue with "
                f"read({file.path!r}, offset={file.rest.next_offset})]\n"
            )
        parts.append(f"=== {file.path}\n{file.text}{end}{more}")
    return "".join(parts)


@tool(render=_render)
def read_files(
    ctx: ToolContext,
    paths: Annotated[list[str], Bounds(min_length=1, max_length=MAX_FILES)],
    limit: Annotated[int, Bounds(ge=1)] | None = None,
    max_bytes: Annotated[int, Bounds(ge=1, le=MAX_BYTES)] = MAX_BYTES,
) -> list[FileText]:
    """Read many UTF-8 text files at once. Returns a list of {path, text, size_bytes, rest, error}.

    In the order of paths. The text of a file over a limit ends after a complete line, and the file
    has rest={next_offset, bytes_left}. A file that cannot be read has error={code, message}; the
    others are still read. All texts together have at most 4 MiB.

    Args:
        ctx: The call.
        paths: Files, relative to the workspace root.
        limit: Maximum lines of each file. Default: all.
        max_bytes: Maximum bytes of each file. Default: 2 MiB.
    """
    found: list[FileText] = []
    left = MAX_TOTAL_BYTES
    with Root(ctx.root) as root:
        for path in paths:
            try:
                file, used = _one(root, path, limit, min(max_bytes, left))
                left -= used
            except ToolError as error:
                file = FileText(path, "", error=FileProblem(error.code, error.message))
            found.append(file)
    return found


def _one(root: Root, path: str, limit: int | None, most: int) -> tuple[FileText, int]:
    """Read a file; return it and the bytes of the budget that its text takes."""
    fd = root.open_file(path)
    try:
        data = os.read(fd, most + 1)
        # A read may return less than requested; only an empty one is the end.
        while len(data) <= most and (more := os.read(fd, most + 1 - len(data))):
            data += more
        size = len(data) if len(data) <= most else max(os.fstat(fd).st_size, len(data))
    finally:
        os.close(fd)
    end = len(data)
    if end > most:
        end = data.rfind(b"\n", 0, most) + 1
        if not end and most == MAX_BYTES:
            msg = (
                f"{quote(path)}: its first line has more than {most:,} bytes; grep finds lines in "
                "such a file and returns the start of each"
            )
            raise ToolError(msg, code="too_large")
    if limit is not None:
        end = min(end, _end_of_lines(data, limit))
    text = text_of(data[:end] if end < len(data) else data, 0, path)
    if end == size:
        return FileText(path, text, size), end
    rest = FileRest(data.count(b"\n", 0, end), size - end)
    return FileText(path, text, size, rest), end


def _end_of_lines(data: bytes, count: int) -> int:
    """Return the end of the first `count` lines."""
    position = 0
    for _ in range(count):
        position = data.find(b"\n", position) + 1
        if not position:
            return len(data)
    return position
