"""Expressions that a node of a syntax tree uses as values: a call there needs an `await`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["OPERANDS", "arguments_read"]

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
_MODULES = {
    "io": frozenset({"StringIO"}),
    "json": frozenset({"dumps", "loads"}),
    "re": frozenset({
        "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn",
    }),
}  # fmt: skip
"""Functions of modules that do the same."""


def _operands_of_attribute(node: Any) -> list[ast.AST]:
    return [] if node.attr in _FUTURE or node.attr[0] == "_" else [node.value]


def _operands_of_comparison(node: Any) -> list[ast.AST]:
    if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
        return []
    return [node.left, *node.comparators]


def arguments_read(node: ast.Call) -> Sequence[ast.expr]:
    """Return the arguments that the called function uses as values, if it is known to."""
    match node.func:
        case ast.Name(id=name):
            reads = name in _READERS
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            # `json.dumps(default=...)` may convert anything.
            converts = any(keyword.arg in {None, "cls", "default"} for keyword in node.keywords)
            reads = name in _MODULES.get(module, ()) and not converts
        case _:
            reads = False
    return node.args if reads else ()


def _operands_of_loop(node: Any) -> list[ast.AST]:
    return [] if getattr(node, "is_async", 0) else [node.iter]


OPERANDS: Final[dict[type, Callable[[Any], Sequence[ast.AST]]]] = {
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
    ast.Call: arguments_read,
}
"""By type of node: the children that it uses as values."""
