"""Errors that name the part of a value that has no exact JSON form.

Host and worker share the walk. Each supplies its exception, its conversions and its hints.

Rule 1: of a value whose class derives from a builtin type, only methods of the builtin type are
    called: in a worker the class may be the script's own.
    tests/worker/test_writer.py::test_an_error_about_a_value_calls_no_method_of_the_script
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any, Final, NoReturn
from uuid import UUID

from ._wide import INT64_MIN, MAX_DIGITS, MOST, UINT64_MAX

__all__ = ["MAX_DEPTH", "Explainer", "is_exact"]

MAX_DEPTH = 200
"""Lists and objects that may be nested in a value. orjson reads 1,024 levels and writes 254
(its RECURSION_LIMIT), of which a result needs a few for itself; most readers stop at 512."""

_PATH_CHARS = 80
"""Characters of a key that a path shows, and of a path that leads too deep."""


class Explainer:
    """Finds the first part of a value that has no exact JSON form."""

    __slots__ = ("_convert", "_error", "_hints", "_verb")

    def __init__(
        self,
        error: Callable[[str, str], Exception],
        convert: Callable[[Any], object],
        *,
        verb: str,
        hints: Mapping[str, str] | None = None,
    ) -> None:
        """Set the side's own words.

        Args:
            error: Makes the exception from a message and the path to the part.
            convert: Returns the JSON form of a value that is not of a builtin type, or raises
                `TypeError`.
            verb: Verb for passing on a value, e.g. ``return``.
            hints: Suggested fix by the name of a type; ``""``: that of any other.
        """
        self._error = error
        self._convert = convert
        self._verb = verb
        self._hints = hints or {}

    def explain(self, value: Any, path: str, depth: int = 0) -> None:
        """Raise the error for the first part of `value` that has no exact JSON form.

        Args:
            value: The value to be written.
            path: Position of the value, e.g. ``result.rows[2]``.
            depth: Number of lists and objects around it.
        """
        check = _EXACT.get(type(value)) or _find_check(type(value))
        check(self, value, path, depth)

    def check_depth(self, path: str, depth: int) -> None:
        """Raise the error for a list or an object at `path` that has too many around it."""
        if depth >= MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels, or contains itself"
            self._fail(message, path[:_PATH_CHARS])

    def check_key(self, key: object, path: str) -> None:
        """Raise the error for a key, in the object at `path`, that is not valid text."""
        if not isinstance(key, str):
            self._fail(f"key {key!r:.60} is not a string; use str(key)", path)
        if not _is_unicode(key):
            self._fail(f"key: {_SURROGATE}", path)

    def _fail(self, message: str, path: str) -> NoReturn:
        raise self._error(message, path) from None

    def _accept(self, value: Any, path: str, depth: int) -> None:
        """Do nothing: the value has an exact form."""

    def _check_enum(self, value: Any, path: str, depth: int) -> None:
        self.explain(value.value, path, depth)

    def _check_text(self, value: str, path: str, _depth: int) -> None:
        if not _is_unicode(value):
            self._fail(_SURROGATE, path)

    def _check_integer(self, value: int, path: str, _depth: int) -> None:
        if not -MOST < int.__int__(value) < MOST:
            message = f"integer of more than {MAX_DIGITS:,} digits; {self._verb} hex(value)"
            self._fail(message, path)

    def _check_float(self, value: float, path: str, _depth: int) -> None:
        if not math.isfinite(value):
            shown = float.__repr__(value)
            self._fail(f"{shown} has no JSON form; {self._verb} None or a string", path)

    def _check_members(self, value: dict[Any, Any], path: str, depth: int) -> None:
        self.check_depth(path, depth)
        for key, item in dict.items(value):
            if type(key) is not str or not key.isascii():
                self.check_key(key, path)
            if not is_exact(item):
                self.explain(item, f"{path}.{str.__str__(key)[:_PATH_CHARS]}", depth + 1)

    def _check_items(self, value: Any, path: str, depth: int) -> None:
        kind = type(value)
        if hasattr(kind, "_fields"):  # a named tuple
            self._check_converted(value, path, depth)
            return
        self.check_depth(path, depth)
        items = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        for index, item in enumerate(items):
            if not is_exact(item):
                self.explain(item, f"{path}[{index}]", depth + 1)

    def _check_converted(self, value: Any, path: str, depth: int) -> None:
        kind = type(value)
        try:
            plain = self._convert(value)
            if type(plain) is kind:  # numpy.longdouble.tolist() returns another of its kind
                raise TypeError
        except TypeError:
            hint = self._hints.get(kind.__name__) or self._hints.get("")
            message = f"{kind.__name__} has no JSON form" + (f"; {hint}" if hint else "")
            self._fail(message, path)
        self.explain(plain, path, depth)


_CHECKS: Final[tuple[tuple[type, Callable[[Explainer, Any, str, int], None]], ...]] = (
    *((kind, Explainer._accept) for kind in (bool, date, datetime, time, UUID, type(None))),
    (Enum, Explainer._check_enum),
    (str, Explainer._check_text),
    (int, Explainer._check_integer),
    (float, Explainer._check_float),
    (dict, Explainer._check_members),
    (list, Explainer._check_items),
    (tuple, Explainer._check_items),
    (object, Explainer._check_converted),
)
"""The check of a value by the first class in this order that it is an instance of."""
_EXACT: Final = dict(_CHECKS)
_SURROGATE: Final = "text with a lone surrogate is not valid Unicode"


def _find_check(kind: type) -> Callable[[Explainer, Any, str, int], None]:
    return next(check for base, check in _CHECKS if issubclass(kind, base))


def is_exact(value: Any) -> bool:
    """True if a value is of the usual types and surely has an exact form: saves most calls."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind is float:
        return math.isfinite(value)
    return kind is bool or value is None or (kind is int and INT64_MIN <= value <= UINT64_MAX)


def _is_unicode(text: str) -> bool:
    try:
        str.encode(text)
    except UnicodeEncodeError:
        return False
    return True
