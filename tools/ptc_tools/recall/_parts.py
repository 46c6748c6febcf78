"""Parts of a stored value: items of a list, members of an object, lines or bytes of a text.

Rule 1: whatever the size of the value, one part needs memory in proportion to its own size.
    tests/tools/recall/test_recall_large.py::test_large_artifact_is_paged_within_bounded_memory
Rule 2: consecutive parts, each from the `next` of the one before, are the whole value, once.
    tests/tools/test_recall.py::test_consecutive_parts_are_the_whole_value
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ptc import ToolError
from ptc._core import _json
from ptc._records._artifacts import CUT_MARK
from ptc._records._stored_file import StoredFile

from . import _pointer
from ._json_scan import JsonScan, NotJsonError
from ._text import Text, string_text

__all__ = ["Request", "StoredPart", "Unit", "json_part", "not_json", "text_part"]

Unit: TypeAlias = Literal["value", "items", "members", "lines", "bytes", "base64", "matches"]

_COUNTED_BYTES = 16 << 20
"""Bytes after a page of items in which further ones are counted, for its total."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A stored value, or a part of it."""

    value: Any
    """The value; or the list of items, the object of members, the text, or the matches."""
    unit: Unit = "value"
    """Unit of `offset`, `next` and `total`; "value": this is the whole value."""
    offset: int = 0
    """Start of the part."""
    next: int | None = None
    """Offset of the next part; null: there is none."""
    total: int | None = None
    """Units in the whole value; null: too many to count."""
    note: str = ""
    """Omissions inside the part, and how to get them."""


@dataclass(frozen=True, slots=True)
class Request:
    """The part that is wanted."""

    pointer: str
    offset: int
    limit: int | None
    max_chars: int

    @property
    def is_whole(self) -> bool:
        """True if the whole value is wanted, if it fits."""
        return self.offset == 0 and self.limit is None


class _Positions:
    """Ends of recent pages, and totals, so that the next page need not scan the value again.

    Content is named by its digest, so an entry never becomes wrong, and reveals nothing to a
    session that lacks the file.
    """

    _MOST = 256

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str, str, int], int] = OrderedDict()

    def get(self, file: StoredFile, pointer: str, unit: str, offset: int) -> int | None:
        return self._found.get((file.digest, pointer, unit, offset))

    def put(self, file: StoredFile, pointer: str, unit: str, offset: int, position: int) -> None:
        self._found[file.digest, pointer, unit, offset] = position
        while len(self._found) > self._MOST:
            self._found.popitem(last=False)


_POSITIONS = _Positions()
_TOTAL = "total of "
_UNKNOWN = -1


def _total(
    file: StoredFile, pointer: str, unit: str, count: Callable[[], int | None]
) -> int | None:
    """Return the number of units, counted once for each value."""
    known = _POSITIONS.get(file, pointer, _TOTAL + unit, 0)
    if known is None:
        found = count()
        known = _UNKNOWN if found is None else found
        _POSITIONS.put(file, pointer, _TOTAL + unit, 0, known)
    return None if known == _UNKNOWN else known


def not_json(file: StoredFile, error: NotJsonError) -> ToolError:
    """Return the error of a file that is not the JSON that its name, or a pointer, promises."""
    msg = (
        f"the stored file {file.name[:12]}...{file.suffix} is not JSON (byte {error.position:,}): "
        'omit the pointer, and read it with unit="lines" or unit="bytes"'
    )
    return ToolError(msg, code="not_json")


# --- JSON ---------------------------------------------------------------------------------------


def json_part(file: StoredFile, request: Request) -> StoredPart:
    """Return the value at a pointer, or a page of it.

    Raises:
        ToolError: ``bad_pointer``, ``no_such_part``.
        NotJsonError: If the file is not JSON.
    """
    scan = JsonScan(file.read)
    for unit, members in (("items", False), ("members", True)):
        position = _POSITIONS.get(file, request.pointer, unit, request.offset)
        if position is not None:
            scan = JsonScan(file.read, position)
            return _page(file, scan, request, members=members, skipped=request.offset)
    _pointer.find(scan, request.pointer)
    opening = scan.next_byte()
    if opening in (b"[", b"{"):
        scan.take(opening)
        members = opening == b"{"
        skipped = scan.skip_entries(request.offset, members=members)
        return _page(file, scan, request, members=members, skipped=skipped)
    span = scan.skip_value()
    if opening == b'"':
        if span.size <= request.max_chars and request.is_whole:
            return StoredPart(_load(file.read(span.start, span.size), span.start))
        with string_text(file, span) as text:
            return text_part(file, text, request, unit="lines")
    return StoredPart(_load(file.read(span.start, span.size), span.start))


