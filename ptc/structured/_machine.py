"""Read a value sign by sign: the state is a position, the open containers and the schema's place.

States are immutable, so that a search can continue from any of them in two ways. This module knows
which sign may follow which; tokens and edits are those of its two uses, `Reader` and `SlipSearch`.
"""

from __future__ import annotations

from typing import Any

from ._places import Place
from ._reading import json_equal

__all__ = [
    "ALLOWED",
    "COLON",
    "DONE",
    "EMPTY",
    "FIRST_KEY",
    "ITEM",
    "KEY",
    "KEYS",
    "MAX_DEPTH",
    "NEXT",
    "SCALAR",
    "TEXTS",
    "VALUE",
    "Frame",
    "Machine",
    "State",
    "path_of",
]

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


class Machine:
    """The signs of a value, one after the other."""

    def __init__(self, root: Place) -> None:
        self._root = root

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
        self._spend(len(listed))
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

    def _spend(self, units: int) -> None:
        """Count work."""
        raise NotImplementedError

    def _record(self, kind: str, before: Any, after: Any) -> None:
        """Record a repair."""


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
