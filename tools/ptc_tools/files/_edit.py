"""`edit`: a part of one file, by its exact text or by a unified diff. All of it or nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ptc import ToolContext, ToolError, tool

from ._atomic import Transaction, slots
from ._change import MAX_CONTENT_BYTES, Change, change_of, content_of, render_change, sized
from ._diff import apply_hunks, is_crlf, parse_diff
from ._paths import Root, Slot, shown
from ._read import BOM, text_of

__all__ = ["edit"]

_PLACES_NAMED = 10
"""Lines that a message lists."""


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
    expected_count: Annotated[int, Field(ge=1)] | None = None,
    diff: str | None = None,
    dry_run: bool = False,
) -> Change:
    """Change part of a text file: give old and new text, or a unified diff of this one file.

    old must be in the file exactly, white space and all, and once only, unless replace_all or
    expected_count says otherwise. On any error the file is as it was. Returns sizes and SHA-256
    before and after, and the lines changed.

    Args:
        ctx: The call.
        path: File, relative to the workspace root.
        old: Text to replace.
        new: Text to put there; "" removes it.
        replace_all: True: replace it wherever it is.
        expected_count: Replace it everywhere, if it is there exactly so many times.
        diff: Hunks "@@ -line,count +line,count @@" with context lines. Line numbers may be off if
            the lines are found at one place only; nothing else may.
        dry_run: True: change nothing, return what would be.
    """
    replacing = old is not None and new is not None
    if replacing is (diff is not None) or (old is None) is not (new is None):
        msg = "give old and new, or diff: one of the two ways"
        raise ToolError(msg, code="invalid_arguments")
    if diff is not None and (replace_all or expected_count is not None):
        msg = "replace_all and expected_count go with old and new, not with diff"
        raise ToolError(msg, code="invalid_arguments")
    sizes = {"old": old, "new": new, "diff": diff}
    given = {name: sized(text, name) for name, text in sizes.items() if text is not None}
    with Root(ctx.root, unprotected=ctx.unprotected) as root, slots(root, [path]) as [slot]:
        before = _existing(slot, path)
        mark = BOM if before.startswith(BOM) else b""
        body = before[len(mark) :]
        if "diff" in given:
            body, lines = _patched(given["diff"], body)
        else:
            most = None if replace_all else 1
            body, lines = _replaced(slot, body, given, expected_count, most)
        change = change_of(slot, before, mark + body, lines=lines, dry_run=dry_run)
        if len(body) > MAX_CONTENT_BYTES:
            raise _too_long(path)
        if not dry_run:
            with Transaction() as transaction:
                transaction.put(slot, mark + body)
                transaction.commit()
    return change


def _existing(slot: Slot, path: str) -> bytes:
    before = content_of(slot, MAX_CONTENT_BYTES)
    if before is None:
        msg = f"{shown(path)} does not exist; make it with write(path, content)"
        raise ToolError(msg, code="not_found")
    text_of(before, 0, path)  # Refuses what is not text.
    return before


def _patched(diff: bytes, body: bytes) -> tuple[bytes, list[int]]:
    files = parse_diff(diff)
    reason: dict[str, object] = {"reason": "malformed"}
    if len(files) > 1:
        msg = f"the diff is for {len(files)} files; edit takes one, patch takes several"
        raise ToolError(msg, code="patch_failed", details=reason)
    [item] = files
    whole = item.named and (item.old_path is None or item.new_path is None)
    if whole or item.renamed or item.executable is not None:
        msg = "the diff makes, deletes or renames a file or changes its mode; that is for patch"
        raise ToolError(msg, code="patch_failed", details=reason)
    return apply_hunks(body, item.hunks)


def _replaced(
    slot: Slot,
    body: bytes,
    given: dict[str, bytes],
    expected: int | None,
    most: int | None,
) -> tuple[bytes, list[int]]:
    old, new = given["old"], given["new"]
    if not old:
        msg = "old is empty; give the text to replace, or add text with write(mode='append')"
        raise ToolError(msg, code="invalid_arguments")
    if old == new:
        raise ToolError("old and new are the same; nothing would change", code="no_change")
    if is_crlf(body) and b"\r" not in old + new:
        # The file's line ends stay of one kind.
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    count = body.count(old)
    if not count:
        msg = f"{shown(slot.path)} does not have this text{_near(body, old)}; read the file again"
        raise ToolError(msg, code="no_match")
    wanted = expected if expected is not None else most
    if wanted is not None and count != wanted:
        at = ", ".join(f"{line:,}" for line in _lines_of(body, old, _PLACES_NAMED))
        more = ", ..." if count > _PLACES_NAMED else ""
        times = "once" if wanted == 1 else f"{wanted:,} times"
        msg = (
            f"{shown(slot.path)} has this text {count:,} times, not {times}: at lines {at}{more}; "
            f"give more of the text around it, or replace_all=True, or expected_count={count}"
        )
        raise ToolError(msg, code="wrong_count", details={"count": count})
    if len(body) + count * (len(new) - len(old)) > MAX_CONTENT_BYTES:
        raise _too_long(slot.path)
    lines, added = [], new.count(b"\n") - old.count(b"\n")
    for number, line in enumerate(_lines_of(body, old, count)):
        lines.append(line + number * added)
    return body.replace(old, new), lines


def _lines_of(body: bytes, old: bytes, most: int) -> list[int]:
    """Lines at which `old` begins, from 1."""
    lines: list[int] = []
    line, counted, at = 1, 0, body.find(old)
    while at >= 0 and len(lines) < most:
        line += body.count(b"\n", counted, at)
        counted = at
        lines.append(line)
        at = body.find(old, at + len(old))
    return lines


def _near(body: bytes, old: bytes) -> str:
    """Where something like it is, by line number: the text itself stays out of records."""
    if b"\r" in body and b"\n" in old:
        return " (it has CR characters: its line ends may differ)"
    first = next((line for line in old.split(b"\n") if line.strip()), b"").split()
    for number, line in enumerate(body.split(b"\n"), 1):
        if first and line.split() == first:
            how = "the same words" if b"\n" not in old.strip() else "the words of its first line"
            return f" (line {number:,} has {how}: compare white space and what follows)"
    return ""


def _too_long(path: str) -> ToolError:
    msg = f"{shown(path)} would have more than {MAX_CONTENT_BYTES:,} bytes, the most that is edited"
    return ToolError(msg, code="too_large", details={"max_bytes": MAX_CONTENT_BYTES})
