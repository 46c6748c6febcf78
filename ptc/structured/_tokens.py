"""Tokens of a JSON-like text: numbers, words and strings in the notations that models write."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner has no stub
from typing import Any

from ._reading import Work

__all__ = [
    "CLOSER",
    "GROUPED",
    "IDENTIFIER",
    "ITEM_AHEAD",
    "KEY_AHEAD",
    "PAIRS",
    "PREFIXED",
    "SEPARATOR",
    "SPACE",
    "ReadError",
    "Tokens",
]


SPACE = re.compile(r"[ \t\r\n\f\v\u00a0\ufeff\u2000-\u200b\u2028\u2029\u202f\u2060\u3000]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_OTHER_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:_[0-9]+)+|(?:[0-9]+\.(?![0-9])|\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")
_DELIMITER = re.compile(r"[\s,}\])\ufeff;]|//|/\*|#|```|<|$")
_BARE = re.compile(r"[^\W]\w*(?:[.+%-]\w+|%)*(?: [\w%][\w.+%-]*)*")
_BARE_END = re.compile(r"[ \t]*(?:[,}\])\r\n;]|//|/\*|#|```|<)")
IDENTIFIER = re.compile(r"[^\W\d][\w$.-]*|\$[\w$.-]*")
SEPARATOR = re.compile(r"::?|=>|=|\uff1a")
KEY_AHEAD = re.compile(
    r"[ \t\r\n]*[uU]?"
    r"(?:\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\u201c\u201d][^\u201c\u201d\n]*+"
    r"[\u201c\u201d]|[\u2018\u2019][^\u2018\u2019\n]*+[\u2018\u2019]|`[^`\n]*+`|[\w$][\w$.-]*+)"
    r"[ \t]*(?::|=|\uff1a)"
)
ITEM_AHEAD = re.compile(r"[ \t\r\n]*(?:[\"'\u201c\u2018`{\[(\d.+-]|[^\W\d])")
_OMISSION = re.compile(
    r"\.\.\.|\u2026|\b(?:more|omit\w*|remain\w*|etc|rest|similar\w*|so on|truncat\w*|continu\w*|"
    r"others?|same|repeat\w*|todo|placeholder|abbreviat\w*|shorten\w*|skip\w*|elid\w*|fill|"
    r"and so forth|additional|further|until)\b",
    re.IGNORECASE,
)
_COMMENTED_OUT = re.compile(
    r"[\"'\u201c\u201d]\s*(?::|=>)|^[/#*\s]*(?:[\"'\u201c][^\n]*[\"'\u201d]|-?[\d.]+)?\s*,?[/*\s]*$"
    r"|^[/#*\s]*[{\[]"
)
_INNER_JSON = re.compile(
    r"[\"'\u201c\u201d][^\s\"'\u201c\u201d]{0,3}\s*(?::|,\s*[\"'\u201c\u201d{\[])"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPED = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "`": "`", "_": "_", "\n": "", "\r\n": "",
}  # fmt: skip
CLOSER = {"{": "}", "[": "]", "(": ")"}
PAIRS = {
    '"': '"', "'": "'", "\u201c": "\u201d\u201c", "\u201d": "\u201d", "\u2018": "\u2019\u2018",
    "\u2019": "\u2019", "`": "`", "\u00ab": "\u00bb", "\u300c": "\u300d", "\u201e": "\u201c\u201d",
}  # fmt: skip
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_OTHER_WORDS = {"True": True, "False": False, "None": None, "TRUE": True, "FALSE": False,
                "NULL": None, "Null": None, "nil": None, "undefined": None}  # fmt: skip
_SLIP = re.compile(
    "|".join(
        f"{word[:at]}(?:.?{word[at:]}|.?{word[at + 1 :]})"
        for word in ("true", "false", "null", "none")
        for at in range(len(word) + 1)
    ),
    re.IGNORECASE,
)
"""Matches a literal that is misspelt by one letter."""
_NO_WORDS = frozenset({"nan", "inf", "infinity", "n/a", "na", "new"})

PREFIXED = re.compile(r"[uU](?=[\"'])")
"""Python's prefix of a text."""
GROUPED = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+")
"""An integer with commas between the thousands."""


