"""Read a JSON-like value token by token, in any notation, and record every repair.

A state is a position, the open containers and the place in the schema. States are immutable, so
that `SlipSearch` can continue from any of them in several ways. Ambiguous text is rejected. A text
that ends inside a word, number or string, or after a comma or colon, was truncated and is rejected
as a whole.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ._places import Place
from ._reading import OpenEnd, Reading, Repairs, Work, json_equal
from ._tokens import (
    CLOSER,
    IDENTIFIER,
    ITEM_AHEAD,
    KEY_AHEAD,
    PAIRS,
    PREFIXED,
    SEPARATOR,
    SPACE,
    ReadError,
    Tokens,
)
from ._violations import pointer

__all__ = ["ALLOWED", "COLON", "DONE", "KEYS", "MAX_DEPTH", "TEXTS", "VALUE", "Frame", "Reader",
           "State", "path_of"]  # fmt: skip


MAX_DEPTH = 100
"""Deepest nesting that is repaired. Real answers stay below 20."""

VALUE, ITEM, KEY, FIRST_KEY, COLON, NEXT, DONE = range(7)
"""Modes: a list's first item and an object's first key may also be its closing bracket."""
KEYS = frozenset((KEY, FIRST_KEY))
TEXTS = frozenset((VALUE, ITEM, KEY, FIRST_KEY))
SCALAR = "0"
"""The sign of a number or a word."""
ALLOWED = {
    VALUE: '{["',
    ITEM: '{["]',
    KEY: '"',
    FIRST_KEY: '"}',
    COLON: ":",
    NEXT: ",}]",
    DONE: "",
}
EMPTY = {"{": FIRST_KEY, "[": ITEM, "(": ITEM}
_OPENERS = {"}": "{", "]": "[", ")": "("}


class Frame:
    """An open container; shared by all states that have it on their stack."""

    __slots__ = ("column", "count", "depth", "entries", "key", "opener", "outer", "place", "start")

    def __init__(self, outer: Frame | None, opener: str, place: Place, start: int) -> None:
        self.outer = outer
        self.opener = opener
        self.place = place
        self.start = start
        self.depth: int = 1 if outer is None else outer.depth + 1
        self.entries: Any = None
        """The last entry and, inside it, those before: ``(before, key, value, source)``."""
        self.key: str | None = None
        self.count = 0
        self.column: int | None = None
        """Column of the entries that begin a line."""

    def with_key(self, key: str) -> Frame:
        """Return a copy that awaits the value of `key`."""
        copy = Frame(self.outer, self.opener, self.place, self.start)
        copy.entries, copy.count, copy.column = self.entries, self.count, self.column
        copy.key = key
        return copy

    def with_value(self, value: Any, source: Any) -> Frame:
        """Return a copy with one entry more."""
        copy = Frame(self.outer, self.opener, self.place, self.start)
        copy.entries = (self.entries, self.key, value, source)
        copy.count, copy.column = self.count + 1, self.column
        return copy


State = tuple[int, int, Frame | None, Any]
"""Position, mode, innermost container; in `DONE`, the whole value and its sources."""


def path_of(frame: Frame | None) -> tuple[str | int, ...]:
    """Return the path of the next value in `frame`."""
    parts: list[str | int] = []
    while frame is not None:
        if frame.opener != "{":
            parts.append(frame.count)
        elif frame.key is not None:
            parts.append(frame.key)
        frame = frame.outer
    return tuple(reversed(parts))


TOKEN_WORK = 3
_ANYTHING = Place(True)
_HALF_QUOTED = re.compile(r"[\"']|[ \t]*[\"']\s*:")
"""The rest of a key that lost its first mark."""


class Reader(Tokens):
    """Reads values out of one text.

    Attributes:
        committed: True if the last text read was clearly meant as data.
        quoted: True if it has a key in quotation marks.
        keys: The keys of its outermost object.
    """

    def __init__(
        self,
        text: str,
        work: Work,
        *,
        root: Place = _ANYTHING,
        exact: bool = False,
    ) -> None:
        """Read from `text`.

        Args:
            text: The model's answer.
            work: Counts the work.
            root: Place of the value in the schema.
            exact: True if every sign must stand where it belongs: other notations are read, but no
                missing comma, closer or escape, and no bare text.
        """
        super().__init__(text, work, exact=exact)
        self._root = root
        self._reset()

    def _reset(self) -> None:
        self._repairs = Repairs()
        self._frame: Frame | None = None
        self._ends: list[OpenEnd] = []
        self.committed = False
        self.quoted = False
        self.keys: list[str] = []

    def read(self, position: int) -> Reading:
        """Read the value that starts at `position`.

        Raises:
            ReadError: If there is not exactly one reading.
        """
        self._reset()
        return self._read((position, VALUE, None, None))

    def read_members(self, position: int) -> Reading:
        """Read the members at `position` of an object whose opening brace is missing."""
        self._reset()
        self._record("missing_opener", "", "{")
        return self._read((position, FIRST_KEY, Frame(None, "{", _ANYTHING, position), None))

    def _read(self, state: State) -> Reading:
        while state[1] != DONE:
            state = self._step(state)
        value, sources = state[3]
        return Reading(value, state[0], self._repairs, sources or {}, self._ends)

    def _record(self, kind: str, before: object, after: object) -> None:
        self._repairs.add(pointer(path_of(self._frame)), kind, before, after)

    def _step(self, state: State) -> State:
        before, mode, self._frame = state[0], state[1], state[2]
        frame = self._frame
        self._work.spend(TOKEN_WORK)
        position = self._skip(before)
        if frame is not None and mode not in (VALUE, COLON) and self._at_end(position):
            return self._end(before, position, mode, frame)
        if position >= self._size:
            raise ReadError(position, cut=True)
        following: State | None
        if mode == COLON:
            following = self._read_colon(position, frame)
        elif self.text[position] in "}])":
            following = self._read_closer(position, mode, frame)
        elif mode == NEXT and frame is not None:
            return self._read_separator(before, position, frame)
        elif mode in KEYS:
            key, end = self._read_key(position)
            following = self._follow('"', end, mode, frame, key)
        else:
            following = self._read_value(position, mode, frame)
        if following is None:
            raise ReadError(position, ambiguous=True)
        return following

    def _read_value(self, position: int, mode: int, frame: Frame | None) -> State | None:
        text = self.text
        sign = text[position]
        if sign in "{[" or (sign == "(" and frame is not None):
            if frame is not None and frame.depth >= MAX_DEPTH:
                raise ReadError(position, deep=True)
            return self._follow(sign, position + 1, mode, frame)
        role = "root" if frame is None else "member" if frame.opener == "{" else "item"
        if PREFIXED.match(text, position):
            self._record("quotes", sign, "")
            position += 1
        if text[position] in PAIRS:
            value, end = self._read_strings(position, role)
            return self._follow('"', end, mode, frame, value)
        scalar, end, source = self._read_scalar(position, role)
        return self._follow(SCALAR, end, mode, frame, scalar, source)

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
        if match is None or (self._exact and _HALF_QUOTED.match(text, match.end())):
            raise ReadError(position)
        self._record("unquoted_key", match.group(), json.dumps(match.group()))
        return match.group(), match.end()

    def _read_colon(self, position: int, frame: Frame | None) -> State | None:
        match = SEPARATOR.match(self.text, position)
        if match is None:
            raise ReadError(position)
        self.committed = True
        if frame is not None and frame.depth == 1 and frame.key is not None:
            self.keys.append(frame.key)
        if match.group() != ":":
            self._record("separator", match.group(), ":")
        return self._follow(":", match.end(), COLON, frame)

    def _read_closer(self, position: int, mode: int, frame: Frame | None) -> State | None:
        if mode == VALUE:
            raise ReadError(position)
        if frame is not None and frame.opener == "(":
            if mode == NEXT and frame.count == 1:
                # `(1)` is a number, `(1,)` a tuple.
                return None
            self._record("tuple", "(", "[")
        return self._follow(self.text[position], position + 1, mode, frame)

    def _read_separator(self, before: int, position: int, frame: Frame) -> State:
        """Read a comma, or note that there is none between two complete values."""
        text = self.text
        sign = text[position]
        mode = KEY if frame.opener == "{" else VALUE
        if sign not in ",;":
            if self._exact:
                raise ReadError(position)
            self._require_boundary(before, position, frame)
            self._record("missing_comma", "", ",")
            return position, mode, frame, None
        if sign == ";":
            self._record("separator", ";", ",")
        elif frame.opener != "{":
            self.committed = True
        if self._exact:
            return position + 1, mode, frame, None
        after = self._skip(position + 1)
        if self._at_end(after):
            raise ReadError(after, cut=True)
        if text[after] in "}])":
            self._record("trailing_comma", ",", "")
            return after, EMPTY[frame.opener], frame, None
        if text[after] == ",":
            raise ReadError(after, ambiguous=True)
        return after, mode, frame, None

    def _require_boundary(self, before: int, position: int, frame: Frame) -> None:
        """Require that one part ends at `before`, and another starts at `position`."""
        text = self.text
        ahead = KEY_AHEAD if frame.opener == "{" else ITEM_AHEAD
        apart = position > before or text[position - 1] in "\"'}]\u201d"
        if not apart or ahead.match(text, position) is None:
            raise ReadError(position)
        shown = text[position] in "\"'\u201c{[" and text[before - 1] in "\"'\u201d}])"
        if frame.opener != "{" and not shown and "\n" not in text[before:position]:
            # `[1 2]` is two numbers or a slip in one; in `[1 "a"]` the number may be the slip.
            raise ReadError(position, ambiguous=True)

    def _end(self, before: int, position: int, mode: int, frame: Frame) -> State:
        """Close a container that the text left open."""
        text = self.text
        unknown = not self._work.ended or text.endswith(".")
        at_end = position >= self._size
        if self._exact or (at_end and unknown and self._number_end >= self._size):
            # The next digit may have been truncated.
            raise ReadError(position, cut=True)
        if (
            mode not in (NEXT, ITEM, FIRST_KEY)
            or not frame.count
            or (at_end and self._work.ended is False)
        ):
            # The text was truncated right after the opener: the container need not be empty.
            raise ReadError(position, cut=True)
        # The end of a code block or tag after the value shows that the writer had finished. A line
        # that ends without a comma ends the innermost container only.
        first = SPACE.match(text, frame.start).group()  # type: ignore[union-attr]  # matches always
        multiline = "\n" in first and "\n" in text[before:position] and not self._ends
        certain = self._work.ended or not at_end or multiline
        following = self._close(position, frame)
        if following is None:
            raise ReadError(position, ambiguous=True)
        keys = []
        entries = frame.entries if frame.opener == "{" else None
        while entries is not None:
            entries, key, *_ = entries
            keys.append(key)
        path = path_of(frame.outer)
        self._ends.append(OpenEnd(path, frame.opener, frozenset(keys), certain))
        self._record("missing_closer", "", CLOSER[frame.opener])
        return following

    # -- the machine -------------------------------------------------------------------------

    def _follow(
        self, sign: str, end: int, mode: int, frame: Frame | None, value: Any = None,
        source: str | None = None,
    ) -> State | None:  # fmt: skip
        """Return the state at `end`, behind `sign`; None if it cannot stand there.

        `value` is that of a string or scalar, and `source` its text if the value does not tell it.
        """
        if sign in '"0':
            if mode not in KEYS:
                return self._add(end, frame, value, source) if mode in TEXTS else None
            if sign == SCALAR or frame is None or frame.place.member(value) is None:
                return None
            return end, COLON, frame.with_key(value), None
        if sign in "{[(":
            return self._open(sign, end, mode, frame)
        if frame is None or sign not in ALLOWED[mode].replace("]", "])"):
            return None
        if sign == ":":
            return end, VALUE, frame, None
        if sign == ",":
            return end, KEY if frame.opener == "{" else VALUE, frame, None
        return self._close(end, frame) if _OPENERS[sign] == frame.opener else None

    def _open(self, sign: str, end: int, mode: int, frame: Frame | None) -> State | None:
        place = self._place(frame) if mode in (VALUE, ITEM) else None
        if place is None or not place.takes("object" if sign == "{" else "array"):
            return None
        if frame is not None and frame.depth >= MAX_DEPTH:
            return None
        return end, EMPTY[sign], Frame(frame, sign, place, end), None

    def _place(self, frame: Frame | None) -> Place | None:
        """Return the place of the next value in `frame`."""
        if frame is None:
            return self._root
        if frame.key is not None:
            return frame.place.member(frame.key)
        return frame.place.item(frame.count)

    def _add(self, end: int, frame: Frame | None, value: Any, source: Any = None) -> State | None:
        """Return the state behind `value`, if the schema may accept it there."""
        place = self._place(frame)
        if place is None or not place.admits(value):
            return None
        if frame is None:
            return end, DONE, None, (value, source)
        return end, NEXT, frame.with_value(value, source), None

    def _close(self, end: int, frame: Frame) -> State | None:
        entries, listed = frame.entries, []
        while entries is not None:
            entries, key, value, source = entries
            listed.append((key, value, source))
        listed.reverse()
        self._work.spend(len(listed))
        if frame.opener != "{":
            sources = {index: one[2] for index, one in enumerate(listed) if one[2]}
            return self._add(end, frame.outer, [value for _, value, _ in listed], sources)
        members: dict[str, Any] = {key: value for key, value, _ in listed}
        if len(members) < len(listed):
            if not all(json_equal(members[key], value) for key, value, _ in listed):
                return None
            self._record("repeated_key", "", "")
        named = {key: source for key, _, source in listed if source}
        return self._add(end, frame.outer, members, named)
