"""Copies of data, for functions of the application that may modify it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection
from typing import Any, Final

from ._check import Arguments

__all__ = ["copy_data", "is_flat"]

_SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None)})


def is_flat(arguments: Arguments) -> bool:
    """Return True if all arguments are scalars, which nobody can modify."""
    if type(arguments) is not dict:
        return False
    for value in arguments.values():  # noqa: SIM110  # `all` takes twice as long
        if type(value) not in _SCALARS:
            return False
    return True


def copy_data(data: Any) -> Any:
    """Return data with parts of its own, at any depth, which a function may modify.

    Arguments of a call are recorded, passed to the next attempt, and compared on resume. Data of an
    event is part of the record and the result.

    Lists, objects, other collections, dataclasses and pydantic models are copied. Other objects are
    the same: either they are immutable, such as dates and paths, or an application passed them and
    they have no JSON form.
    """
    if is_flat(data):
        return data.copy()
    try:
        return _copy(data)
    except RecursionError:
        # An application passed an object that contains itself. It has no JSON form, so it is
        # neither recorded nor compared.
        return data


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: v if type(v) in _SCALARS else _copy(v) for key, v in value.items()}
    if kind is list:
        return [v if type(v) in _SCALARS else _copy(v) for v in value]
    if not (isinstance(value, Collection) or _has_fields(kind)):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  # classes define how they are copied
        return value


def _has_fields(kind: type) -> bool:
    """Return True for a dataclass and a pydantic model."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_dump")
