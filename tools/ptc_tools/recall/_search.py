"""Search in a stored value, by ripgrep: no pattern can hang it, and it can be killed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..search._grep import pattern_options
from ..search._ripgrep import Ripgrep
from ._json_scan import NotJsonError
from ._pointer import Locator
from ._text import Text

__all__ = ["Occurrence", "Search", "add_pointers", "find_occurrences"]

MAX_CONTEXT_CHARS = 2_000
_LOCATED_BYTES = 64 << 20
"""Bytes of JSON in which occurrences are located: about a second."""


@dataclass(frozen=True, slots=True)
class Search:
    """A text to search, and how much to return."""

    text: str
    regex: bool
    context: int
    """Characters before and after each occurrence."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place at which the searched text was found."""

    offset: int
    """Its byte in the text, for unit="bytes"."""
    line: int
    """Number of its line, from 0, for unit="lines"."""
    text: str
    """The text around it."""
    pointer: str = ""
    """The value of the JSON in which it lies."""


def find_occurrences(
    ripgrep: Ripgrep, text: Text, search: Search, skip: int, limit: int, max_chars: int
) -> tuple[list[Occurrence], bool]:
    """Return occurrences, and True if there are more.

    Args:
        ripgrep: The process; the caller ends it.
        text: The text to search in.
        search: The text to search.
        skip: Occurrences to skip.
        limit: Maximum number to return.
        max_chars: Maximum characters of their texts together.
    """
    options = pattern_options(search.text, ignore_case=False, literal=not search.regex)
    found: list[Occurrence] = []
    end = text.start + text.size
    first_line = text.lines_before()
    for line, offset, size in ripgrep.occurrences(text.folder, text.name, options):
        if offset < text.start or not size:
            continue
        if offset + size > end:
            break
        if skip:
            skip -= 1
            continue
        around = _around(text, offset - text.start, size, search.context)
        max_chars -= len(around)
        if len(found) == limit or (max_chars < 0 and found):
            return found, True
        found.append(Occurrence(offset - text.start, line - first_line, around))
    return found, False


def add_pointers(found: list[Occurrence], text: Text, pointer: str) -> list[Occurrence]:
    """Add the pointers of occurrences in JSON; those that are too far away get none."""
    try:
        locator = Locator(text.read, 0, pointer)
        return [
            replace(row, pointer=locator.find(row.offset)) if row.offset < _LOCATED_BYTES else row
            for row in found
        ]
    except NotJsonError:
        return found


def _around(text: Text, offset: int, size: int, context: int) -> str:
    """Return the text from `context` characters before an occurrence to as many after it."""
    shown = min(size, 4 * MAX_CONTEXT_CHARS)
    before = text.read(max(0, offset - 4 * context), min(offset, 4 * context))
    match = text.read(offset, shown)
    after = text.read(offset + size, 4 * context) if shown == size else b""
    start = before.decode(errors="replace")[-context:] if context else ""
    return start + match.decode(errors="replace") + after.decode(errors="replace")[:context]
