"""Which lines of a script are bound to be reached, with nothing that catches their errors.

A script is refused for an error only if no execution of it is meant to survive the error. So a line
is *not* certain if

* a handler, `suppress`, or ``return_exceptions=True`` may catch its error;
* it is in a branch whose condition depends on the inputs, on `ctx`, on constants or on a parameter
  of the function: an option, which may be off. The same holds for what follows an early exit of
  such a branch;
* it is in a function that no certain line calls, or it cannot be reached.

A branch on data that tools returned is assumed to be taken, and a loop to be entered: whether it
happens is known only after calls were made.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from .._dataclass import dataclass
from .._language._entry import name_of_inputs

__all__ = ["certain_nodes"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_RAISED: Final = (AttributeError, TypeError, BaseExceptionGroup)
"""Exceptions of wrong calls, beside `ToolError`. A group is what a `TaskGroup` makes of them."""
_WAITING: Final = frozenset({"gather", "wait_for", "shield"})
"""Functions of `asyncio` that raise the error of a call when they are awaited."""
_CATCHES: Final = frozenset({"add_done_callback", "exception", "suppress", "wait"})
"""Names that point to errors being collected rather than raised."""
_EXITS: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def certain_nodes(
    tree: ast.Module, run: ast.AST | None, ctx: str, nodes: Mapping[ast.AST, bool]
) -> set[ast.AST]:
    """Return those of `nodes` that the script is bound to reach and whose errors end it.

    Args:
        tree: The script.
        run: Its function `run`; None: a top-level script.
        ctx: Name of the context in the script.
        nodes: The nodes; True: the error is raised when the call is awaited.
    """
    facts = _Facts.of(tree, run, ctx)
    module = _Scope(tree, is_certain=True)
    _Walker(facts, nodes, module).visit_block(tree.body, certain=True)
    _spread_certainty(facts, run)
    return {
        node
        for scope in facts.scopes
        for node, certain in scope.targets
        if certain and scope.is_certain
    }


@dataclass(slots=True, eq=False)
class _Scope:
    """A function, a lambda or the module."""

    node: ast.AST
    is_certain: bool = False
    targets: list[tuple[ast.AST, bool]] = field(default_factory=list)
    """The nodes in it, with True if the scope is bound to reach them."""
    mentions: list[_Mention] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mention:
    """A certain mention of a name."""

    name: str
    call: ast.Call | None
    """The call of it, if its error is raised at once or awaited there."""


@dataclass(slots=True)
class _Facts:
    """Facts about the whole script."""

    ctx: str
    options: frozenset[str]
    """Names whose values do not depend on tools."""
    tolerant: bool
    """True if the script has anything that catches or collects errors."""
    own_with: bool
    """True if the script defines context managers."""
    scopes: list[_Scope]

    @classmethod
    def of(cls, tree: ast.Module, run: ast.AST | None, ctx: str) -> _Facts:
        inputs = name_of_inputs(run if isinstance(run, _FUNCTIONS) else None)
        parameters = {
            arg.arg
            for node in ast.walk(tree)
            if isinstance(node, ast.arguments) and node is not getattr(run, "args", None)
            for arg in [*node.posonlyargs, *node.args, *node.kwonlyargs]
        }
        fixed = {inputs, "TYPE_CHECKING", *parameters} - {ctx}
        facts = cls(ctx, frozenset(fixed | ({"__name__"} if run else set())), False, False, [])
        facts.options = frozenset(_find_options(tree, facts))
        facts.own_with = any(map(_defines_manager, ast.walk(tree)))
        facts.tolerant = facts.own_with or any(map(_tolerates, ast.walk(tree)))
        return facts

    def is_option(self, test: ast.AST) -> bool:
        """True if a condition may be chosen, rather than follow from the results of tools."""
        if isinstance(test, ast.Constant):
            return True
        todo: list[ast.AST] = [test]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Name) and (node.id in self.options or node.id == self.ctx):
                return True
            called = node.value if isinstance(node, ast.Await) else node
            if isinstance(called, ast.Call) and _is_on(called.func, self.ctx):
                assert isinstance(called.func, ast.Attribute)  # noqa: S101  # `_is_on`
                if called.func.attr in {"search_tools", "describe"}:
                    return True
            elif not isinstance(node, ast.Await):
                todo.extend(ast.iter_child_nodes(node))
        return False


def _is_on(node: ast.AST, ctx: str) -> bool:
    """True for ``ctx.name`` and ``ctx.a.b``."""
    found = isinstance(node, ast.Attribute)
    while isinstance(node, ast.Attribute):
        node = node.value
    return found and isinstance(node, ast.Name) and node.id == ctx


def _find_options(tree: ast.Module, facts: _Facts) -> set[str]:
    """Return the names that hold options: every value they are given is a constant or an option."""
    values: dict[str, list[ast.AST | None]] = {}
    for node in ast.walk(tree):
        for target, value in _assignments(node):
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    values.setdefault(name.id, []).append(value)
    found = set(facts.options)
    while True:
        more = {
            name
            for name, given in values.items()
            if name not in found and all(v is not None and facts.is_option(v) for v in given)
        }
        if not more:
            return found
        found |= more
        facts.options = frozenset(found)


def _assignments(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Yield the targets that a node assigns to, with the value; None: it depends on others."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield target, value
        case ast.NamedExpr(target=target, value=value) | ast.For(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.AugAssign(target=target):
            yield target, None
        case ast.AsyncFor(target=target) | ast.withitem(optional_vars=ast.AST() as target):
            yield target, None


def _defines_manager(node: ast.AST) -> bool:
    if isinstance(node, _FUNCTIONS):
        return node.name in {"__exit__", "__aexit__"}
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name in {"contextmanager", "asynccontextmanager", "ExitStack", "AsyncExitStack"}


def _tolerates(node: ast.AST) -> bool:
    """True for a node that catches errors, or collects them instead of raising them."""
    match node:
        case ast.Try() | ast.keyword(arg="return_exceptions"):
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _CATCHES
        case ast.Expr(value=ast.Call(func=func)):
            # A task that nobody awaits: its error is lost.
            name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
            owner = func.value if isinstance(func, ast.Attribute) else None
            loose = not isinstance(owner, ast.Name) or owner.id == "asyncio"
            return name in {"create_task", "ensure_future"} and loose
    return isinstance(node, ast.TryStar)


def _may_catch(handler: ast.ExceptHandler) -> bool:
    """True unless the handler names only exceptions that a wrong call does not raise."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(map(_is_catching, kinds))


