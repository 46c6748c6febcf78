"""Search for the conforming values that are one structural slip away from a text.

The text is read by a machine whose state is a position, a stack of open containers and the place in
the schema. States are immutable, so that an edit at any of them costs one step: a sign is inserted,
removed or replaced, or a string ends earlier, and the machine continues from there. Most edits fail
at once, because the brackets behind them do not balance, a key is not allowed, or the next sign
cannot follow.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no stub
from typing import Any

from .._dataclass import dataclass
from ._places import Place
from ._reader import (
    ALLOWED,
    COLON,
    DONE,
    KEYS,
    TEXTS,
    VALUE,
    Frame,
    Reader,
    State,
    path_of,
)
from ._reading import Repair, Work, WorkExceededError
from ._tokens import ReadError
from ._violations import pointer

__all__ = ["Slip", "SlipSearch"]

STEP_WORK = 7
CHARS_FOR_EACH_STEP = 64
"""Characters that are copied in the time of a step."""
MAX_FOUND = 200
"""Readings of one text, most of which have the same value."""

SIGNS = frozenset('{}[]:,"')
_CHANGE = {"{": 1, "[": 1, "}": -1, "]": -1}
_UNREADABLE = 1 << 40
_WORD_END = re.compile(r"[\w.+-]*\s*")
_MEASURE = re.compile(r"(?<![\w.:-])[0-9]{1,4}(?:[.,/][0-9]+)?$")
"""A number at the end of a text, to which a mark for inches may belong."""
_SIGNS_BEFORE = re.compile(r"[,:{\[]\s*\"+$")
_SIGNS_BEHIND = re.compile(r"\"+\s*[,:}\]]\s*[^\s\"]")
_ENDS = {
    "{": re.compile(r"\s*(?:,(?=\s*\")|\})"),
    "[": re.compile(r"\s*(?:,(?=\s*[\"{\[tfn\d-])|\])"),
    ":": re.compile(r"\s*:"),
}
"""The sign that follows a string, by container; ``:`` for a key."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of the text, between two states."""

    kind: str
    position: int
    before: str
    after: str
    start: State
    state: State


@dataclass(frozen=True, slots=True)
class Slip:
    """A value that the schema may accept, and the edit that leads to it."""

    value: Any
    edit: Edit
    weight: int
    """Only the readings of the least weight are compared."""
    swallows: bool
    """True if a string beside the edit ends or begins with signs: it may hold what is missing."""


