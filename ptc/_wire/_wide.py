"""Integers over 64 bits in JSON, which orjson neither writes nor reads exactly.

A writer marks each of them by a tab before its digits. A tab is legal there in JSON, and orjson
writes none: in a text it is an escape. So a reader that finds no tab, which costs nothing, has an
ordinary body; otherwise it passes the marked integers through orjson as texts.

Rule 1: reading takes a bounded time for each byte: integers have at most `MAX_DIGITS` digits.
    tests/core/wire/test_wide.py::test_longest_integers_are_read_in_bounded_time
Rule 2: no text of the sender is mistaken for an integer: the mark is a secret of this process.
    tests/core/wire/test_wide.py::test_texts_are_never_read_as_integers
"""

from __future__ import annotations

import dataclasses
import re
import secrets
from enum import Enum
from typing import Any, Final

import orjson

__all__ = ["MAX_DIGITS", "MOST", "fragment", "is_wide", "loads", "widen"]

MAX_DIGITS: Final = 4_300
"""Digits of the longest integer. CPython converts longer ones only on request, since the time
grows with the square of the length."""
MOST: Final = 10**MAX_DIGITS
"""Every integer between this one and its negative has at most `MAX_DIGITS` digits."""
INT64_MIN, UINT64_MAX = -(2**63), 2**64 - 1
"""The integers that orjson writes and reads exactly."""

_MARKED: Final = re.compile(rb"\t(-?[1-9][0-9]{18,%d})(?=[,\]}]|\Z)" % (MAX_DIGITS - 1))
_SAFE_DIGITS: Final = 600
"""Digits that CPython converts whatever `sys.set_int_max_str_digits` says (640 at least)."""
_MARK: Final = secrets.token_hex(8)
_TEXT: Final = b'"%b\\1"' % _MARK.encode()


def is_wide(number: int) -> bool:
    """Return True if orjson does not write `number`."""
    return not INT64_MIN <= number <= UINT64_MAX


def fragment(number: int) -> orjson.Fragment:
    """Return the JSON of an integer of at most `MAX_DIGITS` digits, with its mark."""
    return orjson.Fragment(b"\t" + _digits(number))


def widen(value: Any) -> Any:
    """Return a copy of `value` that orjson can write, with integers over 64 bits as fragments.

    Args:
        value: Data that orjson writes, but for such integers.
    """
    kind = type(value)
    if issubclass(kind, Enum):
        return widen(value.value)
    if issubclass(kind, int):
        return fragment(int(value)) if is_wide(value) else value
    if issubclass(kind, dict):
        return {key: widen(item) for key, item in value.items()}
    if issubclass(kind, list | tuple):
        return [widen(item) for item in value]
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(value)]
        # orjson leaves out private fields, too.
        return {name: widen(getattr(value, name)) for name in names if not name.startswith("_")}
    return value


def loads(body: bytes) -> Any:
    """Decode JSON with marked integers.

    Raises:
        ValueError: If it is not JSON.
    """
    # A list around it, so that there is a place for every value.
    root = [orjson.loads(_MARKED.sub(_TEXT, body))]
    rest: list[Any] = [root]
    while rest:
        node = rest.pop()
        for place, item in enumerate(node) if type(node) is list else node.items():
            kind = type(item)
            if kind is list or kind is dict:
                rest.append(item)
            elif kind is str and item.startswith(_MARK):
                node[place] = _integer(item.removeprefix(_MARK))
    return root[0]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # the limit of this process is lower
        sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
        number = 0
        for start in range(0, len(digits), _SAFE_DIGITS):
            piece = digits[start : start + _SAFE_DIGITS]
            number = number * 10 ** len(piece) + int(piece)
        return sign * number


def _digits(number: int) -> bytes:
    try:
        return b"%d" % number
    except ValueError:  # as above
        sign, number = (b"-", -number) if number < 0 else (b"", number)
        pieces: list[str] = []
        while number:
            number, piece = divmod(number, 10**_SAFE_DIGITS)
            pieces.append(f"{piece:0{_SAFE_DIGITS}d}")
        return sign + "".join(reversed(pieces)).lstrip("0").encode()
