"""The one JSON form of the host: what a value is before it crosses any border.

It knows nothing of tools or runs. Values that JSON cannot hold exactly are refused with the path
to them, never rounded: NaN and the infinities, integers over 64 bits, bytes, cycles.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
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
"""The integers orjson writes; a larger one would come back as a float in most readers."""

MAX_DEPTH = 200
"""Nesting allowed in a value. orjson stops at 254 (its RECURSION_LIMIT), most readers at 512."""


class JsonError(ValueError):
    """A value has no exact JSON form. `path` leads to the part that has none."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


def _special(value: object) -> object:
    """What orjson is told for a type that it does not write by itself."""
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
        what: The word errors call the value by.
        sort_keys: For a digest: the same data then gives the same bytes.

    Raises:
        JsonError: If a part of it has no exact JSON form; the message has the path to it.
    """
    options = _OPTIONS | (orjson.OPT_SORT_KEYS if sort_keys else 0)
    try:
        data = orjson.dumps(value, default=_special, option=options)
    except (TypeError, ValueError, RecursionError):
        _explain(value, what, 0)
        raise JsonError("has no JSON form", what) from None
    if b"null" in data:
        # orjson writes NaN as null: look for one only where a null was written at all.
        _explain(value, what, 0)
    return data


def checked_dumps(value: object) -> bytes:
    """Write data as JSON bytes that is known to have an exact JSON form, as what came from JSON."""
    return orjson.dumps(value, option=_OPTIONS)


def plain_text(text: object, most: int) -> str:
    """At most about `most` characters as JSON can hold them: names of files may have surrogates."""
    words = str(text)
    words = words if len(words) <= most else f"{words[:most]} ({len(words) - most:,} more)"
    return words.encode(errors="backslashreplace").decode()


def loads(data: bytes | str) -> Any:
    """Read JSON. Raises `ValueError` (orjson's) with the position if it is none."""
    return orjson.loads(data)


def sha256_of(value: object) -> str:
    """Digest of a value's sorted JSON form, 64 hex digits."""
    import hashlib

    return hashlib.sha256(dumps(value, sort_keys=True)).hexdigest()


_PLAIN = (str, bool, date, datetime, time, UUID, Enum, type(None))


def _explain(value: object, path: str, depth: int) -> None:
    """Raise a `JsonError` for the first part of `value` that has no exact JSON form."""
    if depth > MAX_DEPTH:
        raise JsonError(f"nested deeper than {MAX_DEPTH} levels (or contains itself)", path[:80])
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonError("text with a lone surrogate is not valid Unicode", path) from None
    elif isinstance(value, _PLAIN):
        return
    elif isinstance(value, int):
        if not INT64_MIN <= value <= UINT64_MAX:
            raise JsonError("integer over 64 bits; send it as str(value)", path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise JsonError(f"{value} has no JSON form; send None or a string", path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise JsonError(f"key {key!r:.60} is not a string; use str(key)", path)
            _explain(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _explain(item, f"{path}[{index}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            _explain(getattr(value, field.name), f"{path}.{field.name}", depth + 1)
    else:
        try:
            plain = _special(value)
        except TypeError:
            kind = type(value).__name__
            raise JsonError(f"{kind} has no JSON form", path) from None
        _explain(plain, path, depth + 1)