class SlipSearch(Reader):
    """Search in `text`, which is meant to be one value at the place `root` of the schema."""

    def __init__(self, text: str, root: Place, work: Work) -> None:
        self._decided = False
        super().__init__(text, work, root=root, exact=True)
        work.spend(self._size // 8)
        self._bent = 0
        """Entries of the present reading that are not in the column of their neighbours."""
        self.truncated = False
        """True if the text may be the beginning of a longer one."""

    def find(self) -> list[Slip]:
        """Return the readings at one edit; none if the text is readable as it is."""
        self._index_signs()
        found: list[Slip] = []
        for state, bent in self._read_states():
            for edit in self._edits(state):
                self._bent = bent
                value = self._finish(edit.state)
                if len(found) > MAX_FOUND:
                    raise WorkExceededError
                if value is not None:
                    found.append(Slip(value[0], edit, self._weigh(edit), self._swallows(edit)))
        return found

    def _read_states(self) -> list[tuple[State, int]]:
        """Return the states up to the unreadable point; none if the text is readable.

        With each, the entries before it that are not in the column of their neighbours.
        """
        states: list[tuple[State, int]] = []
        state: State | None = (0, VALUE, None, None)
        while state is not None:
            states.append((state, self._bent))
            if self._skip(state[0]) >= self._size:
                self.truncated = state[1] != DONE
                return states if self.truncated else []
            state = self._advance(state)
        self.truncated = self._ends_inside(states[-1][0])
        return states

    def _ends_inside(self, state: State) -> bool:
        """True if the text ends inside the token behind `state`."""
        position = self._skip(state[0])
        if self.text[position] == '"':
            open_end = self._next_mark(position + 1) >= self._size
            return open_end and state[1] in TEXTS and "\n" not in self.text[position:]
        return _WORD_END.fullmatch(self.text, position) is not None

    def _finish(self, state: State | None) -> tuple[Any] | None:
        while state is not None:
            self._work.spend(STEP_WORK)
            if state[1] == DONE:
                return state[3][:1] if self._skip(state[0]) >= self._size else None
            state = self._advance(state)
        return None

    def _weigh(self, edit: Edit) -> int:
        """Return 3 against the layout, 2 for an odd key, 0 for a closer at the end, or else 1."""
        if self._bent:
            return 3
        if edit.start[1] == DONE and not self.text[edit.start[0] :].strip("}] \t\r\n"):
            return 0
        frame = edit.state[2]
        if frame is None or edit.state[1] != COLON or frame.key is None:
            return 1
        declared = frame.place.declared
        # A space at the end of a key is no evidence for another key.
        return 2 if declared and frame.key.rstrip() not in declared else 1

    def _swallows(self, edit: Edit) -> bool:
        """True if a sign is missing where the string beside it has signs at that end."""
        if edit.kind != "missing_sign" or edit.after == '"':
            return False
        before = self.text[max(0, edit.position - 20) : edit.position].rstrip()
        behind = self.text[edit.position : edit.position + 20].lstrip()
        return bool(_SIGNS_BEFORE.search(before) or _SIGNS_BEHIND.match(behind))

    # -- edits -------------------------------------------------------------------------------

    def _edits(self, state: State) -> Iterator[Edit]:
        """Yield the edits of the next sign behind which the brackets balance."""
        mode, frame = state[1], state[2]
        position = self._skip(state[0])
        self._work.spend(STEP_WORK)
        sign = self.text[position] if position < self._size else ""
        for wanted in ALLOWED[mode]:
            if sign == wanted:
                # A second one cannot follow.
                continue
            following = self._apply(wanted, position, mode, frame)
            if following is not None:
                yield Edit("missing_sign", position, "", wanted, state, following)
            if sign in SIGNS:
                following = self._apply(wanted, position + 1, mode, frame)
                if following is not None:
                    yield Edit("wrong_sign", position, sign, wanted, state, following)
        if sign in SIGNS and self._balances(position + 1, frame):
            following = (position + 1, mode, frame, state[3])
            yield Edit("extra_sign", position, sign, "", state, following)
        if sign == '"' and mode in TEXTS and frame is not None:
            yield from self._shorter_strings(state, position + 1, frame)

    def _shorter_strings(self, state: State, start: int, frame: Frame) -> Iterator[Edit]:
        """Yield the strings that begin at `start` and end before the next quotation mark."""
        text, mode = self.text, state[1]
        close = self._next_mark(start)
        if text[close + 1 : close + 2] == '"' and _MEASURE.search(
            text[max(start, close - 9) : close]
        ):
            # Inches: the first of two marks may belong to the string.
            following = self._add_text(text[start:close] + '\\"', close + 2, mode, frame)
            if following is not None:
                yield Edit("missing_escape", close, '"', '\\"', state, following)
        ends = _ENDS[":" if mode in KEYS else frame.opener]
        for match in ends.finditer(text, start, min(close + 1, self._size)):
            self._work.spend(1)
            here = match.start()
            # A space before the sign may belong to the string, and a sign stand for the mark.
            stops = [("missing_sign", stop, stop, "") for stop in {here, match.end() - 1}]
            if here > start and text[here - 1] in SIGNS:
                stops.append(("wrong_sign", here - 1, here, text[here - 1]))
            for kind, stop, position, sign in stops:
                if self._balances(position, frame):
                    following = self._add_text(text[start:stop], position, mode, frame)
                    if following is not None:
                        yield Edit(kind, stop, sign, '"', state, following)

    # -- the machine -------------------------------------------------------------------------

    def _skip(self, position: int) -> int:
        return self._skip_blank(position)

    def _record(self, kind: str, before: object, after: object) -> None:
        """Record nothing while searching: most readings lead nowhere."""
        if self._decided:
            super()._record(kind, before, after)

    def list_repairs(self, edit: Edit) -> list[Repair]:
        """Return the repairs of the reading with `edit`."""
        self._decided = True
        state: State | None = (0, VALUE, None, None)
        while state is not None and state[:2] != edit.start[:2]:
            state = self._advance(state)
        around = self.text[max(0, edit.position - 20) : edit.position + 20]
        change = f"{edit.before!r} -> {edit.after!r}"
        path = pointer(path_of(edit.start[2]))
        self._repairs.made.append(Repair(path, edit.kind, around, change))
        self._finish(edit.state)
        return self._repairs.made

    def _advance(self, state: State) -> State | None:
        """Read the next token."""
        mode, frame = state[1], state[2]
        if mode in TEXTS and frame is not None:
            position = self._skip(state[0])
            if self.text[position : position + 1] not in ("}", "]"):
                self._compare_column(self.text[state[0] : position], frame)
        try:
            return self._step(state)
        except ReadError:
            return None

    def _compare_column(self, gap: str, frame: Frame) -> None:
        """Count an entry that begins a line in another column than those before."""
        if "\n" in gap:
            column = len(gap) - gap.rindex("\n")
            if frame.column is None:
                frame.column = column
            self._bent += frame.column != column

    def _apply(self, sign: str, position: int, mode: int, frame: Frame | None) -> State | None:
        """Return the state at `position`, behind `sign`.

        None if `sign` cannot stand there, or the brackets behind it do not balance.
        """
        if sign != '"':
            balanced = self._balances(position, frame, _CHANGE.get(sign, 0))
            return self._follow(sign, position, mode, frame) if balanced else None
        close = self._next_mark(position)
        if close >= self._size or not self._balances(close + 1, frame):
            return None
        return self._add_text(self.text[position:close], close + 1, mode, frame)

    def _add_text(self, raw: str, position: int, mode: int, frame: Frame | None) -> State | None:
        """Return the state at `position`, behind a string with the undecoded content `raw`."""
        self._work.spend(len(raw) // CHARS_FOR_EACH_STEP)
        try:
            value, end = scanstring(raw + '"', 0, True)
        except ValueError:
            return None
        if end != len(raw) + 1:
            return None
        return self._follow('"', position, mode, frame, value)

    # -- brackets ----------------------------------------------------------------------------

    def _index_signs(self) -> None:
        """Index the brackets and quotation marks of the text.

        For each, `_balance` has the opening minus the closing brackets from there to the end, if
        it is outside of a string, and `_marks` the position of the next quotation mark.
        """
        self._signs = array("q")
        kinds = []
        for match in re.finditer(r'\\.|[{}\[\]"]', self.text, re.DOTALL):
            if match.group()[0] != "\\":
                self._signs.append(match.start())
                kinds.append(match.group())
        count = len(kinds)
        self._balance = array("q", [0]) * (count + 1)
        self._marks = array("q", [self._size]) * (count + 1)
        close = count
        for index in range(count - 1, -1, -1):
            if kinds[index] == '"':
                self._balance[index] = self._balance[close + 1] if close < count else _UNREADABLE
                self._marks[index] = self._signs[index]
                close = index
            else:
                self._balance[index] = self._balance[index + 1] + _CHANGE[kinds[index]]
                self._marks[index] = self._marks[index + 1]

    def _next_mark(self, position: int) -> int:
        return self._marks[bisect_left(self._signs, position)]

    def _balances(self, position: int, frame: Frame | None, change: int = 0) -> bool:
        """True if the text from `position` closes `frame` and those around it exactly.

        `change` is 1 behind another opener, and -1 behind the closer of `frame`.
        """
        depth = change if frame is None else frame.depth + change
        return self._balance[bisect_left(self._signs, position)] == -depth
