"""File name patterns of `glob` and `grep`, matched without backtracking.

ripgrep has its own patterns (``-g``), but a match of one also overrides ignore files and shows
names with a dot. Therefore ripgrep lists files and this module selects among them.

Syntax: ``*`` any run of characters of one name, ``?`` one character, ``[a-z]`` ``[!a-z]`` one of
a set, ``{a,b}`` either, ``**`` any number of folders; a backslash escapes the next character.
A pattern without ``/`` is matched against the name, in any folder; one with ``/`` against the
whole path below the searched folder (``./*.py``: only in that folder). A name that starts with a
dot is matched only by a part that starts with a dot too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ptc import ToolError

__all__ = ["Pattern", "any_of", "compile_pattern"]

MAX_CHARACTERS = 1_000
MAX_ALTERNATIVES = 256
MAX_PATTERNS = 32

_Part = re.Pattern[str] | None
"""One name of a pattern; None is ``**``."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern."""

    alternatives: tuple[tuple[_Part, ...], ...]
    """Alternatives, one of which must match: parts from the searched folder down."""
    names_dots: bool
    """True if a part matches names that start with a dot."""
    name_globs: tuple[str, ...]
    """Plain globs, one of which matches the name of each matching file; () if unknown."""

    def matches(self, names: Sequence[str]) -> bool:
        """True if the pattern matches the file at `names` below the searched folder."""
        return any(_match(parts, names) for parts in self.alternatives)


def _match(parts: tuple[_Part, ...], names: Sequence[str]) -> bool:
    """Read `names` once while tracking the set of positions in `parts`.

    Backtracking instead would take time exponential in the number of ``**``.
    """
    positions = _skip_stars({0}, parts)
    for name in names:
        further = set()
        for position in positions:
            if position == len(parts):
                continue
            part = parts[position]
            if part is None:
                if not name.startswith("."):
                    further.add(position)
            elif part.fullmatch(name):
                further.add(position + 1)
        positions = _skip_stars(further, parts)
        if not positions:
            return False
    return len(parts) in positions


def _skip_stars(positions: set[int], parts: tuple[_Part, ...]) -> set[int]:
    """Add the positions after each ``**``, which can match no folder at all."""
    return positions | {p + 1 for p in positions if p < len(parts) and parts[p] is None}


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """Compile `pattern`.

    Raises:
        ToolError: ``bad_pattern`` with the position and a suggested fix.
    """
    if not pattern or "\0" in pattern or len(pattern) > MAX_CHARACTERS:
        msg = f"a file pattern has 1 to {MAX_CHARACTERS:,} characters, none of them NUL"
        raise ToolError(msg, code="bad_pattern")
    if pattern.startswith("/"):
        raise _bad(pattern, "it is absolute; omit the root and pass a folder as path=...")
    alternatives: list[tuple[_Part, ...]] = []
    texts: list[list[str]] = []
    for text in _expand_braces(pattern):
        if len(alternatives) == MAX_ALTERNATIVES:
            raise _bad(pattern, f"its braces give more than {MAX_ALTERNATIVES} alternatives")
        parts = _split(text, pattern)
        texts.append(parts)
        alternatives.append(tuple(None if p == "**" else _name(p, pattern) for p in parts))
    plain = all(_is_plain(parts[-1]) for parts in texts)
    return Pattern(
        alternatives=tuple(alternatives),
        names_dots=any(p.startswith((".", "\\.")) for parts in texts for p in parts),
        name_globs=tuple(sorted({parts[-1] for parts in texts})) if plain else (),
    )


def any_of(patterns: Sequence[str]) -> Pattern:
    """Combine patterns: the result matches if one of `patterns` does.

    Raises:
        ToolError: ``bad_pattern``.
    """
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        msg = f"pass 1 to {MAX_PATTERNS} file patterns, not {len(patterns):,}"
        raise ToolError(msg, code="bad_pattern")
    each = [compile_pattern(pattern) for pattern in patterns]
    plain = all(pattern.name_globs for pattern in each)
    return Pattern(
        alternatives=tuple(parts for pattern in each for parts in pattern.alternatives),
        names_dots=any(pattern.names_dots for pattern in each),
        name_globs=tuple(sorted({n for p in each for n in p.name_globs})) if plain else (),
    )


