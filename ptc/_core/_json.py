"""The JSON form of values on the host, for every boundary they cross.

It knows nothing of tools or runs. Values that JSON cannot hold exactly raise an error that names
their path, and are never rounded: NaN and the infinities, bytes, cycles.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import orjson
from orjson import Fragment

from .._wire import _wide
from .._wire._json_errors import MAX_DEPTH, Explainer

__all__ = [
    "MAX_DEPTH",
    "Fragment",
    "JsonError",
    "data_of",
    "dumps",
    "dumps_unchecked",
    "loads",
    "plain_text",
    "sha256_of",
]


class JsonError(ValueError):
    """A value has no exact JSON form. `path` leads to the part without one."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def _special(value: object) -> object:
    """Convert a value of a type that orjson does not write by itself."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="python")
    if isinstance(value, set | frozenset):
        items = list(value)
        try:
            return sorted(items)
        except TypeError:
            return items
    if isinstance(value, Decimal | PurePath) or _is_fraction(value):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _is_fraction(value: object) -> bool:
    # Not imported here: its module compiles a pattern for 2 ms.
    fractions = sys.modules.get("fractions")
    return fractions is not None and isinstance(value, fractions.Fraction)


def _convert(value: Any) -> object:
    """Convert a value as orjson does, or as `_special` does for it."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names}
    return _special(value)


_EXPLAINER = Explainer(JsonError, _convert, verb="send")
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY
_LONG_BYTES = 65_536


def dumps(value: object, *, what: str = "value", sort_keys: bool = False) -> bytes:
    """Write `value` as JSON bytes.

    Dataclasses, pydantic models, enums, sets, dates, UUIDs, decimals and paths have a JSON form.

    Args:
        value: Any object.
        what: Name of the value in errors.
        sort_keys: Write equal data as equal bytes, for a digest.

    Raises:
        JsonError: If a part of it has no exact JSON form; the message includes the path.
    """
    options = _OPTIONS | (orjson.OPT_SORT_KEYS if sort_keys else 0)
    try:
        data = orjson.dumps(value, default=_special, option=options)
    except (TypeError, ValueError, RecursionError):
        _EXPLAINER.explain(value, what)
        data = _dumps_wide(value, options, what)
    if b"null" in data:
        # orjson writes NaN as null: look for one only where a null was written at all.
        _EXPLAINER.explain(value, what)
    return _compact(data)


def dumps_unchecked(value: object) -> bytes:
    """Write data that is known to have an exact JSON form, such as parsed JSON."""
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:  # an integer over 64 bits
        data = orjson.dumps(_wide.widen(value), option=_OPTIONS)
    return _compact(data)


def _compact(data: bytes) -> bytes:
    """Return a copy without spare room.

    orjson does not shrink its buffer: the bytes of ``{}`` take 1 KB (3.10) or 4 KB (3.13) as long
    as they exist. Of a long text, the spare pages are never touched, so it is not copied.
    """
    return b"".join((b"", data)) if len(data) < _LONG_BYTES else data


def _dumps_wide(value: object, options: int, what: str) -> bytes:
    """Write a value with integers over 64 bits, each after a tab (`_wide`)."""
    try:
        return orjson.dumps(
            _wide.widen(value),
            default=lambda special: _wide.widen(_special(special)),
            option=options,
        )
    except (TypeError, ValueError, RecursionError):
        raise JsonError("has no JSON form", what) from None


def data_of(value: object) -> Any:
    """Convert a value to JSON data; None if it has no JSON form."""
    try:
        return orjson.loads(dumps(value))
    except JsonError:
        return None


def plain_text(text: object, most: int) -> str:
    """Return about `most` characters of `text`, valid in JSON: a file name may hold surrogates."""
    words = str(text)
    words = words if len(words) <= most else f"{words[:most]} ({len(words) - most:,} more)"
    return words.encode(errors="backslashreplace").decode()


def loads(data: bytes | str) -> Any:
    """Parse JSON. Raises orjson's `ValueError`, with the position, if it is invalid."""
    if isinstance(data, str):
        data = data.encode()
    return _wide.loads(data) if b"\t" in data else orjson.loads(data)


def sha256_of(value: object) -> str:
    """Return the SHA-256 of a value's sorted JSON form, 64 hex digits."""
    import hashlib

    return hashlib.sha256(dumps(value, sort_keys=True)).hexdigest()
