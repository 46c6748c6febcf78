"""The allow-list that a binding was made with, as it goes with every call."""

from __future__ import annotations

from collections.abc import Iterable

import ptc

__all__ = ["allow_list"]


def allow_list(
    session: ptc.Session, names: Iterable[str | ptc.Allow] | None
) -> list[str | ptc.Allow]:
    """`names` with their rules on arguments; for None the tools without a side effect.

    It goes with every call, so that what a tool calls in turn is held to it too.

    Raises:
        UsageError: If a name is unknown.
    """
    return list(session.select_tools(None)) if names is None else list(names)
