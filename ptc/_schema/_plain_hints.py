"""Type hints with a schema that can be derived later, because deriving it cannot fail.

Deriving the schema of a function takes pydantic a millisecond or two. A hint that is not certain to
have a schema is derived when the tool is defined, so that an error has the line of the definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from .._core._pydantic import annotated_types, fields, pydantic

__all__ = ["has_plain_default", "is_plain_hint"]

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
_LISTS: Final = frozenset({list, set, frozenset})
_LARGEST_BOUND: Final = 1 << 53
_MAX_DEPTH: Final = 4


@cache
def _bounds() -> Mapping[Any, Any]:
    """Return the constraints that fit a type, and the type of their value."""
    at = annotated_types
    return {
        int: {at.Ge: int, at.Gt: int, at.Le: int, at.Lt: int},
        float: {at.Ge: float, at.Gt: float, at.Le: float, at.Lt: float},
        str: {at.MinLen: int, at.MaxLen: int},
    }


@cache
def _options() -> Mapping[str, Any]:
    """Return the options of `Field` that do more than describe a value or bound it, if unset."""
    empty = pydantic.Field()
    only_words = ("annotation", "metadata", "title", "description", "examples")
    return {
        name: getattr(empty, name)
        for name in fields.FieldInfo.__slots__
        if not name.startswith("_") and name not in only_words
    }


def is_plain_hint(hint: Any, depth: int = 0) -> bool:
    """True if `hint` consists of JSON types, and so is certain to have a schema."""
    if isinstance(hint, type) and hint in _SCALARS:
        return True
    origin, args = get_origin(hint), get_args(hint)
    if not args or depth == _MAX_DEPTH:
        return False
    if origin is Annotated:
        return is_plain_hint(args[0], depth + 1) and all(_fits(args[0], m) for m in args[1:])
    if origin is Literal:
        return all(type(value) in _SCALARS for value in args)
    if origin is dict:
        return args[0] is str and (args[1] is Any or is_plain_hint(args[1], depth + 1))
    is_list = origin in _LISTS or origin in (Union, UnionType)
    return is_list and all(is_plain_hint(arg, depth + 1) for arg in args)


def _fits(kind: Any, metadata: Any) -> bool:
    """True if `metadata` only describes values of `kind`, or has bounds that fit them."""
    if type(metadata) is not fields.FieldInfo:
        return False
    if any(getattr(metadata, name) is not unset for name, unset in _options().items()):
        return False
    kinds = _bounds().get(kind, {})
    return all(_fits_bound(bound, kinds.get(type(bound))) for bound in metadata.metadata)


def _fits_bound(bound: Any, kind: type | None) -> bool:
    if kind is None:
        return False
    (value,) = asdict(bound).values()
    least = (
        0 if isinstance(bound, annotated_types.MinLen | annotated_types.MaxLen) else -_LARGEST_BOUND
    )
    return type(value) in (int, kind) and least <= value <= _LARGEST_BOUND


def has_plain_default(default: Any) -> bool:
    """True if a parameter's default is a JSON scalar, which is certain to have a JSON form."""
    return type(default) in _SCALARS
