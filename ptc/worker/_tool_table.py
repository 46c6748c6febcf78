"""Tools of a run: those that its script names, and all others on request.

The host sends the tools whose names are in the script. A run uses a few of perhaps a thousand, and
to send, decode and hold all of them would take longer than most scripts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

__all__ = ["BY_NAME", "SignatureTable", "ToolTable", "list_names"]

BY_NAME: Final = 'write ctx.call("name", {"key": value}) or ctx.name(key=value)'
"""How a script calls a tool by its name."""


class ToolTable:
    """Names and parameters of the tools."""

    __slots__ = ("_all", "_named", "_request")

    def __init__(
        self,
        named: Mapping[str, list[str]],
        request: Callable[[], bytes | None],
    ) -> None:
        """Create a table.

        Args:
            named: Parameters of the tools that the script names.
            request: Requests those of all tools as JSON; None: the run has ended.
        """
        self._named = named
        self._request = request
        self._all: Mapping[str, list[str]] | None = None

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the parameters of a tool; None if there is no such tool."""
        found = self._named.get(name)
        # A name is not that of a tool and of a namespace.
        if found is None and not _has_namespace(self._named, name):
            found = self._get_all().get(name)
        return None if found is None else tuple(found)

    def has_namespace(self, name: str) -> bool:
        """True if the name of a tool starts with ``<name>.``."""
        return _has_namespace(self._named, name) or _has_namespace(self._get_all(), name)

    def close_to(self, name: str) -> str:
        """Return the names most similar to `name`, as text."""
        return " or ".join(difflib.get_close_matches(name, list(self), n=3, cutoff=0.5))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._named or name in self._get_all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._get_all())

    def _get_all(self) -> Mapping[str, list[str]]:
        if self._all is not None:
            return self._all
        body = self._request()
        if body is None:
            return self._named
        try:
            found: Mapping[str, list[str]] = orjson.loads(body)
        except ValueError:  # the host wrote valid JSON: orjson got no memory
            raise MemoryError from None
        self._all = found
        return found


def _has_namespace(names: Iterable[str], name: str) -> bool:
    prefix = f"{name}."
    return any(each.startswith(prefix) for each in names)


class SignatureTable(Mapping[str, Any]):
    """Signatures for the check before a run: those that the host sent, and else lenient ones.

    The host sends those of the tools that the script names. Another one is called by a name that
    the script computes, so no call of it is checked.
    """

    def __init__(
        self, tools: ToolTable, signatures: Mapping[str, Any], denied: Mapping[str, bool]
    ) -> None:
        self.denied = denied
        """Tools of the session that the run may not call; True: with a side effect."""
        self._tools = tools
        self._signatures = signatures

    def __getitem__(self, name: str) -> Any:
        if name in self._signatures:
            return self._signatures[name]
        parameters = self._tools.parameters(name)
        if parameters is None:
            raise KeyError(name)
        return [parameters, (), False, {}]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return sum(1 for _ in self._tools)


def list_names(names: Iterable[str], most_chars: int = 2_000) -> str:
    """Return names as text, as many as a model should read."""
    found = list(names)
    shown = size = 0
    while shown < len(found) and size < most_chars:
        size += len(found[shown]) + 2
        shown += 1
    text = ", ".join(found[:shown])
    more = len(found) - shown
    return f"{text} and {more:,} more; find them with ctx.search_tools" if more else text or "none"
