"""Unified diffs: parse text to hunks and apply hunks to bytes, without access to files.

Nothing is guessed. The old lines of a hunk must match the file exactly, at the line the hunk names
or at exactly one other position. Errors name lines by number and never quote them, because errors
are recorded and content is not.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ptc import ToolError

__all__ = ["FileDiff", "Hunk", "apply_hunks", "parse_diff"]


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


@dataclass(slots=True)
class FileDiff:
    """The part of a diff for one file."""

    diff_line: int
    """First line of this part in the diff, from 1."""
    old_path: str | None = None
    """None if the diff creates the file or has no names."""
    new_path: str | None = None
    """None if the diff deletes the file or has no names."""
    hunks: list[Hunk] = field(default_factory=list)
    named: bool = False
    """True if the diff names the file."""
    executable: bool | None = None
    """New state of the right to execute; None leaves it unchanged."""
    renamed: bool = False
    """True if the header renames the file."""


# --- reading -----------------------------------------------------------------------------------

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*|$)")
_SKIPPED = (b"index ", b"similarity index ", b"dissimilarity index ")
_REFUSED = {
    b"copy ": "copies are not supported; write the new file",
    b"GIT binary patch": "a binary diff is not supported; only text is",
    b"Binary files ": "a binary diff is not supported; only text is",
}
_NO_NEWLINE = b"\\"


def _fail(message: str, reason: str, **details: object) -> NoReturn:
    raise ToolError(message, code="patch_failed", details={"reason": reason, **details})


def parse_diff(text: bytes) -> list[FileDiff]:
    """Parse a unified diff into one part for each file.

    Raises:
        ToolError: ``patch_failed``, with ``details["reason"]`` ``"empty"`` or ``"malformed"``.
    """
    if not text.strip():
        _fail("the diff is empty; pass hunks that start with @@ -1,2 +1,2 @@", "empty")
    lines = text.removesuffix(b"\n").split(b"\n")
    if all(line.endswith(b"\r") for line in lines[:-1]) and len(lines) > 1:
        # The diff itself was stored with CRLF, which says nothing about the file.
        lines = [line.removesuffix(b"\r") for line in lines]
    return _Reader(lines).files()


class _Reader:
    """A parser that reads the lines of a diff once."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> list[FileDiff]:
        found: list[FileDiff] = []
        while self._at < len(self._lines):
            if not self._line.strip():
                self._at += 1
                continue
            found.append(self._file())
        return found

    @property
    def _line(self) -> bytes:
        return self._lines[self._at] if self._at < len(self._lines) else b""

    def _malformed(self, why: str, line: int | None = None) -> NoReturn:
        where = self._at + 1 if line is None else line
        _fail(f"the diff is malformed at its line {where:,}: {why}", "malformed", diff_line=where)

    def _file(self) -> FileDiff:
        item = FileDiff(self._at + 1)
        if self._line.startswith(b"diff --git "):
            self._git_header(item)
        if self._line.startswith(b"--- "):
            self._names(item)
        while self._line.startswith(b"@@"):
            item.hunks.append(self._hunk(len(item.hunks) + 1))
            while self._at < len(self._lines) and not self._line.strip():
                self._at += 1
        if self._at + 1 == item.diff_line:
            self._malformed(
                "a file starts with `--- path` and `+++ path`, a hunk with `@@ -1,2 +1,2 @@`; "
                "other text is not allowed"
            )
        changes = item.renamed or item.executable is not None
        if not item.hunks and not changes and (not item.named or item.old_path == item.new_path):
            self._malformed("no hunk follows", item.diff_line)
        _check_order(item)
        return item

    def _git_header(self, item: FileDiff) -> None:
        item.named = True
        both = _git_names(self._line.removeprefix(b"diff --git ").rstrip(b"\r"))
        if both is not None:
            item.old_path, item.new_path = both
        header = self._at + 1
        self._at += 1
        while self._at < len(self._lines) and self._extended_header(item):
            self._at += 1
        if item.old_path is None and item.new_path is None:
            self._malformed("its file names cannot be read", header)

    def _extended_header(self, item: FileDiff) -> bool:
        """Apply a line of git's extended header; False if the line does not belong to it."""
        line = self._line.rstrip(b"\r")
        for key, reason in _REFUSED.items():
            if line.startswith(key):
                self._malformed(reason)
        if line.startswith(b"rename from "):
            item.renamed, item.old_path = True, _name(line[12:])
        elif line.startswith(b"rename to "):
            item.renamed, item.new_path = True, _name(line[10:])
        elif line.startswith(b"new file mode "):
            item.old_path, item.executable = None, self._mode(line) or None
        elif line.startswith(b"deleted file mode "):
            item.new_path = None
        elif line.startswith((b"new mode ", b"old mode ")):
            executable = self._mode(line)
            item.executable = executable if line.startswith(b"new") else item.executable
        else:
            return line.startswith(_SKIPPED)
        return True

    def _mode(self, line: bytes) -> bool:
        mode = line.rpartition(b" ")[2]
        if mode not in (b"100644", b"100755"):
            self._malformed("only regular files (100644, 100755) are supported")
        return mode == b"100755"

    def _names(self, item: FileDiff) -> None:
        old = self._line.rstrip(b"\r").removeprefix(b"--- ")
        self._at += 1
        if not self._line.startswith(b"+++ "):
            self._malformed("`+++ path` must follow `--- path`")
        new = self._line.rstrip(b"\r").removeprefix(b"+++ ")
        self._at += 1
        old_path, new_path = _name(old), _name(new)
        if old_path == new_path == "/dev/null":
            self._malformed("both names are /dev/null", self._at)
        # git adds the prefixes `a/` and `b/`; without both they are part of the names.
        prefixed = (old_path == "/dev/null" or old_path.startswith("a/")) and (
            new_path == "/dev/null" or new_path.startswith("b/")
        )
        pair = [
            None if name == "/dev/null" else name[2:] if prefixed else name
            for name in (old_path, new_path)
        ]
        if item.named and pair != [item.old_path, item.new_path]:
            self._malformed("the names differ from those of the line `diff --git`", self._at)
        item.named = True
        item.old_path, item.new_path = pair

    def _hunk(self, number: int) -> Hunk:
        header = self._at + 1
        match = _HUNK.fullmatch(self._line.rstrip(b"\r"))
        if match is None:
            self._malformed("a hunk's header is `@@ -line,count +line,count @@`")
        old_start = int(match[1])
        old_left, new_left = (1 if match[n] is None else int(match[n]) for n in (2, 4))
        counts = f"{old_left} old and {new_left} new lines"
        self._at += 1
        old: list[bytes] = []
        new: list[bytes] = []
        first_change = -1
        while old_left or new_left:
            kind, line = self._hunk_line(header, counts)
            if kind != b" " and kind.strip() and first_change < 0:
                first_change = len(old)
            if kind != b"+":
                old.append(line)
                old_left -= 1
            if kind != b"-":
                new.append(line)
                new_left -= 1
            if old_left < 0 or new_left < 0:
                self._malformed(f"the header of its hunk says {counts}, but it has more", header)
            self._at += 1
            self._no_newline(kind, old, new, (old_left, new_left))
        if self._continues():
            self._malformed(f"the header of its hunk says {counts}, but it has more", header)
        if first_change < 0:
            self._malformed("this hunk changes nothing", header)
        return Hunk(number, header, old_start, b"".join(old), b"".join(new), first_change)

    def _hunk_line(self, header: int, counts: str) -> tuple[bytes, bytes]:
        """Return the kind of the current line, and its text with a newline."""
        kind, line = self._line[:1], self._line[1:] + b"\n"
        # An empty line is an empty context line that lost its leading space.
        if self._at >= len(self._lines) or kind not in (b" ", b"+", b"-", b"", b"\r"):
            self._malformed(f"the header of its hunk says {counts}, but it has fewer", header)
        return kind, b"\r\n" if kind == b"\r" else line

    def _continues(self) -> bool:
        """True if the current line is one of a hunk and not the header of the next file."""
        if self._at >= len(self._lines) or self._line[:1] not in (b" ", b"+", b"-"):
            return False
        after = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else b""
        return not (self._line.startswith(b"--- ") and after.startswith(b"+++ "))

    def _no_newline(
        self, kind: bytes, old: list[bytes], new: list[bytes], left: tuple[int, int]
    ) -> None:
        r"""Apply ``\ No newline at end of file`` to the line before it."""
        if self._at >= len(self._lines) or not self._line.startswith(_NO_NEWLINE):
            return
        if (kind != b"+" and left[0]) or (kind != b"-" and left[1]):
            self._malformed("`\\ No newline at end of file` is not under the last line")
        if kind != b"+":
            old[-1] = old[-1].removesuffix(b"\n")
        if kind != b"-":
            new[-1] = new[-1].removesuffix(b"\n")
        self._at += 1


