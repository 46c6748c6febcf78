"""Documented differences, recognised in the values that a step has in plain Python and in ptc."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["deletes_frozen", "without_refused"]

_MISSING: Final = re.compile(r"type object '([\w.]+)' has no attribute '(\w+)'")
_FROZEN: Final = re.compile(r"cannot set '(\w+)' attribute of immutable type '([\w.]+)'")


def deletes_frozen(plain: Any, ours: Any) -> bool:
    """Return True if a step deletes an attribute that a class of a module lacks.

    Those classes are frozen, and CPython refuses the deletion before it looks for the attribute.
    Only a store or a deletion has the text of ours, and of these two plain Python raises its text
    for the deletion alone. Both must name the same class and the same attribute.
    """
    if not (isinstance(plain, list) and isinstance(ours, list)):
        return False
    if plain[:1] != ["AttributeError"] or ours[:1] != ["TypeError"]:
        return False
    missing, frozen = _MISSING.fullmatch(plain[1]), _FROZEN.fullmatch(ours[1])
    return missing is not None and frozen is not None and missing.groups() == frozen.groups()[::-1]


def without_refused(plain: Any, ours: Any, refusals: re.Pattern[str]) -> Any:
    """Return the value of plain Python with those parts of ours in which ptc refuses something.

    A step may hold many values: the others must be equal although one was refused. A part is an
    error, a class or a text, as `show` writes them: its kind, and its text.
    """
    if not isinstance(ours, list) or not ours:
        return plain
    text = ours[1] if len(ours) in {2, 4} else None  # a container has its parts as the third
    if isinstance(text, str) and refusals.search(f"{ours[0]}: {text}"):
        return ours
    if not isinstance(plain, list) or len(plain) != len(ours):
        return plain
    parts = [without_refused(*pair, refusals) for pair in zip(plain, ours, strict=True)]
    if len(parts) == 3 and parts[2] != plain[2]:
        parts[1] = ours[1]  # the `repr` of a container shows the error, too
    return parts
