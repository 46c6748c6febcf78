"""The result of `write`, `edit` and `patch`: sizes and digests of a file, never its content."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ptc import ToolError

from ._path_errors import quote
from ._paths import Slot

__all__ = [
    "MAX_CONTENT_BYTES",
    "MAX_FILE_BYTES",
    "MAX_LINES",
    "Action",
    "Change",
    "change_of",
    "content_of",
    "encode_argument",
    "render_change",
    "sha256",
]

MAX_CONTENT_BYTES = 2_097_152
"""Maximum size of the text of one call and of an edited file (2 MiB), the limit of `read`."""

MAX_FILE_BYTES = 67_108_864
"""Maximum size of a file to overwrite or append to (64 MiB)."""

MAX_LINES = 1_000
"""Maximum number of changed lines in `Change.lines`."""

Action: TypeAlias = Literal["created", "modified", "unchanged", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file, made or (with `dry_run`) planned."""

    path: str
    """Posix path of the file relative to the root, with links resolved."""
    action: Action
    """``unchanged``: the file already had this content. ``renamed``: the content may differ too."""
    size_bytes: int | None
    """Size after the change; None if the file is deleted."""
    sha256: str | None
    """Hex digest after the change; None if the file is deleted."""
    size_bytes_before: int | None = None
    """Size before the change; None if the file did not exist."""
    sha256_before: str | None = None
    """Hex digest before the change; None if the file did not exist."""
    path_before: str | None = None
    """Previous path of a renamed file."""
    replacements: int = 0
    """Number of replaced occurrences or hunks; 0 if the whole file was written."""
    lines: list[int] = field(default_factory=list)
    """First line of each replacement in the new file, for the first 1,000."""
    dry_run: bool = False
    """True if nothing was changed: the record describes the planned change."""


def render_change(change: Change) -> str:
    """Describe a change in one line for a model."""
    head = "would be " if change.dry_run else ""
    name = change.path if change.path_before is None else f"{change.path_before} -> {change.path}"
    sizes = [f"{n:,}" for n in (change.size_bytes_before, change.size_bytes) if n is not None]
    text = f"{name}: {head}{change.action}, {' -> '.join(sizes)} bytes"
    if change.lines:
        at = ", ".join(str(line) for line in change.lines[:20])
        more = ", ..." if change.replacements > 20 else ""
        word = "line" if len(change.lines) == 1 else "lines"
        text += f", {change.replacements} changed at {word} {at}{more}"
    return text


def sha256(data: bytes) -> str:
    """Return the hex digest of `data`."""
    return hashlib.sha256(data).hexdigest()


def encode_argument(text: str, parameter: str) -> bytes:
    """Encode the text of an argument in UTF-8.

    Raises:
        ToolError: ``too_large`` over 2 MiB, ``invalid_arguments`` if it is not valid Unicode. The
            details have its size and digest, never the text.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        msg = (
            f"{parameter}: character {error.start:,} is a lone surrogate, which UTF-8 cannot encode"
        )
        raise ToolError(msg, code="invalid_arguments") from None
    if len(data) > MAX_CONTENT_BYTES:
        msg = (
            f"{parameter} has {len(data):,} bytes; one call takes at most {MAX_CONTENT_BYTES:,}. "
            'Write the first part and append the others with write(mode="append")'
        )
        details: dict[str, object] = {
            f"{parameter}_bytes": len(data),
            f"{parameter}_sha256": sha256(data),
            "max_bytes": MAX_CONTENT_BYTES,
        }
        raise ToolError(msg, code="too_large", details=details)
    return data


def content_of(slot: Slot, max_bytes: int) -> bytes | None:
    """Read the file in a slot; None if there is none.

    Raises:
        ToolError: ``too_large`` if it has more than `max_bytes`.
    """
    if slot.fd is None:
        return None
    data = bytearray()
    # Count while reading: the file may have grown since it was opened.
    while len(data) <= max_bytes and (chunk := os.read(slot.fd, 1 << 20)):
        data += chunk
    if len(data) > max_bytes:
        size = os.fstat(slot.fd).st_size
        msg = (
            f"{quote(slot.path)} has {size:,} bytes; this tool changes files of "
            f"at most {max_bytes:,} bytes"
        )
        details: dict[str, object] = {"size_bytes": size, "max_bytes": max_bytes}
        raise ToolError(msg, code="too_large", details=details)
    return bytes(data)


def change_of(
    slot: Slot,
    before: bytes | None,
    after: bytes,
    *,
    lines: list[int] | None = None,
    path_before: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Build the record of a change from `before` to `after`."""
    action: Action = "modified"
    if path_before is not None:
        action = "renamed"
    elif before is None:
        action = "created"
    elif before == after:
        action = "unchanged"
    return Change(
        path=slot.path,
        action=action,
        size_bytes=len(after),
        sha256=sha256(after),
        size_bytes_before=None if before is None else len(before),
        sha256_before=None if before is None else sha256(before),
        path_before=path_before,
        replacements=len(lines or ()),
        lines=(lines or [])[:MAX_LINES],
        dry_run=dry_run,
    )
