"""Tools of a session: by name, by allow-list, and as methods."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from .._core._arguments import nearest, parts_of
from ..errors import UsageError
from ._adapters import adapt
from ._allow import Allow, AllowList, select
from ._provider import ToolProvider
from ._table import ToolTable
from ._tool import Tool
from ._tool_result import ToolResult
from ._toolset import Toolset, ToolSource, collect

__all__ = ["Catalog", "Method", "Namespace"]

Method: TypeAlias = Callable[..., Any]
"""A tool as a method: an awaitable call, or a blocking one."""
Run: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]
"""Calls a tool by name."""


_MOST_TABLES: Final = 64
_ALL: Final = 0
"""Key of the table of all tools: no object has this identity."""


class _Cached(NamedTuple):
    """A table, and the allow-list that it was made for."""

    table: ToolTable
    entries: tuple[str | Allow, ...]


class Namespace:
    """Tools of one namespace as methods: ``session.files.read(...)``."""

    def __init__(self, name: str, members: Mapping[str, Method]) -> None:
        self._name = name
        self._members = dict(members)

    def map(self, wrap: Callable[[Method], Method]) -> Namespace:
        """Return the namespace with each method wrapped."""
        return Namespace(self._name, {name: wrap(m) for name, m in self._members.items()})

    def __getattr__(self, name: str) -> Method:
        members: dict[str, Method] = self.__dict__.get("_members", {})
        if name in members:
            return members[name]
        known = ", ".join(members)
        msg = f"{self._name} has no tool {name!r}{nearest(name, members)}; tools: {known}"
        raise AttributeError(msg)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._members]

    def __repr__(self) -> str:
        return f"<namespace {self._name}: {', '.join(self._members)}>"


class Catalog:
    """Tools by name, and their toolsets."""

    def __init__(self, sources: Iterable[ToolSource]) -> None:
        """Collect the tools. Raises `UsageError` if two share a name."""
        sources = [_adapted(source) for source in sources]
        self.providers: tuple[ToolProvider, ...] = tuple(
            item for item in sources if isinstance(item, ToolProvider)
        )
        """Sources whose tools are known once they are open."""
        self.is_complete: bool = not self.providers
        """True if all tools are known."""
        own = [item for item in sources if not isinstance(item, ToolProvider)]
        self.default: tuple[str | Allow, ...] | None = None
        """Allow-list of callers who pass none; None: all tools without a side effect."""
        self.tools: dict[str, Tool] = collect(own)
        self._toolsets: dict[str, tuple[str, ...]] = {}
        self._tables: OrderedDict[tuple[str | int, ...] | None, _Cached] = OrderedDict()
        self._add_toolsets(own)

    def _add_toolsets(self, sources: Iterable[ToolSource]) -> None:
        for source in sources:
            if isinstance(source, Toolset):
                # Parts of one set, as `fs.read_only()` and `fs.only("write").with_approval()`.
                before = self._toolsets.get(source.name, ())
                self._toolsets[source.name] = (*before, *(item.name for item in source))

    async def open(self) -> None:
        """Open the providers, and add their tools. The caller closes them, also after an error.

        Raises:
            SetupError: If one cannot be opened.
            UsageError: If two tools share a name, or the default allow-list names an unknown tool.
        """
        if self.is_complete:
            return
        added: list[Toolset] = []
        for provider in self.providers:
            added += await provider.open()
        # Updated, not replaced: the parts of the session share this dict.
        self.tools.update(collect([*self.tools.values(), *added]))
        self._add_toolsets(added)
        self._tables.clear()
        self.is_complete = True
        self.check_default()

    def declare_toolset(self, name: str) -> None:
        """Let allow-lists name a toolset whose tools are added later."""
        self._toolsets.setdefault(name, ())

    def put(self, item: Tool, toolset: str) -> None:
        """Add a tool to a toolset, or replace the one of its name. Runs under way keep theirs.

        Raises:
            UsageError: If a namespace has the name.
        """
        collect([*(tool for name, tool in self.tools.items() if name != item.name), item])
        self.tools[item.name] = item
        members = (*self._toolsets.get(toolset, ()), item.name)
        self._toolsets[toolset] = tuple(dict.fromkeys(members))
        self._tables.clear()

    def remove(self, name: str) -> None:
        """Remove a tool. Runs under way keep it."""
        del self.tools[name]
        for toolset, members in self._toolsets.items():
            self._toolsets[toolset] = tuple(member for member in members if member != name)
        self._tables.clear()

    async def aclose(self) -> None:
        """Close the providers."""
        for provider in self.providers:
            await provider.aclose()

    def check_default(self) -> None:
        """Raise `UsageError` if the default allow-list names an unknown tool."""
        if self.default is not None and self.is_complete:
            self.select(None)

    def select(self, names: AllowList | None) -> dict[str, Tool]:
        """Return the tools of an allow-list; None: of the default.

        Raises:
            UsageError: If a name is unknown; the message has the nearest ones.
        """
        names = self.default if names is None else names
        if names is None:
            return {n: tool for n, tool in self.tools.items() if not tool.side_effect}
        return select(names, self.tools, self._toolsets)

    def table(self, names: AllowList | None) -> ToolTable:
        """Return the tools of an allow-list, as `select`; the same table for the same list.

        Rules are compared by identity, since they may be functions.
        """
        names = self.default if names is None else names
        if names is None:
            return self._cached(None, (), lambda: self.select(None))
        entries = parts_of("allowed_tools", names, "a list of names of tools")
        key = tuple(entry if type(entry) is str else id(entry) for entry in entries)
        return self._cached(key, entries, lambda: self.select(entries))

    def table_of_all(self) -> ToolTable:
        """Return all tools."""
        return self._cached((_ALL,), (), lambda: self.tools)

    def _cached(
        self,
        key: tuple[str | int, ...] | None,
        entries: tuple[str | Allow, ...],
        select_tools: Callable[[], Mapping[str, Tool]],
    ) -> ToolTable:
        cached = self._tables.get(key)
        if cached is None:
            # The entries as well: while they live, no other object has their identity.
            cached = self._tables[key] = _Cached(ToolTable(select_tools(), self.tools), entries)
            if len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)
        else:
            self._tables.move_to_end(key)
        return cached.table

    def narrow(
        self, allowed: AllowList | None, requested: Iterable[str] | None
    ) -> list[str | Allow]:
        """Return the part of an allow-list that a caller requests, with its rules.

        Args:
            allowed: The allow-list. None: the default.
            requested: Names, patterns and toolsets. None: the whole list.

        Raises:
            UsageError: If an entry allows nothing, or a requested tool is not on the list.
        """
        # The default itself, since its tools by name would be without its rules.
        given = self.default if allowed is None else allowed
        if given is None:
            given = list(self.table(None).tools)
        entries: list[str | Allow] = list(
            parts_of("allowed_tools", given, "a list of names of tools")
        )
        ceiling = self.table(entries).tools
        if requested is None:
            return entries
        sets = {
            name: tuple(member for member in members if member in ceiling)
            for name, members in self._toolsets.items()
        }
        names = select(requested, ceiling, sets)
        narrowed: list[str | Allow] = []
        for entry in entries:
            if isinstance(entry, Allow):
                narrowed += [entry] if entry.tool in names else []
            else:
                narrowed += [name for name in self.select([entry]) if name in names]
        return narrowed

    def attribute_names(self) -> list[str]:
        """List the tools and namespaces that `attribute` returns."""
        names = dict.fromkeys(name.partition(".")[0] for name in self.tools)
        return [name for name in names if name.isidentifier()]

    def attribute(self, name: str, run: Run) -> Method | Namespace:
        """Return a tool as a method, or a namespace of them.

        ``await session.read("a.txt")`` and ``await session.files.read("a.txt")`` return the value
        or raise its error.

        Raises:
            AttributeError: If there is no tool or namespace of that name.
        """
        if name in self.tools:
            return _as_method(self.tools[name], run)
        start = f"{name}."
        members = {
            full.removeprefix(start): _as_method(tool, run)
            for full, tool in self.tools.items()
            if full.startswith(start)
        }
        if members:
            return Namespace(name, members)
        near = nearest(name, [*self.attribute_names(), "program", "tool"])
        msg = f"Session has no method or tool {name!r}{near}"
        raise AttributeError(msg)

    def method_of(self, tool: Tool, run: Run) -> Method:
        """Return the method that calls `tool`.

        Raises:
            UsageError: If there is no such tool here.
        """
        if not isinstance(tool, Tool):
            msg = f"call takes a Tool, not {tool!r:.80}; call a tool by name with session.tool()"
            raise UsageError(msg)
        own = self.tools.get(tool.name)
        if own is None:
            msg = f"the session has no tool {tool.name!r}{nearest(tool.name, self.tools)}"
            raise UsageError(f"{msg}; pass it to Session(tools=[...])")
        if own is not tool and own.function is not tool.function:
            msg = (
                f"the session's tool {tool.name!r} is another one; call that one by name with "
                f"session.tool({tool.name!r}, ...)"
            )
            raise UsageError(msg)
        return _as_method(own, run)


def _adapted(source: ToolSource) -> ToolSource:
    """Convert an object of a framework with an adapter; any other object is returned unchanged."""
    if isinstance(source, Tool | Toolset | ToolProvider):
        return source
    found = adapt(source)
    return source if found is None else found


def _as_method(tool: Tool, run: Run) -> Method:
    name, parameters = tool.name, tool.parameter_names

    async def call(*args: Any, **arguments: Any) -> Any:
        if len(args) > len(parameters):
            msg = f"{name} takes at most {len(parameters)} arguments: {', '.join(parameters)}"
            raise TypeError(msg)
        for parameter, value in zip(parameters, args, strict=False):
            if parameter in arguments:
                msg = f"{name} got two values for argument {parameter!r}"
                raise TypeError(msg)
            arguments[parameter] = value
        return (await run(name, arguments)).unwrap()

    return call
