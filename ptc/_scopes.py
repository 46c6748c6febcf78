"""What a script binds, and where: the four questions the transformer asks about a whole tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["ClassScope", "bound_names", "class_bound", "module_aliases", "outer_loads"]


@dataclass(frozen=True, slots=True)
class ClassScope:
    """Names bound in the body of one class."""

    #: All of them, mangled as Python does.
    bound: frozenset[str]
    #: Those with a leading underscore: they become attributes, so they are renamed.
    private: frozenset[str]


def _bindings(node: ast.AST) -> Iterator[str]:
    """Names that this node itself binds, not its children."""
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
            # PEP 695 type parameters (3.12) and whatever a later Python calls by a `name`.
            if type(node).__name__ in {"TypeVar", "TypeVarTuple", "ParamSpec"}:
                yield node.name  # type: ignore[attr-defined]  # the nodes are newer than 3.11


def bound_names(tree: ast.AST) -> frozenset[str]:
    """Every name that is bound anywhere in `tree`."""
    return frozenset(name for node in ast.walk(tree) for name in _bindings(node))


_OWN_SCOPE = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def _same_scope(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Nodes of a class body that bind in the class itself."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not isinstance(node, _OWN_SCOPE):
            todo.extend(ast.iter_child_nodes(node))


def class_bound(body: list[ast.stmt], mangle: Callable[[str], str]) -> frozenset[str]:
    """Names that a class body binds as attributes of the class."""
    bound: set[str] = set()
    elsewhere: set[str] = set()
    for node in _same_scope(body):
        names = {mangle(name) for name in _bindings(node)}
        (elsewhere if isinstance(node, ast.Global | ast.Nonlocal) else bound).update(names)
    return frozenset(bound - elsewhere)


def outer_loads(body: list[ast.stmt]) -> set[ast.AST]:
    """Names that a class body reads before it binds them: ``_x = _x`` reads the outer one.

    Only plain statements are told apart: a loop may run in another order than it is written.
    """
    found: set[ast.AST] = set()
    bound: set[str] = set()
    for statement in body:
        names = {name for node in _same_scope([statement]) for name in _bindings(node)}
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            args = statement.args
            read: list[ast.AST] = [*statement.decorator_list, *args.defaults]
            read += [default for default in args.kw_defaults if default is not None]
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
            read = [statement]
        else:
            read = []
        walrus = {name for node in ast.walk(statement) for name in _walrus(node)}
        for root in read:
            for node in ast.walk(root):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    found |= {node} if node.id not in bound | walrus else set()
        bound |= names
    return found


def _walrus(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.NamedExpr):
        yield node.target.id


def module_aliases(tree: ast.Module, bound: frozenset[str]) -> dict[str, str]:
    """Names that mean one imported module wherever they occur in the script."""
    meanings: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else name
                meanings.setdefault(name, set()).add(module)
        elif not isinstance(node, ast.alias):
            for name in _bindings(node):
                meanings.setdefault(name, set()).add("")
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                meanings.setdefault(alias.asname or alias.name, set()).add("")
    return {
        name: next(iter(modules))
        for name, modules in meanings.items()
        if name in bound and len(modules) == 1 and "" not in modules
    }
