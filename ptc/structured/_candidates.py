"""Where in a text the values are: what is prose, thinking or markup, and what was meant as data.

It reads from left to right, every character once. What began as data and cannot be read is not
skipped: its parts would pass for the whole. It knows no schema, only the names of its properties.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no stub

from ._edits import Repair, Repairs
from ._names import normalize
from ._notation import ReadError
from ._reader import Reader, Reading

__all__ = ["Candidate", "AmbiguousTextError", "find_candidates", "are_adjacent", "are_space_separated", "read_whole"]

MAX_OPENERS = 1_000
"""Openers in prose that are tried; a text with more is refused."""
MAX_READINGS = 27
"""Readings of one text with wrong closers: three choices at three places."""
MAX_CHOICE_CHARS = 100_000
"""Longest text that is read more than once."""

_THINKING = r"think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|inner_monologue"
_MARK = re.compile(
    rf"<\s*(?P<close>/?)\s*(?:{_THINKING})\b[^<>]{{0,100}}>"
    r"|\u25c1(?P<close2>/?)think\u25b7|\[(?P<close3>/?)THINK\]|[{\[]",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?:final|commentary)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_ESCAPED_START = re.compile(r"[{\[][{\[\s]{0,100}\\")
_ESCAPES = re.compile(r"\\(.)")
_CITATION = re.compile(r"\[\d{1,4}(?:\s*,\s*\d{1,4})*\]")
_MEMBER_START = re.compile(
    r"\s*(?:```\w*\s+)?(?=(?:\"[^\"\\\n{\[]+\"|'[^'\\\n{\[]+'|\u201c[^\u201d\n{\[]+\u201d)\s*:)"
)
_QUOTED_KEY = re.compile(
    r"[\w\s\"'\u201d][\"'\u201d]\s*:(?!//)|[\"'\u201c]\w+\s*:\s*[\"'\u201c\d{\[]"
)
_GLUED = re.compile(r"[\"'.\u201d]?\w")
_BEFORE_PART = re.compile(r"[\"'\u201d\d}\]]\s*,\s*$|[\"\u201c][^\"\u201d\n]{1,100}[\"\u201d]\s*$")
_SPACES = " \t\r\n"
_BRACKETS = re.compile(r"[{}\[\]]")
_ROW_END = re.compile(r"[\s,]*\]?\s*")
_NOTHING = re.compile(r"[\s,]*")
_TAIL = re.compile(r"[\s}\]`;]*(?:</?[\w|][^<>]{0,40}>\s*)*")


class AmbiguousTextError(Exception):
    """Something in the text was meant as data and has no single reading.

    Attributes:
        cut: True if the text ended inside of it.
    """

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut


@dataclass(frozen=True, slots=True)
class Candidate:
    """One value in the text; more than one reading if it has closers of the wrong kind."""

    start: int
    end: int
    readings: tuple[Reading, ...]
    bare_list: bool
    """True for a list that prose may contain: ``[1]``, ``[1, 2]``."""


def find_candidates(text: str, names: Collection[str]) -> list[Candidate]:
    """The values in `text` outside thinking, in order.

    Args:
        text: What a model wrote.
        names: Normal forms of the property names that data would have.

    Raises:
        Unclear: If something was meant as data and has no single reading.
    """
    member = _MEMBER_START.match(text)
    if member is not None:
        return [_read_members(text, member.end())]
    channels = list(_CHANNEL.finditer(text))
    begin = position = channels[-1].end() if channels else 0
    found: list[Candidate] = []
    # What is no prose: the values, and the thinking.
    taken: list[tuple[int, int, bool]] = []
    starts = 0
    while (mark := _MARK.search(text, position)) is not None:
        if mark.group() not in ("{", "["):
            closing = any(mark.groupdict().values())
            if closing:
                # The opening tag was in the prompt: all before it was thinking.
                found.clear()
                taken.clear()
                begin = position = mark.end()
            else:
                position = _end_of_thinking(text, mark)
                taken.append((mark.start(), position, True))
            continue
        starts += 1
        if starts > MAX_OPENERS:
            raise AmbiguousTextError
        candidate, position = _read_at(text, mark.start(), names)
        if candidate is not None:
            found.append(candidate)
            taken.append((candidate.start, candidate.end, False))
    if found and not are_adjacent(text, found):
        _check_prose(text, begin, taken)
    return found


def _check_prose(text: str, begin: int, taken: list[tuple[int, int, bool]]) -> None:
    """Refuse a text in which what stands around the values is no prose but more of the data.

    A value behind ``"key":``, inside of brackets that nobody closed, or before a stray closer is
    a part that can be read of a whole that cannot.
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
            # Parts of a list that cannot be read as one.
            raise AmbiguousTextError
        if index and _GLUED.match(gap):
            raise AmbiguousTextError
        _check_gap(gap, last=index == len(gaps) - 1)
    closers = any(gap.lstrip(_SPACES)[:1] in ("}", "]") for gap in gaps if gap.strip())
    if closers and (len(gaps) > 2 or re.search("[\"\u201c]|'\\s", gaps[0])):
        # A closer too many is a slip after one value; after several it may close any of them.
        raise AmbiguousTextError


