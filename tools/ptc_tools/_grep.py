"""`grep`: lines that match a regular expression, as records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ptc import ToolContext, ToolError, tool

from ._glob import beneath, selection
from ._paths import Place, Root, readable, shown
from ._pattern import Pattern, compile_pattern
from ._ripgrep import Hit, Ripgrep, run_killable

__all__ = ["DEFAULT_LIMIT", "MAX_LINE_BYTES", "MAX_TEXT_BYTES", "Match", "grep"]

DEFAULT_LIMIT = 10_000
"""Matches returned when no limit is asked for; more are an error."""

MAX_LINE_BYTES = 65_536
"""A longer line is cut here and says so (`Match.cut`)."""

MAX_TEXT_BYTES = 4_194_304
"""Lines of one result together (4 MiB): half of what a tool result may be by default."""

MAX_PATTERN_BYTES = 65_536
"""Half of what Linux takes as one argument of a program (MAX_ARG_STRLEN, execve(2))."""

_SHOWN_CHARACTERS = 500
"""Characters of a line in the text for a model. The value has the whole line."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches."""

    path: str
    """Posix path of the file, relative to the root."""
    line: int
    """Number of the line, from 1."""
    text: str
    """The whole line without its end. Bytes that are not UTF-8 are shown as U+FFFD."""
    cut: bool = False
    """True if the line is longer than 65,536 bytes: `text` is its start."""


def _render(matches: list[Match]) -> str:
    if not matches:
        return "No matches"
    return "\n".join(f"{m.path}:{m.line}:{_shown(m)}" for m in matches)


def _shown(match: Match) -> str:
    rest = len(match.text) - _SHOWN_CHARACTERS
    more = " and more" if match.cut else ""
    if rest <= 0:
        return match.text + (" [line cut]" if match.cut else "")
    return f"{match.text[:_SHOWN_CHARACTERS]} [+{rest} characters{more}]"


@tool(render=_render)
async def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    literal: bool = False,
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
) -> list[Match]:
    """Find lines in text files. Returns a list of {path, line, text, cut}, sorted by path and line.

    The pattern is a regular expression (Rust syntax), matched line by line. Files that .gitignore
    names, names that start with a dot, binary files and links are left out.

    Args:
        ctx: The call.
        pattern: Regular expression, or the text itself with literal=True.
        path: File or folder to search, relative to the workspace root. Default: the root.
        glob: Search only files that match, as in the glob tool: "*.py", "src/**/*.ts", ".env*".
        ignore_case: True: upper and lower case are the same.
        literal: True: the pattern is plain text.
        limit: Return the first so many matches. Default: all; over 10,000 is an error (too_many).
    """
    options = _pattern_options(pattern, ignore_case=ignore_case, literal=literal)
    wanted = None if glob is None else compile_pattern(glob)
    folder = ctx.root

    def search(ripgrep: Ripgrep) -> list[Match]:
        return _search(ripgrep, folder, path, wanted, options, limit)

    return await run_killable(search)


def _pattern_options(pattern: str, *, ignore_case: bool, literal: bool) -> list[str]:
    why = None
    if "\0" in pattern:
        why = "it has a NUL character; files that hold one are binary and not searched"
    elif "\n" in pattern:
        why = "it has a line break, but lines are matched one by one; search for one of the lines"
    elif len(pattern.encode("utf-8", "replace")) > MAX_PATTERN_BYTES:
        why = f"it is longer than {MAX_PATTERN_BYTES:,} bytes"
    elif not pattern.isascii() and pattern.encode("utf-8", "replace").decode() != pattern:
        why = "it is not valid Unicode: it has a lone surrogate"
    if why is not None:
        shown = pattern if len(pattern) <= 100 else f"{pattern[:97]}..."
        raise ToolError(f"pattern {shown!r} cannot be searched: {why}", code="bad_pattern")
    options = ["--ignore-case" if ignore_case else "--case-sensitive"]
    if literal:
        options.append("--fixed-strings")
    # `=` keeps a pattern that starts with a dash from being an option.
    return [*options, f"--regexp={pattern}"]


