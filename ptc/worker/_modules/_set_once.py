"""Objects of façades whose attributes are set once, and then only read."""

from __future__ import annotations

from typing import Any

__all__ = ["SetOnce", "fill"]


class SetOnce:
    """An object whose attributes `fill` sets."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__!r} objects cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__!r} objects cannot be changed")


def fill(obj: object, **values: Any) -> None:
    """Set attributes of a `SetOnce`."""
    for name, value in values.items():
        object.__setattr__(obj, name, value)
