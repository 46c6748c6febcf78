"""Expressions that a node of a syntax tree uses as values: a call there needs an `await`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

__all__ = ["OPERANDS"]

_FUTURE = frozenset({
    "add_done_callback", "cancel", "cancelled", "done", "exception", "get_loop",
    "remove_done_callback", "result",
})  # fmt: skip
"""Attributes that a call has before it is awaited."""
_READERS = frozenset({
    "all", "any", "bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "print",
    "reversed", "set", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip
"""Builtins that use each positional argument as a value."""


def _operands_of_attribute(node: Any) -> list[ast.AST]:
    return [] if node.attr in _FUTURE or node.attr[0] == "_" else [node.value]


def _operands_of_comparison(node: Any) -> list[ast.AST]:
    if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return []
    return [node.left, *node.comparators]


def _operands_of_call(node: Any) -> list[ast.AST]:
    reads = isinstance(node.func, ast.Name) and node.func.id in _READERS
    return node.args if reads else []


def _operands_of_loop(node: Any) -> list[ast.AST]:
    return [] if getattr(node, "is_async", 0) else [node.iter]


OPERANDS: Final[dict[type, Callable[[Any], list[ast.AST]]]] = {
    ast.Attribute: _operands_of_attribute,
    ast.Subscript: lambda node: [node.value],
    # `!r` and `!a` show the call itself.
    ast.FormattedValue: lambda node: [node.value] if node.conversion in (-1, 115) else [],
    ast.For: _operands_of_loop,
    ast.comprehension: _operands_of_loop,
    ast.BinOp: lambda node: [node.left, node.right],
    ast.Compare: _operands_of_comparison,
    ast.If: lambda node: [node.test],
    ast.While: lambda node: [node.test],
    ast.IfExp: lambda node: [node.test],
    ast.UnaryOp: lambda node: [node.operand],
    ast.Call: _operands_of_call,
}
"""By type of node: the children that it uses as values."""
