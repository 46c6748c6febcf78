"""Comparison of an interrupted run with an uninterrupted one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

__all__ = ["Effects", "differences", "doubled"]

Effects = Counter[tuple[str, int, str]]
"""Number of effects by tool, number and idempotency key."""


def differences(
    mine: dict[str, Any], other: dict[str, Any], done: Effects, wanted: Effects
) -> Iterator[str]:
    """Return the differences between an interrupted and an uninterrupted run."""
    for name in ("status", "value", "error", "stdout", "partial", "calls"):
        now, was = mine[name], other[name]
        if name == "calls":
            now, was = sorted(now, key=repr), sorted(was, key=repr)
        if now != was:
            if name == "calls":
                now, was = ([c for c in a if c not in b] for a, b in ((now, was), (was, now)))
            yield f"{name}: {now!r:.400}\n  in place of {was!r:.400}"
    for text in mine.get("repeated", ()):
        yield f"repeated: {text}"
    if done != wanted:
        yield f"done too often: {done - wanted}; lost: {wanted - done}"


def doubled(done: Effects, wanted: Effects, in_flight: list[list[Any]]) -> tuple[Effects, int]:
    """Remove effects that a frozen host had started when its lease expired.

    It may make those once more when it continues: see `docs/durability.md`.

    Returns:
        The other effects, and the number of those that were removed.
    """
    excess, removed = done - wanted, 0
    allowed = Counter((tool, n) for tool, n in in_flight)
    rest = done.copy()
    for (tool, n, key), count in excess.items():
        name = tool.removesuffix(" drawn"), n
        if tool.endswith(" drawn"):
            name = "pay", n
        mine = min(count, allowed[name])
        allowed[name] -= mine
        rest[tool, n, key] -= mine
        removed += mine
    return rest, removed
