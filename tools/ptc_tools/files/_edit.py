"""`edit`: change part of one file, by exact text or by a unified diff, atomically."""

from __future__ import annotations

from typing import Annotated

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ._atomic import Transaction, slots
from ._change import (
    MAX_CONTENT_BYTES,
    Change,
    change_of,
    content_of,
    encode_argument,
    render_change,
)
from ._diff import parse_diff
from ._hunks import apply_hunks, is_crlf
from ._path_errors import quote
from ._paths import Root, Slot
from ._read import BOM, text_of

__all__ = ["edit"]

_MAX_LISTED = 10
"""Line numbers in an error message."""


@tool(
    side_effect=True,
    idempotent=False,
    unrecorded=["old", "new", "diff"],
    render=render_change,
)
def edit(
    ctx: ToolContext,
    path: str,
    old: str | None = None,
    new: str | None = None,
    replace_all: bool = False,
    expected_count: Annotated[int, Bounds(ge=1)] | None = None,
    diff: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Change part of a text file: pass old and new text, or a unified diff of this one file.

    old must match the file exactly, including white space, and occur exactly once, unless you set
    replace_all or expected_count. On any error the file is unchanged. Returns sizes and SHA-256
    before and after, and the lines changed.

    Args:
        ctx: The call.
        path: File, relative to the workspace root.
        old: Text to replace.
        new: Replacement; "" deletes the text.
        replace_all: True: replace every occurrence.
        expected_count: Replace every occurrence, provided there are exactly this many.
        diff: Hunks "@@ -line,count +line,count @@" with context lines. Line numbers may be off if
            the lines occur only once; everything else must match exactly.
        dry_run: True: change nothing and return the planned change.
    """
    replacing = old is not None and new is not None
    if replacing is (diff is not None) or (old is None) is not (new is None):
        msg = "pass either old and new, or diff"
        raise ToolError(msg, code="invalid_arguments")
    if diff is not None and (replace_all or expected_count is not None):
        msg = "replace_all and expected_count go with old and new, not with diff"
        raise ToolError(msg, code="invalid_arguments")
    sizes = {"old": old, "new": new, "diff": diff}
    data = {name: encode_argument(text, name) for name, text in sizes.items() if text is not None}
    with (
        Root(ctx.root, unprotected=ctx.unprotected, protected=ctx.protected) as root,
        slots(root, [path]) as [slot],
    ):
        before = _read_existing(slot, path)
        mark = BOM if before.startswith(BOM) else b""
        body = before[len(mark) :]
        if "diff" in data:
            body, lines = _apply_diff(data["diff"], body)
        else:
            most = None if replace_all else 1
            body, lines = _replace_text(slot, body, data, expected_count, most)
        change = change_of(slot, before, mark + body, lines=lines, dry_run=dry_run)
        if len(body) > MAX_CONTENT_BYTES:
            raise _too_long(path)
        if not dry_run:
            with Transaction() as transaction:
                transaction.put(slot, mark + body)
                transaction.commit()
    return change


def _read_existing(slot: Slot, path: str) -> bytes:
    before = content_of(slot, MAX_CONTENT_BYTES)
    if before is None:
        msg = f"{quote(path)} does not exist; create it with write(path, content)"
        raise ToolError(msg, code="not_found")
    text_of(before, 0, path)  # Raises `not_text` for a binary file.
    return before


def _apply_diff(diff: bytes, body: bytes) -> tuple[bytes, list[int]]:
    files = parse_diff(diff)
    reason: dict[str, object] = {"reason": "malformed"}
    if len(files) > 1:
        msg = f"the diff is for {len(files)} files; edit takes one, patch takes several"
        raise ToolError(msg, code="patch_failed", details=reason)
    [item] = files
    whole = item.named and (item.old_path is None or item.new_path is None)
    if whole or item.renamed or item.executable is not None:
        msg = "the diff creates, deletes or renames a file or changes its mode; use patch for that"
        raise ToolError(msg, code="patch_failed", details=reason)
    return apply_hunks(body, item.hunks)


def _replace_text(
    slot: Slot,
    body: bytes,
    data: dict[str, bytes],
    expected: int | None,
    most: int | None,
) -> tuple[bytes, list[int]]:
    old, new = data["old"], data["new"]
    if not old:
        msg = "old is empty; pass the text to replace, or append text with write(mode='append')"
        raise ToolError(msg, code="invalid_arguments")
    if old == new:
        raise ToolError("old and new are the same; nothing would change", code="no_change")
    if is_crlf(body) and b"\r" not in old + new:
        # Keep the line endings of the file uniform.
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    count = body.count(old)
    if not count:
        msg = f"{quote(slot.path)} does not have this text{_near(body, old)}; read the file again"
        raise ToolError(msg, code="no_match")
    wanted = expected if expected is not None else most
    if wanted is not None and count != wanted:
        at = ", ".join(f"{line:,}" for line in _lines_of(body, old, _MAX_LISTED))
        more = ", ..." if count > _MAX_LISTED else ""
        times = "once" if wanted == 1 else f"{wanted:,} times"
        msg = (
            f"{quote(slot.path)} has this text {count:,} times, not {times}: at lines {at}{more}; "
            f"add more of the text around it, or set replace_all=True or expected_count={count}"
        )
        raise ToolError(msg, code="wrong_count", details={"count": count})
    if len(body) + count * (len(new) - len(old)) > MAX_CONTENT_BYTES:
        raise _too_long(slot.path)
    lines, added = [], new.count(b"\n") - old.count(b"\n")
    for number, line in enumerate(_lines_of(body, old, count)):
        lines.append(line + number * added)
    return body.replace(old, new), lines


def _lines_of(body: bytes, old: bytes, most: int) -> list[int]:
    """Return the first `most` line numbers, from 1, at which `old` starts."""
    lines: list[int] = []
    line, counted, at = 1, 0, body.find(old)
    while at >= 0 and len(lines) < most:
        line += body.count(b"\n", counted, at)
        counted = at
        lines.append(line)
        at = body.find(old, at + len(old))
    return lines


def _near(body: bytes, old: bytes) -> str:
    """Describe a similar line by its number; the text itself stays out of records."""
    if b"\r" in body and b"\n" in old:
        return " (the file has CR characters: its line endings may differ)"
    first = next((line for line in old.split(b"\n") if line.strip()), b"").split()
    for number, line in enumerate(body.split(b"\n"), 1):
        if first and line.split() == first:
            how = "the same words" if b"\n" not in old.strip() else "the words of its first line"
            return f" (line {number:,} has {how}: compare the white space and the lines after it)"
    return ""


def _too_long(path: str) -> ToolError:
    msg = f"{quote(path)} would have more than {MAX_CONTENT_BYTES:,} bytes, the limit of edit"
    return ToolError(msg, code="too_large", details={"max_bytes": MAX_CONTENT_BYTES})
