"""Parsed values: repairs and open ends of a reading, and equality as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ._edits import Repairs

__all__ = ["OpenEnd", "Reading", "json_equal"]


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """A container that the text did not close."""

    path: tuple[str | int, ...]
    opener: str
    keys: frozenset[str]
    """Keys of the object; empty for a list."""
    certain: bool
    """True if the text shows that its last part is complete: a code block or tag closes after it,
    or it is the innermost, spans lines, and a line ended after the last part without a comma."""


@dataclass(slots=True)
class Reading:
    """A parsed value and how it was parsed."""

    value: Any
    end: int
    repairs: Repairs
    sources: dict[str | int, Any]
    """Source text of numbers and words by key, and inside a container by its keys."""
    open_ends: list[OpenEnd] = field(default_factory=list)


def json_equal(left: Any, right: Any) -> bool:
    """True if equal as JSON text: 1 is not true, and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(json_equal(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)
