"""File name patterns of `glob` and `grep`: one meaning for both, matched without backtracking.

ripgrep has patterns of its own (``-g``), but there a pattern that matches also switches the
ignore files and the hiding of dot names off. So ripgrep says which files there are, and this
module picks among them.

Syntax: ``*`` any run of characters of one name, ``?`` one character, ``[a-z]`` ``[!a-z]`` one of
a set, ``{a,b}`` either, ``**`` any number of folders, a backslash takes the next character as it
is. A pattern without ``/`` is matched against the name alone, in any folder; one with ``/``
against the whole path below the folder searched (``./*.py``: only in that folder). A name that
starts with a dot is matched only by a part that starts with a dot too.
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
    """Parts from the folder searched down; one of the alternatives must match."""
    names_dots: bool
    """True if a part asks for names that start with a dot."""
    name_globs: tuple[str, ...]
    """Plain globs, one of which every matching file's name matches; () if that cannot be said."""

    def matches(self, names: Sequence[str]) -> bool:
        """True if the file at `names`, from the folder searched down, is meant."""
        return any(_match(parts, names) for parts in self.alternatives)


def _match(parts: tuple[_Part, ...], names: Sequence[str]) -> bool:
    """Go through `names` once with the set of places reached in `parts`.

    Trying one place after the other instead would take time exponential in the number of ``**``.
    """
    places = _reached({0}, parts)
    for name in names:
        further = set()
        for place in places:
            if place == len(parts):
                continue
            part = parts[place]
            if part is None:
                if not name.startswith("."):
                    further.add(place)
            elif part.fullmatch(name):
                further.add(place + 1)
        places = _reached(further, parts)
        if not places:
            return False
    return len(parts) in places


def _reached(places: set[int], parts: tuple[_Part, ...]) -> set[int]:
    """`places`, and those behind a ``**``, which may stand for no folder at all."""
    return places | {p + 1 for p in places if p < len(parts) and parts[p] is None}


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """Compile `pattern`.

    Raises:
        ToolError: ``bad_pattern`` with the place and the way out.
    """
    if not pattern or "\0" in pattern or len(pattern) > MAX_CHARACTERS:
        msg = f"a file pattern has 1 to {MAX_CHARACTERS:,} characters, none of them NUL"
        raise ToolError(msg, code="bad_pattern")
    if pattern.startswith("/"):
        raise _bad(pattern, "it is absolute; leave out the root and use path=... for a folder")
    alternatives: list[tuple[_Part, ...]] = []
    texts: list[list[str]] = []
    for text in _expanded(pattern):
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
    """A pattern that matches what one of `patterns` does.

    Raises:
        ToolError: ``bad_pattern``.
    """
    if not 1 <= len(patterns) <= MAX_PATTERNS:
        msg = f"give 1 to {MAX_PATTERNS} file patterns, not {len(patterns):,}"
        raise ToolError(msg, code="bad_pattern")
    each = [compile_pattern(pattern) for pattern in patterns]
    plain = all(pattern.name_globs for pattern in each)
    return Pattern(
        alternatives=tuple(parts for pattern in each for parts in pattern.alternatives),
        names_dots=any(pattern.names_dots for pattern in each),
        name_globs=tuple(sorted({n for p in each for n in p.name_globs})) if plain else (),
    )


def _is_plain(name: str) -> bool:
    """True if `name` is a glob that every program reads alike and that leaves something out."""
    simple = re.fullmatch(r"[\w.*?-]+", name, re.ASCII) is not None
    return simple and "**" not in name and name != "*"


def _split(text: str, pattern: str) -> list[str]:
    if text.endswith("/"):
        raise _bad(pattern, 'it ends with "/", but only files are found; end it with "/**"')
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise _bad(pattern, "it must name files below the folder; use path=... for the folder")
    if "/" not in text:
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")
    # `**/**` says no more than `**`.
    return [part for part, after in pairwise([*parts, ""]) if part != "**" or after != "**"]


def _expanded(text: str) -> Iterator[str]:
    """`text` with its first ``{a,b}`` replaced by each choice in turn, and so on."""
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
        yield from _expanded(text[:opened] + choice + text[index + 1 :])


def _find(text: str, wanted: str, index: int) -> int:
    """First `wanted` that no backslash stands before; -1 if there is none."""
    while index < len(text):
        if text[index] == wanted:
            return index
        index += 2 if text[index] == "\\" else 1
    return -1


def _name(text: str, pattern: str) -> re.Pattern[str]:
    """Regular expression of one name.

    What stands between two stars is matched at its first place for good (an atomic group): any
    later place leaves less for the rest. So matching takes no exponential time (as in CPython's
    fnmatch since 3.12).
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
    """``[...]`` from behind its bracket: the regular expression and the index after it."""
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
