"""Allow-list of a run: names, patterns, toolsets, and rules on arguments.

Rule 1: a rule is enforced on the validated arguments, defaults included, for every caller.
    tests/core/tools/test_allow.py::test_rule_applies_to_every_kind_of_call
Rule 2: a path is normalized before it is compared, and one with ``..`` matches no pattern.
    tests/core/tools/test_allow.py::test_path_is_normalized_before_it_is_compared
"""

from __future__ import annotations

import inspect
import operator
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from .._core._arguments import nearest, parts_of
from .._core._deferred import copy_with
from .._dataclass import dataclass
from .._schema._check import arguments_mapping
from .._schema._copy import copy_data
from ..errors import ToolError, UsageError
from ._names import list_known
from ._tool import Tool
from ._toolset import match_names

__all__ = ["Allow", "AllowList", "Bounds", "select"]

Matcher: TypeAlias = str | bool | int | float | Iterable[Any] | Callable[[Any], bool] | None


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Matcher of numbers within all of the bounds."""

    bounds: tuple[tuple[str, float], ...]
    """Operators, and the numbers on their right: ``("<=", 100)``."""

    def __call__(self, value: object) -> bool:
        # True is not a number here.
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return False
        try:
            return all(_COMPARE[sign](value, bound) for sign, bound in self.bounds)
        except ArithmeticError:
            # NaN of Decimal is within no bound, as that of float.
            return False

    def __str__(self) -> str:
        return " and ".join(f"{sign} {bound}" for sign, bound in self.bounds)


@dataclass(frozen=True, slots=True, init=False)
class Allow:
    """Allow calls of a tool whose arguments match.

    ::

        Allow("bash", cmd={"git", "pytest"})      # one of these
        Allow("read", path="src/**")              # a path below src
        Allow("pay", amount=lambda a: a <= 10)    # the function returns True

    Text with ``*``, ``?`` or ``[`` is a pattern, in which ``**`` crosses folders and ``*`` does
    not. Other text and other values must be equal. A path with ``..`` in it matches no pattern.
    Links are not resolved: the name of a link is compared, and it may lead anywhere inside the
    root. A list argument matches if each of its items does. An empty list, which to many tools
    means everything, matches a function only. Of several rules for a tool, one must match; the
    name of the tool in the same list allows every call.
    """

    tool: str
    arguments: Mapping[str, Matcher]

    def __init__(self, tool: str, /, **arguments: Matcher) -> None:
        """Create a rule.

        Args:
            tool: Name of the tool.
            **arguments: Allowed values of each argument.

        Raises:
            UsageError: If it has no argument: list the name of the tool instead.
        """
        if not isinstance(tool, str) or not arguments:
            msg = f"Allow({tool!r}) has no rule for an argument; list the name of the tool instead"
            raise UsageError(msg)
        object.__setattr__(self, "tool", tool)
        object.__setattr__(
            self, "arguments", {k: _frozen(matcher) for k, matcher in arguments.items()}
        )

    def fits(self, arguments: Mapping[str, Any]) -> bool:
        """True if every argument that has a rule matches it."""
        return all(_matches(m, arguments.get(key)) for key, m in self.arguments.items())

    def __str__(self) -> str:
        return " and ".join(f"{key} {_describe(m)}" for key, m in self.arguments.items())


AllowList: TypeAlias = Iterable[str | Allow]
"""Names of tools, patterns as ``git_*``, names of toolsets, and rules."""


def _frozen(matcher: Matcher) -> Matcher:
    if inspect.iscoroutinefunction(matcher):
        msg = f"a rule of Allow must be a plain function, not {matcher!r:.80}"
        raise UsageError(msg)
    if isinstance(matcher, str | bool | int | float | None) or callable(matcher):
        return matcher
    # The order of a set differs between processes; the text for a model should not.
    in_order = isinstance(matcher, set | frozenset)
    return tuple(sorted(matcher, key=repr) if in_order else matcher)


def _matches(matcher: Matcher, value: Any) -> bool:
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, list | tuple | set | frozenset) and not callable(matcher):
        return bool(value) and all(_matches(matcher, item) for item in value)
    if callable(matcher):
        # An exception of the rule does not allow the call: it fails it.
        return matcher(value) is True
    if isinstance(matcher, tuple):
        return any(_matches(item, value) for item in matcher)
    if isinstance(matcher, str) and isinstance(value, str) and re.search(r"[*?\[]", matcher):
        if ".." in value.split("/"):
            # `src/../secret` is not below `src`; with a link before the `..` it may be anywhere.
            return False
        plain = posixpath.normpath(value) if "/" in matcher else value
        return _compile_pattern(matcher).fullmatch(plain) is not None
    return type(matcher) is type(value) and matcher == value


@lru_cache(256)
def _compile_pattern(text: str) -> re.Pattern[str]:
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


def _describe(matcher: Matcher) -> str:
    if isinstance(matcher, Bounds):
        return f"must be {matcher}"
    if callable(matcher):
        return f"must pass {getattr(matcher, '__name__', 'a rule')}"
    if isinstance(matcher, tuple):
        return f"must be one of {', '.join(repr(m) for m in matcher)}"
    pattern = isinstance(matcher, str) and re.search(r"[*?\[]", matcher)
    return f"must match {matcher!r}" if pattern else f"must be {matcher!r}"


def select(
    allowed: AllowList, tools: Mapping[str, Tool], toolsets: Mapping[str, tuple[str, ...]]
) -> dict[str, Tool]:
    """Return the tools that an allow-list allows, in its order, with its rules enforced.

    Args:
        allowed: The list.
        tools: All tools.
        toolsets: Names of tools by name of toolset. A tool takes precedence over a toolset of the
            same name.

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
        names = _expand(entry, tools, toolsets)
        free.update(names)
        order.update(dict.fromkeys(names))
    return {
        name: tools[name] if name in free else _enforce(tools[name], tuple(rules[name]))
        for name in order
    }


def _expand(
    entry: object, tools: Mapping[str, Tool], toolsets: Mapping[str, tuple[str, ...]]
) -> list[str]:
    if isinstance(entry, str):
        if entry in tools:
            return [entry]
        if entry in toolsets:
            return list(toolsets[entry])
        if re.search(r"[*?\[]", entry):
            found = match_names([entry], tools, "allowed_tools")
            return [name for name in tools if name in found]
    known = list_known(tools)
    near = nearest(str(entry), [*tools, *toolsets])
    msg = f"allowed_tools: there is no tool {entry!r}{near}; tools: {known}"
    raise UsageError(msg)


def _check_rule(rule: Allow, tools: Mapping[str, Tool]) -> None:
    _expand(rule.tool, tools, {})
    if rule.tool not in tools:
        msg = f"Allow({rule.tool!r}): a rule must name one tool; write one rule for each tool"
        raise UsageError(msg)
    names = tools[rule.tool].parameter_names
    for key in rule.arguments:
        if key not in names:
            msg = f"Allow({rule.tool!r}): unknown parameter {key!r}{nearest(key, names)}"
            raise UsageError(msg)


def _enforce(item: Tool, rules: tuple[Allow, ...]) -> Tool:
    """Return `item`, rejecting arguments that match none of the rules."""
    validate = item.validate
    words = "; or ".join(map(str, rules))

    def validate_rules(arguments: Mapping[str, Any]) -> Any:
        valid = validate(arguments)
        if not any(rule.fits(arguments_mapping(copy_data(valid))) for rule in rules):
            msg = f"{item.name}: these arguments are not allowed in this run: {words}"
            raise ToolError(msg, code="not_allowed", tool=item.name)
        return valid

    # In the description, so that a model need not learn the rules from failed calls.
    return copy_with(
        item, validate=validate_rules, description=f"{item.description}\n\nHere {words}."
    )
