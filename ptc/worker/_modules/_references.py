"""`weakref` without callbacks, which would run at an unpredictable time, as `__del__` would."""

from __future__ import annotations

import _weakrefset
import functools
import types
import weakref
from typing import Any

from .._internals import bound_function, is_own_function
from .._types import stands_for

__all__ = ["vet_references", "weakref_members"]


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


class _Checked(weakref.ref[Any]):
    """Stands for `ref` in the code of the library, which passes on methods of any `self`."""

    __slots__ = ()

    def __new__(cls, object: Any, callback: Any = None, /) -> Any:
        if not _is_of_library(callback):
            _refuse_callback(callback)
        return _real.__new__(cls, object, callback)


def _is_of_library(callback: Any) -> bool:
    """Return True for a function or method of the library or of a package, not of a script."""
    while type(callback) is functools.partial:
        callback = callback.func
    if type(callback) is types.MethodType:
        callback = bound_function(callback)
    if type(callback) is weakref.finalize:
        return True
    return type(callback) is types.FunctionType and not is_own_function(callback)


_real: Any = weakref.ref
stands_for(ref)(_Checked)


def vet_references() -> None:
    """Refuse callbacks of a script in sets and dictionaries of weak references."""
    for module in (weakref, _weakrefset):
        module.__dict__["ref"] = _Checked


def weakref_members() -> dict[str, Any]:
    """Return the members of `weakref` that replace those of the library."""
    return {"ReferenceType": ref, "ref": ref}