def _is_catching(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Attribute):
        return kind.attr not in {"CancelledError", "JSONDecodeError", "TimeoutError"}
    found = getattr(builtins, kind.id, None) if isinstance(kind, ast.Name) else None
    if not isinstance(found, type):
        return True  # ToolError, or a name of the script
    return any(issubclass(raised, found) or issubclass(found, raised) for raised in _RAISED)


class _Walker:
    """Walks over one scope and finds out what it is bound to reach."""

    def __init__(self, facts: _Facts, nodes: Mapping[ast.AST, bool], scope: _Scope) -> None:
        self._facts = facts
        self._nodes = nodes
        self._scope = scope
        self._left = False
        """True after an option that may have left the scope."""
        facts.scopes.append(scope)

    def visit_block(self, body: Iterable[ast.stmt], *, certain: bool) -> None:
        for statement in body:
            self._statement(statement, certain=certain and not self._left)
            if isinstance(statement, _EXITS):
                certain = False

    def _statement(self, node: ast.stmt, *, certain: bool) -> None:
        visit = _STATEMENTS.get(type(node), _Walker._expressions)
        visit(self, node, certain=certain)

    def _class(self, node: ast.ClassDef, *, certain: bool) -> None:
        self.visit_block(node.body, certain=certain)

    def _if(self, node: ast.If, *, certain: bool) -> None:
        self._branch(node.test, [node.body, node.orelse], certain=certain)

    def _match(self, node: ast.Match, *, certain: bool) -> None:
        self._branch(node.subject, [case.body for case in node.cases], certain=certain)

    def _while(self, node: ast.While, *, certain: bool) -> None:
        if isinstance(node.test, ast.Constant) and node.test.value:
            self.visit_block(node.body, certain=certain)
        else:
            self._branch(node.test, [node.body], certain=certain)
        self.visit_block(node.orelse, certain=False)

    def _for(self, node: ast.For | ast.AsyncFor, *, certain: bool) -> None:
        self._expressions(node.iter, certain=certain)
        self.visit_block(node.body, certain=certain)
        self.visit_block(node.orelse, certain=False)

    def _with(self, node: ast.With | ast.AsyncWith, *, certain: bool) -> None:
        caught = self._facts.own_with
        for item in node.items:
            self._expressions(item.context_expr, certain=certain)
            caught = caught or any(map(_tolerates, ast.walk(item.context_expr)))
        self.visit_block(node.body, certain=certain and not caught)

    def _try_star(self, node: ast.stmt, *, certain: bool) -> None:
        """Visit nothing: what it catches is not analysed."""

    def _branch(self, test: ast.expr, bodies: list[list[ast.stmt]], *, certain: bool) -> None:
        self._expressions(test, certain=certain)
        option = self._facts.is_option(test)
        for body in bodies:
            self.visit_block(body, certain=certain and not option)
        if option and any(
            isinstance(n, _EXITS) for body in bodies for s in body for n in ast.walk(s)
        ):
            self._left = True

    def _try(self, node: ast.Try, *, certain: bool) -> None:
        exits = any(isinstance(n, _EXITS) for s in node.finalbody for n in ast.walk(s))
        caught = exits or any(map(_may_catch, node.handlers))
        self.visit_block(node.body, certain=certain and not caught)
        for handler in node.handlers:
            self.visit_block(handler.body, certain=False)
        # A handler may have left the scope.
        self.visit_block(node.orelse, certain=certain and not exits)
        self.visit_block(node.finalbody, certain=certain)

    def _define(self, node: _Function, *, certain: bool) -> None:
        for part in [*node.decorator_list, *node.args.defaults]:
            self._expressions(part, certain=certain)
        _Walker(self._facts, self._nodes, _Scope(node)).visit_block(node.body, certain=True)

    # --- expressions ----------------------------------------------------------------------------

    def _expressions(self, node: ast.AST, *, certain: bool, raised: bool = False) -> None:
        """Visit an expression, or a statement without others in it.

        Args:
            node: The expression.
            certain: True if the scope is bound to evaluate it.
            raised: True if the error of a call is raised here, because it is awaited.
        """
        if node in self._nodes:
            self._scope.targets.append((node, certain and (raised or not self._nodes[node])))
        visit = _EXPRESSIONS.get(type(node), _Walker._others)
        visit(self, node, certain=certain, raised=raised)

    def _others(self, node: ast.AST, *, certain: bool, raised: bool) -> None:
        self._children(node, certain=certain)

    def _await(self, node: ast.Await, *, certain: bool, raised: bool) -> None:
        self._expressions(node.value, certain=certain, raised=True)

    def _lambda(self, node: ast.Lambda, *, certain: bool, raised: bool) -> None:
        # Called by the function that receives it, which may catch its error.
        if certain and not self._facts.tolerant:
            self._scope.mentions.append(_Mention(_name_of(node), None))
        _Walker(self._facts, self._nodes, _Scope(node))._expressions(node.body, certain=True)

    def _choice(self, node: ast.IfExp, *, certain: bool, raised: bool) -> None:
        self._expressions(node.test, certain=certain)
        chosen = certain and not self._facts.is_option(node.test)
        self._expressions(node.body, certain=chosen, raised=raised)
        self._expressions(node.orelse, certain=chosen, raised=raised)

    def _and_or(self, node: ast.BoolOp, *, certain: bool, raised: bool) -> None:
        for value in node.values:
            self._expressions(value, certain=certain)
            certain = certain and not self._facts.is_option(value)

    def _name(self, node: ast.Name | ast.Attribute, *, certain: bool, raised: bool) -> None:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node.ctx, ast.Load):
            self._mention(name, None, certain=certain)
        self._children(node, certain=certain)

    def _children(self, node: ast.AST, *, certain: bool, raised: bool = False) -> None:
        for child in ast.iter_child_nodes(node):
            self._expressions(child, certain=certain, raised=raised)

    def _call(self, node: ast.Call, *, certain: bool, raised: bool) -> None:
        func = node.func
        name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
        if isinstance(func, ast.Name):
            # An await matters only if the function is async.
            self._mention(name, node, certain=certain, raised=raised)
        else:
            self._expressions(func, certain=certain)
        collected = any(map(_tolerates, node.keywords))
        waits = name in _WAITING if raised else name == "run" and _is_on(func, "asyncio")
        passes_on = waits and not collected
        for part in [*node.args, *node.keywords]:
            self._expressions(part, certain=certain, raised=passes_on)

    def _comprehension(
        self,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
        *,
        certain: bool,
        raised: bool,
    ) -> None:
        for generator in node.generators:
            self._expressions(generator.iter, certain=certain)
            for test in generator.ifs:
                self._expressions(test, certain=certain)
                certain = certain and not self._facts.is_option(test)
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for part in made:
            self._expressions(part, certain=certain, raised=raised)

    def _mention(
        self, name: str, call: ast.Call | None, *, certain: bool, raised: bool = False
    ) -> None:
        if certain:
            self._scope.mentions.append(_Mention(name, call))
            if raised:
                self._scope.mentions.append(_Mention(f"await {name}", call))


