"""Lines of a file that match, read at the positions of ripgrep with their context."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..files._path_errors import readable
from ..files._paths import Root
from ..files._read import BOM
from ._ripgrep import Hit

__all__ = ["MAX_LINE_BYTES", "Lines", "Match"]

_CONTEXT_BYTES = 65_536
"""Bytes before and after a match that are read for its context."""

MAX_LINE_BYTES = 65_536
"""Maximum length of a line; a longer one is truncated and has `Match.cut`."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches."""

    path: str
    """Posix path of the file, relative to the root."""
    line: int
    """Number of the line, from 1."""
    text: str
    """The whole line without its line ending. Bytes that are not UTF-8 appear as U+FFFD."""
    cut: bool = False
    """True if the line is longer than 65,536 bytes and `text` is its start."""
    before: list[str] = field(default_factory=list)
    """Lines before it, if requested by `context`, within 64 KiB."""
    after: list[str] = field(default_factory=list)
    """Lines after it, if requested by `context`, within 64 KiB; none if the line is truncated."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A file from which to read lines at the positions of ripgrep."""

    path: str
    fd: int

    @classmethod
    def open_at(cls, root: Root, path: str) -> Lines | None:
        """Open a file; None if it no longer exists beneath the root."""
        fd = root.open_exact(path)
        return None if fd is None else cls(readable(path), fd)

    def close(self) -> None:
        os.close(self.fd)

    def match(self, hit: Hit, context: int) -> Match | None:
        """Read the line at `hit`; None if no line starts there any longer."""
        # Include one byte before: it must end the previous line.
        before = min(hit.offset, 1)
        data = os.pread(self.fd, before + MAX_LINE_BYTES + 2, hit.offset - before)
        if before and not data.startswith(b"\n"):
            return None
        line, newline, _ = data[before:].partition(b"\n")
        end = hit.offset + len(line) + len(newline)
        line = line.removesuffix(b"\r") if newline else line
        if hit.offset == 0:
            line = line.removeprefix(BOM)
        cut = len(line) > MAX_LINE_BYTES
        text = line[:MAX_LINE_BYTES].decode("utf-8", "replace")
        if cut:
            # The truncation may split a character.
            text = text.removesuffix("\ufffd")
        if not context:
            return Match(self.path, hit.line, text, cut)
        after = self._after(end, context) if newline else []
        return Match(self.path, hit.line, text, cut, self._before(hit.offset, context), after)

    def _before(self, end: int, most: int) -> list[str]:
        start = max(0, end - _CONTEXT_BYTES)
        data = os.pread(self.fd, end - start, start)
        # Drop a line that starts before the data that was read.
        data = data.partition(b"\n")[2] if start else data.removeprefix(BOM)
        return _texts(data.split(b"\n")[:-1][-most:])

    def _after(self, start: int, most: int) -> list[str]:
        data = os.pread(self.fd, _CONTEXT_BYTES, start)
        lines = data.split(b"\n")
        # Text after the last newline is a line only at the end of the file, and if not empty.
        if len(data) == _CONTEXT_BYTES or not lines[-1]:
            del lines[-1]
        return _texts(lines[:most])


def _texts(lines: list[bytes]) -> list[str]:
    return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines]
