"""JSON encoding of every value that enters or leaves the host.

Values that JSON cannot represent exactly are rejected with the path to them, never rounded: NaN and
the infinities, integers over 64 bits, bytes, cycles.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

__all__ = ["JsonError", "dumps", "loads", "plain_text", "sha256_of"]

INT64_MIN, UINT64_MAX = -(2**63), 2**64 - 1
"""Integers that orjson writes; most readers would read a larger one as a float."""

MAX_DEPTH = 200
"""Nesting allowed in a value. orjson stops at 254 (its RECURSION_LIMIT), most readers at 512."""


class JsonError(ValueError):
    """Raised when a value has no exact JSON form. `path` leads to the part without one."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def _special(value: object) -> object:
    """Convert a type that orjson does not support. Raises `TypeError` if it has no JSON form."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="python")
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
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


def dumps(value: object, *, what: str = "value", sort_keys: bool = False) -> bytes:
    """Write `value` as JSON bytes.

    Dataclasses, pydantic models, enums, sets, dates, UUIDs, decimals and paths have a JSON form.

    Args:
        value: Anything.
        what: Name of the value in errors.
        sort_keys: True for a digest, so that equal data has equal bytes.

    Raises:
        JsonError: If a part of it has no exact JSON form; the message includes the path.
    """
    options = _OPTIONS | (orjson.OPT_SORT_KEYS if sort_keys else 0)
    try:
        data = orjson.dumps(value, default=_special, option=options)
    except (TypeError, ValueError, RecursionError):
        _explain(value, what, 0)
        raise JsonError("has no JSON form", what) from None
    if b"null" in data:
        # orjson writes NaN as null, so search for one only if a null was written.
        _explain(value, what, 0)
    return data


def dumps_unchecked(value: object) -> bytes:
    """Write data that is known to have an exact JSON form, such as decoded JSON."""
    return orjson.dumps(value, option=_OPTIONS)


def plain_text(text: object, most: int) -> str:
    """Truncate text to about `most` characters, and escape lone surrogates, as in file names."""
    words = str(text)
    words = words if len(words) <= most else f"{words[:most]} ({len(words) - most:,} more)"
    return words.encode(errors="backslashreplace").decode()


def loads(data: bytes | str) -> Any:
    """Read JSON. Raises `ValueError` (of orjson) with the position if it is malformed."""
    return orjson.loads(data)


def sha256_of(value: object) -> str:
    """Return the digest of a value's sorted JSON form, 64 hex digits."""
    import hashlib

    return hashlib.sha256(dumps(value, sort_keys=True)).hexdigest()


_PLAIN = (str, bool, date, datetime, time, UUID, Enum, type(None))


def _explain(value: object, path: str, depth: int) -> None:
    """Raise a `JsonError` for the first part of `value` that has no exact JSON form."""
    if depth > MAX_DEPTH:
        raise JsonError(f"nested deeper than {MAX_DEPTH} levels (or contains itself)", path[:80])
    if isinstance(value, _PLAIN):
        _explain_text(value, path)
    elif isinstance(value, int | float):
        _explain_number(value, path)
    else:
        for part_path, part in _parts(value, path):
            _explain(part, part_path, depth + 1)


def _explain_text(value: object, path: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonError("text with a lone surrogate is not valid Unicode", path) from None


def _explain_number(value: float, path: str) -> None:
    if isinstance(value, int):
        if not INT64_MIN <= value <= UINT64_MAX:
            raise JsonError("integer over 64 bits; send it as str(value)", path)
    elif not math.isfinite(value):
        raise JsonError(f"{value} has no JSON form; send None or a string", path)


def _parts(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the parts of a container with their paths, or the JSON form of a special type."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise JsonError(f"key {key!r:.60} is not a string; use str(key)", path)
            yield f"{path}.{key}", item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield f"{path}.{field.name}", getattr(value, field.name)
    else:
        try:
            plain = _special(value)
        except TypeError:
            kind = type(value).__name__
            raise JsonError(f"{kind} has no JSON form", path) from None
        yield path, plain
