"""A tolerant single-pass parser of one JSON-like value that records every repair it makes.

It knows notations (JSON, JavaScript, Python), but no schema. Ambiguous text is rejected. A text
that ends inside a word, number or string, or after a comma or colon, was truncated and is rejected
as a whole.
"""

from __future__ import annotations

import json
from typing import Any

from ._notation import (
    CLOSER,
    COMMENTED_OUT,
    IDENTIFIER,
    ITEM_AHEAD,
    KEY_AHEAD,
    OMISSION,
    PAIRS,
    PREFIXED,
    SEPARATOR,
    SPACE,
    ReadError,
)
from ._reading import OpenEnd, Reading, ScalarId, json_equal
from ._scalars import ScalarReader

__all__ = ["MAX_DEPTH", "ReadError", "Reader"]

VALUE_WORK = 8

MAX_DEPTH = 100
"""Deepest nesting that is repaired. Real answers stay below 20."""


class Reader(ScalarReader):
    """Parses values out of one text."""

    def _reset(self) -> None:
        super()._reset()
        self._sources: dict[ScalarId, str] = {}
        self._open: list[str] = []
        self._ends: list[OpenEnd] = []
        self._token_end = -1
        self.committed = False
        self.quoted = False
        self.keys: list[str] = []

    def read(self, position: int) -> Reading:
        """Parse the value that starts at `position`.

        Raises:
            ReadError: If there is not exactly one reading. `committed` is then True if the text
                read so far was clearly meant as data.
        """
        self._reset()
        holder: list[Any] = []
        end = self._read_value(position, holder, 0, "root")
        return Reading(holder[0], end, self._repairs, self._sources, self._ends)

    def read_members(self, position: int) -> Reading:
        """Parse the members at `position` of an object whose opening brace is missing."""
        self._reset()
        value: dict[str, Any] = {}
        self._record("missing_opener", "", "{")
        self._open.append("{")
        end = self._read_members(position, value, 1, position)
        self._open.pop()
        return Reading(value, end, self._repairs, self._sources, self._ends)

    # -- position and bookkeeping ------------------------------------------------------------

    def _skip(self, position: int) -> int:
        """Return the next position that is neither space nor comment."""
        text = self.text
        while True:
            position = SPACE.match(text, position).end()  # type: ignore[union-attr]  # matches always
            two = text[position : position + 2]
            if two == "/*":
                end = text.find("*/", position + 2)
                if end < 0:
                    raise ReadError(position, cut=True)
                end += 2
            elif two == "//" or two[:1] == "#":
                end = text.find("\n", position)
                end = self._size if end < 0 else end
            else:
                return position
            comment = text[position:end]
            if OMISSION.search(comment) or COMMENTED_OUT.search(comment):
                raise ReadError(position, ambiguous=True)
            self._work.spend(2)
            self._record("comment", comment, "")
            position = end

    def _require_complete_number(self, position: int) -> None:
        """Reject an end right after a number: its next digit may have been truncated."""
        unknown = not self._ended or self.text.endswith(".")
        if unknown and position >= self._size and self._number_end >= self._size:
            raise ReadError(position, cut=True)

    def _record_open_end(self, opener: str, value: Any, start: int, position: int) -> None:
        self._require_complete_number(position)
        first = SPACE.match(self.text, start).group()  # type: ignore[union-attr]  # matches always
        tail = self.text[self._token_end : position]
        if not value or (self._ended is False and position >= self._size):
            # The text was truncated right after the opener: the container need not be empty.
            raise ReadError(position, cut=True)
        # The end of a code block or tag after the value shows that the writer had finished. A line
        # that ends without a comma ends the innermost container only.
        multiline = "\n" in first and "\n" in tail and not self._ends
        certain = self._ended or position < self._size or multiline
        keys = frozenset(value) if opener == "{" else frozenset()
        self._ends.append(OpenEnd(tuple(self._path), opener, keys, certain))
        self._record("missing_closer", "", CLOSER[opener])

    # -- values ------------------------------------------------------------------------------

    def _read_value(self, position: int, holder: Any, key: str | int, role: str) -> int:
        """Parse a value into ``holder[key]`` (appended to a list) and return its end."""
        text = self.text
        self._work.spend(VALUE_WORK)
        if position >= self._size:
            raise ReadError(position, cut=True)
        sign = text[position]
        if sign == "{":
            value: Any = {}
            end = self._read_container(position, value, sign)
        elif sign == "[" or (sign == "(" and role != "root"):
            value = []
            end = self._read_container(position, value, sign)
        elif PREFIXED.match(text, position):
            self._record("quotes", sign, "")
            value, end = self._read_strings(position + 1, role)
        elif sign in PAIRS:
            value, end = self._read_strings(position, role)
        else:
            value, end, source = self._read_scalar(position, role)
            if source is not None:
                self._sources[id(holder), key] = source
        if sign not in "{[(":
            self._token_end = end
        if isinstance(holder, list):
            holder.append(value)
        else:
            holder[key] = value
        return end

    def _read_container(self, position: int, value: Any, opener: str) -> int:
        if len(self._open) >= MAX_DEPTH:
            raise ReadError(position, deep=True)
        self._open.append(opener)
        if opener == "{":
            end = self._read_members(position + 1, value, len(self._open), position + 1)
        else:
            end = self._read_items(position + 1, value, opener)
        self._open.pop()
        if not self._ends:
            self._token_end = end
        return end

    def _read_members(self, position: int, value: dict[str, Any], depth: int, start: int) -> int:
        text = self.text
        while True:
            position = self._skip(position)
            if self._at_end(position):
                self._record_open_end("{", value, start, position)
                return position
            sign = text[position]
            if sign in "}])":
                if sign == "}":
                    return position + 1
                raise ReadError(position, ambiguous=True)
            position = self._member(position, value, depth)
            position = self._skip_separator(position, "{")

    def _member(self, position: int, value: dict[str, Any], depth: int) -> int:
        text = self.text
        key, position = self._read_key(position)
        position = self._skip(position)
        match = SEPARATOR.match(text, position)
        if match is None:
            raise ReadError(position, cut=position >= self._size)
        self.committed = True
        if depth == 1:
            self.keys.append(key)
        self._path.append(key)
        if match.group() != ":":
            self._record("separator", match.group(), ":")
        position = self._skip(match.end())
        before = value.get(key, _ABSENT)
        end = self._read_value(position, value, key, "member")
        self._path.pop()
        if before is not _ABSENT:
            if not json_equal(before, value[key]):
                raise ReadError(position, ambiguous=True)
            self._record("repeated_key", key, key)
        return end

    def _read_key(self, position: int) -> tuple[str, int]:
        text = self.text
        if PREFIXED.match(text, position):
            self._record("quotes", text[position], "")
            position += 1
        if text[position] in PAIRS:
            key, end = self._read_string(position, "key")
            if "\n" in text[position:end]:
                # Keys do not span lines: a quotation mark is missing.
                raise ReadError(position, ambiguous=True)
            self.quoted = True
            return key, end
        match = IDENTIFIER.match(text, position)
        if match is None:
            raise ReadError(position, cut=position >= self._size)
        self._record("unquoted_key", match.group(), json.dumps(match.group()))
        return match.group(), match.end()

    def _read_comma(self, position: int, sign: str) -> int:
        """Return the position of the next part, or of the closing bracket."""
        if sign == ";":
            self._record("separator", ";", ",")
        after = self._skip(position + 1)
        if self._at_end(after):
            raise ReadError(after, cut=True)
        if self.text[after] in "}])":
            self._record("trailing_comma", ",", "")
        elif self.text[after] == ",":
            raise ReadError(after, ambiguous=True)
        return after

    def _read_items(self, position: int, value: list[Any], opener: str) -> int:
        start = position
        text = self.text
        commas = 0
        while True:
            position = self._skip(position)
            if self._at_end(position):
                self._record_open_end("[", value, start, position)
                return position
            if text[position] in "}])":
                if text[position] != CLOSER[opener]:
                    raise ReadError(position, ambiguous=True)
                if opener == "(":
                    if len(value) == 1 and not commas:
                        raise ReadError(position, ambiguous=True)
                    self._record("tuple", "(", "[")
                return position + 1
            self._path.append(len(value))
            position = self._read_value(position, value, len(value), "item")
            self._path.pop()
            before = position
            position = self._skip_separator(position, opener)
            if text.startswith(",", self._skip_blank(before)):
                commas += 1
                self.committed = True

    def _skip_separator(self, position: int, opener: str) -> int:
        """Return the position after the comma or semicolon, or the end of the container."""
        text = self.text
        ended = position
        position = self._skip(position)
        if self._at_end(position):
            return position
        sign = text[position]
        if sign in "}])":
            return position
        if sign in ",;":
            return self._read_comma(position, sign)
        ahead = KEY_AHEAD if opener == "{" else ITEM_AHEAD
        apart = position > ended or text[position - 1] in "\"'}]\u201d"
        if not apart or ahead.match(text, position) is None:
            raise ReadError(position)
        shown = sign in "\"'\u201c{[" and text[ended - 1] in "\"'\u201d}])"
        if opener != "{" and not shown and "\n" not in text[ended:position]:
            # `[1 2]` is two numbers or a slip in one; in `[1 "a"]` the number may be the slip.
            raise ReadError(position, ambiguous=True)
        self._record("missing_comma", "", ",")
        return position


_ABSENT = object()
