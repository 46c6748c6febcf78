"""A tolerant reader of one JSON-like value, in one pass, that records every liberty it takes.

It knows notations (JSON, JavaScript, Python), no schema. What could be read in two ways it refuses,
or leaves to its caller as a numbered choice. A text that ends inside a word, number or string, or
after a comma or colon, was cut: nothing of it is read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no stub
from typing import Any

from ._edits import Repairs
from ._notation import (
    BARE,
    BARE_END,
    CLOSER,
    COMMENTED_OUT,
    DELIMITER,
    ESCAPE,
    ESCAPED,
    IDENTIFIER,
    INNER_JSON,
    ITEM_AHEAD,
    KEY_AHEAD,
    LEADING_ZERO,
    NO_WORDS,
    NUMBER,
    OMISSION,
    OTHER_NUMBER,
    OTHER_WORDS,
    PAIRS,
    SEPARATOR,
    SLIP,
    SPACE,
    WORDS,
    ReadError,
    parse_number,
    parse_other_number,
    text_until,
)
from ._violations import pointer

__all__ = ["MAX_DEPTH", "ScalarId", "OpenEnd", "Reader", "Reading", "ReadError", "json_equal"]

MAX_DEPTH = 100
"""Deepest nesting that is repaired. Real answers stay below 20."""
MAX_INNER_QUOTES = 1_000
"""Unescaped quotes inside strings of one text; each costs a look ahead."""

ScalarId = tuple[int, str | int]
"""A container (by identity) and the key in it of a scalar whose source is kept."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """A container that the text did not close."""

    path: tuple[str | int, ...]
    opener: str
    keys: frozenset[str]
    """The keys that an object has."""
    certain: bool
    """True if the text shows that its last part was read: a fence or tag closes after it, or it is
    the innermost, spread over lines, and a line ended after the last part without a comma."""


@dataclass(slots=True)
class Reading:
    """One value read, and how."""

    value: Any
    end: int
    repairs: Repairs
    sources: dict[ScalarId, str]
    """How numbers and words were written, where their value does not show it."""
    open_ends: list[OpenEnd] = field(default_factory=list)
    choices: int = 0
    """How many times a closer of the wrong kind left a choice."""


def json_equal(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 is not true, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


class Reader:
    """Reads values out of one text."""

    def __init__(self, text: str, choices: tuple[int, ...] = ()) -> None:
        """Read `text`; at the n-th closer of the wrong kind take ``choices[n]`` (0, 1 or 2)."""
        self.text = text
        self._size = len(text)
        self._choices = choices
        self._inner_quotes = 0
        self._reset()

    def _reset(self) -> None:
        self._repairs = Repairs()
        self._sources: dict[ScalarId, str] = {}
        self._path: list[str | int] = []
        self._open: list[str] = []
        self._ends: list[OpenEnd] = []
        self.choice_count = 0
        self._token_end = -1
        self._number_end = -1
        self.committed = False
        self.quoted = False
        self.keys: list[str] = []

    def read(self, position: int) -> Reading:
        """The value that begins at `position`.

        Raises:
            Unreadable: If there is none, or not one; `committed` then tells whether what was read
                until there was clearly meant as data.
        """
        self._reset()
        holder: list[Any] = []
        end = self._read_value(position, holder, 0, "root")
        end = self._continue_closed_object(end, holder[0])
        return Reading(holder[0], end, self._repairs, self._sources, self._ends, self.choice_count)

    def read_members(self, position: int) -> Reading:
        """The members that begin at `position`, of an object whose opener is missing."""
        self._reset()
        value: dict[str, Any] = {}
        self._record("missing_opener", "", "{")
        self._open.append("{")
        end = self._read_members(position, value, 1, position)
        self._open.pop()
        return Reading(value, end, self._repairs, self._sources, self._ends, self.choice_count)

    # -- where we are ------------------------------------------------------------------------

    def _record(self, kind: str, before: Any, after: Any) -> None:
        self._repairs.add(pointer(self._path), kind, before, after)

    def _skip(self, position: int) -> int:
        """The next position that is neither space nor comment."""
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
            self._record("comment", comment, "")
            position = end

    def _at_end(self, position: int) -> bool:
        """True at the end of the text, or of the part of it that holds the value."""
        if position >= self._size:
            return True
        text = self.text
        return text.startswith("```", position) or (
            text[position] == "<" and position + 1 < self._size and text[position + 1] in "/|"
        )

    def _require_complete_number(self, position: int) -> None:
        """Refuse an end right after a number: its next digit may be what was cut."""
        if position >= self._size and self._number_end >= self._size:
            raise ReadError(position, cut=True)

    def _record_open_end(self, opener: str, value: Any, start: int, position: int) -> None:
        self._require_complete_number(position)
        first = SPACE.match(self.text, start).group()  # type: ignore[union-attr]  # matches always
        tail = self.text[self._token_end : position]
        if not value:
            # It was opened and then the text was cut: nothing says that it is empty.
            raise ReadError(position, cut=True)
        # A closing fence or tag after the value: whoever wrote it had come to the end. A line that
        # ends without a comma ends the innermost container only.
        spread = "\n" in first and "\n" in tail and not self._ends
        certain = position < self._size or spread
        keys = frozenset(value) if opener == "{" else frozenset()
        self._ends.append(OpenEnd(tuple(self._path), opener, keys, certain))
        self._record("missing_closer", "", CLOSER[opener])

    # -- values ------------------------------------------------------------------------------

    def _read_value(self, position: int, holder: Any, key: str | int, role: str) -> int:
        """Read a value into ``holder[key]`` (appended to a list); returns where it ended."""
        text = self.text
        if position >= self._size:
            raise ReadError(position, cut=True)
        sign = text[position]
        if sign == "{":
            value: Any = {}
            end = self._read_container(position, value, sign)
        elif sign == "[" or (sign == "(" and role != "root"):
            value = []
            end = self._read_container(position, value, sign)
        elif sign in PAIRS:
            value, end = self._read_strings(position, role)
        else:
            value, end, source = self._read_scalar(position)
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
                end = self._read_closer(position, "{")
                if end is not None:
                    return end
                position = self._skip_separator(position + 1, "{")
                continue
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
        if text[position] in PAIRS:
            key, end = self._read_string(position, "key")
            if "\n" in text[position:end]:
                # No key has two lines: a quotation mark is missing.
                raise ReadError(position, ambiguous=True)
            self.quoted = True
            return key, end
        match = IDENTIFIER.match(text, position)
        if match is None:
            raise ReadError(position, cut=position >= self._size)
        self._record("unquoted_key", match.group(), json.dumps(match.group()))
        return match.group(), match.end()

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
                end = self._read_closer(position, opener)
                if end is None:
                    position = self._skip_separator(position + 1, opener)
                    continue
                if opener == "(":
                    if len(value) == 1 and not commas:
                        raise ReadError(position, ambiguous=True)
                    self._record("tuple", "(", "[")
                return end
            self._path.append(len(value))
            position = self._read_value(position, value, len(value), "item")
            self._path.pop()
            before = position
            position = self._skip_separator(position, opener)
            if text.startswith(",", self._skip_blank(before)):
                commas += 1
                self.committed = True

    def _skip_blank(self, position: int) -> int:
        return SPACE.match(self.text, position).end()  # type: ignore[union-attr]  # matches always

    def _skip_separator(self, position: int, opener: str) -> int:
        """Past the comma after a part, or where the container ends."""
        text = self.text
        ended = position
        position = self._skip(position)
        if self._at_end(position):
            return position
        sign = text[position]
        if sign in "}])":
            return position
        if sign == ",":
            after = self._skip(position + 1)
            if after >= self._size:
                raise ReadError(after, cut=True)
            if text[after] in "}])" or self._at_end(after):
                if self._at_end(after):
                    raise ReadError(after, cut=True)
                self._record("trailing_comma", ",", "")
            elif text[after] == ",":
                raise ReadError(after, ambiguous=True)
            return after
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

    def _read_closer(self, position: int, opener: str) -> int | None:
        """Past the closer at `position`; None if it is to be skipped."""
        sign = self.text[position]
        if sign == CLOSER[opener]:
            return position + 1
        options = [1, 2]
        if any(CLOSER[outer] == sign for outer in self._open[:-1]):
            options.insert(0, 0)
        number, self.choice_count = self.choice_count, self.choice_count + 1
        choice = self._choices[number] if number < len(self._choices) else options[0]
        if choice not in options:
            raise ReadError(position, ambiguous=True)
        if choice == 0:
            self._record("missing_closer", "", CLOSER[opener])
            return position
        if choice == 1:
            self._record("wrong_closer", sign, CLOSER[opener])
            return position + 1
        self._record("extra_closer", sign, "")
        return None

    def _continue_closed_object(self, end: int, value: Any) -> int:
        """Read on where an object was closed too early: ``}, "key": ...`` follows."""
        while isinstance(value, dict) and not self._ends:
            after = self._skip_blank(end)
            if not self.text.startswith(",", after):
                return end
            after = self._skip_blank(after + 1)
            quoted = self.text[after : after + 1] in ('"', "'", "\u201c")
            if not quoted or KEY_AHEAD.match(self.text, after) is None:
                return end
            self._record("extra_closer", "}", "")
            self._open.append("{")
            end = self._read_members(after, value, 1, after)
            self._open.pop()
        return end

    # -- scalars -----------------------------------------------------------------------------

    def _read_scalar(self, position: int) -> tuple[Any, int, str | None]:
        """A number, word or bare text, where it ends, and how it was written if that is lost."""
        text = self.text
        match = NUMBER.match(text, position)
        if match is not None and DELIMITER.match(text, match.end()):
            self._number_end = match.end()
            return parse_number(match.group(), position), match.end(), match.group()
        match = OTHER_NUMBER.match(text, position)
        if match is not None and DELIMITER.match(text, match.end()):
            source = match.group()
            if not LEADING_ZERO.match(source):
                self._number_end = match.end()
                value = parse_other_number(source, position)
                self._record("number_form", source, repr(value))
                return value, match.end(), source
        match = BARE.match(text, position)
        if match is None or not DELIMITER.match(text, match.end()):
            raise ReadError(position, cut=position >= self._size)
        return self._read_word(match.group().rstrip(), position)

    def _read_word(self, word: str, position: int) -> tuple[Any, int, str | None]:
        end = position + len(word)
        if word in WORDS:
            return WORDS[word], end, None
        if word in OTHER_WORDS:
            value = OTHER_WORDS[word]
            self._record("literal", word, json.dumps(value))
            return value, end, word
        if end >= self._size:
            raise ReadError(end, cut=True)
        if word.casefold() in NO_WORDS or OMISSION.search(word) or SLIP.fullmatch(word):
            raise ReadError(position, ambiguous=True)
        if not BARE_END.match(self.text, end):
            # `e "a"`: a stray letter, or an item of a list.
            raise ReadError(position, ambiguous=True)
        if re.search(r"[^\W\d]\.[^\W\d]", word) or word.split(" ", 1)[0] == "new":
            # `user.name` and `new Date` are code: what they stand for is not in the text.
            raise ReadError(position, ambiguous=True)
        self._record("unquoted_text", word, json.dumps(word, ensure_ascii=False))
        return word, end, None

    def _read_strings(self, position: int, role: str) -> tuple[str, int]:
        """A string, or several with ``+`` between them."""
        value, end = self._read_string(position, role)
        while True:
            after = self._skip_blank(end)
            if not self.text.startswith("+", after):
                return value, end
            after = self._skip_blank(after + 1)
            if after >= self._size or self.text[after] not in PAIRS:
                raise ReadError(after, cut=after >= self._size)
            more, end = self._read_string(after, role)
            self._record("joined_strings", "+", "")
            value += more

    def _read_string(self, position: int, role: str) -> tuple[str, int]:
        text = self.text
        mark = text[position]
        if mark == '"' and text.startswith('"""', position):
            if not text.startswith('""""', position) and self._can_close(position + 2, role):
                return "", position + 2
            return self._read_long_string(position)
        parts: list[str] = []
        odd = 0
        apostrophes = True
        end = position + 1
        while True:
            part, end = self._read_segment(end, mark)
            parts.append(part)
            if self._can_close(end, role):
                break
            self._inner_quotes += 1
            if self._inner_quotes > MAX_INNER_QUOTES:
                raise ReadError(end, ambiguous=True)
            before, after = text[end - 2 : end - 1], text[end : end + 1]
            apostrophe = text[end - 1] in "'\u2019" and before.isalnum() and after.isalpha()
            inch = (
                text[end - 1] == '"'
                and before.isdigit()
                and not (after.isalnum() or after in PAIRS)
            )
            odd += not (apostrophe or inch)
            apostrophes = apostrophes and apostrophe
            parts.append(text[end - 1])
        value = "".join(parts)
        if len(parts) > 1:
            spread = not apostrophes and ("\n" in value or role == "key")
            if odd % 2 or spread or INNER_JSON.search(value):
                # A quotation mark, or the colon after a key, is missing: where the string ends is
                # a guess.
                raise ReadError(position, ambiguous=True)
            self._record("inner_quote", text[position:end], json.dumps(value, ensure_ascii=False))
        if mark != '"':
            self._record("quotes", text[position:end], json.dumps(value, ensure_ascii=False))
        self._require_whole_characters(value, position)
        return value, end

    def _read_segment(self, position: int, mark: str) -> tuple[str, int]:
        """Text up to the next closing mark, decoded, and the position after that mark."""
        text = self.text
        if mark == '"':
            for strict in (True, False):
                try:
                    value, end = scanstring(text, position, strict)
                except ValueError:
                    continue
                if not strict:
                    self._record("raw_control", text[position:end], json.dumps(value))
                return value, end
        return self._decode(position, mark)

    def _decode(self, position: int, mark: str) -> tuple[str, int]:
        """As `_read_segment`, for other marks and for escapes that JSON does not have."""
        closers = PAIRS[mark]
        match = text_until(closers).match(self.text, position)
        if match is None:
            raise ReadError(self._size, cut=True)
        raw = match.group(1)
        if mark == "`" and ("${" in raw or "\\" in raw):
            raise ReadError(position, ambiguous=True)
        if "\\" not in raw:
            return raw, match.end()

        def one(found: re.Match[str]) -> str:
            code = found.group(1)
            if code[0] in "ux" and len(code) > 1:
                if code[0] == "x":
                    self._record("escape", found.group(), chr(int(code[1:], 16)))
                return chr(int(code[1:], 16))
            if code not in ESCAPED:
                # `\d`: a backslash and a d in Python, a d in JavaScript.
                raise ReadError(position, ambiguous=True)
            if code in "'\n`":
                self._record("escape", found.group(), ESCAPED[code])
            return ESCAPED[code]

        value = ESCAPE.sub(one, raw)
        if "\\u" in raw:
            # Surrogates in pairs become one character, as in JSON.
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if "\ufffd" in value and "\ufffd" not in raw:
                raise ReadError(position, ambiguous=True)
        return value, match.end()

    def _read_long_string(self, position: int) -> tuple[str, int]:
        end = self.text.find('"""', position + 3)
        if end < 0:
            raise ReadError(self._size, cut=True)
        value = self.text[position + 3 : end]
        if "\\" in value:
            raise ReadError(position, ambiguous=True)
        self._record("quotes", '"""', json.dumps(value, ensure_ascii=False))
        self._require_whole_characters(value, position)
        return value, end + 3

    def _require_whole_characters(self, value: str, position: int) -> None:
        """Refuse half of a character: no JSON reader could take it."""
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ReadError(position, ambiguous=True) from None

    def _can_close(self, end: int, role: str) -> bool:
        """True if the mark before `end` can end a string in this place."""
        text = self.text
        after = self._skip_blank(end)
        if self._at_end(after):
            return True
        sign = text[after]
        if role == "key":
            return SEPARATOR.match(text, after) is not None
        if role == "root":
            return True
        if sign in "}])":
            return True
        if sign == "/" and text[after + 1 : after + 2] in ("/", "*"):
            return True
        if sign == "#":
            return "\n" in text[end:after] or after > end
        if sign == "+":
            after = self._skip_blank(after + 1)
            return after < self._size and text[after] in PAIRS
        if sign == ",":
            return role == "item" or self._member_follows(after + 1)
        if role == "item":
            return sign in "\"'\u201c{[" and (after > end or sign in "{[")
        return after > end and KEY_AHEAD.match(text, after) is not None

    def _member_follows(self, position: int) -> bool:
        """True if a key, a closer, a comment or nothing stands after a comma."""
        text = self.text
        after = self._skip_blank(position)
        if self._at_end(after) or text[after] in "}])#,":
            return True
        if text[after] == "/" or text.startswith("...", after):
            return True
        return KEY_AHEAD.match(text, after) is not None


_ABSENT = object()