def _load(data: bytes, position: int) -> Any:
    try:
        return _json.loads(data)
    except ValueError:
        raise NotJsonError(position) from None


def _page(
    file: StoredFile, scan: JsonScan, request: Request, *, members: bool, skipped: int
) -> StoredPart:
    """Return items or members from the position of `scan`, as many as fit.

    Args:
        file: The file.
        scan: At an item, or at the end of the container.
        request: The part that is wanted.
        members: True: the container is an object.
        skipped: Items before the position.
    """
    unit: Unit = "members" if members else "items"
    start = scan.position
    pieces: list[bytes] = []
    missing: list[str] = []
    room = request.max_chars - 1
    most = request.limit
    brackets = (b"{", b"}") if members else (b"[", b"]")
    ended = scan.next_byte() == brackets[1]
    if skipped < request.offset:
        # The last entry has no comma after it, so it was not skipped.
        return StoredPart({} if members else [], unit, request.offset, None, skipped + (not ended))
    while not ended and (most is None or len(pieces) < most):
        before = scan.position
        key = scan.read_key() if members else len(pieces) + skipped
        name = _json.dumps(key) + b":" if members else b""
        span = scan.skip_value()
        if span.size + len(name) > request.max_chars - 2:
            pointer = _pointer.child(request.pointer, key)
            piece = name + _json.dumps({CUT_MARK: f"{span.size:,} bytes; pointer={pointer!r}"})
            missing.append(pointer)
        else:
            piece = name + file.read(span.start, span.size)
        if len(piece) + 1 > room and pieces:
            scan = JsonScan(file.read, before)
            missing = missing[: len(missing) - (CUT_MARK.encode() in piece)]
            break
        pieces.append(piece)
        room -= len(piece) + 1
        ended = scan.next_byte() == brackets[1]
        if not ended:
            scan.take(b",")
    value = _load(brackets[0] + b",".join(pieces) + brackets[1], start)
    note = f"too large for this part: {', '.join(missing[:10])}" if missing else ""
    end = skipped + len(pieces)
    if ended:
        whole = request.is_whole and not missing
        return StoredPart(value, "value" if whole else unit, skipped, None, end, note)
    _POSITIONS.put(file, request.pointer, unit, end, scan.position)
    total = _total(file, request.pointer, unit, lambda: _count(scan, end, members=members))
    return StoredPart(value, unit, skipped, end, total, note)


def _count(scan: JsonScan, before: int, *, members: bool) -> int | None:
    """Return the number of entries; None if the container ends too far away."""
    until = scan.position + _COUNTED_BYTES
    more = scan.skip_entries(1 << 60, members=members, until=until)
    return None if scan.position >= until else before + more + 1


# --- text ---------------------------------------------------------------------------------------


def text_part(
    file: StoredFile, text: Text, request: Request, *, unit: Literal["lines", "bytes"]
) -> StoredPart:
    """Return a text, or a page of its lines or bytes."""
    if unit == "bytes" or text.is_binary:
        return _bytes(text, request)
    known = _POSITIONS.get(file, request.pointer, unit, request.offset)
    start, skipped = text.find_line(request.offset) if known is None else (known, request.offset)
    page = text.lines(start, request.limit, request.max_chars)
    if request.is_whole and page.end == text.size:
        return StoredPart(page.text)
    if skipped < request.offset or not page.text:
        return StoredPart("", unit, request.offset, None, skipped)
    note, after = "", page.end
    if page.truncated:
        after = text.line_end(page.end)
        note = f'line {skipped} has more: unit="bytes", offset={page.end}'
    end = skipped + page.lines
    if after >= text.size:
        return StoredPart(page.text, unit, skipped, None, end, note)
    _POSITIONS.put(file, request.pointer, unit, end, after)

    def count() -> int | None:
        more = text.count_lines(after)
        return None if more is None else end + more

    total = _total(file, request.pointer, unit, count)
    return StoredPart(page.text, unit, skipped, end, total, note)


def _bytes(text: Text, request: Request) -> StoredPart:
    page = text.bytes(request.offset, request.limit, request.max_chars)
    unit: Unit = "base64" if page.binary else "bytes"
    following = page.end if page.end < text.size else None
    if request.is_whole and following is None and not page.binary:
        return StoredPart(page.text)
    return StoredPart(page.text, unit, min(page.start, text.size), following, text.size)
