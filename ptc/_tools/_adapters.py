"""Tools of agent frameworks: entry points of the group ``ptc.tool_adapters``.

::

    [project.entry-points."ptc.tool_adapters"]
    langchain_core = "my_package.langchain:tools_from"

The name is a package of the framework, with dots if it is nested. The function receives an object
whose class, or a base class of it, is defined there; it returns a `Tool`, a `Toolset` or a
`ToolProvider`, or None for an object that it leaves to the general rules of `tool_from`. Nothing is
loaded until such an object appears, so the framework is imported already.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import SetupError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["adapt", "adapted_packages"]

_GROUP = "ptc.tool_adapters"


def adapt(thing: Any) -> Any:
    """Convert an object of a framework; None if no adapter knows it.

    Raises:
        SetupError: If the adapter cannot be loaded.
        UsageError: If the adapter refuses the object.
    """
    entry = _entry_of(type(thing))
    if entry is None:
        return None
    try:
        load = entry.load()
    except ImportError as error:
        msg = f"the adapter of {entry.name} cannot be loaded: {type(error).__name__}: {error}"
        raise SetupError(msg) from error
    return load(thing)


def adapted_packages() -> list[str]:
    """Return the sorted packages whose tools have an adapter."""
    return sorted(_entries())


def _entry_of(kind: type) -> EntryPoint | None:
    found = _entries()
    for base in kind.__mro__:
        name = base.__module__
        while name:
            if name in found:
                return found[name]
            name = name.rpartition(".")[0]
    return None


@cache
def _entries() -> dict[str, EntryPoint]:
    # Imports 30 modules, among them those of e-mail and of archives.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=_GROUP)}
