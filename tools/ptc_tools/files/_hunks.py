"""Hunks of a diff, and their application to the bytes of a file.

Nothing is guessed. The old lines of a hunk must match the file exactly, at the line the hunk names
or at exactly one other position. Errors name lines by number and never quote them, because errors
are recorded and content is not.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ptc import ToolError

__all__ = ["Hunk", "apply_hunks", "is_crlf", "reject_diff"]


@dataclass(frozen=True, slots=True)
class Hunk:
    """A replacement of lines at one position of a file."""

    number: int
    """Number of the hunk within its file, from 1."""
    diff_line: int
    """Line of the diff with its header, from 1."""
    old_start: int
    """Line of the file in its header, from 1; for an insertion without context, the line before."""
    old: bytes
    """Old lines, with their endings."""
    new: bytes
    """New lines."""
    first_change: int
    """Lines of context before the first change."""


def reject_diff(message: str, reason: str, **details: object) -> NoReturn:
    """Raise the error of a diff that cannot be parsed or applied."""
    raise ToolError(message, code="patch_failed", details={"reason": reason, **details})


def apply_hunks(data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, list[int]]:
    """Apply hunks to the content of a file; return the new content and their lines in it.

    If every line of the file ends with CRLF and the hunks have no CR at all, CRLF is assumed for
    their lines too.

    Raises:
        ToolError: ``patch_failed``, with ``details["reason"]`` ``"mismatch"``, ``"ambiguous"`` or
            ``"no_change"``.
    """
    crlf = is_crlf(data) and not any(b"\r" in hunk.old + hunk.new for hunk in hunks)
    target = _Target(data)
    done: list[bytes] = []
    lines: list[int] = []
    position = new_lines = moved = 0
    for hunk in hunks:
        old, new = hunk.old, hunk.new
        if crlf:
            old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
        at = target.find(hunk, old, position, hunk.old_start + moved)
        end = at + len(old)
        if end < len(data) and new and not new.endswith(b"\n"):
            reject_diff(
                f"hunk {hunk.number} ends without a newline, but more of the file follows it",
                "mismatch",
                hunk=hunk.number,
            )
        if at and data[at - 1 : at] != b"\n":
            reject_diff(
                f"hunk {hunk.number} adds lines after the last one, which has no newline; add "
                "that line as context with `\\ No newline at end of file` under it",
                "mismatch",
                hunk=hunk.number,
            )
        between = data[position:at]
        new_lines += between.count(b"\n")
        lines.append(new_lines + 1 + hunk.first_change)
        new_lines += new.count(b"\n")
        done += [between, new]
        moved = target.line_at(at) - hunk.old_start if old else moved
        position = end
    result = b"".join([*done, data[position:]])
    if result == data:
        reject_diff("the diff changes nothing: its old and new lines are the same", "no_change")
    return result, lines


def is_crlf(data: bytes) -> bool:
    """True if there is at least one line and each ends with CRLF."""
    newlines = data.count(b"\n")
    return newlines > 0 and data.count(b"\r\n") == newlines


class _Target:
    """The content in which hunks are searched."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        # With a newline in front, every line starts after a newline.
        self._led = b"\n" + data
        self._starts = array("Q", [0])
        at = data.find(b"\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = data.find(b"\n", at + 1)

    @property
    def _lines(self) -> int:
        return len(self._starts) - (self._starts[-1] == len(self._data))

    def line_at(self, position: int) -> int:
        """Return the number of the line that starts at `position`, from 1."""
        return self._data.count(b"\n", 0, position) + 1

    def find(self, hunk: Hunk, old: bytes, position: int, line: int) -> int:
        """Return the start of the old lines of a hunk: `line`, or the only other position."""
        if not old:
            if line > self._lines or self._start_of(line + 1) < position:
                self._mismatch(hunk, f"the file has {self._lines:,} lines", line)
            return self._start_of(line + 1)
        stated = self._start_of(line)
        if stated >= position and self._is_at(old, stated):
            return stated
        first = self._next(old, position)
        if first < 0:
            self._mismatch(hunk, self._difference(old, line), line)
        second = self._next(old, first + 1)
        if second >= 0:
            found = [self.line_at(first), self.line_at(second)]
            reject_diff(
                f"hunk {hunk.number} (line {hunk.diff_line:,} of the diff) is not at line {line:,} "
                f"of the file, but at lines {found[0]:,} and {found[1]:,}; correct its line "
                "number, or add more lines of context",
                "ambiguous",
                hunk=hunk.number,
                lines=found,
            )
        return first

    def _start_of(self, line: int) -> int:
        """Return the start of a line, the end for the line after the last one, or -1."""
        if 1 <= line <= len(self._starts):
            return self._starts[line - 1]
        return len(self._data) if line == self._lines + 1 else -1

    def _is_at(self, old: bytes, position: int) -> bool:
        if not self._data.startswith(old, position):
            return False
        return old.endswith(b"\n") or position + len(old) == len(self._data)

    def _next(self, old: bytes, position: int) -> int:
        """Return the first occurrence of these lines from `position` on, or -1."""
        if not old.endswith(b"\n"):
            at = len(self._data) - len(old)
            return at if at >= position and self._led.endswith(b"\n" + old) else -1
        return self._led.find(b"\n" + old, position)

    def _difference(self, old: bytes, line: int) -> str:
        """Describe the first line that differs from the hunk, by number."""
        for number, wanted in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", old)):
            start = self._start_of(line + number)
            if start < 0 or start >= len(self._data):
                return f"the file has {self._lines:,} lines"
            after = self._start_of(line + number + 1)
            found = self._data[start : after if after >= 0 else len(self._data)]
            if found == wanted:
                continue
            what = f"line {line + number:,} of the file is not old line {number + 1} of the hunk"
            if found.rstrip(b"\r\n") == wanted.rstrip(b"\r\n"):
                return f"{what}: the line endings differ (CRLF, LF, or no newline at the end)"
            if found.split() == wanted.split():
                return f"{what}: the white space differs"
            return what
        return "its lines overlap those of the hunk before"

    @staticmethod
    def _mismatch(hunk: Hunk, why: str, line: int) -> NoReturn:
        reject_diff(
            f"hunk {hunk.number} (line {hunk.diff_line:,} of the diff) does not match: {why}. Its "
            "old lines occur nowhere else either; read the file again",
            "mismatch",
            hunk=hunk.number,
            line=line,
        )
