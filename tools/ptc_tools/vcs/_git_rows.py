"""Parsers of the machine-readable output formats of git, which return rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

__all__ = [
    "blame",
    "branches",
    "commits",
    "file_rows",
    "paths_of",
    "stashes",
    "status",
    "worktrees",
]

Row = dict[str, Any]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _records(data: bytes, size: int) -> Iterator[list[str]]:
    """Yield groups of `size` fields, each terminated by NUL."""
    fields = data.split(b"\0")[:-1]
    for start in range(0, len(fields) - size + 1, size):
        yield [_text(field) for field in fields[start : start + size]]


def commits(data: bytes) -> list[Row]:
    """Parse ``log -z`` with eight fields."""
    names = ("commit", "parents", "author", "email", "date", "refs", "subject", "body")
    rows: list[Row] = []
    for fields in _records(data, len(names)):
        row: Row = dict(zip(names, fields, strict=True))
        row["parents"] = row["parents"].split()
        row["refs"] = [ref for ref in row["refs"].split(", ") if ref]
        row["body"] = row["body"].rstrip("\n")
        rows.append(row)
    return rows


def status(data: bytes) -> list[Row]:
    """Parse ``status --porcelain=v2 -z``, git-status(1)."""
    rows: list[Row] = []
    entries = iter(data.split(b"\0"))
    for entry in entries:
        kind = entry[:2]
        if kind in (b"? ", b"! "):
            rows.append(_status(_text(entry[2:]), "?", "?", "untracked"))
        elif kind == b"1 ":
            _, xy, *_, path = _text(entry).split(" ", 8)
            rows.append(_status(path, xy[0], xy[1], "changed"))
        elif kind == b"2 ":
            _, xy, *_, path = _text(entry).split(" ", 9)
            row = _status(path, xy[0], xy[1], "renamed" if "R" in xy else "copied")
            rows.append({**row, "old_path": _text(next(entries))})
        elif kind == b"u ":
            _, xy, *_, path = _text(entry).split(" ", 10)
            rows.append(_status(path, xy[0], xy[1], "unmerged"))
    return rows


def _status(path: str, index: str, worktree: str, kind: str) -> Row:
    return {"path": path, "old_path": None, "index": index, "worktree": worktree, "kind": kind}


_STATUS = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type_changed",
    "U": "unmerged",
}


def file_rows(data: bytes, *, patch: bool) -> list[Row]:
    """Parse ``diff -z --raw --numstat``, optionally with ``--patch``, git-diff(1)."""
    rows: list[Row] = []
    position = 0
    while data[position : position + 1] == b":":
        meta, position = _field(data, position)
        letter = _text(meta.split(b" ")[4])[:1]
        first, position = _field(data, position)
        old, path = None, _text(first)
        if letter in ("R", "C"):
            old = path
            second, position = _field(data, position)
            path = _text(second)
        rows.append(
            {
                "path": path,
                "old_path": old,
                "status": _STATUS.get(letter, letter),
                "additions": None,
                "deletions": None,
                **({"patch": ""} if patch else {}),
            }
        )
    by_path = {row["path"]: row for row in rows}
    position = _counts(data, position, by_path)
    if patch:
        # Every entry but an unmerged one has a patch, in the same order.
        texts = _patches(data[position:].lstrip(b"\0"))
        whole = [row for row in rows if row["status"] != "unmerged"]
        for row, text in zip(whole, texts, strict=False):
            row["patch"] = text
    return rows


def _field(data: bytes, position: int) -> tuple[bytes, int]:
    end = data.find(b"\0", position)
    end = len(data) if end < 0 else end
    return data[position:end], end + 1


_COUNTS = re.compile(rb"(\d+|-)\t(\d+|-)\t")


def _counts(data: bytes, position: int, by_path: dict[str, Row]) -> int:
    while found := _COUNTS.match(data, position):
        name, position = _field(data, found.end())
        if not name:  # a rename: old and new name follow
            _, position = _field(data, position)
            name, position = _field(data, position)
        row = by_path.get(_text(name))
        # "-" stands for a binary file.
        if row is not None and found[1] != b"-":
            row["additions"], row["deletions"] = int(found[1]), int(found[2])
    return position


def _patches(data: bytes) -> list[str]:
    # Lines of content start with a space, +, - or \, so such a line is always a header.
    starts = [found.start() for found in re.finditer(rb"(?m)^diff --(?:git|cc|combined) ", data)]
    ends = [*starts[1:], len(data)][: len(starts)]
    texts = (_text(data[start:end]) for start, end in zip(starts, ends, strict=True))
    return [re.sub(r"(?m)^\* Unmerged path .*\n", "", text) for text in texts]


_TRACK = re.compile(r"(ahead|behind) (\d+)")


def branches(data: bytes) -> list[Row]:
    """Parse ``for-each-ref`` with eight fields in a line."""
    rows: list[Row] = []
    for line in data.split(b"\n"):
        if not line:
            continue
        name, commit, head, upstream, track, date, subject, link = map(_text, line.split(b"\0"))
        counts = {word: int(number) for word, number in _TRACK.findall(track)}
        if link:  # origin/HEAD
            continue
        rows.append(
            {
                "name": name,
                "current": head == "*",
                "commit": commit,
                "upstream": upstream or None,
                "ahead": counts.get("ahead", 0) if upstream else None,
                "behind": counts.get("behind", 0) if upstream else None,
                "date": date,
                "subject": subject,
            }
        )
    return rows


def blame(data: bytes) -> list[Row]:
    """Parse ``blame --line-porcelain``, git-blame(1)."""
    rows: list[Row] = []
    row: Row = {}
    seconds, zone = 0, "+0000"
    for line in data.split(b"\n"):
        if line.startswith(b"\t"):
            row["date"] = _date(seconds, zone)
            row["text"] = _text(line[1:])
            rows.append(row)
            row = {}
        elif not row and line:
            commit, _, number, *_ = _text(line).split(" ")
            row = {"line": int(number), "commit": commit, "author": "", "date": "", "text": ""}
        elif line.startswith(b"author "):
            row["author"] = _text(line[7:])
        elif line.startswith(b"author-time "):
            seconds = int(line[12:])
        elif line.startswith(b"author-tz "):
            zone = _text(line[10:])
    return rows


def _date(seconds: int, zone: str) -> str:
    sign = -1 if zone.startswith("-") else 1
    shift = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5])) * sign
    try:
        return datetime.fromtimestamp(seconds, timezone(shift)).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"@{seconds} {zone}"


def paths_of(data: bytes) -> list[Row]:
    """Parse ``ls-files -z``."""
    return [{"path": _text(name)} for name in data.split(b"\0") if name]


def stashes(data: bytes) -> list[Row]:
    """Parse ``log -g -z`` with four fields."""
    names = ("name", "commit", "date", "subject")
    return [dict(zip(names, fields, strict=True)) for fields in _records(data, len(names))]


def worktrees(data: bytes) -> list[Row]:
    """Parse ``worktree list --porcelain -z``."""
    rows: list[Row] = []
    for block in data.split(b"\0\0"):
        found = {}
        for line in block.split(b"\0"):
            key, _, value = _text(line).partition(" ")
            found[key] = value
        if "worktree" in found:
            branch = found.get("branch")
            rows.append(
                {
                    "path": found["worktree"],
                    "commit": found.get("HEAD"),
                    "branch": branch.removeprefix("refs/heads/") if branch else None,
                }
            )
    return rows
