"""Allow-list entries as text, for files and command lines: ``pay(amount <= 100)``.

A rule is written as the call that it allows. Python's own parser reads it, and nothing in it is
evaluated: a value is a literal.

Rule 1: An entry that is not exactly of this form is an error, never a wider rule.
    tests/core/tools/test_allow_text.py::test_malformed_rule_is_an_error_that_names_the_form
Rule 2: The text of a rule is that of an equal rule, or an error: a rule with a function has none.
    tests/core/tools/test_allow_text.py::test_text_of_a_rule_parses_to_an_equal_rule
"""

from __future__ import annotations

import ast
from typing import Any

from ..errors import UsageError
from ._allow import Allow, Bounds

__all__ = ["format_allow", "parse_allow", "split_entries"]

_FORM = 'write a rule as the call that it allows: pay(amount <= 100) or read(path="src/**")'
_SIGNS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_MAX_CHARS = 4_096


def parse_allow(text: str) -> str | Allow:
    """Parse one entry of an allow-list: a name or pattern is returned as it is, a rule as `Allow`.

    Raises:
        UsageError: If it has parentheses and is not a rule.
    """
    text = text.strip()
    if "(" not in text and ")" not in text:
        return text
    if len(text) > _MAX_CHARS:
        raise _error(text)
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call):
            raise _error(text)
        name = ast.unparse(call.func)
        rules = _conditions(call, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _error(text) from None
    if not all(part.isidentifier() for part in name.split(".")):
        raise _error(text)
    if not rules:
        raise _error(text, f"it has no condition; to allow every call, write {name}")
    return Allow(name, **rules)


def _conditions(call: ast.Call, text: str) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in rules:
            raise _error(text)
        rules[keyword.arg] = _literal(keyword.value, text)
    for condition in call.args:
        parameter, matcher = _condition(condition, text)
        if parameter in rules:
            raise _error(text, f"{parameter} has two conditions; write 1 <= {parameter} <= 9")
        rules[parameter] = matcher
    return rules


def _condition(node: ast.expr, text: str) -> tuple[str, Any]:
    if not isinstance(node, ast.Compare):
        raise _error(text)
    terms = [node.left, *node.comparators]
    names = [at for at, term in enumerate(terms) if _is_parameter(term)]
    if len(names) != 1:
        raise _error(text, "compare one parameter with values")
    at = names[0]
    parameter = ast.unparse(terms[at])
    if len(terms) == 2 and at == 0 and isinstance(node.ops[0], ast.Eq | ast.In):
        value = _literal(terms[1], text)
        if isinstance(node.ops[0], ast.In) != isinstance(value, list):
            raise _error(text, f"write {parameter} in [1, 2], or {parameter} == 1")
        return parameter, value
    bounds = []
    for number, kind in enumerate(map(type, node.ops)):
        # Each comparison has the parameter on one side: at most one on its left, one on its right.
        if at not in (number, number + 1) or kind not in _SIGNS:
            raise _error(text, "operators are <, <=, >, >=, == and in")
        bound = _literal(terms[number + 1 if at == number else number], text)
        if type(bound) not in (int, float):
            raise _error(text, f"{bound!r:.80} is not a number; only numbers have an order")
        bounds.append((_SIGNS[kind if at == number else _TURNED[kind]], bound))
    return parameter, Bounds(tuple(bounds))


def _is_parameter(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id not in _CONSTANTS


def _literal(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = [_literal(item, text) for item in node.elts]
        if not items or any(isinstance(item, list) for item in items):
            raise _error(text, "a list of allowed values has at least one value, and no list")
        return items
    value = ast.literal_eval(node)
    if value is not None and type(value) not in (str, int, float, bool):
        raise _error(text, f"{ast.unparse(node)!r:.80} is not text, a number, true or false")
    return value


def _error(text: str, problem: str = "") -> UsageError:
    return UsageError(f"{text!r:.200} is not a rule: {problem or _FORM}")


def format_allow(entry: str | Allow) -> str:
    """Return the text of an entry, which `parse_allow` reads.

    Raises:
        UsageError: If it has none: a rule with a function, or a name with parentheses.
    """
    text = entry if isinstance(entry, str) else _text_of(entry)
    try:
        if parse_allow(text) == entry:
            return text
    except UsageError:
        pass
    named = repr(entry) if isinstance(entry, str) else f"the rule of {entry.tool!r} ({entry})"
    msg = (
        f"{named} cannot be stored as text: a stored rule compares with text, numbers, true, false "
        "and null, not with a function"
    )
    raise UsageError(msg)


def _text_of(rule: Allow) -> str:
    compared, equal = [], []
    for name, matcher in rule.arguments.items():
        if isinstance(matcher, Bounds):
            lower = [(bound, sign) for sign, bound in matcher.bounds if sign.startswith(">")]
            upper = [f" {sign} {bound!r}" for sign, bound in matcher.bounds if sign.startswith("<")]
            turned = [f"{bound!r} {sign.replace('>', '<')} " for bound, sign in lower]
            compared.append("".join([*turned, name, *upper]))
        else:
            values = list(matcher) if isinstance(matcher, tuple) else matcher
            equal.append(f"{name}={values!r}")
    return f"{rule.tool}({', '.join([*compared, *equal])})"


def split_entries(text: str) -> list[str]:
    """Split a comma-separated list, but not at commas in parentheses, brackets or quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]
