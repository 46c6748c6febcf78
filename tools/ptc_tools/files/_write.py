"""`write`: create, replace or append to a text file."""

from __future__ import annotations

from typing import Annotated, Literal

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ._atomic import Transaction, slots
from ._change import (
    MAX_FILE_BYTES,
    Change,
    change_of,
    content_of,
    encode_argument,
    render_change,
    sha256,
)
from ._path_errors import quote
from ._paths import Root, Slot

__all__ = ["write"]


@tool(side_effect=True, idempotent=False, unrecorded=["content"], render=render_change)
def write(
    ctx: ToolContext,
    path: str,
    content: str,
    mode: Literal["overwrite", "create", "append"] = "overwrite",
    expected_offset: Annotated[int, Bounds(ge=0)] | None = None,
    expected_sha256: Annotated[str, Bounds(pattern="^[0-9a-f]{64}$")] | None = None,
) -> Change:
    """Write a text file, creating missing folders. Returns sizes and SHA-256 before and after.

    The file is replaced atomically and keeps its permissions. To change a part of it, use edit.

    Args:
        ctx: The call.
        path: File, relative to the workspace root. A link to an existing file is followed.
        content: Text, written unchanged in UTF-8. At most 2 MiB; write more in parts.
        mode: "overwrite"; "create": an error (exists) if the file exists; "append".
        expected_offset: Required with append: current size of the file in bytes, 0 for a new one.
            Repeating the same append changes nothing.
        expected_sha256: Write only if the file still has this digest, else an error (conflict).
    """
    # Sizes before paths: content that is too large gets that error for every path.
    data = encode_argument(content, "content")
    if (mode == "append") is (expected_offset is None):
        msg = (
            'mode="append" needs expected_offset: the size of the file in bytes, 0 for a new one'
            if mode == "append"
            else f'expected_offset is for mode="append", not {mode!r}'
        )
        raise ToolError(msg, code="invalid_arguments")
    with (
        Root(ctx.root, unprotected=ctx.unprotected, protected=ctx.protected) as root,
        slots(root, [path]) as [slot],
    ):
        if mode == "create" and slot.fd is not None:
            msg = f'{quote(path)} exists; edit it, or write it with mode="overwrite"'
            raise ToolError(msg, code="exists")
        before = content_of(slot, MAX_FILE_BYTES)
        if expected_sha256 is not None:
            _check_digest(slot, before, expected_sha256)
        after = data
        if expected_offset is not None:
            after = _append(slot, before or b"", data, expected_offset)
        change = change_of(slot, before, after)
        if change.action != "unchanged":
            with Transaction() as transaction:
                transaction.put(slot, after)
                transaction.commit()
    return change


def _check_digest(slot: Slot, before: bytes | None, expected: str) -> None:
    found = None if before is None else sha256(before)
    if found != expected:
        what = "does not exist" if found is None else f"has SHA-256 {found}"
        msg = f"{quote(slot.path)} {what}, but expected_sha256 is {expected}; read it again"
        raise ToolError(msg, code="conflict", details={"sha256": found})


def _append(slot: Slot, before: bytes, data: bytes, offset: int) -> bytes:
    if len(before) == offset + len(data) and before[offset:] == data:
        return before  # A repeated call: the data was appended before.
    if len(before) != offset:
        msg = (
            f"{quote(slot.path)} has {len(before):,} bytes, not {offset:,}; read the file and "
            "append with its size as expected_offset"
        )
        raise ToolError(msg, code="conflict", details={"size_bytes": len(before)})
    if len(before) + len(data) > MAX_FILE_BYTES:
        msg = (
            f"{quote(slot.path)} would have more than {MAX_FILE_BYTES:,} bytes; start another file"
        )
        raise ToolError(msg, code="too_large", details={"max_bytes": MAX_FILE_BYTES})
    return before + data
