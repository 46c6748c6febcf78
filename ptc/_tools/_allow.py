"""What a run may call: names, patterns, toolsets, and rules on arguments.

Rule 1: a rule is held to the validated arguments, defaults included, on every way to the tool.
    tests/core/tools/test_allow.py::test_a_rule_holds_on_every_way_to_the_tool
Rule 2: a path is compared as it will be used, and one with ``..`` fits no pattern.
    tests/core/tools/test_allow.py::test_a_path_is_compared_as_it_will_be_used
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from .._arguments import nearest, parts_of
from .._schema._check import arguments_mapping
from ..errors import ToolError, UsageError
from ._tool import Tool
from ._toolset import fitting

__all__ = ["Allow", "AllowList", "select"]

Matcher: TypeAlias = str | bool | int | float | Iterable[Any] | Callable[[Any], bool] | None


@dataclass(frozen=True, slots=True, init=False)
class Allow:
    """Allows calls of a tool whose arguments fit.

    ::

        Allow("bash", cmd={"git", "pytest"})      # one of these
        Allow("read", path="src/**")              # a path below src
        Allow("pay", amount=lambda a: a <= 10)    # what the function says yes to

    Text with ``*``, ``?`` or ``[`` is a pattern, in which ``**`` crosses folders and ``*`` does
    not; other text and other values must be equal. A path with ``..`` in it fits no pattern. A link
    leads where it leads, inside the root. A list argument fits if each of its items does; an empty
    one, which to many tools means everything, fits a function only. Of several rules for a tool
    one must fit; its bare name in the same list allows every call.
    """

    tool: str
    arguments: Mapping[str, Matcher]

    def __init__(self, tool: str, /, **arguments: Matcher) -> None:
        """Make a rule.

        Args:
            tool: Name of the tool.
            **arguments: What each argument must be.

        Raises:
            UsageError: If no argument is named: give the bare name instead.
        """
        if not isinstance(tool, str) or not arguments:
            msg = f"Allow({tool!r}) says nothing of arguments; put the name itself in the list"
            raise UsageError(msg)
        object.__setattr__(self, "tool", tool)
        object.__setattr__(
            self, "arguments", {k: _frozen(matcher) for k, matcher in arguments.items()}
        )

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """True if every argument named here is as it must be."""
        return all(_fits(m, arguments.get(key)) for key, m in self.arguments.items())

    def __str__(self) -> str:
        return " and ".join(f"{key} {_words(m)}" for key, m in self.arguments.items())


AllowList: TypeAlias = Iterable[str | Allow]
"""Names of tools, patterns as ``git_*``, names of toolsets, and rules."""


def _frozen(matcher: Matcher) -> Matcher:
    if inspect.iscoroutinefunction(matcher):
        msg = f"a rule of Allow is a plain function, not {matcher!r:.80}"
        raise UsageError(msg)
    if isinstance(matcher, str | bool | int | float | None) or callable(matcher):
        return matcher
    # A set has another order in every process, and what a model is told should have one.
    in_order = isinstance(matcher, set | frozenset)
    return tuple(sorted(matcher, key=repr) if in_order else matcher)


def _fits(matcher: Matcher, value: Any) -> bool:
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, list | tuple | set | frozenset) and not callable(matcher):
        return bool(value) and all(_fits(matcher, item) for item in value)
    if callable(matcher):
        # An exception of the rule is no yes: it reaches the caller as the call's failure.
        return matcher(value) is True
    if isinstance(matcher, tuple):
        return any(_fits(item, value) for item in matcher)
    if isinstance(matcher, str) and isinstance(value, str) and re.search(r"[*?\[]", matcher):
        if ".." in value.split("/"):
            # `src/../secret` is not below `src`, and with a link before the `..` nobody knows.
            return False
        plain = posixpath.normpath(value) if "/" in matcher else value
        return _pattern(matcher).fullmatch(plain) is not None
    return type(matcher) is type(value) and matcher == value


@lru_cache(256)
def _pattern(text: str) -> re.Pattern[str]:
    out, at = "", 0
    while at < len(text):
        if text.startswith("**", at):
            out, at = out + ".*", at + 2
            continue
        char = text[at]
        if char == "[":
            end = text.find("]", at + 2)
            if end > 0:
                inner = text[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
                inner = "^" + inner[1:] if inner[0] == "!" else inner
                out, at = f"{out}(?!/)[{inner}]", end + 1
                continue
        out += {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))
        at += 1
    return re.compile(out, re.DOTALL)


def _words(matcher: Matcher) -> str:
    if callable(matcher):
        return f"must pass {getattr(matcher, '__name__', 'a rule')}"
    if isinstance(matcher, tuple):
        return f"must be one of {', '.join(repr(m) for m in matcher)}"
    pattern = isinstance(matcher, str) and re.search(r"[*?\[]", matcher)
    return f"must fit {matcher!r}" if pattern else f"must be {matcher!r}"


def select(
    allowed: AllowList, tools: Mapping[str, Tool], toolsets: Mapping[str, tuple[str, ...]]
) -> dict[str, Tool]:
    """The tools that a list allows, in its order; those with rules only hold to them.

    Args:
        allowed: The list.
        tools: All there are.
        toolsets: Names of tools by name of toolset; a tool of that name comes first.

    Raises:
        UsageError: If an entry allows nothing; the message has the nearest names.
    """
    entries = parts_of("allowed_tools", allowed, "a list of names of tools")
    rules: dict[str, list[Allow]] = {}
    free: set[str] = set()
    order: dict[str, None] = {}
    for entry in entries:
        if isinstance(entry, Allow):
            _check_rule(entry, tools)
            rules.setdefault(entry.tool, []).append(entry)
            order[entry.tool] = None
            continue
        names = _named(entry, tools, toolsets)
        free.update(names)
        order.update(dict.fromkeys(names))
    return {
        name: tools[name] if name in free else _ruled(tools[name], tuple(rules[name]))
        for name in order
    }


def _named(
    entry: object, tools: Mapping[str, Tool], toolsets: Mapping[str, tuple[str, ...]]
) -> list[str]:
    if isinstance(entry, str):
        if entry in tools:
            return [entry]
        if entry in toolsets:
            return list(toolsets[entry])
        if re.search(r"[*?\[]", entry):
            found = fitting([entry], tools, "allowed_tools")
            return [name for name in tools if name in found]
    known = ", ".join(tools) or "none"
    near = nearest(str(entry), [*tools, *toolsets])
    msg = f"allowed_tools: there is no tool {entry!r}{near}; tools: {known}"
    raise UsageError(msg)


def _check_rule(rule: Allow, tools: Mapping[str, Tool]) -> None:
    _named(rule.tool, {name: tools[name] for name in tools}, {})
    if rule.tool not in tools:
        msg = f"Allow({rule.tool!r}): a rule is about one tool; write one for each"
        raise UsageError(msg)
    names = tools[rule.tool].parameter_names
    for key in rule.arguments:
        if key not in names:
            msg = f"Allow({rule.tool!r}): it has no parameter {key!r}{nearest(key, names)}"
            raise UsageError(msg)


def _ruled(item: Tool, rules: tuple[Allow, ...]) -> Tool:
    """`item`, which accepts only arguments that one of the rules fits."""
    validate = item.validate
    words = "; or ".join(map(str, rules))

    def ruled(arguments: Mapping[str, Any]) -> Any:
        valid = validate(arguments)
        if not any(rule.fits(arguments_mapping(valid)) for rule in rules):
            msg = f"{item.name}: not allowed in this run with these arguments: {words}"
            raise ToolError(msg, code="not_allowed", tool=item.name)
        return valid

    # Said where a model reads it, so that it need not find out by failing.
    return replace(item, validate=ruled, description=f"{item.description}\n\nHere {words}.")
