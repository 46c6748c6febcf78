"""Static check of a script: wrong tool calls, missing awaits.

It reads the script's syntax tree and the parameters of the tools, and executes nothing. It reports
only certain errors; if the script may still be correct, the finding is advice.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._wire._protocol import Finding

__all__ = ["Signature", "preflight"]

_OWN = {"call", "describe", "emit", "log", "search_tools", "tools"}
_AWAITABLES = {"search_tools", "describe"}


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters of a tool."""

    parameters: tuple[str, ...]
    required: frozenset[str]
    closed: bool
    """True if no other arguments are allowed."""


def preflight(source: str, tools: Mapping[str, Signature]) -> list[Finding]:
    """Check the tool calls in `source`, which must compile under the policy."""
    tree = ast.parse(source)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    run = next((function for function in functions if function.name == "run"), None)
    if run is None:
        names = {"ctx"}
    else:
        arguments = [*run.args.posonlyargs, *run.args.args]
        if not arguments:
            return []
        names = {arguments[0].arg}
    if names & set(_bound_names(tree)):
        # The name of ctx is also bound to other values: no certain finding is possible.
        return []
    finder = _Finder(names, tools, source.encode().splitlines())
    finder.visit(tree)
    return sorted(finder.findings, key=lambda f: (f.line, f.column))


def _bound_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