def _check_order(item: FileDiff) -> None:
    end = 0
    for hunk in item.hunks:
        if hunk.old_start < end:
            _fail(
                f"the diff is malformed at its line {hunk.diff_line:,}: hunk {hunk.number} is not "
                "after the one before it",
                "malformed",
                diff_line=hunk.diff_line,
            )
        end = hunk.old_start + _count(hunk.old)


def _name(raw: bytes) -> str:
    """Parse a file name of diff or git: quoted as in C, or up to a tab and a time."""
    if raw.startswith(b'"'):
        match = re.match(rb'"((?:[^"\\]|\\.)*)"', raw)
        return _unquote(match[1] if match else raw).decode("utf-8", "surrogateescape")
    return raw.partition(b"\t")[0].rstrip(b"\r").decode("utf-8", "surrogateescape")


_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13}


def _unquote(raw: bytes) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code.isdigit():
            return bytes([int(code, 8) & 0xFF])
        return bytes([_ESCAPES[code]]) if code in _ESCAPES else code

    return re.sub(rb"(?s)\\([0-7]{1,3}|.)", one, raw)


def _git_names(raw: bytes) -> tuple[str, str] | None:
    """Parse the names of ``diff --git a/x b/x``; None if the line is ambiguous."""
    if raw.startswith(b'"'):
        match = re.fullmatch(rb'("(?:[^"\\]|\\.)*") (.+)', raw)
        pair = (_name(match[1]), _name(match[2])) if match else ("", "")
    else:
        # Names may have spaces: only two equal halves can be separated.
        half = len(raw) // 2
        pair = (_name(raw[:half]), _name(raw[half + 1 :])) if raw[half:][:1] == b" " else ("", "")
    old, new = pair
    if old.startswith("a/") and new.startswith("b/") and old[2:] == new[2:]:
        return old[2:], new[2:]
    return None


# --- applying ----------------------------------------------------------------------------------


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
            _fail(
                f"hunk {hunk.number} ends without a newline, but more of the file follows it",
                "mismatch",
                hunk=hunk.number,
            )
        if at and data[at - 1 : at] != b"\n":
            _fail(
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
        _fail("the diff changes nothing: its old and new lines are the same", "no_change")
    return result, lines


def is_crlf(data: bytes) -> bool:
    """True if there is at least one line and each ends with CRLF."""
    newlines = data.count(b"\n")
    return newlines > 0 and data.count(b"\r\n") == newlines


def _count(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n") if block else 0)


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
            _fail(
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
        _fail(
            f"hunk {hunk.number} (line {hunk.diff_line:,} of the diff) does not match: {why}. Its "
            "old lines occur nowhere else either; read the file again",
            "mismatch",
            hunk=hunk.number,
            line=line,
        )
