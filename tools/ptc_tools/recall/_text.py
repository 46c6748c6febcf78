"""Text of a stored value, read by lines or bytes: a file, a part of one, or a decoded string."""

from __future__ import annotations

import base64
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ptc import ToolError
from ptc._core import _json
from ptc._core._folder import Folder, open_folder, pread
from ptc._records._stored_file import StoredFile

from ._json_scan import CHUNK_BYTES, Span

__all__ = ["BytesPage", "LinesPage", "Text", "string_text"]

_COUNTED_BYTES = 64 << 20
"""Bytes after a page in which further lines are counted, for its total."""
_CHARACTER_BYTES = 4
"""Maximum bytes of a character in UTF-8."""


@dataclass(frozen=True, slots=True)
class LinesPage:
    """Consecutive lines."""

    text: str
    lines: int
    """Lines in `text`, of which the last may be truncated."""
    start: int
    """Offset of the first line in bytes."""
    end: int
    """Offset in bytes at which `text` ends."""
    truncated: bool
    """True: the only line is longer than a page."""


@dataclass(frozen=True, slots=True)
class BytesPage:
    """Consecutive bytes."""

    text: str
    start: int
    end: int
    binary: bool
    """True: `text` is base64."""


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes to read as text: a range of a file."""

    read_at: Callable[[int, int], bytes]
    """Returns bytes of the file from an offset, up to a count."""
    folder: Folder
    """The file's folder."""
    name: str
    """Name of the file."""
    start: int
    """Offset of the text in the file."""
    size: int
    """Bytes of the text."""

    @classmethod
    def of_file(cls, file: StoredFile, span: Span | None = None) -> Text:
        """Return a file, or a part of it, as text."""
        start, size = (0, file.size) if span is None else (span.start, span.size)
        return cls(file.read, file.folder, file.name, start, size)

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end."""
        count = min(count, self.size - offset)
        return self.read_at(self.start + offset, count) if count > 0 else b""

    @property
    def is_binary(self) -> bool:
        """True if a NUL byte is near the start."""
        return b"\0" in self.read(0, 8_192)

    def _chunks(self, offset: int) -> Iterator[tuple[int, bytes]]:
        while chunk := self.read(offset, CHUNK_BYTES):
            yield offset, chunk
            offset += len(chunk)

    def find_line(self, number: int) -> tuple[int, int]:
        """Return the offset of line `number`, from 0, or the size; and the lines before that."""
        passed = 0
        for offset, chunk in self._chunks(0):
            if passed == number:
                return offset, passed
            here = chunk.count(b"\n")
            if passed + here < number:
                passed += here
                continue
            at = 0
            for _ in range(number - passed):
                at = chunk.index(b"\n", at) + 1
            if offset + at < self.size:
                return offset + at, number
            passed = number
        if self.size and self.read(self.size - 1, 1) != b"\n":
            passed += passed < number
        return self.size, passed

    def lines(self, start: int, limit: int | None, max_chars: int) -> LinesPage:
        """Return whole lines from offset `start`, or the start of one that is too long."""
        text = _decode(self.read(start, max_chars * _CHARACTER_BYTES))[:max_chars]
        if limit is not None:
            text = _first_lines(text, limit)
        end = start + len(_encode(text))
        truncated = end < self.size and not text.endswith("\n")
        if truncated and (whole := text[: text.rfind("\n") + 1]):
            text, truncated = whole, False
            end = start + len(_encode(text))
        lines = text.count("\n") + (text != "" and not text.endswith("\n"))
        shown = _encode(text).decode(errors="replace")
        return LinesPage(shown, lines, start, end, truncated)

    def count_lines(self, start: int) -> int | None:
        """Return the lines from offset `start` on; None if they are too far to count."""
        if self.size - start > _COUNTED_BYTES:
            return None
        count, last = 0, b"\n"
        for _, chunk in self._chunks(start):
            count += chunk.count(b"\n")
            last = chunk[-1:]
        return count + (last != b"\n")

    def lines_before(self) -> int:
        """Return the line ends of the file before the text."""
        before = Text(self.read_at, self.folder, self.name, 0, self.start)
        return sum(chunk.count(b"\n") for _, chunk in before._chunks(0))

    def line_end(self, start: int) -> int:
        """Return the offset after the line that has offset `start` in it."""
        for offset, chunk in self._chunks(start):
            if (found := chunk.find(b"\n")) >= 0:
                return offset + found + 1
        return self.size

    def bytes(self, offset: int, limit: int | None, max_chars: int) -> BytesPage:
        """Return bytes from `offset` as text without partial characters, or else as base64."""
        count = max_chars * _CHARACTER_BYTES if limit is None else min(limit, max_chars * 4)
        data = self.read(offset, max(count, 1) + _CHARACTER_BYTES)
        first = _continuation(data)
        try:
            text = _exact(data[first:], max(count - first, 1), max_chars)
        except UnicodeDecodeError:
            most = max(1, max_chars * 3 // 4)
            part = data[: min(count, most)]
            encoded = base64.b64encode(part).decode()
            return BytesPage(encoded, offset, offset + len(part), binary=True)
        start = offset + first
        return BytesPage(text, start, start + len(text.encode()), binary=False)


def _decode(data: bytes) -> str:
    """Decode so that `_encode` returns exactly `data`, whatever it is."""
    return data.decode(errors="surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _first_lines(text: str, count: int) -> str:
    end = 0
    for _ in range(count):
        found = text.find("\n", end)
        if found < 0:
            return text
        end = found + 1
    return text[:end]


def _continuation(data: bytes) -> int:
    """Return how many bytes at the start belong to a character that starts before."""
    first = 0
    while first < min(3, len(data)) and 0x80 <= data[first] < 0xC0:
        first += 1
    return first


def _exact(data: bytes, count: int, max_chars: int) -> str:
    """Decode the characters that start within `count` bytes.

    Raises:
        UnicodeDecodeError: If they are not text.
    """
    end = min(count, len(data))
    while end < len(data) and 0x80 <= data[end] < 0xC0 and end < count + _CHARACTER_BYTES:
        end += 1
    part = data[:end]
    if b"\0" in part:
        raise UnicodeDecodeError("utf-8", part, 0, 1, "binary")
    return part.decode()[:max_chars]


# --- strings of JSON ----------------------------------------------------------------------------

_HEX = rb"[0-9a-fA-F]"
_PAIR = rb"\\u[dD][89abAB]" + _HEX + rb"{2}\\u[dD][c-fC-F]" + _HEX + rb"{2}"
_SINGLE = rb"\\u(?![dD][89a-fA-F])" + _HEX + rb"{4}|\\[^u]"
_ESCAPE = re.compile(_PAIR + rb"|" + _SINGLE, re.DOTALL)
_WHOLE = re.compile(rb"(?:[^\\]++|" + _PAIR + rb"|" + _SINGLE + rb")*+", re.DOTALL)
_ESCAPE_BYTES = 12
"""Length of the longest escape: a pair of surrogates."""
_REPLACEMENT = "\ufffd".encode()


@contextmanager
def string_text(file: StoredFile, span: Span) -> Iterator[Text]:
    """Decode a string of JSON to a temporary file, and yield it as text.

    Args:
        file: The file.
        span: Position of the string, quotes included.
    """
    with tempfile.TemporaryDirectory(prefix="ptc-") as made:
        path = Path(made, "text")
        with path.open("wb") as target:
            for part in _decoded(file, span):
                target.write(part)
        with open_folder(made) as folder, path.open("rb") as source:
            size = os.fstat(source.fileno()).st_size
            number = source.fileno()

            def read_at(offset: int, count: int) -> bytes:
                if file.on_read is not None:
                    file.on_read()
                return pread(number, count, offset)

            yield Text(read_at, folder, path.name, 0, size)


def _decoded(file: StoredFile, span: Span) -> Iterator[bytes]:
    position, end, rest = span.start + 1, span.end - 1, b""
    while position < end or rest:
        chunk = file.read(position, min(CHUNK_BYTES, end - position)) if position < end else b""
        position += len(chunk)
        rest += chunk
        found = _WHOLE.match(rest)
        assert found is not None  # noqa: S101  # it matches nothing, too
        yield _ESCAPE.sub(_unescape, found[0])
        rest = rest[found.end() :]
        if rest and (position >= end or len(rest) >= _ESCAPE_BYTES):
            # Half a pair of surrogates, which UTF-8 has no form for.
            yield _REPLACEMENT
            rest = rest[6:]


def _unescape(found: re.Match[bytes]) -> bytes:
    try:
        text: str = _json.loads(b'"' + found[0] + b'"')
    except ValueError:
        msg = f"{found[0]!r} is not an escape of JSON"
        raise ToolError(msg, code="not_json") from None
    return text.encode()
