"""Stand-in for greenlet in a guest, which has one stack."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["getcurrent", "greenlet"]


def getcurrent() -> None:
    """Return None: there is one stack."""


class greenlet:  # the library's name
    """A stack that cannot be made."""

    def __init__(self, _run: object, _parent: object) -> None:
        raise RuntimeError("a guest has one stack")

    def switch(self) -> NoReturn:
        """Switch to the stack."""
        raise RuntimeError("a guest has one stack")
