"""A reader of JSON that finds values by their position, in bounded memory.

It tells where values start and end; it does not validate them. A value that is returned is parsed
afterwards, so text that is not JSON is an error then at the latest. The patterns are possessive:
none of them backtracks, so each scans a buffer once for each of its four levels at most.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from ptc._core import _json

__all__ = ["JsonScan", "NotJsonError", "Span"]

CHUNK_BYTES = 1 << 20
MAX_KEY_BYTES = 1 << 20
MAX_SCALAR_BYTES = 10_000
"""No number is longer: it would not fit into the JSON of a value."""


def _all_of(pattern: bytes, times: bytes = b"*") -> bytes:
    """Repeat `pattern` without backtracking.

    Before 3.11.5, possessive groups match too much if a part of them backtracks (gh-106052). Atomic
    ones match the same as later releases, for up to 80 bytes of memory for each byte of text.
    """
    if sys.version_info >= (3, 11, 5):
        return rb"(?:" + pattern + rb")" + times + rb"+"
    return rb"(?>(?:" + pattern + rb")" + times + rb")"


_STRING = rb'"[^"\\]*+' + _all_of(rb'\\.[^"\\]*+') + rb'"'
_SPACE = rb"[ \t\n\r]*+"
_FLAT = rb'[^"\[\]{}]++|' + _STRING
_ONE = rb"[\[{]" + _all_of(_FLAT) + rb"[\]}]"
_TWO = rb"[\[{]" + _all_of(_FLAT + rb"|" + _ONE) + rb"[\]}]"
_THREE = rb"[\[{]" + _all_of(_FLAT + rb"|" + _TWO) + rb"[\]}]"
_VALUE = rb"(?:" + _STRING + rb'|[^"\[\]{},:\s]++|' + _THREE + rb")"
_ITEM = _SPACE + _VALUE + _SPACE + rb","
_MEMBER = _SPACE + _STRING + _SPACE + rb":" + _SPACE + _VALUE + _SPACE + rb","
_STRIDES: tuple[int, ...] = (4_096, 64, 1)

_RUN = re.compile(_all_of(_FLAT + rb"|" + _THREE), re.DOTALL)
_WHITE = re.compile(_SPACE)
_SCALAR = re.compile(rb'[^"\[\]{},:\s]++')
_IN_STRING = re.compile(rb'[^"\\]*+' + _all_of(rb'\\.[^"\\]*+'), re.DOTALL)
_ITEMS = {n: re.compile(_all_of(_ITEM, b"{%d}" % n), re.DOTALL) for n in _STRIDES}
_MEMBERS = {n: re.compile(_all_of(_MEMBER, b"{%d}" % n), re.DOTALL) for n in _STRIDES}


class NotJsonError(ValueError):
    """The text is not JSON. `position` is the byte at which that shows."""

    def __init__(self, position: int) -> None:
        super().__init__(f"byte {position:,} is not JSON")
        self.position = position


@dataclass(frozen=True, slots=True)
class Span:
    """Position of a value, from `start` up to `end` excluded."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.end - self.start


