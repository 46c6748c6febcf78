"""The Python builds on which the sandbox was reviewed."""

from __future__ import annotations

import sys

from ..errors import SetupError

__all__ = ["require_reviewed_interpreter"]


def require_reviewed_interpreter() -> None:
    """Raise `SetupError` unless this is CPython with a global interpreter lock.

    The language layer relies on details of CPython's objects, and on scripts whose operations other
    threads do not interrupt. Neither was reviewed for free-threaded builds (PEP 703).
    """
    if sys.implementation.name != "cpython":
        raise SetupError(f"ptc runs on CPython, and this is {sys.implementation.name}")
    # As documented for `sys.version`.
    if "free-threading build" in sys.version:
        msg = (
            f"this is a free-threaded build of CPython {sys.version.split()[0]}, on which the "
            "sandbox was not reviewed; use the build with a global interpreter lock, without `t` "
            "in its name"
        )
        raise SetupError(msg)
