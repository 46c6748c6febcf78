"""`patch`: apply a unified diff of several files, also created, deleted or renamed, atomically."""

from __future__ import annotations

from dataclasses import dataclass

from ptc import ToolContext, ToolError, tool

from ._atomic import Transaction, slots
from ._change import (
    MAX_CONTENT_BYTES,
    Change,
    change_of,
    content_of,
    encode_argument,
    render_change,
    sha256,
)
from ._diff import FileDiff, parse_diff
from ._hunks import apply_hunks
from ._path_errors import quote
from ._paths import Root, Slot
from ._read import BOM, text_of

__all__ = ["MAX_FILES", "patch"]

MAX_FILES = 200
"""Maximum number of files in one patch."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The planned change of one file."""

    change: Change
    source: Slot
    """Slot of the old content; for a new file, its own slot."""
    target: Slot
    after: bytes | None
    """New content; None deletes the file."""
    executable: bool | None


def _render(changes: list[Change]) -> str:
    return "\n".join(render_change(change) for change in changes)


@tool(side_effect=True, idempotent=False, unrecorded=["diff"], render=_render)
def patch(ctx: ToolContext, diff: str, dry_run: bool = False) -> list[Change]:
    """Apply a unified diff of one or more files: all of it, or nothing and an error.

    The format of `git diff`: "--- a/path", "+++ b/path", then hunks; /dev/null as old or new name
    creates or deletes a file; "rename from" and "rename to" rename one. Lines must match the file
    exactly; only line numbers may be off. Returns sizes and SHA-256 of each file.

    Args:
        ctx: The call.
        diff: The diff, at most 2 MiB and 200 files. Paths are relative to the workspace root.
        dry_run: True: change nothing and return the planned changes.
    """
    files = parse_diff(encode_argument(diff, "diff"))
    for item in files:
        _check(item)
    if len(files) > MAX_FILES:
        msg = f"the diff is for {len(files):,} files; one patch takes at most {MAX_FILES}"
        raise ToolError(msg, code="too_large", details={"max_files": MAX_FILES})
    paths = [path for item in files for path in _paths_of(item)]
    with (
        Root(ctx.root, unprotected=ctx.unprotected, protected=ctx.protected) as root,
        slots(root, paths) as opened,
    ):
        _check_once(opened)
        waiting = iter(opened)
        plans: list[_Plan] = []
        for item in files:
            source = next(waiting)
            target = next(waiting) if item.renamed else source
            plans.append(_plan(item, source, target, dry_run=dry_run))
        if not dry_run:
            _execute(plans)
    return [plan.change for plan in plans]


def _execute(plans: list[_Plan]) -> None:
    with Transaction() as transaction:
        for plan in plans:
            if plan.after is None:
                transaction.remove(plan.source)
                continue
            transaction.put(plan.target, plan.after, like=plan.source, executable=plan.executable)
            if plan.target is not plan.source:
                transaction.remove(plan.source)
        transaction.commit()


def _fail(item: FileDiff, why: str, reason: str = "malformed") -> ToolError:
    name = item.new_path or item.old_path
    what = f"{quote(name)} (line {item.diff_line:,} of the diff)" if name else "the diff"
    details: dict[str, object] = {"reason": reason, "path": name}
    return ToolError(f"{what}: {why}; nothing was changed", code="patch_failed", details=details)


def _check(item: FileDiff) -> None:
    if not item.named:
        msg = (
            f"line {item.diff_line:,} of the diff: no file is named. Put `--- a/path` and "
            "`+++ b/path` before the hunks, or use edit(path, diff=...)"
        )
        raise ToolError(msg, code="patch_failed", details={"reason": "malformed"})
    both = item.old_path is not None and item.new_path is not None
    if both and item.old_path != item.new_path and not item.renamed:
        why = "its two names differ; a rename needs the lines `rename from` and `rename to`"
        raise _fail(item, why)
    if item.renamed and (not both or item.old_path == item.new_path):
        raise _fail(item, "a rename has two different names")


def _paths_of(item: FileDiff) -> list[str]:
    both = [item.old_path, item.new_path] if item.renamed else [item.new_path or item.old_path]
    return [path for path in both if path is not None]


def _check_once(opened: list[Slot]) -> None:
    seen: set[str] = set()
    for slot in opened:
        if slot.path in seen:
            msg = f"the diff is for {quote(slot.path)} twice; put all its hunks under one name"
            raise ToolError(msg, code="patch_failed", details={"reason": "malformed"})
        seen.add(slot.path)


def _plan(item: FileDiff, source: Slot, target: Slot, *, dry_run: bool) -> _Plan:
    before = content_of(source, MAX_CONTENT_BYTES)
    if item.old_path is None:
        if before is not None:
            msg = f"{quote(source.path)} exists, but the diff creates it; nothing was changed"
            raise ToolError(msg, code="exists")
    elif before is None:
        msg = f"{quote(source.path)} does not exist; nothing was changed"
        raise ToolError(msg, code="not_found")
    if target is not source and target.fd is not None:
        msg = f"{quote(target.path)} exists, but the diff renames to it; nothing was changed"
        raise ToolError(msg, code="exists")
    after, lines = _apply(item, before or b"", source.path)
    if item.new_path is None:
        if after:
            raise _fail(
                item, "the diff deletes it, but the hunks leave part of its content", "mismatch"
            )
        change = Change(
            path=source.path,
            action="deleted",
            size_bytes=None,
            sha256=None,
            size_bytes_before=len(before or b""),
            sha256_before=sha256(before or b""),
            replacements=len(lines),
            dry_run=dry_run,
        )
        return _Plan(change, source, target, None, None)
    if len(after) > MAX_CONTENT_BYTES:
        raise _fail(item, f"it would have more than {MAX_CONTENT_BYTES:,} bytes", "too_large")
    old_path = source.path if target is not source else None
    change = change_of(target, before, after, lines=lines, path_before=old_path, dry_run=dry_run)
    return _Plan(change, source, target, after, item.executable)


def _apply(item: FileDiff, before: bytes, path: str) -> tuple[bytes, list[int]]:
    text_of(before, 0, path)  # Raises `not_text` for a binary file.
    if not item.hunks:
        return before, []
    mark = BOM if before.startswith(BOM) else b""
    try:
        after, lines = apply_hunks(before[len(mark) :], item.hunks)
    except ToolError as error:
        msg = f"{quote(path)}: {error.message}; nothing was changed"
        raise ToolError(msg, code=error.code, details={**error.details, "path": path}) from None
    return (mark + after if after else after), lines