class ReadError(Exception):
    """The text has no single reading.

    Attributes:
        position: Offset at which reading stopped.
        cut: True if the text ended there.
        ambiguous: True if there is more than one reading.
        deep: True if the value nests too deep.
    """

    def __init__(
        self, position: int, *, cut: bool = False, ambiguous: bool = False, deep: bool = False
    ) -> None:
        super().__init__(position)
        self.position = position
        self.cut = cut
        self.ambiguous = ambiguous
        self.deep = deep


_UNTIL: dict[str, re.Pattern[str]] = {}


def _text_until(closers: str) -> re.Pattern[str]:
    """Return a pattern for text up to an unescaped mark of `closers`."""
    found = _UNTIL.get(closers)
    if found is None:
        found = re.compile(rf"((?:[^\\{closers}]|\\.)*+)[{closers}]", re.DOTALL)
        _UNTIL[closers] = found
    return found


def _parse_number(source: str, position: int) -> int | float:
    """Parse a JSON number; `position` is for the error."""
    if any(c in source for c in ".eE"):
        value = float(source)
        if not math.isfinite(value):
            raise ReadError(position, ambiguous=True)
        return value
    if len(source) > 1_000:
        raise ReadError(position, ambiguous=True)
    return int(source)


def _parse_other_number(source: str, position: int) -> int | float:
    """Parse a number in another notation: ``+5``, ``.5``, ``1_000``, ``0x1F``."""
    plain = source.replace("_", "").lstrip("+")
    if "x" in plain.lower():
        return _parse_number(str(int(plain, 16)) if len(plain) < 1_000 else plain, position)
    return _parse_number(plain, position)


INNER_QUOTE_WORK = 8
"""Each costs a lookahead."""

_NUMBER_END = re.compile(_DELIMITER.pattern + r'|["{\[:]')
_MEMBER_END = re.compile(r"\s*(?:\}|,\s*[\"'\u201c}A-Za-z_$])")


class Tokens(ABC):
    """The scalars, strings and comments of one text."""

    def __init__(self, text: str, work: Work, *, exact: bool) -> None:
        self.text = text
        self._exact = exact
        self._work = work
        self._size = len(text)
        self._number_end = -1

    @abstractmethod
    def _record(self, kind: str, before: Any, after: Any) -> None:
        """Record a repair."""

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
            if _OMISSION.search(comment) or _COMMENTED_OUT.search(comment):
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
            # No key follows, so the commas belong to the number.
            return match.group(), match.end(), None
        match = _NUMBER.match(text, position)
        if match is not None and _NUMBER_END.match(text, match.end()):
            self._number_end = match.end()
            return _parse_number(match.group(), position), match.end(), match.group()
        match = _OTHER_NUMBER.match(text, position)
        if match is not None and _NUMBER_END.match(text, match.end()):
            source = match.group()
            if not _LEADING_ZERO.match(source):
                self._number_end = match.end()
                value = _parse_other_number(source, position)
                self._record("number_form", source, repr(value))
                return value, match.end(), source
        match = _BARE.match(text, position)
        if match is None or not (self._exact or _DELIMITER.match(text, match.end())):
            raise ReadError(position, cut=position >= self._size)
        return self._read_word(match.group().rstrip(), position)

    def _read_word(self, word: str, position: int) -> tuple[Any, int, str | None]:
        end = position + len(word)
        if word in _WORDS:
            return _WORDS[word], end, None
        if word in _OTHER_WORDS:
            value = _OTHER_WORDS[word]
            self._record("literal", word, json.dumps(value))
            return value, end, word
        if self._exact or end >= self._size:
            raise ReadError(end, cut=True)
        if word.casefold() in _NO_WORDS or _OMISSION.search(word) or _SLIP.fullmatch(word):
            raise ReadError(position, ambiguous=True)
        if not _BARE_END.match(self.text, end):
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
            self._work.spend(INNER_QUOTE_WORK)
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
            if odd % 2 or spread or _INNER_JSON.search(value):
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
        match = _text_until(closers).match(self.text, position)
        if match is None:
            raise ReadError(self._size, cut=True)
        raw = match.group(1)
        if mark == "`" and ("${" in raw or "\\" in raw):
            raise ReadError(position, ambiguous=True)
        if "\\" not in raw:
            return raw, match.end()

        value = _ESCAPE.sub(lambda found: self._unescape(found, position), raw)
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
        if code not in _ESCAPED:
            # `\d`: a backslash and a d in Python, a d in JavaScript.
            raise ReadError(position, ambiguous=True)
        if code in "'\n`_":
            self._record("escape", found.group(), _ESCAPED[code])
        return _ESCAPED[code]

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
