"""Copies of data, for functions of the application that may modify it."""

from __future__ import annotations

from typing import Any, Final

from ._check import Arguments

__all__ = ["copy_data", "is_flat"]

_SCALARS: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None)})


def is_flat(arguments: Arguments) -> bool:
    """Return True if all arguments are scalars, which a function cannot modify."""
    return type(arguments) is dict and _SCALARS.issuperset(map(type, arguments.values()))


def copy_data(data: Any) -> Any:
    """Return data with lists and objects of its own, which a function may modify.

    Arguments of a call are recorded, passed to the next attempt, and compared on resume. Data of an
    event is part of the record and the result.
    """
    try:
        return _copy(data)
    except RecursionError:
        # An application passed an object that contains itself. It has no JSON form, so it is
        # neither recorded nor compared.
        return data


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(v) if type(v) in _NESTED else v for key, v in value.items()}
    if type(value) is list:
        return [_copy(v) if type(v) in _NESTED else v for v in value]
    return value


_NESTED: Final = frozenset({dict, list})
