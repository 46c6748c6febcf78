"""Documented differences, recognised in the parts of the values that a step has."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["without_documented"]

#: Errors of plain Python and of ptc, each as its type and text. What both name must be the same.
_ERRORS: Final = (
    # Classes of modules are frozen, and CPython refuses a deletion before it looks for the
    # attribute. Only a store or a deletion has the text of ours; of the two, plain Python raises
    # its own for a deletion from a class without that attribute alone.
    (
        re.compile(
            r"AttributeError: type object '(?P<kind>[\w.]+)' has no attribute '(?P<name>\w+)'"
        ),
        re.compile(
            r"TypeError: cannot set '(?P<name>\w+)' attribute of immutable type '(?P<kind>[\w.]+)'"
        ),
    ),
    # A store to a frozen dataclass with slots, of a name that is not a field: CPython's method
    # calls `super` with the class that it had before it added the slots.
    (
        re.compile(r"TypeError: super\(type, obj\): obj .* an instance or subtype of type.*"),
        re.compile(r"FrozenInstanceError: cannot (?:assign to|delete) field '\w+'"),
    ),
)


def without_documented(plain: Any, ours: Any, refusals: re.Pattern[str]) -> Any:
    """Return the value of plain Python with those parts of ours that differ as documented.

    A step may hold many values: the others must be equal although ptc refused one. A part is an
    error, a class or a text, as `show` writes them: its kind, and its text.
    """
    if not isinstance(ours, list) or not ours:
        return plain
    text = _text(ours)
    if text and _is_documented(_text(plain), text, refusals):
        return ours
    if not isinstance(plain, list) or len(plain) != len(ours):
        return plain
    parts = [without_documented(*pair, refusals) for pair in zip(plain, ours, strict=True)]
    if len(parts) == 3 and parts[2] != plain[2]:
        parts[1] = ours[1]  # the `repr` of a container shows the error, too
    return parts


def _text(part: Any) -> str:
    """Return kind and text of a part; empty for a container, which has its parts as the third."""
    if not isinstance(part, list) or len(part) not in {2, 4} or not isinstance(part[1], str):
        return ""
    return f"{part[0]}: {part[1]}"


def _is_documented(plain: str, ours: str, refusals: re.Pattern[str]) -> bool:
    if refusals.search(ours):
        return not refusals.search(plain)
    for first, second in _ERRORS:
        before, after = first.fullmatch(plain), second.fullmatch(ours)
        if before and after and before.groupdict() == after.groupdict():
            return True
    return False