def _is_plain(name: str) -> bool:
    """True if `name` is a selective glob with the same meaning for every program."""
    simple = re.fullmatch(r"[\w.*?-]+", name, re.ASCII) is not None
    return simple and "**" not in name and name != "*"


def _split(text: str, pattern: str) -> list[str]:
    if text.endswith("/"):
        raise _bad(pattern, 'it ends with "/", but only files are found; end it with "/**"')
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise _bad(pattern, "it must name files below the folder; pass the folder as path=...")
    if "/" not in text:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")
    # `**/**` is equivalent to `**`.
    return [part for part, after in pairwise([*parts, ""]) if part != "**" or after != "**"]


def _expand_braces(text: str) -> Iterator[str]:
    """Yield `text` with every ``{a,b}`` replaced by each of its choices."""
    opened = _find(text, "{", 0)
    if opened < 0:
        yield text
        return
    depth, start, choices, index = 0, opened + 1, [], opened
    while index < len(text):
        character = text[index]
        if character == "\\":
            index += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if (character == "," and depth == 1) or (character == "}" and depth == 0):
            choices.append(text[start:index])
            start = index + 1
        if character == "}" and depth == 0:
            break
        index += 1
    else:
        raise _bad(text, 'a "{" is not closed; write "\\{" for the character itself')
    for choice in choices:
        yield from _expand_braces(text[:opened] + choice + text[index + 1 :])


def _find(text: str, wanted: str, index: int) -> int:
    """Return the first `wanted` without a backslash before it, or -1."""
    while index < len(text):
        if text[index] == wanted:
            return index
        index += 2 if text[index] == "\\" else 1
    return -1


def _name(text: str, pattern: str) -> re.Pattern[str]:
    """Compile the pattern of one name to a regular expression.

    The text between two stars is matched at its first occurrence only (an atomic group), because a
    later one leaves less for the rest. This avoids exponential time, as does CPython's fnmatch
    since 3.12.
    """
    runs: list[str] = [""]
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character == "*":
            if runs[-1] or len(runs) == 1:
                runs.append("")
        elif character == "?":
            runs[-1] += "."
        elif character == "[":
            one, index = _character_class(text, index, pattern)
            runs[-1] += one
        elif character == "\\":
            if index == len(text):
                raise _bad(pattern, "it ends with a backslash that has nothing to escape")
            runs[-1] += re.escape(text[index])
            index += 1
        else:
            runs[-1] += re.escape(character)
    first, *others = runs
    visible = "" if text.startswith((".", "\\.")) else r"(?!\.)"
    source = visible + first
    if others:
        source += "".join(f"(?>.*?{run})" for run in others[:-1]) + ".*" + others[-1]
    return re.compile(source, re.DOTALL)


def _character_class(text: str, index: int, pattern: str) -> tuple[str, int]:
    """Parse ``[...]`` after its bracket; return a regular expression and the index after it."""
    negated = text[index : index + 1] in ("!", "^")
    index += negated
    items: list[str] = []
    while index < len(text) and (text[index] != "]" or not items):
        index += text[index] == "\\" and index + 1 < len(text)
        low = text[index]
        index += 1
        if text[index : index + 1] == "-" and text[index + 1 : index + 2] not in ("]", ""):
            high = text[index + 1]
            if high < low:
                raise _bad(pattern, f"[{low}-{high}] runs backwards")
            items.append(f"{re.escape(low)}-{re.escape(high)}")
            index += 2
        else:
            items.append(re.escape(low))
    if index >= len(text):
        raise _bad(pattern, 'a "[" is not closed; write "\\[" for the character itself')
    return f"[{'^' if negated else ''}{''.join(items)}]", index + 1


def _bad(pattern: str, why: str) -> ToolError:
    shown = pattern if len(pattern) <= 100 else f"{pattern[:97]}..."
    return ToolError(f"file pattern {shown!r}: {why}", code="bad_pattern")
