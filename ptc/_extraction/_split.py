"""Split a long document by its structure: pages, headings, paragraphs and lines, with overlap.

A row of a table is never split, and a part that continues a table repeats its head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .._dataclass import dataclass

__all__ = ["split_document"]

_HEADING = re.compile(r"#{1,6} \S|\d+(\.\d+)*\.? [A-Z]|(CHAPTER|SECTION|ARTICLE|PART)\b", re.I)
_RULE = re.compile(r"\s*\|?[\s:|+=-]*-[\s:|+=-]*\|?\s*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that belong together."""

    text: str
    weight: int
    """Strength of the boundary before it: 3 a page, 2 a heading, 1 a paragraph, 0 a line."""
    head: str = ""
    """Head of the table that it continues."""


def split_document(text: str, chars: int, overlap: int) -> list[str]:
    """Split `text` into parts of at most about `chars` characters.

    A part ends at the strongest boundary in its second half. It is longer only if one row of a
    table or one word is.

    Args:
        text: The document.
        chars: Characters of a part.
        overlap: Characters that a part repeats of the previous one, in whole paragraphs or lines.
    """
    if len(text) <= chars:
        return [text]
    blocks = [piece for block in _blocks(text) for piece in _pieces(block, chars)]
    parts: list[str] = []
    start = 0
    while start < len(blocks):
        stop = _stop(blocks, start, chars)
        first = _overlap_start(blocks, start, overlap) if parts else start
        chosen = blocks[first:stop]
        parts.append(chosen[0].head + "".join(block.text for block in chosen))
        start = stop
    return parts


def _stop(blocks: list[_Block], start: int, chars: int) -> int:
    """Return the index after the last block of the part that begins at `start`."""
    size, best, best_weight = len(blocks[start].head), start + 1, -1
    for index in range(start, len(blocks)):
        if index > start and size * 2 >= chars and blocks[index].weight >= best_weight:
            best, best_weight = index, blocks[index].weight
        size += len(blocks[index].text)
        if size > chars and index > start:
            return best if best_weight >= 0 else index
    return len(blocks)


def _overlap_start(blocks: list[_Block], start: int, overlap: int) -> int:
    size = 0
    while start > 0 and size + len(blocks[start - 1].text) <= overlap:
        start -= 1
        size += len(blocks[start].text)
    return start


def _blocks(text: str) -> Iterator[_Block]:
    """Split at pages, headings and blank lines; the blocks together are the text."""
    lines: list[str] = []
    weight = 3
    blank = False
    for line in _lines(text):
        new = _weight(line, after_blank=blank)
        if lines and new:
            yield _Block("".join(lines), weight)
            lines, weight = [], new
        lines.append(line)
        blank = not line.strip()
    if lines:
        yield _Block("".join(lines), weight)


def _lines(text: str) -> Iterator[str]:
    """Split into lines, and before form feeds, with their ends."""
    for page in re.split(r"(?=\f)", text):
        yield from re.findall(r"[^\n]*\n|[^\n]+", page)


def _weight(line: str, *, after_blank: bool) -> int:
    if line.startswith("\f"):
        return 3
    if line.startswith("#") and _HEADING.match(line):
        return 2
    if after_blank and line.strip():
        return 2 if _HEADING.match(line) else 1
    return 0


def _pieces(block: _Block, chars: int) -> Iterator[_Block]:
    """Split a block that is too long into its lines, and a long line of prose into sentences."""
    if len(block.text) <= chars:
        yield block
        return
    lines = list(_lines(block.text))
    head = "".join(lines[:2]) if len(lines) > 2 and _is_head(lines[0], lines[1]) else ""
    weight = block.weight
    for number, line in enumerate(lines):
        repeated = head if number >= 2 else ""
        if len(line) <= chars or _is_row(line):
            yield _Block(line, weight, repeated)
        else:
            for text in _sentences(line, chars):
                yield _Block(text, weight)
                weight = 0
        weight = 0


def _sentences(line: str, chars: int) -> Iterator[str]:
    start = 0
    for end in [*(match.end() for match in _SENTENCE.finditer(line)), len(line)]:
        while end - start > chars:
            cut = line.rfind(" ", start + 1, start + chars)
            cut = cut + 1 if cut > start else min(start + chars, end)
            yield line[start:cut]
            start = cut
        if start < end:
            yield line[start:end]
            start = end


def _is_head(first: str, second: str) -> bool:
    return _is_row(first) and _RULE.fullmatch(second.strip()) is not None


def _is_row(line: str) -> bool:
    return line.count("|") >= 2 or line.count("\t") >= 1