class JsonScan:
    """A position in JSON text, and the ways to move it forward."""

    def __init__(self, read: Callable[[int, int], bytes], position: int = 0) -> None:
        """Start at `position`.

        Args:
            read: Returns bytes from an offset, up to a count; fewer only at the end.
            position: Offset of a value, or of white space before it.
        """
        self._read = read
        self._base = position
        self._data = b""
        self._at = 0

    @property
    def position(self) -> int:
        """Offset of the next byte."""
        return self._base + self._at

    def next_byte(self) -> bytes:
        """Skip white space and return the next byte without moving past it; b"" at the end."""
        while True:
            found = _WHITE.match(self._data, self._at)
            assert found is not None  # noqa: S101  # it matches nothing, too
            self._at = found.end()
            if self._at < len(self._data) or not self._more():
                return self._data[self._at : self._at + 1]

    def take(self, expected: bytes) -> None:
        """Move past one byte.

        Raises:
            NotJsonError: If it is another one.
        """
        if self.next_byte() != expected:
            raise NotJsonError(self.position)
        self._at += 1

    def skip_value(self) -> Span:
        """Move past a value, and return its position."""
        first = self.next_byte()
        start = self.position
        if first in (b"{", b"["):
            self._skip_container()
        elif first == b'"':
            self._skip_string()
        else:
            self._skip_scalar()
        return Span(start, self.position)

    def read_key(self) -> str:
        """Move past the key of a member and its colon, and return it."""
        if self.next_byte() != b'"':
            raise NotJsonError(self.position)
        start = self.position
        self._skip_string()
        if self.position - start > MAX_KEY_BYTES:
            raise NotJsonError(start)
        text = self._read(start, self.position - start)
        try:
            key: str = _json.loads(text)
        except ValueError:
            raise NotJsonError(start) from None
        self.take(b":")
        return key

    def skip_entries(
        self, count: int, *, members: bool, until: int | None = None, before: int | None = None
    ) -> int:
        """Move past up to `count` items or members that a comma follows; return how many.

        Args:
            count: Maximum number.
            members: True: the container is an object.
            until: Stop soon after this position.
            before: Stop in front of the entry that has this position in it.
        """
        patterns = _MEMBERS if members else _ITEMS
        done, base, strides = 0, -1, _STRIDES
        while done < count and (until is None or self.position < until):
            if base != self._base:
                base, strides = self._base, _STRIDES
            while strides and strides[0] > count - done:
                strides = strides[1:]
            found = patterns[strides[0]].match(self._data, self._at) if strides else None
            if found is not None and (before is None or base + found.end() <= before):
                self._at = found.end()
                done += strides[0]
            elif strides:
                # Longer ones would fail again, each after another scan of this buffer.
                strides = strides[1:]
            elif self._skip_entry(members=members, before=before):
                # It crosses the end of the buffer, or is nested deeper.
                done += 1
            else:
                break
        return done

    def _skip_entry(self, *, members: bool, before: int | None) -> bool:
        """Move past one entry and its comma; False, without moving, if no comma follows."""
        if self.next_byte() in (b"", b"]", b"}"):
            return False
        start = self.position
        if members:
            self._skip_string()
            self.take(b":")
        self.skip_value()
        if self.next_byte() == b",":
            self._at += 1
            if before is None or self.position <= before:
                return True
        self.seek(start)
        return False

    def seek(self, position: int) -> None:
        """Move to a position, which must be that of a value or a key."""
        if self._base <= position <= self._base + len(self._data):
            self._at = position - self._base
        else:
            self._base, self._data, self._at = position, b"", 0

    # --- buffer -----------------------------------------------------------------------------

    def _more(self) -> bool:
        """Drop what was read and read on; False at the end."""
        rest = self._data[self._at :]
        more = self._read(self._base + len(self._data), CHUNK_BYTES)
        self._base += self._at
        self._data, self._at = rest + more, 0
        return bool(more)

    def _skip_scalar(self) -> None:
        size = 0
        while True:
            found = _SCALAR.match(self._data, self._at)
            if found is not None:
                size += found.end() - self._at
                self._at = found.end()
            whole = self._at < len(self._data) or not self._more()
            if whole and 0 < size <= MAX_SCALAR_BYTES:
                return
            if whole or size > MAX_SCALAR_BYTES:
                raise NotJsonError(self.position)

    def _skip_string(self) -> None:
        self.take(b'"')
        while True:
            found = _IN_STRING.match(self._data, self._at)
            assert found is not None  # noqa: S101  # it matches nothing, too
            self._at = found.end()
            if self._data[self._at : self._at + 1] == b'"':
                self._at += 1
                return
            # A backslash at the end of the buffer remains in it.
            if not self._more():
                raise NotJsonError(self.position)

    def _skip_container(self) -> None:
        depth = 0
        while True:
            found = _RUN.match(self._data, self._at) if depth else None
            if found is not None:
                self._at = found.end()
            if self._at >= len(self._data):
                if not self._more():
                    raise NotJsonError(self.position)
                continue
            byte = self._data[self._at]
            if byte == 0x22:  # a string that crosses the end of the buffer
                self._skip_string()
                continue
            self._at += 1
            depth += 1 if byte in b"[{" else -1
            if not depth:
                return
