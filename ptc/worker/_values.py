"""Values of a script as JSON and back: what may cross the wire, and the path to what may not.

The script's objects are read with the methods of their builtin types only where the type is
exactly that; a subclass that lies about itself can only lie about its own data.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

from .._language._compiler import demangle
from .._wire._bodies import MAX_DEPTH, load_json
from ._classes import open_type

__all__ = [
    "Record",
    "ValueRefused",
    "dumps",
    "encode",
    "explain",
    "loads",
    "records",
    "refuse_depth",
    "require_room",
    "require_text_key",
    "shown",
    "special",
]

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1


class ValueRefused(TypeError):
    """A value has no exact JSON form. The message begins with the path to the part."""


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
    """Fresh JSON with every object in it made a `Record`; its lists are changed in place."""
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
        MemoryError: If there is no room for it. orjson calls that a mistake in the JSON.
    """
    try:
        return load_json(data)
    except ValueError:
        raise MemoryError from None


def special(value: object) -> object:
    """JSON form of the types that orjson does not write by itself."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {demangle(name): getattr(value, name) for name in names}
    if isinstance(value, set | frozenset):
        items = list(value)
        try:
            return sorted(items)
        except TypeError:
            return items
    if isinstance(value, Decimal | Fraction | PurePath):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return dict(zip(map(demangle, fields), value, strict=False)) if fields else list(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and type(value).__name__ in _VIEWS:
        return list(value)
    if isinstance(value, date | time):  # of a class of its own; orjson writes the plain ones
        return value.isoformat()
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return value.tolist()
    raise TypeError


_VIEWS = {"deque", "dict_keys", "dict_values", "dict_items", "range", "map", "filter", "zip"}
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS


def dumps(value: object, what: str) -> bytes:
    """Write a small `value` as JSON. Values of a script's making are written by `_writer`.

    Args:
        value: Anything a script can make.
        what: The word errors call the value by, e.g. ``result``.

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
        value: Anything a script can make.
        default: Converts what orjson does not write by itself.
        explain: Raises `ValueRefused` if `value` has no exact JSON form.

    Raises:
        ValueRefused: If it has none.
        Exception: What `default` raised, but for `TypeError`.
    """
    try:
        return orjson.dumps(value, default=default, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        # What `default` raises is the cause of orjson's own error.
        cause = error.__cause__
        if isinstance(cause, Exception) and not isinstance(cause, TypeError):
            raise cause from None
        explain()
        msg = f"{type(value).__name__} has no JSON form"
        raise ValueRefused(msg) from None


def shown(text: object, most: int) -> str:
    """At most `most` characters of a text, for a person, as JSON can have them.

    Args:
        text: A text, or whatever a script put in its place.
        most: Characters.
    """
    plain = str.__str__(text) if isinstance(text, str) else f"({type(text).__name__})"
    plain = demangle(plain[: most + 1]).encode(errors="backslashreplace").decode()
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def require_room(size: int) -> None:
    """Raise `MemoryError` if `size` bytes cannot be had. Takes none of them; 12 us."""
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        msg = "no memory is left to write this as JSON"
        raise MemoryError(msg) from None


_FINE = frozenset({bool, type(None)})
_PLAIN = (bool, date, datetime, time, UUID, type(None))


def refuse_depth(path: str, depth: int) -> None:
    """Raise `ValueRefused` if a list or an object at `path` has too many around it."""
    if depth >= MAX_DEPTH:
        msg = f"{path[:80]}: nested deeper than {MAX_DEPTH} levels, or contains itself"
        raise ValueRefused(msg)


def explain(value: Any, path: str, depth: int) -> None:
    """Raise `ValueRefused` for the first part of `value` that has no exact JSON form.

    Args:
        value: What is to be written.
        path: Where it is, e.g. ``result.rows[2]``.
        depth: Lists and objects around it.
    """
    if type(value) in _FINE or isinstance(value, _PLAIN):
        return
    if isinstance(value, Enum):
        explain(value.value, path, depth)
    elif isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            msg = f"{path}: text with a lone surrogate is not valid Unicode"
            raise ValueRefused(msg) from None
    elif isinstance(value, int):
        if not _INT64_MIN <= value <= _UINT64_MAX:
            msg = f"{path}: integer over 64 bits has no exact JSON form; return str(value)"
            raise ValueRefused(msg)
    elif isinstance(value, float):
        if not math.isfinite(value):
            msg = f"{path}: {value} has no JSON form; return None or a string"
            raise ValueRefused(msg)
    elif isinstance(value, dict):
        refuse_depth(path, depth)
        for key, item in dict.items(value):
            require_text_key(key, path)
            explain(item, f"{path}.{str.__str__(key)[:80]}", depth + 1)
    elif isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        refuse_depth(path, depth)
        for index, item in enumerate(value):
            explain(item, f"{path}[{index}]", depth + 1)
    else:
        try:
            plain = special(value)
        except TypeError:
            hint = _HINTS.get(type(value).__name__, "return plain data")
            msg = f"{path}: {type(value).__name__} has no JSON form; {hint}"
            raise ValueRefused(msg) from None
        explain(plain, path, depth)


def require_text_key(key: object, path: str) -> None:
    """Raise `ValueRefused` if the key of a member is no text that JSON can have."""
    if not isinstance(key, str):
        msg = f"{path}: key {key!r:.60} is not a string; use str(key)"
        raise ValueRefused(msg)
    explain(key, f"{path}: key", 0)


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
}
