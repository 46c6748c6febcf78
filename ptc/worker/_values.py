"""Values of a script as JSON and back; errors have the path to a part without an exact form.

A subclass of a builtin type that lies about itself can only lie about its own data.
"""

from __future__ import annotations

import dataclasses
import mmap
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import PurePath
from typing import Any, cast

import orjson

from .._language._compiler import demangle
from .._wire._bodies import load_json
from .._wire._json_errors import Explainer
from ._classes import open_type

__all__ = [
    "Record",
    "ValueRefused",
    "check_depth",
    "check_key",
    "dumps",
    "encode",
    "explain",
    "loads",
    "records",
    "require_room",
    "shorten",
    "special",
]


class ValueRefused(TypeError):
    """A value has no exact JSON form. The message starts with the path to the part."""


@open_type
class Record(dict[str, Any]):
    """An object of a tool's result: ``row.path`` and ``row["path"]`` are the same."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            fields = ", ".join(self)
            msg = f"no field {name!r}; fields: {fields}"
            raise AttributeError(msg) from None


def records(value: Any) -> Any:
    """Convert every object of freshly decoded JSON to a `Record`; lists are changed in place."""
    kind = type(value)
    if kind is dict:
        made = Record(value)
        for key, item in value.items():
            if type(item) in _NESTED:
                made[key] = records(item)
        return made
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _NESTED:
                value[index] = records(item)
    return value


_NESTED = frozenset({dict, list})


def loads(data: bytes) -> Any:
    """Read JSON that the host wrote.

    Raises:
        MemoryError: If memory runs out, which orjson reports as invalid JSON.
    """
    try:
        return load_json(data)
    except ValueError:
        raise MemoryError from None


def special(value: object) -> object:
    """Convert a value of a type that orjson does not write by itself."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {demangle(name): getattr(value, name) for name in names}
    for kinds, convert in _CONVERSIONS:
        if isinstance(value, kinds):
            return convert(value)
    if isinstance(value, Iterable) and type(value).__name__ in _VIEWS:
        return list(value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return cast("Any", value).tolist()
    raise TypeError


def _items_of_set(value: Any) -> list[Any]:
    items = list(value)
    try:
        return sorted(items)
    except TypeError:
        return items


def _items_of_tuple(value: Any) -> object:
    fields = getattr(type(value), "_fields", None)
    return dict(zip(map(demangle, fields), value, strict=False)) if fields else list(value)


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    ((set, frozenset), _items_of_set),
    ((Decimal, Fraction, PurePath), str),
    (timedelta, timedelta.total_seconds),
    (tuple, _items_of_tuple),
    (str, str.__str__),
    (Mapping, dict),
    ((date, time), lambda value: value.isoformat()),  # of a subclass; orjson writes the plain ones
)
_VIEWS = {"deque", "dict_keys", "dict_values", "dict_items", "range", "map", "filter", "zip"}
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS


def dumps(value: object, what: str) -> bytes:
    """Write a small `value` as JSON. `_writer` writes values of arbitrary size.

    Args:
        value: Any object of a script.
        what: Name of the value in errors, e.g. ``result``.

    Raises:
        ValueRefused: If a part has no exact JSON form, with the path to it (``result.rows[2]``).
    """
    data = encode(value, special, partial(explain, value, what, 0))
    if b"null" in data:
        # orjson writes NaN and the infinities as null: look for one where a null was written.
        explain(value, what, 0)
    return data


def encode(
    value: object, default: Callable[[object], object], explain: Callable[[], None]
) -> bytes:
    """Write `value` as JSON; NaN and the infinities are written as null.

    Args:
        value: Any object of a script.
        default: Converts values that orjson does not write by itself.
        explain: Raises `ValueRefused` if `value` has no exact JSON form.

    Raises:
        ValueRefused: If `value` has no exact JSON form.
        Exception: Any error of `default` except `TypeError`.
    """
    try:
        return orjson.dumps(value, default=default, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        # An error of `default` is the cause of orjson's own error.
        cause = error.__cause__
        if isinstance(cause, Exception) and not isinstance(cause, TypeError):
            raise cause from None
        explain()
        msg = f"{type(value).__name__} has no JSON form"
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


_HINTS = {
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


def _refusal(message: str, path: str) -> ValueRefused:
    return ValueRefused(f"{path}: {message}")


_EXPLAINER = Explainer(_refusal, special, verb="return", hints=_HINTS)
explain = _EXPLAINER.explain
check_depth = _EXPLAINER.check_depth
check_key = _EXPLAINER.check_key
