"""Unified diffs: parse text to the hunks of each file, without access to files.

`_hunks` applies them. Errors name lines by number and never quote them, because errors are recorded
and content is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ._hunks import Hunk, reject_diff

__all__ = ["FileDiff", "parse_diff"]


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


_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*|$)")
_SKIPPED = (b"index ", b"similarity index ", b"dissimilarity index ")
_REFUSED = {
    b"copy ": "copies are not supported; write the new file",
    b"GIT binary patch": "a binary diff is not supported; only text is",
    b"Binary files ": "a binary diff is not supported; only text is",
}
_NO_NEWLINE = b"\\"


def parse_diff(text: bytes) -> list[FileDiff]:
    """Parse a unified diff into one part for each file.

    Raises:
        ToolError: ``patch_failed``, with ``details["reason"]`` ``"empty"`` or ``"malformed"``.
    """
    if not text.strip():
        reject_diff("the diff is empty; pass hunks that start with @@ -1,2 +1,2 @@", "empty")
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
        reject_diff(
            f"the diff is malformed at its line {where:,}: {why}", "malformed", diff_line=where
        )

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
            reject_diff(
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


def _count(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n") if block else 0)
