"""Read one JSON-like value in a single pass, in any notation, and record every repair.

It knows notations (JSON, JavaScript, Python), but no schema. Ambiguous text is rejected. A text
that ends inside a word, number or string, or after a comma or colon, was truncated and is rejected
as a whole.
"""

from __future__ import annotations

import json

from ._edits import Repairs
from ._machine import (
    COLON,
    DONE,
    EMPTY,
    FIRST_KEY,
    ITEM,
    KEY,
    KEYS,
    MAX_DEPTH,
    NEXT,
    SCALAR,
    VALUE,
    Frame,
    Machine,
    State,
    path_of,
)
from ._notation import (
    CLOSER,
    IDENTIFIER,
    ITEM_AHEAD,
    KEY_AHEAD,
    PAIRS,
    PREFIXED,
    SEPARATOR,
    SPACE,
    ReadError,
)
from ._places import Place
from ._reading import OpenEnd, Reading
from ._tokens import Tokens
from ._violations import pointer
from ._work import Work

__all__ = ["Reader"]

TOKEN_WORK = 3
_ANYTHING = Place(True)


class Reader(Tokens, Machine):
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
        ended: bool | None = None,
        *,
        root: Place = _ANYTHING,
        exact: bool = False,
    ) -> None:
        """Read from `text`.

        Args:
            text: The model's answer.
            work: Counts the work.
            ended: See `recover`.
            root: Place of the value in the schema.
            exact: True if every sign must stand where it belongs: other notations are read, but no
                missing comma, closer or escape, and no bare text.
        """
        Tokens.__init__(self, text, work, exact=exact)
        Machine.__init__(self, root)
        self._ended = ended
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

    def _spend(self, units: int) -> None:
        self._work.spend(units)

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
        if match is None or (self._exact and not KEY_AHEAD.match(text, position)):
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
        unknown = not self._ended or text.endswith(".")
        at_end = position >= self._size
        if self._exact or (at_end and unknown and self._number_end >= self._size):
            # The next digit may have been truncated.
            raise ReadError(position, cut=True)
        if (
            mode not in (NEXT, ITEM, FIRST_KEY)
            or not frame.count
            or (at_end and self._ended is False)
        ):
            # The text was truncated right after the opener: the container need not be empty.
            raise ReadError(position, cut=True)
        # The end of a code block or tag after the value shows that the writer had finished. A line
        # that ends without a comma ends the innermost container only.
        first = SPACE.match(text, frame.start).group()  # type: ignore[union-attr]  # matches always
        multiline = "\n" in first and "\n" in text[before:position] and not self._ends
        certain = self._ended or not at_end or multiline
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
