"""What a look at a script can tell before it runs: wrong calls of tools, missing awaits.

It reads the script's own tree and the parameters of the tools, and executes nothing. It speaks only
of what it is sure of; where a script may still be right, the finding is advice.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._wire._protocol import Finding

__all__ = ["Signature", "preflight"]

_OWN = {"call", "describe", "emit", "log", "search_tools", "tools"}
_PROMISES = {"search_tools", "describe"}


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of a tool's parameters."""

    parameters: tuple[str, ...]
    required: frozenset[str]
    closed: bool
    """True if no other arguments are allowed."""


def preflight(source: str, tools: Mapping[str, Signature]) -> list[Finding]:
    """Findings about the calls of tools in `source`, which compiles under the policy."""
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
    if names & set(_rebound(tree)):
        # Called ctx and something else as well: nothing sure can be said of it.
        return []
    finder = _Finder(names, tools, source.encode().splitlines())
    finder.visit(tree)
    return sorted(finder.findings, key=lambda f: (f.line, f.column))


def _rebound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


class _Finder(ast.NodeVisitor):
    """Walks the script; knows whether it stands in an async function."""

    def __init__(self, names: set[str], tools: Mapping[str, Signature], lines: list[bytes]) -> None:
        self.findings: list[Finding] = []
        self._names = names
        self._tools = tools
        self._lines = lines
        self._in_async = False

    # --- where we are ---------------------------------------------------------------------------

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, in_async=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        # A plain function inside an async one runs in the same loop: its calls are promises, too.
        self._function(node, in_async=self._in_async)

    def _function(self, node: ast.AST, *, in_async: bool) -> None:
        before, self._in_async = self._in_async, in_async
        self.generic_visit(node)
        self._in_async = before

    # --- a tool as a method of ctx ---------------------------------------------------------------

    def _tool_of(self, node: ast.AST) -> str | None:
        """``ctx.a``, ``ctx.tools.a``, ``ctx.a.b`` as the name of a tool; None if it is none."""
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
        namespaces = {known.partition(".")[0] for known in self._tools if "." in known}
        known = name in self._tools or name in namespaces
        if first not in _OWN and not known and first not in self._tools:
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
            if first.value not in self._tools and first.value not in _PROMISES:
                self._unknown(first, first.value)
            elif len(node.args) == 2 and first.value in self._tools:
                keys = _literal_keys(node.args[1])
                if keys is not None and isinstance(node.args[1], ast.Dict):
                    places: list[ast.AST] = [node.args[1]] * len(keys)
                    self._check_names(node, first.value, keys, places, 0)

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
        given = [str(k.arg) for k in keywords]
        places: list[ast.AST] = list(keywords)
        if len(args) == 1 and not keywords and not isinstance(args[0], ast.Constant):
            # One dict of arguments is taken as such; only a literal shows its keys.
            keys = _literal_keys(args[0])
            if keys is None:
                return
            if keys and set(keys) <= set(signature.parameters):
                given, places, args = keys, [args[0]] * len(keys), []
        if len(args) > len(signature.parameters):
            most, listed = len(signature.parameters), ", ".join(signature.parameters)
            text = f"{name} takes at most {most} arguments: {listed}"
            self._add(node, "too_many_arguments", text, "")
            return
        self._check_names(node, name, given, places, len(args))

    def _check_names(
        self, node: ast.Call, name: str, given: list[str], places: list[ast.AST], positional: int
    ) -> None:
        signature = self._tools[name]
        for key, place in zip(given, places, strict=True):
            if signature.closed and key not in signature.parameters:
                close = difflib.get_close_matches(key, signature.parameters, n=1, cutoff=0.5)
                listed = ", ".join(signature.parameters)
                hint = f"did you mean {close[0]}?" if close else f"its parameters: {listed}"
                self._add(place, "unknown_argument", f"{name} has no parameter {key!r}", hint)
        missing = signature.required - set(given) - set(signature.parameters[:positional])
        if missing:
            listed = ", ".join(p for p in signature.parameters if p in missing)
            self._add(node, "missing_argument", f"{name} needs {listed}", "")

    # --- a promise used as a value ---------------------------------------------------------------

    def _is_promise(self, node: ast.AST | None) -> str | None:
        if not self._in_async or not isinstance(node, ast.Call):
            return None
        name = self._tool_of(node.func)
        return name if name in self._tools or name in _PROMISES or name == "call" else None

    def visit(self, node: ast.AST) -> None:
        """Visit a node, and look at what it uses as a value."""
        for child in _used(node):
            name = self._is_promise(child)
            if name is not None:
                text = f"the call of ctx.{name} is used before it is awaited"
                self._add(child, "missing_await", text, f"write (await ctx.{name}(...))")
        if isinstance(node, ast.Expr):
            name = self._is_promise(node.value)
            if name is not None:
                text = f"the call of ctx.{name} is not awaited: it runs, and its error is not seen"
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
    """Keys of a dict display; ``[]`` for what is surely no dict; None if nothing is known."""
    if isinstance(node, ast.Dict):
        keys = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
        texts = [key for key in keys if isinstance(key, str)]
        return texts if len(texts) == len(keys) else None
    return [] if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.BinOp) else None


def _used(node: ast.AST) -> Iterator[ast.AST]:
    """Children whose value this node needs now."""
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