def _name_of(node: ast.AST) -> str:
    """Return the name by which a scope is mentioned; a lambda has a name of its own."""
    return node.name if isinstance(node, _FUNCTIONS) else f"lambda {id(node)}"


def _spread_certainty(facts: _Facts, run: ast.AST | None) -> None:
    """Mark the functions that a certain line calls, until there are no more."""
    for scope in facts.scopes:
        if scope.node is run and isinstance(run, _FUNCTIONS):
            scope.is_certain = not run.decorator_list
    todo = [scope for scope in facts.scopes if scope.is_certain]
    by_name: dict[str, list[_Scope]] = {}
    for scope in facts.scopes:
        if not isinstance(scope.node, ast.Module):
            by_name.setdefault(_name_of(scope.node), []).append(scope)
    while todo:
        for mention in todo.pop().mentions:
            found = by_name.get(mention.name.removeprefix("await "), ())
            # Of two functions with one name, either may be meant.
            for scope in found if len(found) == 1 else ():
                if not scope.is_certain and _reaches(facts, mention, scope.node):
                    scope.is_certain = True
                    todo.append(scope)


def _reaches(facts: _Facts, mention: _Mention, function: ast.AST) -> bool:
    """True if a mention is bound to execute the function, with nothing that catches its errors."""
    if not isinstance(function, _FUNCTIONS):
        # A lambda: `_expressions` has checked the rest.
        return isinstance(function, ast.Lambda) and all(
            parameter.arg != facts.ctx for parameter in function.args.args
        )
    parameters = [*function.args.posonlyargs, *function.args.args]
    names = [parameter.arg for parameter in parameters]
    takes = facts.ctx in [*names, *(p.arg for p in function.args.kwonlyargs)]
    if takes and (mention.call is None or not _passes(mention.call, facts.ctx, names)):
        return False
    if not facts.tolerant:
        return True
    if function.decorator_list or mention.call is None or _yields(function):
        return False
    return mention.name.startswith("await ") or isinstance(function, ast.FunctionDef)


