"""Static check of a script: wrong tool calls, missing awaits.

It reads the script's syntax tree and the parameters of the tools, and executes nothing. A finding
is certain if the script fails wherever it gets to that line, and is bound to get there unless it
fails before (`_certainty`); otherwise the finding is advice.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from .._language._entry import name_of_ctx
from .._language._scopes import CHILDLESS, add_children, bindings
from .._wire._protocol import Finding
from ._advice import advise, finding_at
from ._certainty import certain_nodes
from ._operands import OPERANDS, arguments_read
from ._tool_table import BY_NAME, list_names

__all__ = ["OWN", "Row", "Signature", "literal_kind", "preflight"]

OWN: Final = frozenset({
    "attach", "budget", "call", "describe", "emit", "log", "progress", "search_tools", "tools",
})  # fmt: skip
"""Attributes of `ctx` that are not tools. They hide tools of the same name."""
_AWAITABLES = frozenset({"search_tools", "describe"})
_ALLOW: Final = (
    "the caller of the script must allow it by name: `allowed_tools=[..., {name!r}]`, or "
    "`--allow ...,{name}` on the command line"
)
_CALLERS: Final = frozenset({
    "call_tool", "execute", "execute_tool", "invoke", "invoke_tool", "run_tool", "use_tool",
})  # fmt: skip
"""Names by which other libraries call a tool."""
_THREADS: Final = re.compile("thread|executor", re.IGNORECASE)
_NAMES_CHARS: Final = 600
"""Of the names of tools in a message, which is truncated after 800 characters."""


class Signature(NamedTuple):
    """Parameters of a tool."""

    parameters: Sequence[str]
    required: Collection[str]
    closed: bool
    """True if no other arguments are allowed."""
    refused: Mapping[str, tuple[str, str]]
    """By parameter: its type in words, and the kinds of literals (`literal_kind`) it refuses."""


Row: TypeAlias = Sequence[Any]
"""Fields of a `Signature`, as the host sends them."""


def preflight(
    tree: ast.Module,
    source: str,
    tools: Mapping[str, Row],
    read: Iterable[str],
    denied: Mapping[str, bool] = MappingProxyType({}),
) -> list[Finding]:
    """Check the tool calls of a script, in order of position.

    Args:
        tree: Syntax tree of the script, as parsed.
        source: Text of the script.
        tools: Signatures of the tools that it may call.
        read: All names that it reads as variables.
        denied: Tools of the session that it may not call; True: with a side effect.
    """
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    run = next((function for function in reversed(functions) if function.name == "run"), None)
    name = name_of_ctx(run)
    lines = source.encode().splitlines()
    findings: list[Finding] = []
    if name in read:
        finder = _Finder(name, tools, denied, lines, is_async=_has_await(tree, run))
        finder.has_threads = _THREADS.search(source) is not None
        findings = _check_calls(tree, finder, name, run)

    def is_known(attribute: str) -> bool:
        return attribute in OWN or any(tool.partition(".")[0] == attribute for tool in tools)

    findings += advise(tree, run, lines, is_known)
    return sorted(findings, key=lambda f: (f.line, f.column))


def _check_calls(
    tree: ast.Module,
    finder: _Finder,
    name: str,
    run: ast.FunctionDef | ast.AsyncFunctionDef | None,
) -> list[Finding]:
    finder.walk(list(tree.body))
    finder.check_variables(tree)
    if not finder.found or finder.rebound:
        # No finding is possible if `ctx` may be something else.
        return []
    # If a loop may run, the error of a call is raised when it is awaited.
    loop = finder.is_async or any(isinstance(n, ast.AsyncFunctionDef) for n in ast.walk(tree))
    targets = {node: late and loop for node, late, _ in finder.found}
    certain = certain_nodes(tree, run, name, targets)
    return [f if n in certain else replace(f, advisory=True) for n, _, f in finder.found]


def _has_await(tree: ast.Module, run: ast.AST | None) -> bool:
    """True for a top-level script that awaits: its calls are promises at the top level, too."""
    todo: list[ast.AST] = [] if run is not None else [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return False


class _Finder:
    """Walk over a script's tree that tracks if it is inside an async function.

    Attributes:
        is_async: True for a top-level script that awaits.
        has_threads: True if a plain function may run in a thread, where its calls block.
        rebound: True if the name of `ctx` is bound otherwise than as a parameter.
        found: Each finding with its node, and True if the error is raised only when the call is
            awaited.
    """

    def __init__(
        self,
        name: str,
        tools: Mapping[str, Row],
        denied: Mapping[str, bool],
        lines: list[bytes],
        *,
        is_async: bool,
    ) -> None:
        self.found: list[tuple[ast.AST, bool, Finding]] = []
        self.is_async = self._in_async = is_async
        self.has_threads = self.rebound = False
        self._function: ast.AST | None = None
        self._calls: dict[tuple[ast.AST | None, str], str] = {}
        """Tools by function and variable, of calls that were assigned without an `await`."""
        self._arguments: list[tuple[ast.AST | None, ast.Name]] = []
        """Variables that known functions use as values, with the function around them."""
        self._name = name
        self._tools = tools
        self._denied = denied
        self._lines = lines

    @cached_property
    def _namespaces(self) -> set[str]:
        return {tool.partition(".")[0] for tool in self._tools if "." in tool}

    def walk(self, nodes: list[Any]) -> None:
        """Check nodes and everything below them. `nodes` is used up."""
        while nodes:
            node = nodes.pop()
            kind = type(node)
            if kind in CHILDLESS:
                continue
            if self._in_async and kind in OPERANDS:
                self._check_operands(OPERANDS[kind](node))
            check = _CHECKS.get(kind)
            if check is None or check(self, node):
                add_children(node, nodes)

    # Each of these returns True if the children of the node are to be checked, too.

    def _check_name(self, node: ast.Name) -> bool:
        if node.id == self._name and not isinstance(node.ctx, ast.Load):
            self.rebound = True
        return False

    def _check_binding(self, node: Any) -> bool:
        if _BINDERS[type(node)](node) == self._name:
            self.rebound = True
        return True

    def _check_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        self._check_binding(node)
        before = self._in_async, self._function
        self._enter(node)
        self.walk([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults, *node.body])
        self._in_async, self._function = before
        return False

    def _check_lambda(self, node: ast.Lambda) -> bool:
        before = self._in_async, self._function
        self._enter(node)
        self.walk([*node.args.defaults, *node.args.kw_defaults, node.body])
        self._in_async, self._function = before
        return False

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """Enter a function. A plain one inside an async one runs in the same loop."""
        plain = not isinstance(node, ast.AsyncFunctionDef)
        self._in_async = not plain or (self._in_async and not self.has_threads)
        self._function = node

    def _check_annotated(self, node: ast.AnnAssign) -> bool:
        self._note_call(node.target, node.value)
        # The annotation is not evaluated.
        self.walk([node.target, node.value])
        return False

    # --- a tool as a method of ctx ---------------------------------------------------------------

    def _tool_of(self, node: ast.AST) -> str | None:
        """Return the tool name of ``ctx.a``, ``ctx.tools.a`` or ``ctx.a.b``, else None."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id != self._name or not parts:
            return None
        if parts[-1] == "tools":
            parts.pop()
        return ".".join(reversed(parts)) or None

    def _check_attribute(self, node: ast.Attribute) -> bool:
        name = self._tool_of(node)
        if name is None:
            return True
        first = name.partition(".")[0]
        if first in OWN or first[0] == "_":
            return False
        if name not in self._tools and name not in self._namespaces and first not in self._tools:
            self._unknown(node, name, late=False)
        return False

    def _check_call(self, node: ast.Call) -> bool:
        name = self._tool_of(node.func)
        if name == "call":
            self._call_by_name(node)
        elif name not in OWN and name in self._tools:
            self._check_arguments(node, str(name), node.args, node.keywords)
        if self._in_async:
            names = [each for each in arguments_read(node) if isinstance(each, ast.Name)]
            self._arguments += [(self._function, each) for each in names]
        return True

    def _call_by_name(self, node: ast.Call) -> None:
        first = node.args[0] if node.args else None
        if any(keyword.arg not in {None, "name", "arguments"} for keyword in node.keywords):
            text = "ctx.call takes a dict of arguments"
            self._add(node, "unknown_argument", text, BY_NAME)
            return
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            return
        if first.value not in self._tools:
            if first.value not in _AWAITABLES:
                self._unknown(node, first.value, late=True, at=first)
        elif len(node.args) == 2 and isinstance(node.args[1], ast.Dict):
            pairs = _literal_pairs(node.args[1])
            if pairs is not None:
                self._check_pairs(node, first.value, pairs, set())

    def _unknown(
        self, node: ast.expr, name: str, *, late: bool, at: ast.expr | None = None
    ) -> None:
        allowed = list_names(self._tools, _NAMES_CHARS)
        if name in self._denied:
            effect = ": it has a side effect" if self._denied[name] else ""
            text = f"tool {name!r} is not allowed in this run{effect}; allowed: {allowed}"
            hint = _ALLOW.format(name=name)
            self._add(node, "not_allowed", text, hint, late=late, at=at)
            return
        close = difflib.get_close_matches(name, list(self._tools), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else ""
        if name in _CALLERS:
            hint = BY_NAME
        text = f"there is no tool {name!r}; allowed: {allowed}"
        self._add(node, "unknown_tool", text, hint, late=late, at=at)

    def _check_arguments(
        self, node: ast.Call, name: str, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> None:
        parameters = Signature(*self._tools[name]).parameters
        if any(isinstance(a, ast.Starred) for a in args) or any(k.arg is None for k in keywords):
            return
        only = args[0] if len(args) == 1 and not keywords else None
        if only is not None and _may_be_dict(only):
            # A single dict holds the arguments; only a literal has known keys.
            pairs = _literal_pairs(only) if isinstance(only, ast.Dict) else None
            if pairs is None:
                return
            if pairs and {key for key, _, _ in pairs} <= set(parameters):
                self._check_pairs(node, name, pairs, set())
                return
        if len(args) > len(parameters):
            text = f"{name} takes at most {len(parameters)} arguments: {', '.join(parameters)}"
            self._add(node, "too_many_arguments", text, "")
            return
        named: list[_Pair] = [(str(k.arg), k.value, k) for k in keywords]
        positional = [(key, value, value) for key, value in zip(parameters, args, strict=False)]
        twice = {key for key, _, _ in positional} & {key for key, _, _ in named}
        if twice:
            text = f"{name} got two values for {', '.join(sorted(twice))}"
            self._add(node, "duplicate_argument", text, "")
            return
        self._check_pairs(node, name, named, set(parameters[: len(args)]))
        for key, value, _ in positional:
            self._check_literal(node, name, key, value)

    def _check_pairs(
        self, node: ast.Call, name: str, pairs: list[_Pair], positional: set[str]
    ) -> None:
        """Check the named arguments of a call, and that none is missing."""
        signature = Signature(*self._tools[name])
        for key, value, at in pairs:
            if signature.closed and key not in signature.parameters:
                close = difflib.get_close_matches(key, signature.parameters, n=1, cutoff=0.5)
                listed = ", ".join(signature.parameters)
                hint = f"did you mean {close[0]}?" if close else f"its parameters: {listed}"
                text = f"{name} has no parameter {key!r}"
                self._add(node, "unknown_argument", text, hint, late=True, at=at)
            else:
                self._check_literal(node, name, key, value)
        missing = {*signature.required} - {key for key, _, _ in pairs} - positional
        if missing:
            listed = ", ".join(p for p in signature.parameters if p in missing)
            self._add(node, "missing_argument", f"{name} needs {listed}", "", late=True)

    def _check_literal(self, node: ast.Call, name: str, key: str, value: ast.expr) -> None:
        words, kinds = Signature(*self._tools[name]).refused.get(key, ("", ""))
        kind = literal_kind(value)
        if kind is not None and set(kind) <= set(kinds):
            text = f"{key!r} of {name} takes {words}, not {_KINDS[kind[0]]}"
            self._add(node, "wrong_type", text, "", late=True, at=value)

    # --- an awaitable used as a value ------------------------------------------------------------

    def _awaitable_call(self, node: ast.AST | None) -> str | None:
        if not self._in_async or not isinstance(node, ast.Call):
            return None
        name = self._tool_of(node.func)
        if name is None or name in _AWAITABLES or name == "call":
            return name
        return name if name not in OWN and name in self._tools else None

    def _check_operands(self, operands: Sequence[ast.AST]) -> None:
        """Check expressions that are used as values."""
        for child in operands:
            name = self._awaitable_call(child)
            if name is not None:
                text = f"the result of ctx.{name}(...) is used without await"
                self._add(child, "missing_await", text, f"write (await ctx.{name}(...))")

    def _check_assignment(self, node: ast.Assign) -> bool:
        self._note_call(node.targets[0], node.value)
        return True

    def _note_call(self, target: ast.expr, value: ast.expr | None) -> None:
        name = self._awaitable_call(value)
        if name is not None and isinstance(target, ast.Name):
            self._calls[self._function, target.id] = name

    def check_variables(self, tree: ast.Module) -> None:
        """Check variables that hold a call and are used as values; called after the walk.

        Only a variable that is bound nowhere else is certain to hold the call.
        """
        used = [(node, self._calls.get((where, node.id))) for where, node in self._arguments]
        if not any(tool for _, tool in used):
            return
        bound = Counter(name for node in ast.walk(tree) for name in bindings(node))
        for node, tool in used:
            if tool is not None and bound[node.id] == 1:
                text = f"{node.id} is a call of ctx.{tool} that was not awaited"
                fix = f"write {node.id} = await ctx.{tool}(...)"
                self._add(node, "missing_await", text, fix)

    def _check_statement(self, node: ast.Expr) -> bool:
        name = self._awaitable_call(node.value)
        if name is not None:
            text = f"the call of ctx.{name} is not awaited: it runs, but its error is lost"
            fix = f"write await ctx.{name}(...)"
            # The node itself is never certain: nothing fails.
            self._add(node, "not_awaited", text, fix, late=True, at=node.value)
        return True

    def _add(
        self,
        node: ast.AST,
        code: str,
        message: str,
        hint: str,
        *,
        late: bool = False,
        at: Any = None,
    ) -> None:
        finding = finding_at(node if at is None else at, self._lines, code, message, hint)
        self.found.append((node, late, finding))


_Pair = tuple[str, ast.expr, ast.AST]
"""Name of an argument, its value, and the node to point at."""


def _may_be_dict(node: ast.AST) -> bool:
    return literal_kind(node) in (None, "o") and not isinstance(node, ast.BinOp)


def _literal_pairs(node: ast.Dict) -> list[_Pair] | None:
    """Return the arguments in a dict display; None if a key is not a literal."""
    pairs: list[_Pair] = [
        (key.value, value, node)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]
    return pairs if len(pairs) == len(node.keys) else None


_KINDS: Final = {
    "t": "text", "d": "text", "i": "a number", "f": "a number", "b": "a bool", "n": "None",
    "l": "a list", "o": "a dict",
}  # fmt: skip


def literal_kind(node: ast.AST) -> str | None:
    """Return the possible kinds of a literal; None if `node` is not one.

    ``t``: text, ``d``: text that may be a number, ``i``, ``f``, ``b``, ``n``: None, ``l``: a list,
    ``o``: an object.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.Constant):
        return _constant_kind(node.value)
    if isinstance(node, ast.JoinedStr):
        return "td"
    if isinstance(node, ast.List | ast.ListComp | ast.Tuple):
        return "l"
    return "o" if isinstance(node, ast.Dict | ast.DictComp) else None


def _constant_kind(value: object) -> str | None:
    if isinstance(value, str):
        return "d" if any(map(str.isdigit, value)) else "t"
    kinds: dict[type, str] = {bool: "b", int: "i", float: "f", type(None): "n"}
    return kinds.get(type(value))


_BINDERS: Final[dict[type, Callable[[Any], str | None]]] = {
    ast.FunctionDef: lambda node: node.name,
    ast.AsyncFunctionDef: lambda node: node.name,
    ast.ClassDef: lambda node: node.name,
    ast.alias: lambda node: (node.asname or node.name).partition(".")[0],
    ast.ExceptHandler: lambda node: node.name,
    ast.MatchAs: lambda node: node.name,
    ast.MatchStar: lambda node: node.name,
    ast.MatchMapping: lambda node: node.rest,
}
"""By type of node: the name that it binds. A parameter is not among them (`_certainty`)."""
_CHECKS: Final[dict[type, Callable[[_Finder, Any], bool]]] = {
    **dict.fromkeys(_BINDERS, _Finder._check_binding),
    ast.Name: _Finder._check_name,
    ast.FunctionDef: _Finder._check_function,
    ast.AsyncFunctionDef: _Finder._check_function,
    ast.Lambda: _Finder._check_lambda,
    ast.AnnAssign: _Finder._check_annotated,
    ast.Assign: _Finder._check_assignment,
    ast.Attribute: _Finder._check_attribute,
    ast.Call: _Finder._check_call,
    ast.Expr: _Finder._check_statement,
}
"""Checks by type of node."""
