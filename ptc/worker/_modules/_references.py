"""`weakref` without callbacks, which would run at an unpredictable time, as `__del__` would."""

from __future__ import annotations

import weakref
from typing import Any

from .._types import stands_for

__all__ = ["weakref_members"]


def _refuse_callback(callback: object) -> None:
    if callback is not None:
        raise TypeError(
            "a weak reference has no callback here: it would run at an unpredictable time; "
            "test whether the reference returns None"
        )


class ref(weakref.ref[Any]):  # the library's name
    """`weakref.ref`."""

    __slots__ = ()

    def __new__(cls, object: Any, callback: Any = None, /) -> Any:
        _refuse_callback(callback)
        return super().__new__(cls, object)


# A set of weak references hands out the library's own, whose type would take callbacks.
for _kind in (weakref.ref, weakref.KeyedRef, weakref.WeakMethod):
    stands_for(ref)(_kind)
ref.__module__ = "weakref"
ref.__name__ = ref.__qualname__ = "ReferenceType"


def weakref_members() -> dict[str, Any]:
    """Return the members of `weakref` that replace those of the library."""
    return {"ReferenceType": ref, "ref": ref}