@dataclass(slots=True)
class _Found:
    """Matches so far, those of the file being read apart: it may turn out to be binary."""

    limit: int | None
    matches: list[Match] = field(default_factory=list)
    pending: list[Match] = field(default_factory=list)
    text_bytes: int = 0

    @property
    def full(self) -> bool:
        return self.limit is not None and len(self.matches) >= self.limit

    @property
    def pending_full(self) -> bool:
        """True if more of this file's matches could not be kept anyway."""
        most = DEFAULT_LIMIT + 1 if self.limit is None else self.limit
        many = len(self.matches) + len(self.pending) >= most
        return many or self.text_bytes > MAX_TEXT_BYTES

    def settle(self) -> None:
        """The file is read to its end and is text: keep its matches."""
        self.matches += self.pending
        self.pending = []
        if self.limit is None and len(self.matches) > DEFAULT_LIMIT:
            msg = (
                f"more than {DEFAULT_LIMIT:,} lines match; use a longer pattern, glob=... or "
                "path=..., or pass limit=N to take the first N by path and line"
            )
            raise ToolError(msg, code="too_many", details={"limit": DEFAULT_LIMIT})
        if self.text_bytes > MAX_TEXT_BYTES:
            msg = (
                f"the lines that match are more than {MAX_TEXT_BYTES:,} bytes of text; use a "
                "longer pattern, glob=... or path=..., or a smaller limit=N"
            )
            raise ToolError(msg, code="too_large", details={"max_bytes": MAX_TEXT_BYTES})


def _search(
    ripgrep: Ripgrep,
    folder: Path,
    path: str,
    wanted: Pattern | None,
    options: list[str],
    limit: int | None,
) -> list[Match]:
    found = _Found(limit)
    chosen = list(options)
    with Root(folder) as root:
        place = root.locate(path)
        if place.is_folder:
            wanted = wanted or compile_pattern("**")
            chosen += selection(wanted)
        elif wanted is not None and not wanted.matches(beneath(place, place.path)):
            return []
        if limit is not None:
            # In order, so that the first ones are known before all are.
            chosen.append("--sort=path")
        hits = ripgrep.lines(root, place, chosen)
        _collect(root, place, wanted, hits, found)
    matches = found.matches
    matches.sort(key=lambda match: (match.path.split("/"), match.line))
    return matches


def _collect(
    root: Root,
    place: Place,
    wanted: Pattern | None,
    hits: Iterator[tuple[str, Hit | None]],
    found: _Found,
) -> None:
    current: str | None = None
    file: _Lines | None = None
    bytes_before = 0
    try:
        for path, hit in hits:
            if path != current:
                found.settle()
                if found.full:
                    return
                if file is not None:
                    file.close()
                # A file that was named itself is searched, hidden or not.
                meant = wanted is None or wanted.matches(beneath(place, path))
                current, file = path, _Lines.opened(root, path) if meant else None
                bytes_before = found.text_bytes
            if hit is None:
                if not place.is_folder:
                    msg = f"{shown(path)} is a binary file (it has a NUL byte); grep searches text"
                    raise ToolError(msg, code="not_text")
                found.pending, found.text_bytes = [], bytes_before
            elif file is not None and not found.pending_full:
                match = file.match(hit)
                if match is not None:
                    found.pending.append(match)
                    found.text_bytes += len(match.text.encode())
        found.settle()
    finally:
        if file is not None:
            file.close()


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file whose lines are read at positions that ripgrep found."""

    path: str
    fd: int

    @classmethod
    def opened(cls, root: Root, path: str) -> _Lines | None:
        """None if there is no such file beneath the root (any more)."""
        fd = root.open_exact(path)
        return None if fd is None else cls(readable(path), fd)

    def close(self) -> None:
        os.close(self.fd)

    def match(self, hit: Hit) -> Match | None:
        """The line at `hit`; None if no line starts there (any more)."""
        # From one byte before: that must be the end of the line before.
        before = min(hit.offset, 1)
        data = os.pread(self.fd, before + MAX_LINE_BYTES + 2, hit.offset - before)
        if before and not data.startswith(b"\n"):
            return None
        line, newline, _ = data[before:].partition(b"\n")
        line = line.removesuffix(b"\r") if newline else line
        if hit.offset == 0:
            line = line.removeprefix(_BOM)
        cut = len(line) > MAX_LINE_BYTES
        text = line[:MAX_LINE_BYTES].decode("utf-8", "replace")
        if cut:
            # The cut may be inside a character.
            text = text.removesuffix("\ufffd")
        return Match(self.path, hit.line, text, cut)
