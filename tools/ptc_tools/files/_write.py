"""`write`: a text file as a whole, new or in place of another, or more of it at its end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ptc import ToolContext, ToolError, tool

from ._atomic import Transaction, slots
from ._change import MAX_FILE_BYTES, Change, change_of, content_of, render_change, sha256, sized
from ._paths import Root, Slot, shown

__all__ = ["write"]


@tool(side_effect=True, idempotent=False, unrecorded=["content"], render=render_change)
def write(
    ctx: ToolContext,
    path: str,
    content: str,
    mode: Literal["overwrite", "create", "append"] = "overwrite",
    expected_offset: Annotated[int, Field(ge=0)] | None = None,
    expected_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None,
) -> Change:
    """Write a text file; folders are made as needed. Returns sizes and SHA-256 before and after.

    The file is replaced in one step and keeps its permissions. To change a part of it use edit.

    Args:
        ctx: The call.
        path: File, relative to the workspace root. A link is followed to a file that exists.
        content: Text, written as it is in UTF-8. At most 2 MiB; write more in parts.
        mode: "overwrite"; "create": an error (exists) if the file is there; "append".
        expected_offset: With append, required: size of the file now in bytes, 0 if it is not there.
            Doing the same append again changes nothing.
        expected_sha256: Only if the file still has this digest, else an error (conflict).
    """
    # Sizes before paths: content that is too large is told so wherever it was meant to go.
    data = sized(content, "content")
    if (mode == "append") is (expected_offset is None):
        msg = (
            'mode="append" needs expected_offset: the size of the file in bytes, 0 for a new one'
            if mode == "append"
            else f'expected_offset is for mode="append", not {mode!r}'
        )
        raise ToolError(msg, code="invalid_arguments")
    with Root(ctx.root, unprotected=ctx.unprotected) as root, slots(root, [path]) as [slot]:
        if mode == "create" and slot.fd is not None:
            msg = f'{shown(path)} exists; edit it, or write it with mode="overwrite"'
            raise ToolError(msg, code="exists")
        before = content_of(slot, MAX_FILE_BYTES)
        if expected_sha256 is not None:
            _check_digest(slot, before, expected_sha256)
        after = data
        if expected_offset is not None:
            after = _appended(slot, before or b"", data, expected_offset)
        change = change_of(slot, before, after)
        if change.action != "unchanged":
            with Transaction() as transaction:
                transaction.put(slot, after)
                transaction.commit()
    return change


def _check_digest(slot: Slot, before: bytes | None, expected: str) -> None:
    found = None if before is None else sha256(before)
    if found != expected:
        what = "is not there" if found is None else f"has SHA-256 {found}"
        msg = f"{shown(slot.path)} {what}, not {expected}; read it again"
        raise ToolError(msg, code="conflict", details={"sha256": found})


def _appended(slot: Slot, before: bytes, data: bytes, offset: int) -> bytes:
    if len(before) == offset + len(data) and before[offset:] == data:
        return before  # A repeated call: it is there already.
    if len(before) != offset:
        msg = (
            f"{shown(slot.path)} has {len(before):,} bytes, not {offset:,}; read what is there "
            "and append with its size as expected_offset"
        )
        raise ToolError(msg, code="conflict", details={"size_bytes": len(before)})
    if len(before) + len(data) > MAX_FILE_BYTES:
        msg = f"{shown(slot.path)} would have more than {MAX_FILE_BYTES:,} bytes; begin another"
        raise ToolError(msg, code="too_large", details={"max_bytes": MAX_FILE_BYTES})
    return before + data
