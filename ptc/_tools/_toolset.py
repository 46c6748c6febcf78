"""Named, ordered collections of tools: derived sets, and look-up of installed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from .._core import _json
from .._core._arguments import nearest
from .._core._deferred import copy_with
from .._dataclass import dataclass
from .._schema._check import value_check
from ..errors import SetupError, ToolError, UsageError
from ._approval import ApprovalGate, requires_approval
from ._foreign import tool_from
from ._names import validate_name
from ._tool import Tool, renamed
from ._untrusted import UntrustedMode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["ToolSource", "Toolset", "collect", "installed_toolset"]

_GROUP: Final = "ptc.toolsets"
_BUILTIN: Final = "builtin"


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools under one name. Iteration yields the tools in order.

    A set is immutable: each method below returns a new one::

        read_only = toolset.read_only().prefixed("fs")      # ctx.fs.read(...)
        guarded = toolset.with_approval("write", "edit")
        mine = toolset.with_defaults("grep", ignore_case=True)
    """

    name: str
    """Name of the set in messages, in `allowed_tools` and on the command line."""
    tools: tuple[Tool, ...]
    """Its tools, each with a unique name."""

    def __post_init__(self) -> None:
        for item in self.tools:
            if not isinstance(item, Tool):
                msg = (
                    f"toolset {self.name!r}: {item!r:.80} is not a Tool; convert it with tool_from"
                )
                raise UsageError(msg)
        _refuse_duplicates(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def only(self, *patterns: str) -> Self:
        """Keep the tools whose name matches a pattern (``*`` and ``?``, as in ``git_*``).

        Raises:
            UsageError: If a pattern matches no tool.
        """
        wanted = self._match(patterns)
        return replace(self, tools=tuple(t for t in self.tools if t.name in wanted))

    def without(self, *patterns: str) -> Self:
        """Remove the tools whose name matches a pattern.

        Raises:
            UsageError: If a pattern matches no tool.
        """
        unwanted = self._match(patterns)
        return replace(self, tools=tuple(t for t in self.tools if t.name not in unwanted))

    def filtered(self, keep: Callable[[Tool], bool]) -> Self:
        """Keep the tools for which `keep` returns True."""
        return replace(self, tools=tuple(t for t in self.tools if keep(t)))

    def tagged(self, *tags: str) -> Self:
        """Keep the tools that have one of the tags."""
        wanted = frozenset(tags)
        return self.filtered(lambda t: not wanted.isdisjoint(t.tags))

    def read_only(self) -> Self:
        """Keep the tools without a side effect."""
        return self.filtered(lambda t: not t.side_effect)

    def prefixed(self, namespace: str) -> Self:
        """Put the tools in a namespace: ``read`` becomes ``<namespace>.read``.

        Raises:
            UsageError: If a tool is in a namespace already.
        """
        for item in self.tools:
            if "." in item.name:
                msg = f"tool {item.name!r} is in a namespace already; rename it first"
                raise UsageError(msg)
        return self.renamed({t.name: f"{namespace}.{t.name}" for t in self.tools})

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Rename tools.

        Args:
            names: Old name -> new name.

        Raises:
            UsageError: If a tool does not exist, or a new name is invalid or in use.
        """
        for old in names:
            self._find(old)
        return self._replace(names, lambda t: renamed(t, validate_name(names[t.name])))

    def with_defaults(self, name: str, /, **values: Any) -> Self:
        """Bind arguments of one tool: no caller sees or changes them.

        Raises:
            UsageError: If the tool or a parameter does not exist, or a value is invalid.
        """
        self._find(name)
        return self._replace([name], lambda t: _bind(t, values))

    def with_approval(self, *patterns: str, gate: ApprovalGate = True) -> Self:
        """Require approval for the tools that match a pattern (default: those with a side effect).

        A tool keeps its own `needs_approval`: approval is required if either requires it.

        Raises:
            UsageError: If a pattern matches no tool.
        """
        if patterns:
            wanted = self._match(patterns)
        else:
            wanted = {t.name for t in self.tools if t.side_effect}
        return self._replace(
            wanted, lambda t: copy_with(t, needs_approval=_combine(t.needs_approval, gate))
        )

    def untrusted(self, *patterns: str, mode: UntrustedMode | None = "mark") -> Self:
        """Treat the text of the tools that match a pattern (default: all) as written by strangers.

        A model reads it marked or stripped; scripts and applications receive the data unchanged.

        Args:
            *patterns: Names, with ``*`` and ``?``.
            mode: As the option ``untrusted`` of `tool`. None: as the session treats other tools.

        Raises:
            UsageError: If a pattern matches no tool, or `mode` is unknown.
        """
        wanted = self._match(patterns) if patterns else {t.name for t in self.tools}
        return self._replace(wanted, lambda t: copy_with(t, untrusted=mode))

    def with_env(self, **values: Any) -> Self:
        """Set ``env`` values of the tools that declare them; the session's values override these.

        Raises:
            UsageError: If no tool of the set declares a name.
        """
        known = {key for t in self.tools if t.env is not None for key in t.env.model_fields}
        for key in values:
            if key not in known:
                msg = f"toolset {self.name!r}: no tool declares {key!r}{nearest(key, known)}"
                raise UsageError(msg)
        names = [t.name for t in self.tools if t.env is not None]
        return self._replace(names, lambda t: copy_with(t, env_values={**t.env_values, **values}))

    def _replace(self, names: Iterable[str], change: Callable[[Tool], Tool]) -> Self:
        chosen = frozenset(names)
        return replace(self, tools=tuple(change(t) if t.name in chosen else t for t in self.tools))

    def _find(self, name: str) -> Tool:
        for item in self.tools:
            if item.name == name:
                return item
        names = [t.name for t in self.tools]
        known = ", ".join(names) or "none"
        msg = f"toolset {self.name!r} has no tool {name!r}{nearest(name, names)}; it has: {known}"
        raise UsageError(msg)

    def _match(self, patterns: Iterable[str]) -> set[str]:
        return match_names(patterns, [t.name for t in self.tools], f"toolset {self.name!r}")


def match_names(patterns: Iterable[str], names: Iterable[str], where: str) -> set[str]:
    """Return the `names` that match a pattern. Raises `UsageError` if a pattern matches none."""
    known = list(names)
    found: set[str] = set()
    for pattern in patterns:
        matches = {name for name in known if fnmatchcase(name, pattern)}
        if not matches:
            near = nearest(pattern, known)
            msg = f"{where}: no tool matches {pattern!r}{near}; tools: {', '.join(known) or 'none'}"
            raise UsageError(msg)
        found |= matches
    return found


def _combine(own: ApprovalGate, gate: ApprovalGate) -> ApprovalGate:
    """Return a gate that requires approval if either of two does."""
    if own is True or gate is True:
        return True
    if own is False:
        return gate
    if gate is False:
        return own

    async def either(arguments: Mapping[str, Any]) -> bool:
        return await requires_approval(own, arguments) or await requires_approval(gate, arguments)

    return either


def _bind(item: Tool, values: Mapping[str, Any]) -> Tool:
    """Bind arguments of `item`: remove them from its schema, and add them before validation."""
    properties = item.parameters.get("properties", {})
    for key, value in values.items():
        if key not in properties:
            near = nearest(key, properties)
            msg = f"tool {item.name!r}: unknown parameter {key!r}{near}"
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
    def validate_bound(arguments: Mapping[str, Any]) -> Any:
        for key in arguments:
            if key in values:
                near = nearest(key, parameters["properties"])
                msg = f"{item.name}: unknown argument `{key}`{near}"
                raise ToolError(msg, code="invalid_arguments", tool=item.name)
        return validate({**arguments, **values})

    unrecorded = item.unrecorded - values.keys()
    return copy_with(item, parameters=parameters, validate=validate_bound, unrecorded=unrecorded)


ToolSource: TypeAlias = Tool | Toolset | Callable[..., Any] | Any
"""A tool, a toolset, a `ToolProvider`, or an object that `tool_from` converts to a tool."""


def collect(sources: Iterable[ToolSource]) -> dict[str, Tool]:
    """Return all tools of `sources` by name. Raises `UsageError` on a duplicate or a non-tool."""
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
            msg = f"two tools are named {item.name!r}; rename one with tool(name=...)"
            raise UsageError(msg)
        seen.add(item.name)
    for name in seen:
        namespace, dot, _ = name.partition(".")
        if dot and namespace in seen:
            msg = f"{namespace!r} cannot be both a tool and the namespace of {name!r}; rename one"
            raise UsageError(msg)


def installed_toolset(name: str, **options: Any) -> Toolset:
    """Load the toolset that an installed package provides as entry point ``ptc.toolsets: name``.

    Args:
        name: Name of the entry point.
        **options: Arguments of the function that creates the toolset, if it is one.

    Raises:
        UsageError: If it is not installed; the message lists those that are.
        SetupError: If it cannot be loaded.
    """
    # Most sessions need no other: to import what reads entry points takes 15 ms.
    load = _load_builtin if name == _BUILTIN else _entry(name).load
    try:
        loaded = load()
        toolset = loaded(**options) if callable(loaded) else loaded
    except UsageError as error:
        raise UsageError(f"toolset {name!r}: {error}") from None
    except Exception as error:  # another package's code may raise anything
        msg = (
            f"toolset {name!r} is installed but cannot be loaded: {type(error).__name__}: {error}; "
            "run `ptc doctor` for the toolsets that can"
        )
        raise SetupError(msg) from error
    if not isinstance(toolset, Toolset):
        msg = f"entry point ptc.toolsets:{name} is {type(toolset).__name__}, not a Toolset"
        raise UsageError(msg)
    return toolset


def _load_builtin() -> Callable[[], Toolset]:
    found: Callable[[], Toolset] = import_module("ptc_tools").builtin
    return found


def _entry(name: str) -> EntryPoint:
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in _own_entries() if entry.group == _GROUP}
    if name not in found:
        # To read those of all installed packages takes longer than to load the tools.
        found |= {entry.name: entry for entry in entry_points(group=_GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        msg = f"no toolset {name!r} is installed{nearest(name, found)}; installed: {known}"
        raise UsageError(msg)
    return found[name]


def _own_entries() -> Iterable[EntryPoint]:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("ptc-host").entry_points
    except PackageNotFoundError:  # run from its sources alone
        return ()
