"""`grep`: find lines by a regular expression."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ptc import ToolContext, ToolError, tool

from ..files._path_errors import quote, readable
from ..files._paths import Place, Root
from ..files._read import BOM
from ._glob import beneath, selection
from ._pattern import Pattern, any_of, compile_pattern
from ._ripgrep import Hit, Ripgrep, run_killable

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_CONTEXT_LINES",
    "MAX_LINE_BYTES",
    "MAX_TEXT_BYTES",
    "Match",
    "MatchCount",
    "grep",
]

DEFAULT_LIMIT = 10_000
"""Maximum number of matches or files without `limit`; more are an error."""

MAX_CONTEXT_LINES = 20
"""Maximum of `context`: lines before and after each match."""

_CONTEXT_BYTES = 65_536
"""Bytes before and after a match that are read for its context."""

MAX_LINE_BYTES = 65_536
"""Maximum length of a line; a longer one is truncated and has `Match.cut`."""

MAX_TEXT_BYTES = 4_194_304
"""Maximum text of one result (4 MiB): half of the default limit of a tool result."""

MAX_PATTERN_BYTES = 65_536
"""Half of the maximum length of a program argument on Linux (MAX_ARG_STRLEN, execve(2))."""

_SHOWN_CHARACTERS = 500
"""Characters of a line in the text for a model; the value has the whole line."""


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
class MatchCount:
    """A file with lines that match."""

    path: str
    """Posix path of the file, relative to the root."""
    count: int
    """Number of lines that match."""


Result: TypeAlias = list[Match] | list[MatchCount] | list[str]


def _render(found: Result) -> str:
    if not found:
        return "No matches"
    lines: list[str] = []
    previous = ("", 0)
    shown: dict[tuple[str, int], str] = {}
    for item in found:
        if isinstance(item, str):
            lines.append(item)
        elif isinstance(item, MatchCount):
            lines.append(f"{item.path}:{item.count}")
        else:
            _add_lines(item, shown)
    context = any(isinstance(m, Match) and (m.before or m.after) for m in found)
    for location, text in sorted(shown.items(), key=lambda row: (row[0][0].split("/"), row[0][1])):
        if context and lines and location != (previous[0], previous[1] + 1):
            lines.append("--")
        lines.append(text)
        previous = location
    return "\n".join(lines)


def _add_lines(match: Match, shown: dict[tuple[str, int], str]) -> None:
    """Add a match and its context, without replacing a match; `:` marks matches, `-` context."""
    for number, text in enumerate(match.before, match.line - len(match.before)):
        shown.setdefault((match.path, number), f"{match.path}-{number}-{_shorten(text)}")
    shown[match.path, match.line] = f"{match.path}:{match.line}:{_shorten(match.text, match.cut)}"
    for number, text in enumerate(match.after, match.line + 1):
        shown.setdefault((match.path, number), f"{match.path}-{number}-{_shorten(text)}")


def _shorten(text: str, cut: bool = False) -> str:
    rest = len(text) - _SHOWN_CHARACTERS
    more = " and more" if cut else ""
    if rest <= 0:
        return text + (" [line truncated]" if cut else "")
    return f"{text[:_SHOWN_CHARACTERS]} [+{rest} characters{more}]"


@tool(render=_render)
async def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    glob: str | list[str] | None = None,
    ignore_case: bool = False,
    literal: bool = False,
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
    context: Annotated[int, Field(ge=0, le=MAX_CONTEXT_LINES)] = 0,
    output: Literal["lines", "files", "count"] = "lines",
) -> list[Match] | list[MatchCount] | list[str]:
    """Find lines in text files. Returns a list of {path, line, text, cut}, sorted by path and line.

    The pattern is a regular expression (Rust syntax), matched line by line. Files that .gitignore
    excludes, names that start with a dot, binary files and links are skipped.

    Args:
        ctx: The call.
        pattern: Regular expression, or the text itself with literal=True.
        path: File or folder to search, relative to the workspace root. Default: the root.
        glob: Search only files that match, as in the glob tool: "*.py", "src/**/*.ts", ".env*". A
            list: files that match one of its patterns.
        ignore_case: True: ignore upper and lower case.
        literal: True: the pattern is plain text.
        limit: Return the first N. Default: all; over 10,000 is an error (too_many).
        context: Lines before and after each match, in its lists `before` and `after`.
        output: "files": a list of the paths of files with a match. "count": a list of {path,
            count} with the number of lines that match in each.
    """
    options = _pattern_options(pattern, ignore_case=ignore_case, literal=literal)
    wanted = None
    if glob is not None:
        wanted = compile_pattern(glob) if isinstance(glob, str) else any_of(glob)
    if context and output != "lines":
        msg = f'context is for output="lines", not {output!r}'
        raise ToolError(msg, code="invalid_arguments")
    folder = ctx.root

    def search(ripgrep: Ripgrep) -> Result:
        found = _Found(limit, context, texts=output == "lines")
        _search(ripgrep, folder, path, wanted, options, found)
        if output == "lines":
            return sorted(found.matches, key=lambda match: (match.path.split("/"), match.line))
        counts = sorted(found.counts, key=lambda count: count.path.split("/"))
        return counts if output == "count" else [count.path for count in counts]

    return await run_killable(search)


def _pattern_options(pattern: str, *, ignore_case: bool, literal: bool) -> list[str]:
    why = None
    if "\0" in pattern:
        why = "it has a NUL character; files with one are binary and are not searched"
    elif "\n" in pattern:
        why = "it has a line break, but each line is matched alone; search for one of the lines"
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
    """Results so far; those of the current file are pending, as it may turn out to be binary."""

    limit: int | None
    context: int
    texts: bool
    """False to count matches only."""
    matches: list[Match] = field(default_factory=list)
    counts: list[MatchCount] = field(default_factory=list)
    pending: list[Match] = field(default_factory=list)
    pending_count: int = 0
    text_bytes: int = 0
    pending_bytes: int = 0

    @property
    def _count(self) -> int:
        return len(self.matches) if self.texts else len(self.counts)

    @property
    def full(self) -> bool:
        return self.limit is not None and self._count >= self.limit

    def add(self, file: _Lines, hit: Hit) -> None:
        """Add a line that matches."""
        if not self.texts:
            self.pending_count += 1
            return
        # Further matches of this file would exceed the limit anyway.
        most = DEFAULT_LIMIT + 1 if self.limit is None else self.limit
        many = len(self.matches) + len(self.pending) >= most
        if many or self.text_bytes + self.pending_bytes > MAX_TEXT_BYTES:
            return
        match = file.match(hit, self.context)
        if match is not None:
            self.pending.append(match)
            self.pending_bytes += sum(
                len(text.encode()) for text in (match.text, *match.before, *match.after)
            )

    def drop(self) -> None:
        """Discard the matches of the current file, which is binary."""
        self.pending, self.pending_count, self.pending_bytes = [], 0, 0

    def commit(self, file: _Lines | None) -> None:
        """Keep the matches of the current file, which was text to its end."""
        self.matches += self.pending
        self.text_bytes += self.pending_bytes
        if self.pending_count and file is not None:
            self.counts.append(MatchCount(file.path, self.pending_count))
        self.drop()
        if self.limit is None and self._count > DEFAULT_LIMIT:
            what = "lines match" if self.texts else "files have a match"
            msg = (
                f"more than {DEFAULT_LIMIT:,} {what}; use a longer pattern, glob=... or "
                "path=..., or pass limit=N for the first N by path and line"
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
    found: _Found,
) -> None:
    chosen = list(options)
    with Root(folder) as root:
        place = root.locate(path)
        if place.is_folder:
            wanted = wanted or compile_pattern("**")
            chosen += selection(wanted)
        elif wanted is not None and not wanted.matches(beneath(place, place.path)):
            return
        if found.limit is not None:
            # In order, so that the search can stop after the first ones.
            chosen.append("--sort=path")
        hits = ripgrep.lines(root, place, chosen)
        _collect(root, place, wanted, hits, found)


def _collect(
    root: Root,
    place: Place,
    wanted: Pattern | None,
    hits: Iterator[tuple[str, Hit | None]],
    found: _Found,
) -> None:
    current: str | None = None
    file: _Lines | None = None
    try:
        for path, hit in hits:
            if path != current:
                found.commit(file)
                if found.full:
                    return
                if file is not None:
                    file.close()
                # A file given as `path` is searched even if it is hidden.
                meant = wanted is None or wanted.matches(beneath(place, path))
                current, file = path, _Lines.open_at(root, path) if meant else None
            if hit is None:
                if not place.is_folder:
                    msg = f"{quote(path)} is a binary file (it has a NUL byte); grep needs text"
                    raise ToolError(msg, code="not_text")
                found.drop()
            elif file is not None:
                found.add(file, hit)
        found.commit(file)
    finally:
        if file is not None:
            file.close()


@dataclass(frozen=True, slots=True)
class _Lines:
    """A file from which to read lines at the positions of ripgrep."""

    path: str
    fd: int

    @classmethod
    def open_at(cls, root: Root, path: str) -> _Lines | None:
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
