"""Patterns and tables for the notations in which models write values, and the read error."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = [
    "BARE",
    "BARE_END",
    "CLOSER",
    "COMMENTED_OUT",
    "DELIMITER",
    "ESCAPE",
    "ESCAPED",
    "GROUPED",
    "IDENTIFIER",
    "INNER_JSON",
    "ITEM_AHEAD",
    "KEY_AHEAD",
    "LEADING_ZERO",
    "NO_WORDS",
    "NUMBER",
    "OMISSION",
    "OTHER_NUMBER",
    "OTHER_WORDS",
    "PAIRS",
    "PREFIXED",
    "SEPARATOR",
    "SLIP",
    "SPACE",
    "WORDS",
    "ReadError",
    "parse_number",
    "parse_other_number",
    "text_until",
]

SPACE = re.compile(r"[ \t\r\n\f\v\u00a0\ufeff\u2000-\u200b\u2028\u2029\u202f\u2060\u3000]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
OTHER_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:_[0-9]+)+|(?:[0-9]+\.(?![0-9])|\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]+)?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")
DELIMITER = re.compile(r"[\s,}\])\ufeff;]|//|/\*|#|```|<|$")
BARE = re.compile(r"[^\W]\w*(?:[.+%-]\w+|%)*(?: [\w%][\w.+%-]*)*")
BARE_END = re.compile(r"[ \t]*(?:[,}\])\r\n;]|//|/\*|#|```|<)")
IDENTIFIER = re.compile(r"[^\W\d][\w$.-]*|\$[\w$.-]*")
SEPARATOR = re.compile(r"::?|=>|=|\uff1a")
KEY_AHEAD = re.compile(
    r"[ \t\r\n]*[uU]?"
    r"(?:\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\u201c\u201d][^\u201c\u201d\n]*+"
    r"[\u201c\u201d]|[\u2018\u2019][^\u2018\u2019\n]*+[\u2018\u2019]|`[^`\n]*+`|[\w$][\w$.-]*+)"
    r"[ \t]*(?::|=|\uff1a)"
)
ITEM_AHEAD = re.compile(r"[ \t\r\n]*(?:[\"'\u201c\u2018`{\[(\d.+-]|[^\W\d])")
OMISSION = re.compile(
    r"\.\.\.|\u2026|\b(?:more|omit\w*|remain\w*|etc|rest|similar\w*|so on|truncat\w*|continu\w*|"
    r"others?|same|repeat\w*|todo|placeholder|abbreviat\w*|shorten\w*|skip\w*|elid\w*|fill|"
    r"and so forth|additional|further|until)\b",
    re.IGNORECASE,
)
COMMENTED_OUT = re.compile(
    r"[\"'\u201c\u201d]\s*(?::|=>)|^[/#*\s]*(?:[\"'\u201c][^\n]*[\"'\u201d]|-?[\d.]+)?\s*,?[/*\s]*$"
    r"|^[/#*\s]*[{\[]"
)
INNER_JSON = re.compile(
    r"[\"'\u201c\u201d][^\s\"'\u201c\u201d]{0,3}\s*(?::|,\s*[\"'\u201c\u201d{\[])"
)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
ESCAPED = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "`": "`", "_": "_", "\n": "", "\r\n": "",
}  # fmt: skip
CLOSER = {"{": "}", "[": "]", "(": ")"}
PAIRS = {
    '"': '"', "'": "'", "\u201c": "\u201d\u201c", "\u201d": "\u201d", "\u2018": "\u2019\u2018",
    "\u2019": "\u2019", "`": "`", "\u00ab": "\u00bb", "\u300c": "\u300d", "\u201e": "\u201c\u201d",
}  # fmt: skip
WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
OTHER_WORDS = {"True": True, "False": False, "None": None, "TRUE": True, "FALSE": False,
                "NULL": None, "Null": None, "nil": None, "undefined": None}  # fmt: skip
SLIP = re.compile(
    "|".join(
        f"{word[:at]}(?:.?{word[at:]}|.?{word[at + 1 :]})"
        for word in ("true", "false", "null", "none")
        for at in range(len(word) + 1)
    ),
    re.IGNORECASE,
)
"""Matches a literal that is misspelt by one letter."""
NO_WORDS = frozenset({"nan", "inf", "infinity", "n/a", "na", "new"})

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


def text_until(closers: str) -> re.Pattern[str]:
    """Return a pattern for text up to an unescaped mark of `closers`."""
    found = _UNTIL.get(closers)
    if found is None:
        found = re.compile(rf"((?:[^\\{closers}]|\\.)*+)[{closers}]", re.DOTALL)
        _UNTIL[closers] = found
    return found


def parse_number(source: str, position: int) -> int | float:
    """Parse a JSON number; `position` is for the error."""
    if any(c in source for c in ".eE"):
        value = float(source)
        if not math.isfinite(value):
            raise ReadError(position, ambiguous=True)
        return value
    if len(source) > 1_000:
        raise ReadError(position, ambiguous=True)
    return int(source)


def parse_other_number(source: str, position: int) -> int | float:
    """Parse a number in another notation: ``+5``, ``.5``, ``1_000``, ``0x1F``."""
    plain = source.replace("_", "").lstrip("+")
    if "x" in plain.lower():
        return parse_number(str(int(plain, 16)) if len(plain) < 1_000 else plain, position)
    return parse_number(plain, position)
