"""Type hints with a schema that can be derived later, because deriving it cannot fail.

Deriving the schema of a function takes pydantic a millisecond or two. A hint that is not certain to
have a schema is derived when the tool is defined, so that an error has the line of the definition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict
from dataclasses import fields as fields_of
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .._core._pydantic import annotated_types, fields, pydantic
from ._bounds import Bounds

__all__ = ["has_plain_default", "is_plain_hint"]

_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
_LISTS: Final = frozenset({list, set, frozenset})
_LARGEST_BOUND: Final = 1 << 53
_MAX_DEPTH: Final = 6
_PATTERN: Final = re.compile(
    r"(?=.{1,100}\Z)\^?(?:\[[A-Za-z0-9_.:-]+\](?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{1,3})?\})?|\\S[*+?]?)+\$?"
)
"""Patterns that the engines of Python and of pydantic both accept."""
_OWN_SCHEMA: Final = (
    "__get_pydantic_core_schema__",
    "__get_pydantic_json_schema__",
    "__pydantic_fields__",
)


@cache
def _bounds() -> Mapping[Any, Any]:
    """Return the constraints that fit a type, and the type of their value."""
    at = annotated_types
    return {
        int: {at.Ge: int, at.Gt: int, at.Le: int, at.Lt: int},
        float: {at.Ge: float, at.Gt: float, at.Le: float, at.Lt: float},
        str: {at.MinLen: int, at.MaxLen: int},
        list: {at.MinLen: int, at.MaxLen: int},
        dict: {at.MinLen: int, at.MaxLen: int},
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
    if depth == _MAX_DEPTH:
        return False
    origin, args = get_origin(hint), get_args(hint)
    if not args:
        return isinstance(hint, type) and _is_plain_record(hint, depth)
    if origin is Annotated:
        return is_plain_hint(args[0], depth + 1) and all(_fits(args[0], m) for m in args[1:])
    if origin is Literal:
        return all(type(value) in _SCALARS for value in args)
    if origin is dict:
        has_texts = str in (args[0], *get_args(args[0])[:1]) and is_plain_hint(args[0], depth + 1)
        return has_texts and (args[1] is Any or is_plain_hint(args[1], depth + 1))
    is_list = origin in _LISTS or origin in (Union, UnionType)
    return is_list and all(is_plain_hint(arg, depth + 1) for arg in args)


def _is_plain_record(kind: type, depth: int) -> bool:
    """True if `kind` is a dataclass of JSON types, without a schema of its own."""
    if "__dataclass_fields__" not in vars(kind) or kind.__bases__ != (object,):
        return False
    if any(hasattr(kind, name) for name in _OWN_SCHEMA):
        return False
    config = getattr(kind, "__pydantic_config__", {})
    if type(config) is not dict or config.keys() - {"extra"}:
        return False
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):
        return False
    found = {each.name: each for each in fields_of(kind)}
    # Other names are of class variables, or of arguments that are no fields (`InitVar`).
    others = [hint for name, hint in hints.items() if name not in found]
    return all(get_origin(hint) is ClassVar for hint in others) and all(
        _is_plain_field(each, hints[name], depth) for name, each in found.items()
    )


def _is_plain_field(each: Field[Any], hint: Any, depth: int) -> bool:
    has_default = each.default is not MISSING
    return (
        each.init
        and not each.name.startswith("_")
        and (not has_default or has_plain_default(each.default))
        and each.default_factory in (MISSING, list, dict)
        and is_plain_hint(hint, depth + 1)
    )


def _fits(kind: Any, metadata: Any) -> bool:
    """True if `metadata` only describes values of `kind`, or has bounds that fit them."""
    if type(metadata) is Bounds:  # of a built-in tool; the tests derive its schema
        return True
    if type(metadata) is not fields.FieldInfo:
        return False
    if any(getattr(metadata, name) is not unset for name, unset in _options().items()):
        return False
    kinds = _bounds().get(get_origin(kind) or kind, {})
    return all(
        _fits_bound(bound, kinds.get(type(bound))) or (kind is str and _is_plain_pattern(bound))
        for bound in metadata.metadata
    )


def _fits_bound(bound: Any, kind: type | None) -> bool:
    if kind is None:
        return False
    (value,) = asdict(bound).values()
    least = (
        0 if isinstance(bound, annotated_types.MinLen | annotated_types.MaxLen) else -_LARGEST_BOUND
    )
    return type(value) in (int, kind) and least <= value <= _LARGEST_BOUND


def _is_plain_pattern(bound: Any) -> bool:
    options = getattr(bound, "__dict__", {})
    pattern = options.get("pattern")
    if len(options) > 1 or not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def has_plain_default(default: Any) -> bool:
    """True if a parameter's default is a JSON scalar, which is certain to have a JSON form."""
    return type(default) in _SCALARS
