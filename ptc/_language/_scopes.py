"""Names that a script binds and reads, found in the whole tree before it is transformed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .._dataclass import dataclass

__all__ = [
    "CHILDLESS",
    "ClassScope",
    "Survey",
    "add_children",
    "bindings",
    "class_names",
    "outer_loads",
    "survey",
]


@dataclass(frozen=True, slots=True)
class ClassScope:
    """Names bound in the body of one class."""

    #: All of them, mangled as in CPython.
    bound: frozenset[str]
    #: Those with a leading underscore: they become attributes, so they are renamed.
    private: frozenset[str]


_BINDERS = {
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.alias, ast.ExceptHandler,
    ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Global, ast.Nonlocal,
    # PEP 695 type parameters (3.12)
    *(kind for name, kind in vars(ast).items() if name in {"TypeVar", "TypeVarTuple", "ParamSpec"}),
}  # fmt: skip
"""Nodes that bind a name, beside `ast.Name`."""


_LEAVES: Final = frozenset({str, int, type(None)})
CHILDLESS: Final = frozenset({
    ast.Constant, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.Load, ast.Store,
    ast.Del, type(None), *ast.operator.__subclasses__(), *ast.cmpop.__subclasses__(),
    *ast.unaryop.__subclasses__(), *ast.boolop.__subclasses__(),
} - _BINDERS)  # fmt: skip
"""Nodes, and the None in a list of nodes, that neither bind a name nor have children."""


def bindings(node: ast.AST) -> Iterator[str]:
    """Yield the names that this node itself binds, not its children."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg(arg=name):
            yield name
        case ast.alias():
            yield node.asname or node.name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Global() | ast.Nonlocal():
            yield from node.names
        case _:
            # PEP 695 type parameters (3.12).
            if type(node).__name__ in {"TypeVar", "TypeVarTuple", "ParamSpec"}:
                yield node.name  # type: ignore[attr-defined]  # the nodes are newer than 3.11


@dataclass(frozen=True, slots=True)
class Survey:
    """Facts about all nodes of a module, gathered in one pass."""

    #: Every name that is bound anywhere.
    bound: frozenset[str]
    #: Every name that is read as a variable anywhere.
    read: frozenset[str]
    #: Names that refer to one imported module wherever they occur, with the module.
    aliases: Mapping[str, str]
    #: Depth of the tree.
    depth: int
    #: True if there is a `yield` anywhere.
    yields: bool


def survey(tree: ast.Module) -> Survey:
    """Visit every node once, level by level."""
    read: set[str] = set()
    bound: set[str] = set()
    modules: dict[str, set[str]] = {}
    yields = False
    depth = 0
    level: list[Any] = [tree]
    while level:
        depth += 1
        below: list[Any] = []
        for node in level:
            kind = type(node)
            if kind is ast.Name:
                (read if type(node.ctx) is ast.Load else bound).add(node.id)
                continue
            if kind in CHILDLESS:
                continue
            if kind is ast.Import:
                _add_modules(node, modules)
                continue
            if kind in _BINDERS:
                bound.update(bindings(node))
            elif kind in _YIELDS:
                yields = True
            add_children(node, below)
        level = below
    aliases = {
        name: next(iter(meant))
        for name, meant in modules.items()
        if len(meant) == 1 and name not in bound
    }
    return Survey(frozenset(bound | modules.keys()), frozenset(read), aliases, depth, yields)


_YIELDS: Final = frozenset({ast.Yield, ast.YieldFrom})


def _add_modules(node: ast.Import, modules: dict[str, set[str]]) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        modules.setdefault(name, set()).add(alias.name if alias.asname else name)


def add_children(node: ast.AST, below: list[Any]) -> None:
    """Add the nodes directly below `node` to `below`; among them may be None."""
    for field in node._fields:
        value = getattr(node, field, None)
        part = type(value)
        if part is list:
            # Either nodes (and None) or names, never mixed.
            if value and type(value[0]) is not str:
                below += value
        elif part not in _LEAVES and isinstance(value, ast.AST):
            below.append(value)


_OWN_SCOPE = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def _same_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a class body that bind in the class itself."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not isinstance(node, _OWN_SCOPE):
            todo.extend(ast.iter_child_nodes(node))


def class_names(body: list[ast.stmt], mangle: Callable[[str], str]) -> frozenset[str]:
    """Return the names that a class body binds as attributes of the class."""
    bound: set[str] = set()
    elsewhere: set[str] = set()
    for node in _same_scope(body):
        names = {mangle(name) for name in bindings(node)}
        (elsewhere if isinstance(node, ast.Global | ast.Nonlocal) else bound).update(names)
    return frozenset(bound - elsewhere)


def outer_loads(body: list[ast.stmt]) -> set[ast.AST]:
    """Return the names that a class body reads before it binds them, as in ``_x = _x``.

    Only simple statements are considered: a loop may execute in another order than it is written.
    """
    found: set[ast.AST] = set()
    bound: set[str] = set()
    for statement in body:
        names = {name for node in _same_scope([statement]) for name in bindings(node)}
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            args = statement.args
            read: list[ast.AST] = [*statement.decorator_list, *args.defaults]
            read += [default for default in args.kw_defaults if default is not None]
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
            read = [statement]
        else:
            read = []
        walrus = {name for node in ast.walk(statement) for name in _walrus_targets(node)}
        for root in read:
            for node in ast.walk(root):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    found |= {node} if node.id not in bound | walrus else set()
        bound |= names
    return found


def _walrus_targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.NamedExpr):
        yield node.target.id
