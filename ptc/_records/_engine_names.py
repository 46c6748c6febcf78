"""Names of engines, as runs record them."""

from __future__ import annotations

__all__ = ["family_of"]


def family_of(engine: str) -> str:
    """Return the family of an engine: those of a family continue each other's runs.

    The interpreter of a guest comes with its engine, so its version counts. The Python of a process
    is that of the host, and a replay that takes another path there is found as it happens.

    Args:
        engine: Its name, with the version after a space.
    """
    kind = engine.partition(" ")[0]
    return kind if kind == "process" else engine
