"""`grep`: find lines by a regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ..files._path_errors import quote
from ..files._paths import Place, Root
from ._glob import beneath, selection
from ._lines import Lines, Match
from ._pattern import Pattern, any_of, compile_pattern
from ._ripgrep import Hit, Ripgrep, run_killable

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_CONTEXT_LINES",
    "MAX_TEXT_BYTES",
    "MatchCount",
    "grep",
    "pattern_options",
]

DEFAULT_LIMIT = 10_000
"""Maximum number of matches or files without `limit`; more are an error."""

MAX_CONTEXT_LINES = 20
"""Maximum of `context`: lines before and after each match."""

MAX_TEXT_BYTES = 4_194_304
"""Maximum text of one result (4 MiB): half of the default limit of a tool result."""

MAX_PATTERN_BYTES = 65_536
"""Half of the maximum length of a program argument on Linux (MAX_ARG_STRLEN, execve(2))."""

_SHOWN_CHARACTERS = 500
"""Characters of a line in the text for a model; the value has the whole line."""


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
    limit: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = None,
    context: Annotated[int, Bounds(ge=0, le=MAX_CONTEXT_LINES)] = 0,
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
    options = pattern_options(pattern, ignore_case=ignore_case, literal=literal)
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


def pattern_options(pattern: str, *, ignore_case: bool, literal: bool) -> list[str]:
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

    def add(self, file: Lines, hit: Hit) -> None:
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

    def commit(self, file: Lines | None) -> None:
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
    file: Lines | None = None
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
                current, file = path, Lines.open_at(root, path) if meant else None
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
