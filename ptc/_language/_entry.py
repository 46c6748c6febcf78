"""The entry point of a script: its function `run`, or its top level.

Rule 1: `run` is called with the parameters that it takes, `ctx` and `inputs`, and no others
    (test_entry_point_is_required_and_checked).
Rule 2: variables that the compiler adds cannot be spelled in source, since they contain "@".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from .._wire._messages import Finding

__all__ = [
    "RETURN_PLACE",
    "SOURCE",
    "TOP_LEVEL_VALUE",
    "Entry",
    "bind_value",
    "final_assignments",
    "find_entry",
    "keep_source",
    "name_of_ctx",
    "name_of_inputs",
    "note_returns",
]

TOP_LEVEL_VALUE: Final = "@value"
"""Variable with the value of a top-level script."""
RETURN_PLACE: Final = "@place"
"""Variable with the position of the value: first and last line, first and last column.

Columns are 1-based and in bytes of UTF-8, as `Failure` frames have them.
"""

SOURCE: Final = "@source"
"""Variable with the source, in a script that shows tracebacks."""

Entry = Literal["async", "sync", "top_level"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom,
)  # fmt: skip
_ASSIGNMENTS: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def find_entry(
    tree: ast.Module, *, require_run: bool, yields: bool
) -> tuple[Entry | None, list[Finding]]:
    """Find the top-level `run`, the last one if there are several, and check its signature."""
    found = _find_run(tree)
    if found is None:
        if require_run and _is_top_level_script(tree):
            return "top_level", []
        return None, [_missing_run(tree)] if require_run else []
    kind: Literal["async", "sync"] = "async" if isinstance(found, ast.AsyncFunctionDef) else "sync"
    if not require_run:
        return kind, []
    findings = []
    if not _is_callable(found.args):
        name = "async def" if kind == "async" else "def"
        message = "`run` is called with (ctx, inputs)"
        findings.append(_finding(found, message, f"write `{name} run(ctx, inputs)`"))
    elif yields:
        findings += _find_yield(found)
    return kind, findings


def _find_run(tree: ast.Module) -> _Function | None:
    found = [n for n in tree.body if isinstance(n, _Function) and n.name == "run"]
    return found[-1] if found else None


def _missing_run(tree: ast.Module) -> Finding:
    hint = "write `async def run(ctx, inputs): ...` at the top level"
    if any(isinstance(node, _Function) and node.name == "main" for node in tree.body):
        hint = "rename `main` to `run`: it is called with (ctx, inputs)"
    return Finding("no_run", "the script defines no function `run`", 0, 0, 0, 0, hint)


def _is_top_level_script(tree: ast.Module) -> bool:
    """True if the top level of the script has more than definitions.

    A script of functions and constants without a `run` lacks its entry point.
    """
    has_functions = any(isinstance(node, _Function) for node in tree.body)
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            continue
        if isinstance(node, ast.Expr):
            text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            if not text or node is not tree.body[0]:  # the first text is the docstring
                return True
        elif isinstance(node, _ASSIGNMENTS):
            calls = any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(node))
            if calls or not has_functions:
                return True
        else:
            return True
    return False


def _is_callable(args: ast.arguments) -> bool:
    """True if a function can be called with `ctx` and `inputs`, or with fewer arguments."""
    required = len(args.posonlyargs) + len(args.args) - len(args.defaults)
    named = [
        arg.arg
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if default is None
    ]
    return required <= 2 and {"ctx", "inputs"}.issuperset(named)


def name_of_ctx(run: _Function | None) -> str:
    """Return the name of `ctx` in `run`: that of the parameter that receives it, or the global."""
    return _parameters_of(run)[0]


def name_of_inputs(run: _Function | None) -> str:
    """Return the name of `inputs` in `run`, likewise."""
    return _parameters_of(run)[1]


def _parameters_of(run: _Function | None) -> tuple[str, str]:
    parameters = [*run.args.posonlyargs, *run.args.args] if run is not None else []
    names = [parameter.arg for parameter in parameters[:2]]
    if names[:1] == ["inputs"]:
        return (names[1] if len(names) > 1 else "ctx"), "inputs"
    return (names[0] if names else "ctx"), (names[1] if len(names) > 1 else "inputs")


def _find_yield(run: _Function) -> list[Finding]:
    """Refuse a `run` with a `yield`, which would return a generator and do nothing."""
    for node in _nodes_of(run):
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return [_finding(node, "`run` may not yield", _COLLECT)]
    return []


_COLLECT: Final = "collect the values in a list and return it"


def _nodes_of(run: _Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of the functions and classes in it."""
    todo: list[ast.AST] = list(run.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo.extend(ast.iter_child_nodes(node))


def _finding(node: ast.stmt | ast.expr, message: str, hint: str) -> Finding:
    line, column = node.lineno, node.col_offset + 1
    return Finding("bad_run", message, line, column, line, column, hint)


# ---------------------------------------------------------------------------------------------
# The value and its position


def bind_value(tree: ast.Module) -> None:
    """Bind the value of a top-level script: its last expression or assignment, else None."""
    for body, at in list(_find_tails(tree.body)):
        last = body[at]
        place = _assign(RETURN_PLACE, _place_of(last), last)
        if isinstance(last, ast.Expr):
            body[at : at + 1] = [place, _assign(TOP_LEVEL_VALUE, last.value, last)]
            continue
        target = last.targets[0] if isinstance(last, ast.Assign) else getattr(last, "target", None)
        value = _as_value(target)
        if value is not None:
            body[at + 1 : at + 1] = [place, _assign(TOP_LEVEL_VALUE, value, last)]
        elif isinstance(last, ast.Assign):  # to an item or an attribute
            target = ast.Name(TOP_LEVEL_VALUE, ast.Store())
            last.targets.append(ast.copy_location(target, last))
            body.insert(at, place)
    _insert_first(tree, _assign(TOP_LEVEL_VALUE, ast.Constant(None), tree.body[0]))


def keep_source(tree: ast.Module, source: str) -> None:
    """Make a script that shows tracebacks hold its source: a worker with cached code has none."""
    if tree.body and any(word in source for word in _SHOWS_TRACEBACKS):
        _insert_first(tree, _assign(SOURCE, ast.Constant(source), tree.body[0]))


_SHOWS_TRACEBACKS: Final = ("traceback", "logging", "exc_info")


def _insert_first(node: ast.Module | _Function, statement: ast.stmt) -> None:
    """Insert a statement at the start of a body, after its docstring."""
    has_text = ast.get_docstring(node, clean=False) is not None
    node.body.insert(1 if has_text else 0, statement)


def note_returns(tree: ast.Module) -> None:
    """Make `run` store the position of the `return` that it executes."""
    run = _find_run(tree)
    if run is None:
        return
    found = False
    todo = [run.body]
    while todo:
        body = todo.pop()
        for at in reversed(range(len(body))):
            statement = body[at]
            if isinstance(statement, ast.Return):
                found = True
                body.insert(at, _assign(RETURN_PLACE, _place_of(statement), statement))
            elif not isinstance(statement, _SCOPES):
                todo += _bodies_of(statement)
    if found:
        _insert_first(run, ast.copy_location(ast.Global([RETURN_PLACE]), run.body[0]))


def _bodies_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a statement, at every depth of handlers and cases."""
    for name in _BODIES.intersection(node._fields):
        parts = getattr(node, name)
        if name in {"handlers", "cases"}:
            for part in parts:
                yield part.body
        else:
            yield parts


_BODIES: Final = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})


def final_assignments(tree: ast.Module) -> list[ast.Assign | ast.AnnAssign | ast.AugAssign]:
    """Return the assignments whose value is that of `tree`, if it is a top-level script."""
    if not _is_top_level_script(tree):
        return []
    tails = [body[at] for body, at in _find_tails(tree.body)]
    return [last for last in tails if isinstance(last, _ASSIGNMENTS)]


def _find_tails(body: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int]]:
    """Yield each statement that may be the last and have a value, as its list and index."""
    at = len(body) - 1
    while at > 0 and _exits(body[at]):
        at -= 1
    if at < 0:
        return
    last = body[at]
    if _has_value(last) or isinstance(last, ast.Expr):
        yield body, at
    for inner in _inner_bodies(last):
        yield from _find_tails(inner)


def _has_value(node: ast.stmt) -> bool:
    """True for an assignment whose value can be read again."""
    if isinstance(node, ast.AnnAssign | ast.AugAssign):
        return node.value is not None and isinstance(node.target, ast.Name)
    return isinstance(node, ast.Assign)


def _inner_bodies(last: ast.stmt) -> Iterable[list[ast.stmt]]:
    match last:
        case ast.If(body=body, orelse=orelse):
            return [body, orelse]
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return [body]
        case ast.Try(body=body, orelse=orelse, handlers=handlers):
            return [orelse or body, *(handler.body for handler in handlers)]
        case ast.Match(cases=cases):
            return [case.body for case in cases]
    return []


def _exits(node: ast.stmt) -> bool:
    """True for ``sys.exit(...)``, ``exit(...)`` and ``raise SystemExit``."""
    called: ast.AST | None = None
    names: set[str] = set()
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        names = {"exit", "quit"}
    elif isinstance(node, ast.Raise):
        called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        names = {"SystemExit"}
    return called is not None and getattr(called, "attr", getattr(called, "id", "")) in names


def _as_value(target: ast.expr | None) -> ast.expr | None:
    """Return an expression for the value of a target that is a variable, or several."""
    match target:
        case ast.Name(id=name):
            return ast.Name(name, ast.Load())
        case ast.Starred(value=inner):
            return _as_value(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            found = [value for part in parts if (value := _as_value(part)) is not None]
            return ast.Tuple(list(found), ast.Load()) if len(found) == len(parts) else None
    return None


def _assign(name: str, value: ast.expr, like: ast.stmt) -> ast.Assign:
    made = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), like)
    return ast.fix_missing_locations(made)


def _place_of(node: ast.stmt) -> ast.Constant:
    shown = node.value if isinstance(node, ast.Return | ast.Expr) and node.value else node
    line, end_line = shown.lineno, shown.end_lineno or shown.lineno
    columns = shown.col_offset + 1, (shown.end_col_offset or 0) + 1
    return ast.Constant((line, end_line, *columns))  # type: ignore[arg-type]  # compile() takes it
