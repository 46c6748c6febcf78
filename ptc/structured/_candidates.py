"""Find the values in a text, apart from prose, thinking and markup.

The text is read from left to right, every character once. Text that starts as data and cannot be
read is not skipped: its parts would pass for the whole. This module knows the names of a schema's
properties, and nothing else of the schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

from .._dataclass import dataclass
from ._names import normalize
from ._reader import Reader
from ._reading import Reading, Work, WorkExceededError
from ._tokens import ReadError

__all__ = [
    "AmbiguousTextError",
    "Candidate",
    "are_adjacent",
    "are_space_separated",
    "find_candidates",
    "read_whole",
]

OPENER_WORK = 20

_THINKING = r"think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|inner_monologue"
_MARK = re.compile(
    rf"<\s*(?P<close>/?)\s*(?:{_THINKING})\b[^<>]{{0,100}}>"
    r"|\u25c1(?P<close2>/?)think\u25b7|\[(?P<close3>/?)THINK\]|[{\[]",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?:final|commentary)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_CITATION = re.compile(r"\[\d{1,4}(?:\s*,\s*\d{1,4})*\]")
_MEMBER_START = re.compile(
    r"\s*(?:```\w*\s+)?(?=(?:\"[^\"\\\n{\[]+\"|'[^'\\\n{\[]+'|\u201c[^\u201d\n{\[]+\u201d)\s*:)"
)
_QUOTED_KEY = re.compile(
    r"[\w\s\\\"'\u201d][\"'\u201d]\s*:(?!//)|[\"'\u201c]\w+\s*:\s*[\"'\u201c\d{\[]"
)
_PART_BEFORE = re.compile("[\"\u201c]|'\\s|^\\s*\\w+\\s*:\\s*$")
_GLUED = re.compile(r"[\"'.\u201d]?\w")
_BEFORE_PART = re.compile(r"[\"'\u201d\d}\]]\s*,\s*$|[\"\u201c][^\"\u201d\n]{1,100}[\"\u201d]\s*$")
_SPACES = " \t\r\n"
_BRACKETS = re.compile(r"[{}\[\]]")
_ROW_END = re.compile(r"[\s,]*+\]?\s*+")
_NOTHING = re.compile(r"[\s,]*+")
_TAIL = re.compile(r"[\s}\]`;]*(?:</?[\w|][^<>]{0,40}>\s*)*")


class AmbiguousTextError(Exception):
    """Part of the text was meant as data and has no single reading.

    Attributes:
        cut: True if the text ended inside that part.
    """

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value in the text."""

    start: int
    end: int
    reading: Reading
    bare_list: bool
    """True for a list that may be a citation in prose: ``[1]``, ``[1, 2]``."""


def find_candidates(text: str, names: Collection[str], work: Work | None = None) -> list[Candidate]:
    """Return the values in `text` outside thinking, in order.

    Args:
        text: The model's answer.
        names: Normalized property names of the schema.
        work: Counts the work.

    Raises:
        AmbiguousTextError: If part of the text was meant as data and has no single reading, or is
            too much work.
    """
    try:
        return _find_candidates(text, names, work or Work(text))
    except WorkExceededError:
        raise AmbiguousTextError from None


def _find_candidates(text: str, names: Collection[str], work: Work) -> list[Candidate]:
    member = _MEMBER_START.match(text)
    if member is not None:
        return [_read_members(text, member.end(), work)]
    channels = list(_CHANNEL.finditer(text))
    begin = position = channels[-1].end() if channels else 0
    found: list[Candidate] = []
    # Values and thinking: everything else is prose.
    taken: list[tuple[int, int, bool]] = []
    while (mark := _MARK.search(text, position)) is not None:
        work.spend(OPENER_WORK)
        if mark.group() not in ("{", "["):
            closing = any(mark.groupdict().values())
            if closing:
                # The opening tag was in the prompt: everything before it was thinking.
                found.clear()
                taken.clear()
                begin = position = mark.end()
            else:
                position = _end_of_thinking(text, mark)
                taken.append((mark.start(), position, True))
            continue
        candidate, position = _read_at(text, mark.start(), names, work)
        if candidate is not None:
            found.append(candidate)
            taken.append((candidate.start, candidate.end, False))
    if found and not are_adjacent(text, found):
        _check_prose(text, begin, taken)
    return found


