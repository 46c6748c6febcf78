"""`ls`: the entries of one folder."""

from __future__ import annotations

import heapq
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from ptc import ToolContext, ToolError, tool
from ptc._core._folder import Folder
from ptc._schema._bounds import Bounds

from ._path_errors import quote, readable, refusal
from ._paths import Place, Root

__all__ = ["DEFAULT_LIMIT", "Entry", "ls"]

DEFAULT_LIMIT = 10_000
"""Maximum number of entries without `limit`; a folder with more is an error."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a folder."""

    name: str
    """Name in the folder. Bytes that are not UTF-8 appear as U+FFFD."""
    path: str
    """Posix path relative to the root, as read, ls and grep accept it."""
    kind: Literal["file", "dir", "link", "other"]
    """``link``: a symbolic link, not followed. ``other``: a device, FIFO or socket."""
    size_bytes: int | None
    """Size of a file; None for anything else."""


def _render(entries: list[Entry]) -> str:
    if not entries:
        return "Empty folder"
    marks = {"dir": "/", "link": "@", "other": "?"}
    return "\n".join(
        f"{e.name}  {e.size_bytes:,} bytes" if e.size_bytes is not None else e.name + marks[e.kind]
        for e in entries
    )


@tool(render=_render)
def ls(
    ctx: ToolContext,
    path: str = ".",
    limit: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = None,
    after: str | None = None,
) -> list[Entry]:
    """List the entries of one folder, hidden ones included, sorted by name; not recursive.

    Args:
        ctx: The call.
        path: Folder, relative to the workspace root. Default: the root.
        limit: Return the first N entries. Default: all; over 10,000 is an error (too_many).
        after: Return the entries after this name: the last one of the previous list.
    """
    with Root(ctx.root) as root:
        folder, place = root.open_folder(path)
    with folder:
        try:
            wanted = (n for n in folder.names() if after is None or readable(n) > after)
            if limit is not None:
                names = heapq.nsmallest(limit, wanted)
            else:
                names = sorted(_at_most(wanted, path))
        except OSError as error:
            raise refusal(error, path) from None
        return [entry for name in names if (entry := _entry(folder, name, place))]


def _at_most(names: Iterator[str], path: str) -> Iterator[str]:
    for number, name in enumerate(names):
        if number == DEFAULT_LIMIT:
            msg = (
                f"folder {quote(path)} has more than {DEFAULT_LIMIT:,} entries; find the ones you "
                "need with glob(pattern, path=...), or pass limit=N for the first N by name"
            )
            raise ToolError(msg, code="too_many", details={"limit": DEFAULT_LIMIT})
        yield name


def _entry(folder: Folder, name: str, place: Place) -> Entry | None:
    try:
        status = folder.status(name)
    except FileNotFoundError:
        return None  # Deleted since the folder was listed.
    size: int | None = None
    kind: Literal["file", "dir", "link", "other"] = "other"
    if stat.S_ISREG(status.st_mode):
        kind, size = "file", status.st_size
    elif stat.S_ISDIR(status.st_mode):
        kind = "dir"
    elif stat.S_ISLNK(status.st_mode):
        kind = "link"
    return Entry(readable(name), readable(place.child(name)), kind, size)
