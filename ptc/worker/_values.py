"""Values of a script as JSON and back: the conversions that lose nothing.

A subclass of a builtin type that lies about itself can only lie about its own data.
"""

from __future__ import annotations

import dataclasses
import itertools
import mmap
from array import array
from collections import UserList, UserString, deque
from collections.abc import Callable, ItemsView, KeysView, Mapping, Set, ValuesView
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from types import GeneratorType, SimpleNamespace
from typing import Any, Final
from uuid import UUID

import orjson

from .._language._compiler import demangle
from .._wire._bodies import load_json
from .._wire._wide import fragment
from ._foreign import convert as convert_foreign
from ._foreign import is_foreign

__all__ = [
    "HINTS",
    "ITERATORS",
    "OPTIONS",
    "ValueRefused",
    "Wide",
    "demangle",
    "dumps",
    "key_of",
    "loads",
    "require_room",
    "shorten",
    "special",
]


class ValueRefused(TypeError):
    """A value has no exact JSON form. The message starts with the path to the part."""

    __module__ = "builtins"  # reprs and errors show it


def loads(data: bytes) -> Any:
    """Read JSON that the host wrote.

    Raises:
        MemoryError: If memory runs out, which orjson reports as invalid JSON.
    """
    try:
        return load_json(data)
    except ValueError:
        raise MemoryError from None


class Wide:
    """An integer over 64 bits in data that is about to be written."""

    __slots__ = ("digits", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.digits = number.bit_length() // 3
        """Characters of its JSON, rounded up."""


def special(value: object) -> object:
    """Convert a value of a type that orjson does not write by itself.

    Raises:
        TypeError: If there is no such conversion.
        Exception: Any error of the script's own code.
    """
    kind = type(value)
    if kind is Wide:
        return fragment(value.number)  # type: ignore[attr-defined]  # the exact type is checked
    if is_foreign(kind):
        raise TypeError
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return {demangle(name): getattr(value, name) for name in names}
    for kinds, convert in _CONVERSIONS:
        if issubclass(kind, kinds):
            return convert(value)
    raise TypeError


def key_of(value: object) -> object:
    """Convert a key that is neither text nor a number nor a constant.

    Raises:
        TypeError: If it has no form as a key.
        Exception: Any error of the script's own code.
    """
    kind = type(value)
    if issubclass(kind, Enum):
        return value.value  # type: ignore[attr-defined]  # as above
    if is_foreign(kind):
        plain, _ = convert_foreign(value)
        if type(plain) in {str, int, float, bool, type(None)}:
            return plain
        raise TypeError
    if issubclass(kind, _KEYS):
        return special(value)
    raise TypeError


def _items_of_set(value: Any) -> list[Any]:
    items = list(value)
    try:
        return sorted(items)
    except Exception:  # noqa: BLE001  # no order, or one of the script that fails
        return items


def _items_of_tuple(value: Any) -> object:
    fields = getattr(type(value), "_fields", None)
    return dict(zip(map(demangle, fields), value, strict=False)) if fields else list(value)


def _members_of(value: SimpleNamespace) -> dict[str, object]:
    found = object.__getattribute__(value, "__dict__")
    return {demangle(name): item for name, item in found.items()}


def _iso(value: Any) -> object:
    return value.isoformat()


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    ((set, frozenset), _items_of_set),
    ((Decimal, Fraction, PurePath, UUID), str),
    (timedelta, timedelta.total_seconds),
    ((date, time), _iso),
    (tuple, _items_of_tuple),
    (str, str.__str__),
    ((deque, range, array, KeysView, ValuesView, ItemsView, Set), list),
    (Mapping, dict),
    (SimpleNamespace, _members_of),
    ((UserList, UserString), lambda value: value.data),
)
_KEYS: Final = (Decimal, Fraction, PurePath, UUID, date, time, timedelta)
_ITERABLES: tuple[Any, ...] = ([], (), {}, {}.values(), {}.items(), set(), "", b"", range(0))
ITERATORS: Final = (
    GeneratorType, map, filter, zip, enumerate, reversed,
    *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
    *map(type, map(iter, _ITERABLES)),
)  # fmt: skip
"""Types whose items can be read once."""
OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""orjson crashes if a method of a script, such as `tzinfo.utcoffset`, raises an error."""


def dumps(value: object, what: str) -> bytes:
    """Write a small `value` of builtin types as JSON. `_writer` writes other values.

    Args:
        value: Data of the worker, with texts of the script.
        what: Name of the value in errors, e.g. ``name``.

    Raises:
        ValueRefused: If a text in it is not valid Unicode.
    """
    try:
        return orjson.dumps(value, option=OPTIONS)
    except TypeError as error:
        msg = f"{what}: {error}"
        raise ValueRefused(msg) from None


def shorten(text: object, most: int) -> str:
    """Shorten a text for display, and make it valid in JSON.

    Args:
        text: A text, or an object of another type that a script put in its place.
        most: Largest number of characters.
    """
    plain = str.__str__(text) if isinstance(text, str) else f"({type(text).__name__})"
    plain = demangle(plain[: most + 1]).encode(errors="backslashreplace").decode()
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def require_room(size: int) -> None:
    """Raise `MemoryError` if `size` bytes cannot be allocated. Allocates none; takes 12 us."""
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        msg = "not enough memory to write the value as JSON"
        raise MemoryError(msg) from None


HINTS: Final = {
    "bytes": "return text, e.g. value.decode() or base64.b64encode(value).decode()",
    "bytearray": "return text, e.g. value.decode()",
    "coroutine": "put `await` before the call",
    "PendingCall": "put `await` before the tool call",
    "generator": "return list(value)",
    "function": "call it and return its result",
    "DataFrame": "return frame.to_dict('records')",
    "Series": "return series.tolist() or series.to_dict()",
    "complex": "return [value.real, value.imag]",
    "": "return plain data",
}
