"""Isolation levels: the kernel layers that a session requires."""

from __future__ import annotations

from .._core._arguments import nearest
from ..errors import UsageError

__all__ = ["ISOLATION_LEVELS", "UnprotectedLevel", "validate_isolation"]

ISOLATION_LEVELS = ("jail", "process")
"""``jail``: seccomp, Landlock, rlimits and no-new-privileges are required; namespaces are used
if the kernel allows them. ``process``: the same layers, as far as the kernel has them; seccomp
and Landlock are not required. Used only if requested by name: if one of them is missing, one bug in
the language layer gives a script the rights of the user."""


class UnprotectedLevel(str):
    """An isolation level that no string or option can select."""

    __slots__ = ()


def validate_isolation(level: str) -> str:
    """Return `level` if it is an isolation level. Raises `UsageError`."""
    if level not in ISOLATION_LEVELS and not isinstance(level, UnprotectedLevel):
        known = ", ".join(ISOLATION_LEVELS)
        msg = f"isolation={level!r} is unknown{nearest(level, ISOLATION_LEVELS)}"
        raise UsageError(f"{msg}; levels: {known}")
    return level
