"""Base of the transformer: findings, scopes and the names of variables.

Rule 1: a node without a visitor is refused (test_unknown_syntax_node_is_refused).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

from RestrictedPython.transformer import RestrictingNodeTransformer

from .._dataclass import dataclass
from . import _policy as policy
from ._scopes import ClassScope, survey

__all__ = ["Issue", "ScriptVisitor", "Visit", "guard_call"]

_Tree = TypeVar("_Tree", bound=ast.AST)
Visit: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Issue:
    """One refusal, with its node."""

    code: str
    message: str
    node: ast.AST
    hint: str = ""


class ScriptVisitor(RestrictingNodeTransformer):
    """Rewrites a module in place and collects every refusal in `issues`."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        self.issues: list[Issue] = []
        self._scopes: list[object] = []  # ClassScope or _FUNCTION, innermost last
        self._classes: list[str] = []  # names of the enclosing classes, for mangling
        self._assigned: set[ast.AST] = set()  # values that an assignment binds to a name
        self._called: set[ast.AST] = set()  # names that are called
        self.survey = survey(tree)
        self._lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )
        self._import_may_fail = 0
        self._may_not_run = 0
        self._checked: set[ast.AST] = set()  # targets whose value, names as text, was checked
        self._outer: set[ast.AST] = set()  # names in a class body that refer to an outer scope

    # -- visiting ------------------------------------------------------------------------------

    visitors: ClassVar[dict[type, Visit]] = {}
    """The visitor of each class of node; a class without one is refused."""

    def visit(self, node: ast.AST) -> Any:
        """Visit one node; return its replacement, a list of nodes, or None."""
        return self.visitors.get(type(node), _REFUSE)(self, node)

    def node_contents_visit(self, node: _Tree) -> _Tree:
        """Visit the children of a node, as the base class does, in half the time."""
        for field in node._fields:
            value = getattr(node, field, None)
            kind = type(value)
            if kind is list:
                # Either nodes (and None) or names, never mixed.
                if value and type(value[0]) is not str:
                    setattr(node, field, self._visit_all(value))
            elif kind not in _LEAVES and isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    # -- findings ------------------------------------------------------------------------------

    def refuse(self, node: ast.AST, code: str, message: str, hint: str = "") -> None:
        """Record a refusal."""
        self.issues.append(Issue(code, message, node, hint))

    def error(self, node: ast.AST, info: str) -> None:
        """Record a refusal by the base class."""
        self.refuse(node, "syntax_refused", info)

    def not_allowed(self, node: ast.AST) -> None:
        """Record syntax that is not part of the language of scripts."""
        name, hint = _SYNTAX.get(type(node).__name__, (type(node).__name__, ""))
        self.refuse(node, "syntax_refused", f"{name} is not available in a script", hint)

    # -- scopes --------------------------------------------------------------------------------

    @contextmanager
    def _scope(self, scope: object) -> Iterator[None]:
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()

    @property
    def _class_scope(self) -> ClassScope | None:
        scope = self._scopes[-1] if self._scopes else None
        return scope if isinstance(scope, ClassScope) else None

    def _mangle(self, name: str) -> str:
        return policy.mangle(name, self._classes[-1] if self._classes else None)

    def _refuse_prefix(self, node: ast.AST, name: str) -> bool:
        """Refuse a name of the form of a renamed one; return whether it was refused."""
        if not name.startswith(policy.PRIVATE_PREFIX):
            return False
        self.refuse(node, "name_refused", f"the name {name!r} is reserved")
        return True

    def _name(self, node: ast.AST, name: str, *, store: bool) -> str:
        """Check the variable `name` and return its name in the compiled script."""
        scope = self._class_scope
        if not policy.is_dunder(name):
            refused = self._refuse_prefix(node, name)
            mangled = self._mangle(name)
            if not refused and scope is not None and mangled in scope.private:
                return policy.rename(mangled)
            return mangled
        if scope is not None and (name in policy.DEFINABLE or name in policy.CLASS_DATA):
            if name in policy.NAMES_AS_TEXT and store and node not in self._checked:
                hint = f"write `{name} = (...)` with the names as text constants"
                self.refuse(node, "name_refused", f"{name} must be assigned alone", hint)
            if store or name in scope.bound:
                return name
        elif (not store and name in policy.READABLE_NAMES) or (
            store and not self._scopes and name in policy.MODULE_NAMES
        ):
            return name
        if name in policy.VARIABLES and (store or name in self.survey.bound):
            return name
        self._refuse_dunder(node, name, define=store)
        return name

    def _refuse_dunder(self, node: ast.AST, name: str, *, define: bool = False) -> None:
        if define:
            hint = policy.UNDEFINABLE_HINTS.get(name, "choose a name without double underscores")
            if name in policy.NAME_HOOKS:
                hint = "define it in the body of a class"
            self.refuse(node, "name_refused", f"a script may not define {name!r}", hint)
        else:
            hint = policy.READ_HINTS.get(name) or policy.IN_PLACE.get(name, "")
            self.refuse(node, "name_refused", f"a script may not read {name!r}", hint)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            result = self.visit(node) if node is not None else None
            if isinstance(result, list):
                found.extend(result)
            elif result is not None or node is None:
                found.append(result)
        return found

    def _visit(self, node: ast.AST | None) -> Any:
        return self.visit(node) if node is not None else None


_SYNTAX: Final = {
    "TemplateStr": ("a template string", "use an f-string"),
    "Interpolation": ("a template string", "use an f-string"),
    "ListComp": ("unpacking in a comprehension", "write nested `for`"),
    "SetComp": ("unpacking in a comprehension", "write nested `for`"),
    "DictComp": ("unpacking in a comprehension", "write nested `for`"),
    "GeneratorExp": ("unpacking in a comprehension", "write nested `for`"),
}
_REFUSE: Final[Visit] = ScriptVisitor.generic_visit
# Nodes without children. The base class has a visitor for each and changes none.
_LEAVES: Final = frozenset({
    ast.Load, ast.Store, ast.Del, ast.And, ast.Or, ast.Not, ast.Invert, ast.UAdd, ast.USub,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult,
    ast.LShift, ast.RShift, ast.BitOr, ast.BitXor, ast.BitAnd,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn,
    str, int, type(None),
})  # fmt: skip


def guard_call(guard: str, node: ast.AST, args: list[ast.expr]) -> ast.Call:
    """Build a call of a guard at the position of `node`."""
    call = ast.Call(func=ast.Name(guard, ast.Load()), args=args, keywords=[])
    for child in (call, call.func, *args):
        if not hasattr(child, "lineno"):
            ast.copy_location(child, node)
    return call
