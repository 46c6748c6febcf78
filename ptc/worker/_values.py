"""Values of a script as JSON and back: what may cross the wire, and the path to what may not.

The script's objects are read with the methods of their builtin types only where the type is
exactly that; a subclass that lies about itself can only lie about its own data.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

from .._compiler import demangle
from .._protocol import load_json
from ._classes import open_type

__all__ = ["Record", "ValueRefused", "dumps", "holds_long_text", "loads", "records"]

MAX_DEPTH = 200
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


def _special(value: object) -> object:
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
    """Write `value` as JSON.

    Args:
        value: Anything a script can make.
        what: The word errors call the value by, e.g. ``result``.

    Raises:
        ValueRefused: If a part has no exact JSON form, with the path to it (``result.rows[2]``).
    """
    try:
        plain = _with_long_texts_written(value) if holds_long_text(value) else value
        data = orjson.dumps(plain, default=_special, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        _explain(value, what, 0)
        msg = f"{what}: {type(value).__name__} has no JSON form"
        raise ValueRefused(msg) from None
    if b"null" in data:
        # orjson writes NaN and the infinities as null: look for one where a null was written.
        _explain(value, what, 0)
    return data


_LONG_CHARS = 1 << 20
_PIECE_CHARS = 1 << 14
_LOOKS = 64
"""Parts of a value in which a long text is looked for: what is longer is seldom deeper."""


def holds_long_text(value: Any) -> bool:
    """True if a long text is found among the first parts of `value`."""
    looks = _LOOKS
    parts = [value]
    for part in parts:  # which grows meanwhile
        kind = type(part)
        if kind is str:
            if len(part) > _LONG_CHARS:
                return True
        elif kind is dict or kind is list or kind is Record:
            looks -= len(part)
            if looks < 0:
                return False
            parts += part if kind is list else part.values()
    return False


def _with_long_texts_written(value: Any) -> Any:
    """`value` with its long texts as JSON already.

    orjson 3.13 asks for room for eight bytes for each character before it writes a text, and the
    process dies if it is refused: 30 MB of text would need 240 MB. Written in pieces and joined it
    needs twice its own length, and what is refused is a MemoryError.
    """
    texts: list[bytes] = []
    written = _written(value, texts)
    # Its buffer doubles as it grows.
    _require_room(2 * sum(map(len, texts)))
    return written


def _written(value: Any, texts: list[bytes]) -> Any:
    kind = type(value)
    if kind is str and len(value) > _LONG_CHARS:
        texts.append(_write_text(value))
        return orjson.Fragment(texts[-1])
    if kind is dict or kind is Record:
        return {key: _written(item, texts) for key, item in value.items()}
    if kind is list:
        return [_written(item, texts) for item in value]
    return value


def _write_text(value: str) -> bytes:
    _require_room(2 * len(value))
    pieces = [b'"']
    for start in range(0, len(value), _PIECE_CHARS):
        pieces.append(orjson.dumps(value[start : start + _PIECE_CHARS])[1:-1])
    pieces.append(b'"')
    return b"".join(pieces)


def _require_room(size: int) -> None:
    """Raise `MemoryError` if `size` bytes cannot be had. Takes none of them."""
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        raise MemoryError from None


_PLAIN = (bool, date, datetime, time, UUID, type(None))


def _explain(value: Any, path: str, depth: int) -> None:
    """Raise `ValueRefused` for the first part of `value` that has no exact JSON form."""
    if depth > MAX_DEPTH:
        msg = f"{path[:80]}: nested deeper than {MAX_DEPTH} levels, or contains itself"
        raise ValueRefused(msg)
    if isinstance(value, _PLAIN):
        return
    if isinstance(value, Enum):
        _explain(value.value, path, depth + 1)
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
        for key, item in value.items():
            if not isinstance(key, str):
                msg = f"{path}: key {key!r:.60} is not a string; use str(key)"
                raise ValueRefused(msg)
            _explain(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        for index, item in enumerate(value):
            _explain(item, f"{path}[{index}]", depth + 1)
    else:
        try:
            plain = _special(value)
        except TypeError:
            hint = _HINTS.get(type(value).__name__, "return plain data")
            msg = f"{path}: {type(value).__name__} has no JSON form; {hint}"
            raise ValueRefused(msg) from None
        _explain(plain, path, depth + 1)


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
