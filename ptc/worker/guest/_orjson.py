"""Stand-in for orjson in a guest, which has no native modules: the part that the worker calls.

Values of plain types are written by the library's encoder, in C. Everything else, and whatever
orjson refuses, takes the slow path, which follows orjson's rules: it writes subclasses of str, int,
list and dict, members of enumerations and UUIDs; keys are texts; an integer has 64 bits.

Rule 1: what orjson writes and refuses, this module writes and refuses.
    tests/worker/test_guest_orjson.py::test_values_are_written_and_refused_as_by_orjson
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import Enum
from itertools import chain
from typing import Any, Final
from uuid import UUID

__all__ = [
    "OPT_PASSTHROUGH_DATACLASS",
    "OPT_PASSTHROUGH_DATETIME",
    "Fragment",
    "JSONDecodeError",
    "JSONEncodeError",
    "dumps",
    "loads",
]

OPT_PASSTHROUGH_DATACLASS: Final = 1 << 11
OPT_PASSTHROUGH_DATETIME: Final = 1 << 9
_DEPTH: Final = 253
"""Levels of lists and objects that orjson writes."""
_LEAST, _MOST = -(2**63), 2**64 - 1
JSONDecodeError = json.JSONDecodeError


class JSONEncodeError(TypeError):
    """Raised for a value that has no JSON form."""


class Fragment:
    """JSON that is inserted as it is."""

    __slots__ = ("contents",)

    def __init__(self, contents: bytes) -> None:
        self.contents = contents


_Default = Callable[[Any], Any]
_SCALARS: Final[set[type]] = {str, int, float, bool, type(None)}
_LISTS: Final[set[type]] = {list, tuple}
_PLAIN: Final[set[type]] = {*_SCALARS, *_LISTS, dict}
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_quote: Final = json.encoder.encode_basestring


def _refuse_constant(_text: str) -> None:
    raise ValueError("JSON has no NaN and no infinity")


_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def loads(data: bytes | str) -> Any:
    """Decode JSON. Raises `ValueError` if it is none, also if it is nested too deeply."""
    try:
        return _decode(data if isinstance(data, str) else data.decode())
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def dumps(value: object, default: _Default | None = None, option: int = 0) -> bytes:
    """Encode a value.

    Args:
        value: The value.
        default: Converts a value of another type.
        option: Accepted as orjson's; data classes and dates always go to `default`.

    Raises:
        JSONEncodeError: If it has no JSON form. An error of `default` is its cause.
    """
    try:
        if _is_plain(value):
            return _encode(value).encode()
        pieces: list[str] = []
        _write(value, default, 0, pieces.append)
        return "".join(pieces).encode()
    except UnicodeEncodeError:
        raise JSONEncodeError("str is not valid UTF-8: surrogates not allowed") from None
    except RecursionError:
        raise JSONEncodeError("Recursion limit reached") from None


def _is_plain(value: object) -> bool:
    """Return True if the library's encoder writes `value` as orjson does."""
    level: list[Any] = [value]
    for _ in range(_DEPTH + 1):
        kinds = set(map(type, level))
        if not kinds <= _PLAIN or not _are_plain_numbers(level, kinds):
            return False
        if kinds <= _SCALARS:
            return True
        lists = [x for x in level if type(x) in _LISTS]
        objects = [x for x in level if type(x) is dict]
        if not set(map(type, chain.from_iterable(objects))) <= {str}:
            return False
        level = list(chain.from_iterable(chain(lists, map(dict.values, objects))))
    return False


def _are_plain_numbers(level: list[Any], kinds: set[type]) -> bool:
    if int in kinds:
        numbers = [x for x in level if type(x) is int]
        if min(numbers) < _LEAST or max(numbers) > _MOST:
            return False
    if float in kinds:
        return all(map(math.isfinite, [x for x in level if type(x) is float]))
    return True


def _write(value: Any, default: _Default | None, depth: int, put: Callable[[str], object]) -> None:
    """Write one value; `depth` lists, objects and conversions are around it."""
    kind = type(value)
    if value is None or value is True or value is False:
        put("null" if value is None else "true" if value else "false")
    elif issubclass(kind, Enum):
        _write(value.value, default, depth, put)
    elif issubclass(kind, str):
        put(_quote(str.__str__(value)))
    elif issubclass(kind, int):
        number = int.__index__(value)
        if not _LEAST <= number <= _MOST:
            raise JSONEncodeError("Integer exceeds 64-bit range")
        put(int.__repr__(number))
    elif kind is float:
        put(float.__repr__(value) if math.isfinite(value) else "null")
    elif kind is Fragment:
        put(value.contents.decode())
    elif kind is UUID:
        put(f'"{value}"')
    else:
        _write_other(value, default, depth, put)


def _write_other(
    value: Any, default: _Default | None, depth: int, put: Callable[[str], object]
) -> None:
    kind = type(value)
    if depth > _DEPTH:
        raise JSONEncodeError("Recursion limit reached")
    if kind is tuple or issubclass(kind, list):
        items = value if kind is tuple else list.copy(value)
        separator = "["
        for item in items:
            put(separator)
            _write(item, default, depth + 1, put)
            separator = ","
        put("]" if items else "[]")
    elif issubclass(kind, dict):
        separator = "{"
        for key, item in dict.items(value):
            if not issubclass(type(key), str):
                raise JSONEncodeError("Dict key must be str")
            put(f"{separator}{_quote(str.__str__(key))}:")
            _write(item, default, depth + 1, put)
            separator = ","
        put("}" if separator == "," else "{}")
    else:
        _write(_convert(value, default), default, depth + 1, put)


def _convert(value: Any, default: _Default | None) -> Any:
    message = f"Type is not JSON serializable: {type(value).__name__}"
    if default is None:
        raise JSONEncodeError(message)
    try:
        return default(value)
    except Exception as error:
        raise JSONEncodeError(message) from error
