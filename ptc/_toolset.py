"""A named, ordered collection of tools, and how toolsets are found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._schema import nearest
from ._tool import Tool, tool
from .errors import SetupError, UsageError

__all__ = ["ToolSource", "Toolset", "collect", "installed_toolset"]


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools under one name. Iterating gives the tools in order."""

    name: str
    """What the set is called in messages and on the command line."""
    tools: tuple[Tool, ...]
    """Its tools; no two have the same name."""

    def __post_init__(self) -> None:
        _refuse_duplicates(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)


ToolSource: TypeAlias = Tool | Toolset | Callable[..., Any]
"""What a session takes: a tool, a toolset, or a plain function that `tool` can read."""


def collect(sources: Iterable[ToolSource]) -> dict[str, Tool]:
    """All tools of `sources` by name. Raises `UsageError` on a duplicate or a non-tool."""
    tools: list[Tool] = []
    for source in sources:
        if isinstance(source, Tool):
            tools.append(source)
        elif isinstance(source, Toolset):
            tools.extend(source)
        elif callable(source):
            tools.append(tool(source))
        else:
            msg = f"{source!r} is not a tool: give a Tool, a Toolset or a function"
            raise UsageError(msg)
    _refuse_duplicates(tools)
    return {item.name: item for item in tools}


def _refuse_duplicates(tools: Iterable[Tool]) -> None:
    seen: set[str] = set()
    for item in tools:
        if item.name in seen:
            msg = f"two tools are called {item.name!r}; rename one with tool(name=...)"
            raise UsageError(msg)
        seen.add(item.name)
    for name in seen:
        namespace, dot, _ = name.partition(".")
        if dot and namespace in seen:
            msg = f"{namespace!r} cannot be a tool and the namespace of {name!r}; rename one"
            raise UsageError(msg)


def installed_toolset(name: str) -> Toolset:
    """The toolset that an installed package offers as entry point ``ptc.toolsets: name``.

    Raises:
        UsageError: If there is none; the message lists those there are.
        SetupError: If it cannot be loaded.
    """
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group="ptc.toolsets")}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        msg = f"no toolset {name!r} is installed{nearest(name, found)}; installed: {known}"
        raise UsageError(msg)
    try:
        loaded = found[name].load()
        toolset = loaded() if callable(loaded) else loaded
    except Exception as error:  # whatever it is, it is another package's own
        msg = (
            f"toolset {name!r} is installed and cannot be loaded: {type(error).__name__}: {error}; "
            "`ptc doctor` lists the toolsets that can"
        )
        raise SetupError(msg) from error
    if not isinstance(toolset, Toolset):
        msg = f"entry point ptc.toolsets:{name} gives {type(toolset).__name__}, not a Toolset"
        raise UsageError(msg)
    return toolset
