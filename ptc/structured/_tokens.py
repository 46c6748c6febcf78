"""Parse the scalars of a JSON-like text: numbers, words and strings in several notations."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no stub
from typing import Any

from ._notation import (
    BARE,
    BARE_END,
    COMMENTED_OUT,
    DELIMITER,
    ESCAPE,
    ESCAPED,
    GROUPED,
    INNER_JSON,
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
from ._work import Work

__all__ = ["Tokens"]

MAX_INNER_QUOTES = 1_000
"""Unescaped quotes inside the strings of one text; each costs a lookahead."""

_NUMBER_END = re.compile(DELIMITER.pattern + r'|["{\[:]')
_MEMBER_END = re.compile(r"\s*(?:\}|,\s*[\"'\u201c}A-Za-z_$])")


class Tokens:
    """The scalars, strings and comments of one text."""

    def __init__(self, text: str, work: Work, *, exact: bool) -> None:
        self.text = text
        self._exact = exact
        self._work = work
        self._size = len(text)
        self._inner_quotes = 0
        self._number_end = -1

    def _record(self, kind: str, before: Any, after: Any) -> None:
        """Record a repair."""
        raise NotImplementedError

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

    def _skip_blank(self, position: int) -> int:
        return SPACE.match(self.text, position).end()  # type: ignore[union-attr]  # matches always

    def _at_end(self, position: int) -> bool:
        """True at the end of the text, or of the part of it that holds the value."""
        if position >= self._size:
            return True
        text = self.text
        return text.startswith("```", position) or (
            text[position] == "<" and position + 1 < self._size and text[position + 1] in "/|"
        )

    # -- numbers and words --------------------------------------------------------------------

    def _read_scalar(self, position: int, role: str) -> tuple[Any, int, str | None]:
        """Parse a number, word or bare text: value, end, and source text if the value loses it."""
        text = self.text
        match = None if self._exact else GROUPED.match(text, position)
        if match is not None and role == "member" and _MEMBER_END.match(text, match.end()):
            # What follows is no key, so that the commas belong to the number.
            return match.group(), match.end(), None
        match = NUMBER.match(text, position)
        if match is not None and _NUMBER_END.match(text, match.end()):
            self._number_end = match.end()
            return parse_number(match.group(), position), match.end(), match.group()
        match = OTHER_NUMBER.match(text, position)
        if match is not None and _NUMBER_END.match(text, match.end()):
            source = match.group()
            if not LEADING_ZERO.match(source):
                self._number_end = match.end()
                value = parse_other_number(source, position)
                self._record("number_form", source, repr(value))
                return value, match.end(), source
        match = BARE.match(text, position)
        if match is None or not (self._exact or DELIMITER.match(text, match.end())):
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
        if self._exact or end >= self._size:
            raise ReadError(end, cut=True)
        if word.casefold() in NO_WORDS or OMISSION.search(word) or SLIP.fullmatch(word):
            raise ReadError(position, ambiguous=True)
        if not BARE_END.match(self.text, end):
            # `e "a"`: a stray letter, or an item of a list.
            raise ReadError(position, ambiguous=True)
        if re.search(r"[^\W\d]\.[^\W\d]", word) or word.split(" ", 1)[0] == "new":
            # `user.name` and `new Date` are code: their value is not in the text.
            raise ReadError(position, ambiguous=True)
        self._record("unquoted_text", word, json.dumps(word, ensure_ascii=False))
        return word, end, None

    # -- strings -----------------------------------------------------------------------------

    def _read_strings(self, position: int, role: str) -> tuple[str, int]:
        """Parse a string, or several strings joined by ``+``."""
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
        if mark == '"' and not self._exact and text.startswith('"""', position):
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
            if self._exact or self._can_close(end, role):
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
        """Return the decoded text up to the next closing mark, and the position after the mark."""
        text = self.text
        if mark == '"':
            for strict in (True,) if self._exact else (True, False):
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

        value = ESCAPE.sub(lambda found: self._unescape(found, position), raw)
        if "\\u" in raw:
            # Surrogates in pairs become one character, as in JSON.
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if "\ufffd" in value and "\ufffd" not in raw:
                raise ReadError(position, ambiguous=True)
        return value, match.end()

    def _unescape(self, found: re.Match[str], position: int) -> str:
        code = found.group(1)
        if code[0] in "ux" and len(code) > 1:
            character = chr(int(code[1:], 16))
            if code[0] == "x":
                self._record("escape", found.group(), character)
            return character
        if code not in ESCAPED:
            # `\d`: a backslash and a d in Python, a d in JavaScript.
            raise ReadError(position, ambiguous=True)
        if code in "'\n`_":
            self._record("escape", found.group(), ESCAPED[code])
        return ESCAPED[code]

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
        """Reject lone surrogates: JSON parsers do not accept them."""
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ReadError(position, ambiguous=True) from None

    def _can_close(self, end: int, role: str) -> bool:
        """True if the mark before `end` can end a string here."""
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
        if sign in ",;":
            return role == "item" or self._member_follows(after + 1)
        if role == "item":
            return sign in "\"'\u201c{[" and (after > end or sign in "{[")
        return after > end and KEY_AHEAD.match(text, after) is not None

    def _member_follows(self, position: int) -> bool:
        """True if a key, a closer, a comment or nothing follows the comma."""
        text = self.text
        after = self._skip_blank(position)
        if self._at_end(after) or text[after] in "}])#,":
            return True
        if text[after] == "/" or text.startswith("...", after):
            return True
        return KEY_AHEAD.match(text, after) is not None
