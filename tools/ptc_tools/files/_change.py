"""What `write`, `edit` and `patch` say of a file they changed: sizes and digests, never content."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ptc import ToolError

from ._paths import Slot, shown

__all__ = [
    "MAX_CONTENT_BYTES",
    "MAX_FILE_BYTES",
    "MAX_LINES",
    "Action",
    "Change",
    "change_of",
    "content_of",
    "render_change",
    "sha256",
    "sized",
]

MAX_CONTENT_BYTES = 2_097_152
"""Most bytes of text that one call takes, and of a file that is edited (2 MiB): what `read` gives
at once."""

MAX_FILE_BYTES = 67_108_864
"""Largest file that is overwritten or appended to (64 MiB)."""

MAX_LINES = 1_000
"""Places of a change that are listed."""

Action: TypeAlias = Literal["created", "modified", "unchanged", "deleted", "renamed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One file that was changed, or would be."""

    path: str
    """Posix path relative to the root: where the file really is, no links in it."""
    action: Action
    """``unchanged``: it was so already. ``renamed``: its content may have changed too."""
    size_bytes: int | None
    """Its size now; None: it is deleted."""
    sha256: str | None
    """Hex digest of its content now."""
    size_bytes_before: int | None = None
    """Its size before; None: it was not there."""
    sha256_before: str | None = None
    """Hex digest of its content before."""
    path_before: str | None = None
    """What it was called, if it is renamed."""
    replacements: int = 0
    """Places that were changed: occurrences or hunks; 0 if it was written whole."""
    lines: list[int] = field(default_factory=list)
    """Lines of the new file where they begin; of the first 1,000."""
    dry_run: bool = False
    """True: nothing was changed, this is what would have been."""


def render_change(change: Change) -> str:
    """One line for a model."""
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
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def sized(text: str, parameter: str) -> bytes:
    """The text of an argument as bytes.

    Raises:
        ToolError: ``too_large`` over 2 MiB, ``invalid_arguments`` if it is not valid Unicode. The
            message has its size and digest, never the text.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        msg = f"{parameter}: character {error.start:,} is a lone surrogate, which UTF-8 cannot hold"
        raise ToolError(msg, code="invalid_arguments") from None
    if len(data) > MAX_CONTENT_BYTES:
        msg = (
            f"{parameter} has {len(data):,} bytes; one call takes at most {MAX_CONTENT_BYTES:,}; "
            'write the first part and add the others with write(mode="append")'
        )
        details: dict[str, object] = {
            f"{parameter}_bytes": len(data),
            f"{parameter}_sha256": sha256(data),
            "max_bytes": MAX_CONTENT_BYTES,
        }
        raise ToolError(msg, code="too_large", details=details)
    return data


def content_of(slot: Slot, max_bytes: int) -> bytes | None:
    """What is in the file; None if there is none.

    Raises:
        ToolError: ``too_large`` if it has more than `max_bytes`.
    """
    if slot.fd is None:
        return None
    data = bytearray()
    # Bounded as it is read: its size may have grown since.
    while len(data) <= max_bytes and (chunk := os.read(slot.fd, 1 << 20)):
        data += chunk
    if len(data) > max_bytes:
        size = os.fstat(slot.fd).st_size
        msg = (
            f"{shown(slot.path)} has {size:,} bytes; files of up to {max_bytes:,} can be changed "
            "this way"
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
    """The record of a change from `before` to `after`."""
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
