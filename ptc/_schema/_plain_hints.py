"""Type hints with a schema that can be derived later, because deriving it cannot fail.

Deriving the schema of a function takes pydantic a millisecond or two. A hint that is not certain to
have a schema is derived when the tool is defined, so that an error has the line of the definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import Field
from pydantic.fields import FieldInfo

__all__ = ["has_plain_default", "is_plain_hint"]

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
_LISTS: Final = frozenset({list, set, frozenset})
_BOUNDS: Final[Mapping[Any, Any]] = {
    int: {Ge: int, Gt: int, Le: int, Lt: int},
    float: {Ge: float, Gt: float, Le: float, Lt: float},
    str: {MinLen: int, MaxLen: int},
}
"""Constraints that fit a type, and the type of their value."""
_LARGEST_BOUND: Final = 1 << 53
_MAX_DEPTH: Final = 4
_OTHERS: Final = tuple(
    name
    for name in FieldInfo.__slots__
    if not name.startswith("_")
    and name not in ("annotation", "metadata", "title", "description", "examples")
)
"""Options of `Field` that do more than describe a value or bound it."""
_EMPTY: Final[Any] = Field()


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
    if type(metadata) is not FieldInfo:
        return False
    if any(getattr(metadata, name) is not getattr(_EMPTY, name) for name in _OTHERS):
        return False
    kinds = _BOUNDS.get(kind, {})
    return all(_fits_bound(bound, kinds.get(type(bound))) for bound in metadata.metadata)


def _fits_bound(bound: Any, kind: type | None) -> bool:
    if kind is None:
        return False
    (value,) = asdict(bound).values()
    least = 0 if isinstance(bound, MinLen | MaxLen) else -_LARGEST_BOUND
    return type(value) in (int, kind) and least <= value <= _LARGEST_BOUND


def has_plain_default(default: Any) -> bool:
    """True if a parameter's default is a JSON scalar, which is certain to have a JSON form."""
    return type(default) in _SCALARS
