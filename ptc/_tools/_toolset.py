"""A named, ordered collection of tools; what makes another of one; how sets are found by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any, Self, TypeAlias

from .. import _json
from .._arguments import nearest
from .._schema._check import value_check
from ..errors import SetupError, ToolError, UsageError
from ._approval import ApprovalGate, is_gated
from ._foreign import tool_from
from ._names import validate_name
from ._tool import Tool

__all__ = ["ToolSource", "Toolset", "collect", "installed_toolset"]


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools under one name. Iterating gives the tools in order.

    Every method that changes something gives another set and leaves this one as it is::

        read_only = toolset.read_only().prefixed("fs")      # ctx.fs.read(...)
        asked = toolset.with_approval("write", "edit")
        mine = toolset.with_defaults("grep", ignore_case=True)
    """

    name: str
    """What the set is called in messages, in `allowed_tools` and on the command line."""
    tools: tuple[Tool, ...]
    """Its tools; no two have the same name."""

    def __post_init__(self) -> None:
        for item in self.tools:
            if not isinstance(item, Tool):
                msg = f"toolset {self.name!r}: {item!r:.80} is no Tool; make one with tool_from"
                raise UsageError(msg)
        _refuse_duplicates(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def only(self, *patterns: str) -> Self:
        """The tools whose name fits one of the patterns (``*`` and ``?``, as in ``git_*``).

        Raises:
            UsageError: If a pattern fits no tool.
        """
        wanted = self._fitting(patterns)
        return replace(self, tools=tuple(t for t in self.tools if t.name in wanted))

    def without(self, *patterns: str) -> Self:
        """The tools whose name fits none of the patterns.

        Raises:
            UsageError: If a pattern fits no tool.
        """
        unwanted = self._fitting(patterns)
        return replace(self, tools=tuple(t for t in self.tools if t.name not in unwanted))

    def filtered(self, keep: Callable[[Tool], bool]) -> Self:
        """The tools that `keep` says yes to."""
        return replace(self, tools=tuple(t for t in self.tools if keep(t)))

    def tagged(self, *tags: str) -> Self:
        """The tools that have one of the tags."""
        wanted = frozenset(tags)
        return self.filtered(lambda t: not wanted.isdisjoint(t.tags))

    def read_only(self) -> Self:
        """The tools without a side effect."""
        return self.filtered(lambda t: not t.side_effect)

    def prefixed(self, namespace: str) -> Self:
        """The tools in a namespace: ``read`` becomes ``<namespace>.read``.

        Raises:
            UsageError: If a tool is in a namespace already.
        """
        for item in self.tools:
            if "." in item.name:
                msg = f"tool {item.name!r} is in a namespace already; rename it first"
                raise UsageError(msg)
        return self.renamed({t.name: f"{namespace}.{t.name}" for t in self.tools})

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The tools with other names.

        Args:
            names: Old name -> new name.

        Raises:
            UsageError: If there is no such tool, or a new name is unusable or taken.
        """
        for old in names:
            self._named(old)
        return self._with(names, lambda t: _renamed(t, validate_name(names[t.name])))

    def with_defaults(self, name: str, /, **values: Any) -> Self:
        """The tools, with arguments of one of them bound: no caller sees or changes them.

        Raises:
            UsageError: If there is no such tool or parameter, or a value does not fit.
        """
        self._named(name)
        return self._with([name], lambda t: _bound(t, values))

    def with_approval(self, *patterns: str, gate: ApprovalGate = True) -> Self:
        """The tools, those that fit a pattern (default: all with a side effect) behind a gate.

        A gate a tool has already stays: a call waits if either says so.

        Raises:
            UsageError: If a pattern fits no tool.
        """
        if patterns:
            wanted = self._fitting(patterns)
        else:
            wanted = {t.name for t in self.tools if t.side_effect}
        return self._with(wanted, lambda t: replace(t, needs_approval=_either(t, gate)))

    def with_env(self, **values: Any) -> Self:
        """The tools, with values for those that ask for them; a session's own come after these.

        Raises:
            UsageError: If no tool of the set asks for a name.
        """
        asked = {key for t in self.tools if t.env is not None for key in t.env.model_fields}
        for key in values:
            if key not in asked:
                msg = f"toolset {self.name!r}: no tool asks for {key!r}{nearest(key, asked)}"
                raise UsageError(msg)
        wanting = [t.name for t in self.tools if t.env is not None]
        return self._with(wanting, lambda t: replace(t, env_values={**t.env_values, **values}))

    def _with(self, names: Iterable[str], change: Callable[[Tool], Tool]) -> Self:
        chosen = frozenset(names)
        return replace(self, tools=tuple(change(t) if t.name in chosen else t for t in self.tools))

    def _named(self, name: str) -> Tool:
        for item in self.tools:
            if item.name == name:
                return item
        names = [t.name for t in self.tools]
        known = ", ".join(names) or "none"
        msg = f"toolset {self.name!r} has no tool {name!r}{nearest(name, names)}; it has: {known}"
        raise UsageError(msg)

    def _fitting(self, patterns: Iterable[str]) -> set[str]:
        return fitting(patterns, [t.name for t in self.tools], f"toolset {self.name!r}")


def fitting(patterns: Iterable[str], names: Iterable[str], where: str) -> set[str]:
    """The `names` that fit one of `patterns`; raises `UsageError` for one that fits none."""
    known = list(names)
    found: set[str] = set()
    for pattern in patterns:
        fit = {name for name in known if fnmatchcase(name, pattern)}
        if not fit:
            near = nearest(pattern, known)
            msg = f"{where}: no tool fits {pattern!r}{near}; tools: {', '.join(known) or 'none'}"
            raise UsageError(msg)
        found |= fit
    return found


def _either(item: Tool, gate: ApprovalGate) -> ApprovalGate:
    own = item.needs_approval
    if own is True or gate is True:
        return True
    if own is False:
        return gate
    if gate is False:
        return own

    async def either(arguments: Mapping[str, Any]) -> bool:
        return await is_gated(own, arguments) or await is_gated(gate, arguments)

    return either


def _bound(item: Tool, values: Mapping[str, Any]) -> Tool:
    """`item` with some arguments fixed: left out of its schema, put in before validation."""
    properties = item.parameters.get("properties", {})
    for key, value in values.items():
        if key not in properties:
            near = nearest(key, properties)
            msg = f"tool {item.name!r} has no parameter {key!r}{near}"
            raise UsageError(msg)
        wrong = value_check(properties[key], f"argument {key!r}")(_json.loads(_json.dumps(value)))
        if wrong:
            msg = f"tool {item.name!r}: {'; '.join(wrong[:3])}"
            raise UsageError(msg)
    parameters = dict(item.parameters)
    parameters["properties"] = {k: v for k, v in properties.items() if k not in values}
    if "required" in parameters:
        parameters["required"] = [k for k in parameters["required"] if k not in values]
    validate = item.validate

    @wraps(validate)
    def bound(arguments: Mapping[str, Any]) -> Any:
        for key in arguments:
            if key in values:
                near = nearest(key, parameters["properties"])
                msg = f"{item.name}: unknown argument `{key}`{near}"
                raise ToolError(msg, code="invalid_arguments", tool=item.name)
        return validate({**arguments, **values})

    unrecorded = item.unrecorded - values.keys()
    return replace(item, parameters=parameters, validate=bound, unrecorded=unrecorded)


def _renamed(item: Tool, name: str) -> Tool:
    """`item` under another name, in its messages too."""
    validate = item.validate

    @wraps(validate)
    def renamed(arguments: Mapping[str, Any]) -> Any:
        try:
            return validate(arguments)
        except ToolError as error:
            text = error.message.replace(f"{item.name}:", f"{name}:", 1)
            raise ToolError(text, code=error.code, tool=name, details=error.details) from None

    return replace(item, name=name, validate=renamed)


ToolSource: TypeAlias = Tool | Toolset | Callable[..., Any] | Any
"""What a session takes: a tool, a toolset, or what `tool_from` makes a tool of."""


def collect(sources: Iterable[ToolSource]) -> dict[str, Tool]:
    """All tools of `sources` by name. Raises `UsageError` on a duplicate or a non-tool."""
    tools: list[Tool] = []
    for source in sources:
        if isinstance(source, Tool):
            tools.append(source)
        elif isinstance(source, Toolset):
            tools.extend(source)
        else:
            tools.append(tool_from(source))
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
