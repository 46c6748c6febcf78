"""`read`: a text file as a string, whole or by lines, never truncated silently."""

from __future__ import annotations

import os
from typing import Annotated

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ._path_errors import quote
from ._paths import Root

__all__ = ["BOM", "MAX_BYTES", "MAX_SCAN_BYTES", "read", "read_lines", "text_of"]

MAX_BYTES = 2_097_152
"""Maximum bytes that one call returns (2 MiB): a quarter of the limit of a tool result on the wire,
because JSON encodes some characters as six bytes."""

MAX_SCAN_BYTES = 1_073_741_824
"""Maximum bytes that one call scans to find its lines (1 GiB): about a second."""

_CHUNK_BYTES = 262_144
BOM = b"\xef\xbb\xbf"
_SHOWN_CHARACTERS = 200_000
"""Characters in the text for a model; a script and an application receive all of them."""


def _render(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    # Truncate at the end of a line, so that the next call can continue by lines.
    end = text.rfind("\n", 0, _SHOWN_CHARACTERS) + 1
    if not end:
        rest = len(text) - _SHOWN_CHARACTERS
        return f"{text[:_SHOWN_CHARACTERS]}\n[truncated: this line has {rest:,} more characters]"
    shown = text.count("\n", 0, end)
    return (
        f"{text[:end]}[truncated: {len(text) - end:,} more characters; these are {shown:,} lines. "
        f"To continue, raise offset by {shown}]"
    )


@tool(render=_render)
def read(
    ctx: ToolContext,
    path: str,
    offset: Annotated[int, Bounds(ge=0)] = 0,
    limit: Annotated[int, Bounds(ge=1)] | None = None,
) -> str:
    """Read a UTF-8 text file and return its text as one string, complete and unnumbered.

    Without offset and limit you get the whole file. A file over 2 MiB is an error (too_large),
    never a truncated text; read it in parts by lines. Past the last line the text is "".

    Args:
        ctx: The call.
        path: File, relative to the workspace root.
        offset: Lines to skip; 0 starts at the first line.
        limit: Maximum number of lines. Default: all to the end.
    """
    with Root(ctx.root) as root:
        return read_lines(root, path, offset, limit)


def read_lines(root: Root, path: str, offset: int, limit: int | None) -> str:
    """Return a file beneath `root`, or lines of it, as `read` does.

    Raises:
        ToolError: As `Root.open_file`, and ``too_large`` or ``not_text``.
    """
    fd = root.open_file(path)
    try:
        size = os.fstat(fd).st_size
        if offset == 0 and limit is None and size > MAX_BYTES:
            raise _too_large(path, size)
        start, data = _lines(fd, offset, limit, path)
    finally:
        os.close(fd)
    return text_of(data, start, path)


def _lines(fd: int, offset: int, limit: int | None, path: str) -> tuple[int, bytes]:
    """Read the requested lines; return their offset in the file and their bytes.

    The size is checked while reading, so a file that grows meanwhile stays within the limit.
    """
    taken = bytearray()
    position = start = 0
    skip, left = offset, limit
    while chunk := os.read(fd, _CHUNK_BYTES):
        begin, end = 0, len(chunk)
        newlines = chunk.count(b"\n")
        if newlines < skip:
            skip -= newlines
            begin = end
        elif skip:
            begin, skip = _after(chunk, skip, 0), 0
            start = position + begin
        done = False
        if left is not None and begin < end:
            newlines = chunk.count(b"\n", begin)
            done = newlines >= left
            if done:
                end = _after(chunk, left, begin)
            left -= newlines
        taken += chunk[begin:end]
        if len(taken) > MAX_BYTES:
            raise _too_large(path, None)
        position += len(chunk)
        if done:
            break
        if position > MAX_SCAN_BYTES:
            msg = (
                f"{quote(path)}: these lines are beyond the first {MAX_SCAN_BYTES:,} bytes, the "
                "limit of read; find the line with grep instead"
            )
            raise ToolError(msg, code="too_large", details={"max_scan_bytes": MAX_SCAN_BYTES})
    return start, bytes(taken)


def _after(chunk: bytes, count: int, position: int) -> int:
    """Return the index after the `count`-th newline from `position` on."""
    for _ in range(count):
        position = chunk.index(b"\n", position) + 1
    return position


def _too_large(path: str, size: int | None) -> ToolError:
    if size is None:
        what = (
            f"these lines of {quote(path)} are more than the {MAX_BYTES:,} bytes that read returns"
        )
        fix = "request fewer with limit=..., or find the lines you need with grep"
    else:
        what = f"{quote(path)} is {size:,} bytes; read returns at most {MAX_BYTES:,}"
        fix = "read it in parts, read(path, offset=0, limit=2000), then offset=2000, or use grep"
    details: dict[str, object] = {"max_bytes": MAX_BYTES}
    if size is not None:
        details["size_bytes"] = size
    return ToolError(f"{what}; {fix}", code="too_large", details=details)


def text_of(data: bytes, start: int, path: str) -> str:
    """Decode bytes of a file; `start` is their offset in it.

    A byte order mark at the start of the file is removed. Line endings are unchanged.

    Raises:
        ToolError: ``not_text`` if they are not UTF-8 or have a NUL byte.
    """
    nul = data.find(b"\0")
    position = nul
    if nul < 0:
        skip = len(BOM) if start == 0 and data.startswith(BOM) else 0
        try:
            return data[skip:].decode()
        except UnicodeDecodeError as error:
            position = error.start + skip
    if start == 0 and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        why = "it starts with the byte order mark of UTF-16; convert it to UTF-8"
    elif position == nul:
        why = f"byte {start + position:,} is NUL, so it is a binary file"
    else:
        why = f"byte {start + position:,} (0x{data[position]:02x}) is not UTF-8"
    msg = f"{quote(path)} is not text: {why}; read returns UTF-8 text only, ls(path) its size"
    raise ToolError(msg, code="not_text", details={"byte_offset": start + position})
