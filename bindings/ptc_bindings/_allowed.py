"""Allow-list of a binding, passed with every call."""

from __future__ import annotations

from collections.abc import Iterable

import ptc

__all__ = ["allow_list"]


def allow_list(
    session: ptc.Session, names: Iterable[str | ptc.Allow] | None
) -> list[str | ptc.Allow]:
    """Return `names` with their argument rules; for None, the default of the session.

    Pass it with every call, so that it also restricts the calls that a tool makes.

    Raises:
        UsageError: If a name is unknown.
    """
    if names is None:
        names = session.allowed_tools
    return list(session.select_tools(None)) if names is None else list(names)