def _check_prose(text: str, begin: int, taken: list[tuple[int, int, bool]]) -> None:
    """Reject a text in which more data, and not prose, surrounds the values.

    A value after ``"key":``, inside unclosed brackets, or before a stray closer is the readable
    part of a whole that cannot be read.
    """
    gaps = [""]
    position = begin
    for start, end, thinking in taken:
        gaps[-1] += text[position:start]
        position = end
        if thinking:
            gaps[-1] += "\n"
        else:
            gaps.append("")
    gaps[-1] += text[position:]
    for index, gap in enumerate(gaps):
        inner = 0 < index < len(gaps) - 1
        if (inner and not gap) or ("," in gap and not gap.strip(" \t\r\n,{}[]")):
            # Parts of a list that cannot be read as a whole.
            raise AmbiguousTextError
        if index and _GLUED.match(gap):
            raise AmbiguousTextError
        _check_gap(gap, last=index == len(gaps) - 1)
    closers = any(gap.lstrip(_SPACES)[:1] in ("}", "]") for gap in gaps if gap.strip())
    if closers and (len(gaps) > 2 or _PART_BEFORE.search(gaps[0])):
        # One extra closer is a slip after one value; after several it may close any of them.
        raise AmbiguousTextError


def _check_gap(gap: str, *, last: bool) -> None:
    """Reject text that is not prose."""
    if _QUOTED_KEY.search(gap):
        raise AmbiguousTextError
    if last or gap[:1] in ("}", "]"):
        closed = gap.lstrip(_SPACES + "}];")
        stripped = gap[: len(gap) - len(closed)]
        if last and stripped.strip() and closed[:1].isalnum() and "\n" not in stripped:
            raise AmbiguousTextError
        gap = closed.lstrip(_SPACES + "\"'")
    if not gap or gap.isspace():
        return
    if not last and _BEFORE_PART.search(gap):
        raise AmbiguousTextError
    opened: list[str] = []
    for bracket in _BRACKETS.findall(gap):
        if bracket in "{[":
            opened.append("}" if bracket == "{" else "]")
        elif not opened or opened.pop() != bracket:
            raise AmbiguousTextError
    if opened:
        raise AmbiguousTextError


def _end_of_thinking(text: str, mark: re.Match[str]) -> int:
    tag = re.sub(r"[^\w]", "", mark.group().split(None, 1)[0])
    close = re.compile(rf"<\s*/\s*{tag}\s*>|\u25c1/think\u25b7|\[/THINK\]", re.IGNORECASE)
    end = close.search(text, mark.end())
    if end is None:
        # The thinking never ended, so the text has no answer.
        raise AmbiguousTextError(cut=True)
    return end.end()


def _read_at(
    text: str, start: int, names: Collection[str], work: Work
) -> tuple[Candidate | None, int]:
    """Return the value that starts at `start`, or None for prose, and the next position."""
    reader = Reader(text, work)
    try:
        reading = reader.read(start)
    except ReadError as failure:
        return None, _skip_opener(failure, reader, start, names)
    bare = _CITATION.fullmatch(text, start, reading.end) is not None
    return Candidate(start, reading.end, reading, bare), reading.end


def _skip_opener(failure: ReadError, reader: Reader, start: int, names: Collection[str]) -> int:
    """Return the position at which prose continues after an opener that starts no value."""
    if failure.cut or failure.deep:
        raise AmbiguousTextError(cut=failure.cut)
    if reader.committed:
        known = any(normalize(key) in names for key in reader.keys)
        if failure.ambiguous or reader.quoted or known:
            raise AmbiguousTextError
    return max(failure.position, start + 1)


def _read_members(text: str, start: int, work: Work) -> Candidate:
    """Parse ``"key": value`` pairs without the opener; nothing may follow them."""
    try:
        reading = Reader(text, work).read_members(start)
    except ReadError as failure:
        raise AmbiguousTextError(cut=failure.cut) from None
    if _TAIL.fullmatch(text, reading.end) is None:
        raise AmbiguousTextError
    return Candidate(start, len(text), reading, False)


def read_whole(text: str, work: Work) -> Reading | None:
    """Parse `text` as one value and nothing else, for a string that holds JSON."""
    start = len(text) - len(text.lstrip())
    try:
        reading = Reader(text, work).read(start)
    except (ReadError, WorkExceededError):
        return None
    clean = not reading.open_ends and not text[reading.end :].strip()
    return reading if clean else None


def are_adjacent(text: str, found: list[Candidate]) -> bool:
    """True if only space and commas surround the values.

    A closer may follow: the opener of the list is then missing.
    """
    edges = [0, *(c.end for c in found)]
    starts = [*(c.start for c in found), len(text)]
    return all(
        (_NOTHING if start < len(text) else _ROW_END).fullmatch(text, edge, start) is not None
        for edge, start in zip(edges, starts, strict=True)
    )


def are_space_separated(text: str, found: list[Candidate]) -> bool:
    """True if only space separates the values."""
    gaps = [text[one.end : other.start] for one, other in pairwise(found)]
    return all(gap.isspace() for gap in gaps) and not text[found[-1].end :].strip()
