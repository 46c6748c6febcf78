"""Fields of frozen dataclasses that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, TypeVar

__all__ = ["Deferred", "copy_with", "defer_fields", "peek"]

_T = TypeVar("_T")


class Deferred(Generic[_T]):
    """A value that is computed once, when it is first needed."""

    __slots__ = ("_compute", "_value")

    def __init__(self, compute: Callable[[], _T]) -> None:
        self._compute: Callable[[], _T] | None = compute
        self._value: _T | None = None

    def get(self) -> Any:
        """Return the value."""
        if self._compute is not None:
            self._value = self._compute()
            # Release the objects that the computation needed.
            self._compute = None
        return self._value


class _DeferredField:
    """Slot of a dataclass; a `Deferred` in it is replaced by its value when the field is read."""

    def __init__(self, slot: Any) -> None:
        self.slot = slot

    def __get__(self, item: Any, owner: type | None = None) -> Any:
        if item is None:
            return self
        value = self.slot.__get__(item, owner)
        if isinstance(value, Deferred):
            value = value.get()
            self.slot.__set__(item, value)
        return value

    def __set__(self, item: Any, value: Any) -> None:
        self.slot.__set__(item, value)


def defer_fields(kind: type, *names: str) -> None:
    """Let fields of a dataclass with slots hold a `Deferred`."""
    for name in names:
        setattr(kind, name, _DeferredField(kind.__dict__[name]))


def peek(item: object, name: str) -> Any:
    """Return the value of a field, or its `Deferred` if it has not been computed."""
    found = type(item).__dict__[name]
    return (found.slot if isinstance(found, _DeferredField) else found).__get__(item)


def copy_with(item: _T, **changes: Any) -> _T:
    """Return a copy of a dataclass, as `dataclasses.replace`, but compute no deferred field."""
    kept = {f.name: peek(item, f.name) for f in fields(item) if f.init}  # type: ignore[arg-type]  # a dataclass
    return type(item)(**{**kept, **changes})