def _passes(call: ast.Call, ctx: str, names: list[str]) -> bool:
    """True if a call passes `ctx` under its own name."""
    at = names.index(ctx) if ctx in names else len(call.args)
    positional = call.args[at : at + 1] if not any(map(_is_starred, call.args)) else []
    given = [*positional, *(k.value for k in call.keywords if k.arg == ctx)]
    return any(isinstance(value, ast.Name) and value.id == ctx for value in given)


def _is_starred(node: ast.AST) -> bool:
    return isinstance(node, ast.Starred)


def _yields(function: _Function) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


_STATEMENTS: Final[dict[type, Any]] = {
    ast.FunctionDef: _Walker._define,
    ast.AsyncFunctionDef: _Walker._define,
    ast.ClassDef: _Walker._class,
    ast.If: _Walker._if,
    ast.Match: _Walker._match,
    ast.While: _Walker._while,
    ast.For: _Walker._for,
    ast.AsyncFor: _Walker._for,
    ast.With: _Walker._with,
    ast.AsyncWith: _Walker._with,
    ast.Try: _Walker._try,
    ast.TryStar: _Walker._try_star,
}
_EXPRESSIONS: Final[dict[type, Any]] = {
    ast.Await: _Walker._await,
    ast.Lambda: _Walker._lambda,
    ast.Call: _Walker._call,
    ast.IfExp: _Walker._choice,
    ast.BoolOp: _Walker._and_or,
    ast.Name: _Walker._name,
    ast.Attribute: _Walker._name,
    ast.ListComp: _Walker._comprehension,
    ast.SetComp: _Walker._comprehension,
    ast.GeneratorExp: _Walker._comprehension,
    ast.DictComp: _Walker._comprehension,
    ast.Starred: _Walker._children,
    ast.List: _Walker._children,
    ast.Tuple: _Walker._children,
}
