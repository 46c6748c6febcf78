"""Objects of a tool's result, whose fields a script reads as attributes or as items.

Rule 1: an attribute that is a field is that field, whether or not `dict` has a method of the name;
    only a call (``row.items()``) reads the method. The compiler tells the two apart.
    tests/core/runs/test_rows.py::test_field_named_like_a_dict_method_is_read_as_a_field
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .._language._policy import demangle
from ._classes import open_type

__all__ = ["Record", "read_field", "records"]

_MOST_SHOWN: Final = 20


@open_type
class Record(dict[str, Any]):
    """An object of a tool's result: ``row.path`` and ``row["path"]`` are the same."""

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            pass
        name = demangle(name)  # ``row._id``
        try:
            return self[name]
        except KeyError:
            msg = f"no field {name!r}; fields: {_list_names(self)}"
            raise AttributeError(msg) from None

    def __or__(self, other: Any) -> Any:
        made = dict.__or__(self, other)
        return made if made is NotImplemented else Record(made)

    def __ror__(self, other: Any) -> Any:
        made = dict.__ror__(self, other)
        return made if made is NotImplemented else Record(made)

    def __dir__(self) -> list[str]:
        return [*map(str, self), *super().__dir__()]

    def copy(self) -> Record:
        """As dict.copy; the copy has its fields as attributes, too."""
        return Record(self)


def _list_names(fields: Mapping[Any, Any]) -> str:
    names = [str(name) for name in list(fields)[:_MOST_SHOWN]]
    more = len(fields) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def read_field(obj: Any, name: str) -> Any:
    """Load an attribute whose name is that of a method of `dict`, and which is not called."""
    if type(obj) is Record and name in obj:
        return obj[name]
    return getattr(obj, name)


def records(value: Any) -> Any:
    """Convert every object of freshly decoded JSON to a `Record`; lists are changed in place."""
    kind = type(value)
    if kind is dict:
        made = Record(value)
        for key, item in value.items():
            if type(item) in _NESTED:
                made[key] = records(item)
        return made
    if kind is list:
        for index, item in enumerate(value):
            if type(item) in _NESTED:
                value[index] = records(item)
    return value


_NESTED: Final = frozenset({dict, list})
