"""A strict incremental JSON parser that exposes its partial result as a live value.

It reads every character once. Numbers and words enter the value when complete, strings when they
are shown, keys together with their values.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ._reader import MAX_DEPTH

__all__ = ["Incremental"]

_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT = re.compile(r"[^\"\\\x00-\x1f]*")
_WORD = re.compile(r"[^\s,:\"{}\[\]]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ABSENT = object()


class Incremental:
    """Parser of one value that starts with ``{`` or ``[``.

    Attributes:
        value: The partial value; updated in place.
        closed: True once the value is complete.
        failed: True once the text is not JSON, or repeats a key.
        committed: True once it has a key with its colon, or an item: it was meant as data.
    """

    def __init__(self) -> None:
        self.value: Any = _ABSENT
        self.closed = False
        self.failed = False
        self.committed = False
        self._stack: list[Any] = []
        self._keys: list[str | int] = []
        # Expected next: value, first (value or closer), key, first_key, colon, next, text.
        self._state = "value"
        self._unread = ""
        self._waiting = False
        self._word = ""
        self._text: list[str] = []
        self._is_key = False
        self._surrogate = ""
        self._string_visible = False

    def path(self) -> tuple[str | int, ...]:
        """Return the path to the part that is being written."""
        depth = len(self._stack)
        in_text = self._state == "text" and not self._is_key
        return tuple(self._keys[: depth if in_text else max(0, depth - 1)])

    def feed(self, text: str) -> str:
        """Parse `text` and return the rest once the value is closed or has failed."""
        text = self._unread + text
        self._unread = ""
        position = 0
        while position < len(text) and not (self.closed or self.failed):
            position = self._step(text, position)
            if self._waiting:
                self._unread = text[position:]
                self._waiting = False
                return ""
        return text[position:]

    def show_string(self) -> bool:
        """Put the incomplete string into the value; False if there is none."""
        if self._state != "text" or self._is_key:
            return False
        self._text = ["".join(self._text)]
        holder: Any = self._stack[-1]
        key: Any = self._keys[-1]
        if isinstance(holder, list) and key == len(holder):
            holder.append(self._text[0])
        else:
            holder[key] = self._text[0]
        self._string_visible = True
        return True

    def hide_string(self) -> None:
        """Remove the incomplete string from the value."""
        if self._string_visible:
            del self._stack[-1][self._keys[-1]]
            self._string_visible = False

    # -- steps -------------------------------------------------------------------------------

    def _step(self, text: str, position: int) -> int:
        if self._state == "text":
            return self._read_string(text, position)
        if self._word:
            return self._read_word(text, position)
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # matches always
        if position >= len(text):
            return position
        sign = text[position]
        if self._state in ("value", "first"):
            if sign == "]" and self._state == "first":
                return self._close(position, sign)
            return self._start_value(text, position, sign)
        return self._read_punctuation(position, sign)

    def _read_punctuation(self, position: int, sign: str) -> int:
        """Parse the quote before a key, a colon, a comma or a closer."""
        state = self._state
        if state in ("key", "first_key"):
            if sign == "}" and state == "first_key":
                return self._close(position, sign)
            self._start_string(key=True)
            return self._expect(sign, '"', "text", position)
        if state == "colon":
            self.committed = True
            return self._expect(sign, ":", "value", position)
        if sign in "}]":
            return self._close(position, sign)
        holder = self._stack[-1]
        if isinstance(holder, list):
            self._keys[-1] = len(holder)
            return self._expect(sign, ",", "value", position)
        return self._expect(sign, ",", "key", position)

    def _expect(self, sign: str, wanted: str, state: str, position: int) -> int:
        if sign != wanted:
            self.failed = True
            return position
        self._state = state
        return position + 1

    def _start_value(self, text: str, position: int, sign: str) -> int:
        if sign in "{[":
            if len(self._stack) >= MAX_DEPTH:
                self.failed = True
                return position
            value: Any = {} if sign == "{" else []
            if self._stack:
                self._put(value)
            else:
                self.value = value
            self._stack.append(value)
            self._keys.append("" if sign == "{" else 0)
            self._state = "first_key" if sign == "{" else "first"
            return position + 1
        if sign == '"':
            self._start_string(key=False)
            self._state = "text"
            return position + 1
        return self._read_word(text, position)

    def _put(self, value: Any) -> None:
        holder: Any = self._stack[-1]
        key: Any = self._keys[-1]
        if isinstance(holder, list):
            if key == len(holder):
                holder.append(value)
            else:
                holder[key] = value
            self.committed = True
        else:
            holder[key] = value

    def _close(self, position: int, sign: str) -> int:
        holder = self._stack[-1]
        if sign != ("]" if isinstance(holder, list) else "}"):
            self.failed = True
            return position
        self._stack.pop()
        self._keys.pop()
        self._state = "next"
        self.closed = not self._stack
        return position + 1

    def _read_word(self, text: str, position: int) -> int:
        """Parse a number or a word, which is complete when another token follows."""
        end = _WORD.match(text, position).end()  # type: ignore[union-attr]  # matches always
        self._word += text[position:end]
        if len(self._word) > 1_000 or not self._word:
            self.failed = True
            return position
        if end >= len(text):
            return end
        word, self._word = self._word, ""
        if word not in _WORDS and not _NUMBER.fullmatch(word):
            self.failed = True
            return position
        value = _WORDS[word] if word in _WORDS else json.loads(word)
        if isinstance(value, float) and not math.isfinite(value):
            self.failed = True
            return position
        self._put(value)
        self._state = "next"
        return end

    # -- strings -----------------------------------------------------------------------------

    def _start_string(self, *, key: bool) -> None:
        self._text = []
        self._is_key = key
        self._surrogate = ""
        self._string_visible = False

    def _read_string(self, text: str, position: int) -> int:
        end = _TEXT.match(text, position).end()  # type: ignore[union-attr]  # matches always
        if end > position:
            if self._surrogate:
                self.failed = True
                return position
            self._text.append(text[position:end])
            return end
        sign = text[position]
        if sign == '"':
            return self._end_string(position)
        if sign != "\\":
            self.failed = True
            return position
        return self._read_escape(text, position)

    def _read_escape(self, text: str, position: int) -> int:
        """Parse one escape; return the same position if it is incomplete."""
        code = text[position + 1 : position + 2]
        if not code:
            self._waiting = True
            return position
        if code != "u":
            if code not in _ESCAPED or self._surrogate:
                self.failed = True
                return position
            self._text.append(_ESCAPED[code])
            return position + 2
        digits = text[position + 2 : position + 6]
        if len(digits) < 4:
            self._waiting = True
            return position
        if not _HEX.fullmatch(digits):
            self.failed = True
            return position
        number = int(digits, 16)
        high = 0xD800 <= number < 0xDC00
        low = 0xDC00 <= number < 0xE000
        if low != bool(self._surrogate):
            # A lone surrogate is not text.
            self.failed = True
            return position
        if high:
            self._surrogate = chr(number)
        elif low:
            pair = (self._surrogate + chr(number)).encode("utf-16", "surrogatepass")
            self._text.append(pair.decode("utf-16"))
            self._surrogate = ""
        else:
            self._text.append(chr(number))
        return position + 6

    def _end_string(self, position: int) -> int:
        value = "".join(self._text)
        if self._surrogate:
            self.failed = True
            return position
        if self._is_key:
            if value in self._stack[-1]:
                self.failed = True
                return position
            self._keys[-1] = value
            self._state = "colon"
        else:
            self._put(value)
            self._state = "next"
        return position + 1