class _Finder(ast.NodeVisitor):
    """Visitor of a script's tree that tracks if it is inside an async function."""

    def __init__(self, names: set[str], tools: Mapping[str, Signature], lines: list[bytes]) -> None:
        self.findings: list[Finding] = []
        self._names = names
        self._tools = tools
        self._lines = lines
        self._in_async = False

    # --- functions ------------------------------------------------------------------------------

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, in_async=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # A plain function inside an async one runs in the same loop: its calls are awaitable, too.
        self._function(node, in_async=self._in_async)

    def _function(self, node: ast.AST, *, in_async: bool) -> None:
        before, self._in_async = self._in_async, in_async
        self.generic_visit(node)
        self._in_async = before

    # --- a tool as a method of ctx ---------------------------------------------------------------

    def _tool_of(self, node: ast.AST) -> str | None:
        """Return the tool name of ``ctx.a``, ``ctx.tools.a`` or ``ctx.a.b``, else None."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._names or not parts:
            return None
        parts.reverse()
        if parts[0] == "tools":
            del parts[0]
        return ".".join(parts) or None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._tool_of(node)
        if name is None:
            self.generic_visit(node)
            return
        first = name.partition(".")[0]
        namespaces = {tool.partition(".")[0] for tool in self._tools if "." in tool}
        is_known = name in self._tools or name in namespaces
        if first not in _OWN and not is_known and first not in self._tools:
            self._unknown(node, name)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._tool_of(node.func)
        if name == "call":
            self._call_by_name(node)
        elif name in self._tools:
            self._check_arguments(node, str(name), node.args, node.keywords)
        self.generic_visit(node)

    def _call_by_name(self, node: ast.Call) -> None:
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if first.value not in self._tools and first.value not in _AWAITABLES:
                self._unknown(first, first.value)
            elif len(node.args) == 2 and first.value in self._tools:
                keys = _literal_keys(node.args[1])
                if keys is not None and isinstance(node.args[1], ast.Dict):
                    self._check_names(node, first.value, keys, [node.args[1]] * len(keys), 0)

    def _unknown(self, node: ast.expr, name: str) -> None:
        close = difflib.get_close_matches(name, list(self._tools), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else ""
        allowed = ", ".join(self._tools) or "none"
        self._add(node, "unknown_tool", f"there is no tool {name!r}; allowed: {allowed}", hint)

    def _check_arguments(
        self, node: ast.Call, name: str, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> None:
        signature = self._tools[name]
        if any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in keywords):
            return
        names = [str(k.arg) for k in keywords]
        nodes: Sequence[ast.AST] = keywords
        if len(args) == 1 and not keywords and not isinstance(args[0], ast.Constant):
            # A single dict holds the arguments; only a literal has known keys.
            keys = _literal_keys(args[0])
            if keys is None:
                return
            if keys and set(keys) <= set(signature.parameters):
                names, nodes, args = keys, [args[0]] * len(keys), []
        if len(args) > len(signature.parameters):
            maximum, listed = len(signature.parameters), ", ".join(signature.parameters)
            text = f"{name} takes at most {maximum} arguments: {listed}"
            self._add(node, "too_many_arguments", text, "")
            return
        self._check_names(node, name, names, nodes, len(args))

    def _check_names(
        self, node: ast.Call, name: str, names: list[str], nodes: Sequence[ast.AST], positional: int
    ) -> None:
        signature = self._tools[name]
        for key, key_node in zip(names, nodes, strict=True):
            if signature.closed and key not in signature.parameters:
                close = difflib.get_close_matches(key, signature.parameters, n=1, cutoff=0.5)
                listed = ", ".join(signature.parameters)
                hint = f"did you mean {close[0]}?" if close else f"its parameters: {listed}"
                self._add(key_node, "unknown_argument", f"{name} has no parameter {key!r}", hint)
        missing = signature.required - set(names) - set(signature.parameters[:positional])
        if missing:
            listed = ", ".join(p for p in signature.parameters if p in missing)
            self._add(node, "missing_argument", f"{name} needs {listed}", "")

    # --- an awaitable used as a value ------------------------------------------------------------

    def _awaitable_call(self, node: ast.AST | None) -> str | None:
        if not self._in_async or not isinstance(node, ast.Call):
            return None
        name = self._tool_of(node.func)
        return name if name in self._tools or name in _AWAITABLES or name == "call" else None

    def visit(self, node: ast.AST) -> None:
        """Visit a node and check the expressions that it uses as values."""
        for child in _value_operands(node):
            name = self._awaitable_call(child)
            if name is not None:
                text = f"the result of ctx.{name}(...) is used without await"
                self._add(child, "missing_await", text, f"write (await ctx.{name}(...))")
        if isinstance(node, ast.Expr):
            name = self._awaitable_call(node.value)
            if name is not None:
                text = f"the call of ctx.{name} is not awaited: it runs, but its error is lost"
                self._add(
                    node.value, "not_awaited", text, f"write await ctx.{name}(...)", advisory=True
                )
        super().visit(node)

    def _add(
        self, node: Any, code: str, message: str, hint: str, *, advisory: bool = False
    ) -> None:
        line, end_line = node.lineno, node.end_lineno or node.lineno
        finding = Finding(
            code=code,
            message=message,
            line=line,
            column=self._column(line, node.col_offset),
            end_line=end_line,
            end_column=self._column(end_line, node.end_col_offset or 0),
            hint=hint,
            advisory=advisory,
        )
        self.findings.append(finding)

    def _column(self, line: int, offset: int) -> int:
        raw = self._lines[line - 1] if line <= len(self._lines) else b""
        return len(raw[:offset].decode(errors="ignore")) + 1


def _literal_keys(node: ast.expr) -> list[str] | None:
    """Return the keys of a dict display, ``[]`` if it cannot be a dict, None if unknown."""
    if isinstance(node, ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
        texts = [key for key in keys if isinstance(key, str)]
        return texts if len(texts) == len(keys) else None
    return [] if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.BinOp) else None


def _value_operands(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children that this node uses as values."""
    match node:
        case (
            ast.Attribute(value=value)
            | ast.Subscript(value=value)
            | ast.FormattedValue(value=value)
        ):
            yield value
        case ast.For(iter=iterable) | ast.comprehension(iter=iterable, is_async=0):
            yield iterable
        case ast.BinOp(left=left, right=right):
            yield left
            yield right
        case ast.Compare(left=left, comparators=comparators, ops=ops):
            if not all(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                yield left
                yield from comparators
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test
