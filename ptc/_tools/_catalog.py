"""Tools of a session: by name, by allow-list, and as methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from .._core._arguments import nearest
from ..errors import UsageError
from ._allow import Allow, AllowList, select
from ._tool import Tool
from ._tool_result import ToolResult
from ._toolset import Toolset, ToolSource, collect

__all__ = ["Catalog", "Method"]

Method = Callable[..., Awaitable[Any]]


class Catalog:
    """Tools by name, and their toolsets."""

    def __init__(self, sources: Iterable[ToolSource]) -> None:
        """Collect the tools. Raises `UsageError` if two share a name."""
        sources = list(sources)
        self.default: tuple[str | Allow, ...] | None = None
        """Allow-list of callers who pass none; None: all tools without a side effect."""
        self.tools: dict[str, Tool] = collect(sources)
        self._toolsets: dict[str, tuple[str, ...]] = {}
        for source in sources:
            if isinstance(source, Toolset):
                # Parts of one set, as `fs.read_only()` and `fs.only("write").with_approval()`.
                before = self._toolsets.get(source.name, ())
                self._toolsets[source.name] = (*before, *(item.name for item in source))

    def select(self, names: AllowList | None) -> dict[str, Tool]:
        """Return the tools of an allow-list; None: of the default.

        Raises:
            UsageError: If a name is unknown; the message has the nearest ones.
        """
        names = self.default if names is None else names
        if names is None:
            return {n: tool for n, tool in self.tools.items() if not tool.side_effect}
        return select(names, self.tools, self._toolsets)

    def method(
        self, name: str, run: Callable[[str, dict[str, Any]], Awaitable[ToolResult]]
    ) -> Method:
        """Return a tool as a method: ``await session.read("a.txt")`` returns its value or raises.

        Raises:
            AttributeError: If there is no tool of that name.
        """
        if name not in self.tools:
            near = nearest(name, [*self.tools, "program", "tool"])
            msg = f"Session has no method or tool {name!r}{near}"
            raise AttributeError(msg)
        return _as_method(self.tools[name], run)

    def method_of(
        self, tool: Tool, run: Callable[[str, dict[str, Any]], Awaitable[ToolResult]]
    ) -> Method:
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


def _as_method(tool: Tool, run: Callable[[str, dict[str, Any]], Awaitable[ToolResult]]) -> Method:
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