def _check_gap(gap: str, *, last: bool) -> None:
    """Refuse text that is no prose."""
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
        # The thinking never ended: there is no answer.
        raise AmbiguousTextError(cut=True)
    return end.end()


def _read_at(text: str, start: int, names: Collection[str]) -> tuple[Candidate | None, int]:
    """The value that begins at `start`, or None for prose; and where to go on."""
    if _ESCAPED_START.match(text, start):
        return _read_escaped(text, start)
    reader = Reader(text)
    try:
        reading = reader.read(start)
        choice_count = reading.choices
    except ReadError as failure:
        choice_count = reader.choice_count
        if not choice_count:
            return None, _skip_opener(failure, reader, start, names)
    if not choice_count:
        bare = _CITATION.fullmatch(text, start, reading.end) is not None
        return Candidate(start, reading.end, (reading,), bare), reading.end
    if len(text) > MAX_CHOICE_CHARS:
        raise AmbiguousTextError
    readings = tuple(_all_readings(text, start))
    if not readings:
        raise AmbiguousTextError
    # A reading that ends before another leaves data unread.
    end = max(reading.end for reading in readings)
    longest = tuple(reading for reading in readings if reading.end == end)
    return Candidate(start, end, longest, False), end


def _skip_opener(failure: ReadError, reader: Reader, start: int, names: Collection[str]) -> int:
    """Where prose goes on after an opener that begins no value."""
    if failure.cut or failure.deep:
        raise AmbiguousTextError(cut=failure.cut)
    if reader.committed:
        known = any(normalize(key) in names for key in reader.keys)
        if failure.ambiguous or reader.quoted or known:
            raise AmbiguousTextError
    return max(failure.position, start + 1)


def _all_readings(text: str, start: int) -> Iterator[Reading]:
    """Every reading of a value with closers of the wrong kind."""
    waiting: list[tuple[int, ...]] = [()]
    runs = 0
    while waiting:
        runs += 1
        if runs > MAX_READINGS * 2:
            raise AmbiguousTextError
        choices = waiting.pop()
        reader = Reader(text, choices)
        reading = None
        with contextlib.suppress(ReadError):
            reading = reader.read(start)
        if reader.choice_count > len(choices):
            waiting += [(*choices, option) for option in (0, 1, 2)]
        elif reading is not None:
            yield reading


def _read_escaped(text: str, start: int) -> tuple[Candidate, int]:
    """A value whose quotes are all escaped, with the quotation marks around it or without."""
    if text[start - 1 : start] == '"':
        try:
            inner, end = scanstring(text, start, False)
        except ValueError:
            raise AmbiguousTextError from None
        if inner[:1] not in ("{", "["):
            raise AmbiguousTextError
    else:
        inner, end = _ESCAPES.sub(_unescape, text[start:]), len(text)
    try:
        reading = Reader(inner).read(0)
    except ReadError:
        raise AmbiguousTextError from None
    if _TAIL.fullmatch(inner, reading.end) is None or reading.choices:
        raise AmbiguousTextError
    repairs = Repairs((Repair("", "escaped_text", text[start : start + 40], inner[:40]),))
    repairs.made += reading.repairs.made
    reading.repairs = repairs
    return Candidate(start, end, (reading,), False), end


def _unescape(found: re.Match[str]) -> str:
    plain = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "r": "\r", "t": "\t"}.get(found.group(1))
    if plain is None:
        raise AmbiguousTextError
    return plain


def _read_members(text: str, start: int) -> Candidate:
    """``"key": value`` pairs without the opener; nothing may follow them."""
    try:
        reading = Reader(text).read_members(start)
    except ReadError as failure:
        raise AmbiguousTextError(cut=failure.cut) from None
    if reading.choices or _TAIL.fullmatch(text, reading.end) is None:
        raise AmbiguousTextError
    return Candidate(start, len(text), (reading,), False)


def read_whole(text: str) -> Reading | None:
    """`text` as one value and nothing else; for a string that holds JSON."""
    start = len(text) - len(text.lstrip())
    try:
        reading = Reader(text).read(start)
    except ReadError:
        return None
    clean = not reading.choices and not reading.open_ends and not text[reading.end :].strip()
    return reading if clean else None


def are_adjacent(text: str, found: list[Candidate]) -> bool:
    """True if the values stand in a row, with nothing but space and commas around them.

    A closer may end the row: the opener of the list is what is missing then.
    """
    edges = [0, *(c.end for c in found)]
    starts = [*(c.start for c in found), len(text)]
    return all(
        (_NOTHING if start < len(text) else _ROW_END).fullmatch(text, edge, start) is not None
        for edge, start in zip(edges, starts, strict=True)
    )


def are_space_separated(text: str, found: list[Candidate]) -> bool:
    """True if between the values there is space, and nothing else."""
    gaps = [text[one.end : other.start] for one, other in pairwise(found)]
    return all(gap.isspace() for gap in gaps) and not text[found[-1].end :].strip()
