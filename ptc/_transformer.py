"""From the syntax tree of a script to a tree that the policy allows, or to findings.

Decisions are made by name, here, once. What is emitted for ordinary attributes, subscripts,
unpacking, iteration and calls is what CPython would emit, so it costs nothing at run time.
Guards are called through names that no source text can spell (``@getattr``): an identifier in a
tree may be any string, an identifier in a source never holds ``@``, so no binding form, known
or future, can shadow a guard (the class of CVE-2026-55830).

Rule 1: a node without a visitor is refused (test_an_unknown_node_is_refused).
Rule 2: every field that binds a name is checked
    (test_every_field_that_can_hold_a_name_is_decided).
Rule 3: every child of a node is visited (test_a_forbidden_attribute_is_found_in_every_position).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from RestrictedPython.transformer import copy_locations

from . import _policy as policy
from ._imports import ImportRules, guard_call
from ._scopes import ClassScope, bound_names, class_bound, module_aliases, outer_loads

__all__ = ["Issue", "ScriptTransformer"]

_Node = TypeVar("_Node", bound=ast.AST)
_FUNCTION = object()  # marks a function, lambda or comprehension on the stack of scopes


@dataclass(frozen=True, slots=True)
class Issue:
    """One refusal, with the node it is about."""

    code: str
    message: str
    node: ast.AST
    hint: str = ""


class ScriptTransformer(ImportRules):
    """Rewrites a module in place and collects every refusal in `issues`."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        self.issues: list[Issue] = []
        self._scopes: list[object] = []  # ClassScope or _FUNCTION, innermost last
        self._classes: list[str] = []  # names of the enclosing classes, for mangling
        self._kept: set[ast.AST] = set()  # attributes that an assignment keeps under a name
        self._called: set[ast.AST] = set()  # names that are called
        self._bound = bound_names(tree)
        self._aliases = module_aliases(tree, self._bound)
        self._lazy_annotations = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
            and any(alias.name == "annotations" for alias in node.names)
            for node in tree.body
        )
        self._import_may_fail = 0
        self._may_not_run = 0
        self._tested: set[ast.AST] = set()  # expressions that are only asked whether they are None
        self._outer: set[ast.AST] = set()  # names in a class body that mean what is outside of it
        self._read = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }

    # -- findings ------------------------------------------------------------------------------

    def refuse(self, node: ast.AST, code: str, message: str, hint: str = "") -> None:
        """Record a refusal."""
        self.issues.append(Issue(code, message, node, hint))

    def error(self, node: ast.AST, info: str) -> None:
        """Record what the base class refuses."""
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

    def _name(self, node: ast.AST, name: str, *, store: bool) -> str:
        """Check the variable `name` and return what it is called in the compiled script."""
        scope = self._class_scope
        if not policy.is_dunder(name):
            if name.startswith(policy.PRIVATE_PREFIX):
                self.refuse(node, "name_refused", f"the name {name!r} is reserved")
            mangled = self._mangle(name)
            if scope is not None and mangled in scope.private:
                return policy.rename(mangled)
            return mangled
        if scope is not None and (name in policy.DEFINABLE or name in policy.CLASS_DATA):
            if store or name in scope.bound:
                return name
        elif (not store and name in policy.READABLE_NAMES) or (
            store and not self._scopes and name in policy.MODULE_NAMES
        ):
            return name
        self._refuse_dunder(node, name, define=store)
        return name

    def _refuse_dunder(self, node: ast.AST, name: str, *, define: bool = False) -> None:
        if define:
            hint = policy.UNDEFINABLE_HINTS.get(name, "choose a name without double underscores")
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

    def _visit(self, node: _Node | None) -> Any:
        return self.visit(node) if node is not None else None

    # -- names ---------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        store = not isinstance(node.ctx, ast.Load)
        name = node.id
        if not store and name not in self._bound:
            if name in policy.FAIL_WHEN_REACHED and self._may_not_run:
                pass
            elif name in policy.BUILTIN_HINTS:
                hint = policy.BUILTIN_HINTS[name]
                self.refuse(node, "builtin_refused", f"{name}() is not available", hint)
            elif name in policy.CALL_ONLY and node not in self._called:
                hint = policy.CALL_ONLY[name]
                self.refuse(node, "builtin_refused", f"{name} may only be called", hint)
        mangled, scope = self._mangle(name), self._class_scope
        if node in self._outer and scope is not None and mangled in scope.private:
            node.id = mangled  # a variable; variables keep their names
        else:
            node.id = self._name(node, name, store=store)
        return node

    def _refuse_star_names(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        node.names = [self._name(node, name, store=True) for name in node.names]
        return node

    visit_Global = visit_Nonlocal = _refuse_star_names

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if policy.is_dunder(node.arg):
            self._refuse_dunder(node, node.arg, define=True)
        else:
            node.arg = self._mangle(node.arg)
        node.type_comment = None
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        if node.arg is not None:
            if policy.is_dunder(node.arg):
                self._refuse_dunder(node, node.arg, define=True)
            node.arg = self._mangle(node.arg)
        node.value = self.visit(node.value)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self._kept.add(node.value)
        if node in self._tested:
            self._tested.add(node.value)
        return cast(ast.AST, self.node_contents_visit(node))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.name is not None:
            node.name = self._name(node, node.name, store=True)
        return cast(ast.AST, self.node_contents_visit(node))

    # -- attributes ----------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        attr = self._mangle(node.attr)
        kind = policy.kind_of(attr)
        loads = isinstance(node.ctx, ast.Load)
        if loads and kind in {"ordinary", "power"}:
            self.check_module_attribute(node)
        node.value = self.visit(node.value)
        if kind == "ordinary":
            if attr.startswith(policy.PRIVATE_PREFIX):
                self.refuse(node, "name_refused", f"the name {attr!r} is reserved")
            return node
        if kind == "private":
            node.attr = policy.rename(attr)
            return node
        if not loads:
            if kind == "dunder" and attr not in policy.WRITABLE | policy.DEFINABLE:
                message = f"a script may not set {attr!r}"
                self.refuse(node, "attribute_refused", message, policy.READ_HINTS.get(attr, ""))
            return self._slot(node, attr)
        if attr == "__cause__" and node in self._tested:
            return guard_call("@cause", node, [node.value])
        if kind == "power" or attr in policy.READABLE:
            return guard_call("@getattr", node, [node.value, ast.Constant(attr)])
        if attr in policy.KEEPABLE:
            return guard_call("@method", node, [node.value, ast.Constant(attr)])
        if attr in policy.IN_PLACE and node not in self._kept:
            return guard_call(f"@{attr.strip('_')}", node, [node.value])
        hint = policy.READ_HINTS.get(attr) or policy.IN_PLACE.get(attr, "")
        if not hint and attr in policy.DEFINABLE:
            hint = f"call it: `x.{attr}(...)`"
        self.refuse(node, "attribute_refused", f"a script may not read {attr!r}", hint)
        return node

    def _slot(self, node: ast.Attribute, attr: str) -> ast.expr:
        """A guarded attribute as a target: works in every position that stores or deletes."""
        target = ast.Subscript(
            value=guard_call("@attributes", node, [node.value]),
            slice=ast.Constant(attr),
            ctx=node.ctx,
        )
        copy_locations(target, node)
        return target

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Name) and function.id in policy.CALL_ONLY:
            self._called.add(function)
        if isinstance(function, ast.Name) and function.id in {"isinstance", "bool"}:
            self._tested.update(node.args)
        if isinstance(function, ast.Attribute) and function.attr in policy.DEFINABLE:
            # `super().__init__(...)`: the method is called at once and never kept.
            method = ast.Constant(function.attr)
            guard = guard_call("@method", function, [self.visit(function.value), method])
            node.func = guard
        else:
            node.func = self.visit(function)
        node.args = self._visit_all(node.args)
        node.keywords = self._visit_all(node.keywords)
        return node

    # -- assignment ----------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        scope = self._class_scope
        self._kept.add(node.value)
        if _is_step(node):
            self._tested.add(node.value)
        node.type_comment = None
        if scope is not None:
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id in {"__slots__", "__match_args__"}:
                    self._class_strings(target.id, node.value)
        return cast(ast.AST, self.node_contents_visit(node))

    def _class_strings(self, name: str, value: ast.expr) -> None:
        """Rename private names in `__slots__` and `__match_args__`, which hold names as text."""
        constants = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        if isinstance(value, ast.Dict) and name == "__slots__":
            constants = [key for key in value.keys if key is not None]
        for constant in constants:
            if not (isinstance(constant, ast.Constant) and isinstance(constant.value, str)):
                hint = "write the names as text constants in a tuple"
                self.refuse(constant, "name_refused", f"{name} must be a literal", hint)
                continue
            attr = self._mangle(constant.value)
            kind = policy.kind_of(attr)
            if kind == "dunder" and not (name == "__slots__" and attr in _SLOT_DUNDERS):
                self._refuse_dunder(constant, attr, define=True)
            elif kind == "power" and name == "__match_args__":
                hint = "match on the class, then read the attribute"
                message = f"{attr!r} cannot be matched by position"
                self.refuse(constant, "attribute_refused", message, hint)
            constant.value = policy.rename(attr)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        in_class = self._class_scope is not None
        if node.value is not None:
            self._kept.add(node.value)
            name = node.target.id if isinstance(node.target, ast.Name) else ""
            if in_class and name in {"__slots__", "__match_args__"}:
                self._class_strings(name, node.value)
        node.annotation = self._annotation(node.annotation, in_class=in_class)
        node.target = self.visit(node.target)
        node.value = self._visit(node.value)
        if not isinstance(node.target, ast.Name):
            node.simple = 0
        return node

    def _annotation(self, node: ast.expr, *, in_class: bool = False) -> ast.expr:
        if not self._lazy_annotations:
            return cast(ast.expr, self.visit(node))
        # `from __future__ import annotations`: text, as in CPython. dataclasses looks for these
        # marks in the text through sys.modules, which is not the script's: keep them as objects.
        marked = node.value if isinstance(node, ast.Subscript) else node
        mark = getattr(marked, "attr", getattr(marked, "id", ""))
        if in_class and mark in {"ClassVar", "InitVar", "KW_ONLY"}:
            if isinstance(node, ast.Subscript):
                text = ast.Constant(ast.unparse(node.slice))
                node.slice = ast.copy_location(text, node.slice)
            return cast(ast.expr, self.visit(node))
        return ast.copy_location(ast.Constant(ast.unparse(node)), node)

    # -- functions -----------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        hook = node.name if self._class_scope is not None else ""
        if policy.is_dunder(node.name) and self._class_scope is None:
            self._refuse_dunder(node, node.name, define=True)
        else:
            node.name = self._name(node, node.name, store=True)
        node.decorator_list = self._visit_all(node.decorator_list)
        self._signature(node.args)
        if node.returns is not None:
            node.returns = self._annotation(node.returns)
        node.type_comment = None
        self._type_parameters(node)
        unused = node.name not in self._read and node.name != "run"
        self._may_not_run += unused
        with self._scope(_FUNCTION):
            self._parameters(node.args)
            node.body = self._visit_all(node.body) or [ast.Pass()]
        self._may_not_run -= unused
        if hook in _NAME_HOOKS:
            self._restore_name(node, _NAME_HOOKS[hook])
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def _signature(self, args: ast.arguments) -> None:
        """Visit what is evaluated where the function is defined."""
        args.defaults = self._visit_all(args.defaults)
        args.kw_defaults = [self._visit(default) for default in args.kw_defaults]
        for arg in _all_args(args):
            if arg.annotation is not None:
                arg.annotation = self._annotation(arg.annotation)

    def _parameters(self, args: ast.arguments) -> None:
        for arg in _all_args(args):
            self.visit_arg(arg)

    def _restore_name(self, node: ast.FunctionDef | ast.AsyncFunctionDef, position: int) -> None:
        """Let an attribute hook see `_x` where the renamed name arrives."""
        parameters = [*node.args.posonlyargs, *node.args.args]
        if position < len(parameters):
            name = parameters[position].arg
            restored = guard_call("@demangle", node, [ast.Name(name, ast.Load())])
            first = ast.Assign([ast.Name(name, ast.Store())], restored, lineno=0)
        elif node.args.vararg is not None:
            name = node.args.vararg.arg
            restored = guard_call("@demangle_all", node, [ast.Name(name, ast.Load())])
            first = ast.Assign([ast.Name(name, ast.Store())], restored, lineno=0)
        else:
            return
        copy_locations(first, node)
        has_text = ast.get_docstring(node, clean=False) is not None
        node.body.insert(1 if has_text else 0, first)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._signature(node.args)
        with self._scope(_FUNCTION):
            self._parameters(node.args)
            node.body = self.visit(node.body)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        raise AssertionError("arguments are visited by their function")

    # -- comprehensions ------------------------------------------------------------------------

    def _comprehension(self, node: Any) -> ast.AST:
        first = node.generators[0]
        first.iter = self.visit(first.iter)  # evaluated in the enclosing scope
        with self._scope(_FUNCTION):
            for generator in node.generators:
                if generator is not first:
                    generator.iter = self.visit(generator.iter)
                generator.target = self.visit(generator.target)
                generator.ifs = self._visit_all(generator.ifs)
            for part in ("key", "value", "elt"):
                child = getattr(node, part, None)
                if isinstance(child, ast.Starred) or (part == "value" and child is None):
                    if part == "value" and not isinstance(node, ast.DictComp):
                        continue
                    self.not_allowed(node)  # unpacking in comprehensions, 3.15: not reviewed
                if child is not None:
                    setattr(node, part, self.visit(child))
        return cast(ast.AST, node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        raise AssertionError("generators are visited by their comprehension")

    # -- classes -------------------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        source_name = node.name
        if policy.is_dunder(node.name):
            self._refuse_dunder(node, node.name, define=True)
        else:
            node.name = self._name(node, node.name, store=True)
        node.decorator_list = self._visit_all(node.decorator_list)
        self._type_parameters(node)
        node.bases = self._visit_all(node.bases)
        node.keywords = self._visit_all(node.keywords)
        self._classes.append(source_name)
        bound = class_bound(node.body, self._mangle)
        private = frozenset(name for name in bound if policy.is_private(name))
        self._outer |= outer_loads(node.body)
        with self._scope(ClassScope(bound, private)):
            node.body = self._visit_all(node.body) or [ast.Pass()]
        self._classes.pop()
        return node

    def _type_parameters(self, node: Any) -> None:
        if getattr(node, "type_params", None):
            node.type_params = self._visit_all(node.type_params)

    def _type_parameter(self, node: Any) -> ast.AST:
        if policy.is_dunder(node.name) or node.name.startswith("__"):
            self._refuse_dunder(node, node.name, define=True)
        with self._scope(_FUNCTION):
            for part in ("bound", "default_value"):
                child = getattr(node, part, None)
                if child is not None:
                    setattr(node, part, self.visit(child))
        return cast(ast.AST, node)

    # PEP 695: bounds and values are expressions, visited like any other; names are variables.
    visit_TypeVar = visit_TypeVarTuple = visit_ParamSpec = _type_parameter

    def visit_TypeAlias(self, node: Any) -> ast.AST:
        node.name = self.visit(node.name)
        self._type_parameters(node)
        with self._scope(_FUNCTION):
            node.value = self.visit(node.value)
        return cast(ast.AST, node)

    # -- statements and expressions that need no decision of their own ----------------------------

    def _loop(self, node: ast.For | ast.AsyncFor) -> ast.AST:
        node.type_comment = None
        return cast(ast.AST, self.node_contents_visit(node))

    visit_For = visit_AsyncFor = _loop

    def _with(self, node: ast.With | ast.AsyncWith) -> ast.AST:
        node.type_comment = None
        return self._children(node)

    visit_With = visit_AsyncWith = _with

    def _children(self, node: ast.AST) -> ast.AST:
        return self.node_contents_visit(node)

    visit_Await = visit_Match = _children
    visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = _children
    # The base class wraps these in guards; here they are what CPython makes of them.
    visit_Subscript = visit_AugAssign = visit_Return = visit_Dict = _children

    # -- what is only tested, and what need not run ----------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if all(isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) for op in node.ops):
            self._tested.update([node.left, *node.comparators])
        return self._children(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not):
            self._tested.add(node.operand)
        return self._children(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        # The last one is what `or` gives; the others are given only if they are not None.
        self._tested.update(node.values if node in self._tested else node.values[:-1])
        node.values[0] = self.visit(node.values[0])
        with self._uncertain():
            node.values[1:] = self._visit_all(node.values[1:])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self._tested.add(node.test)
        node.test = self.visit(node.test)
        with self._uncertain():
            node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self._tested.add(node.test)
        return super().visit_If(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        self._tested.add(node.test)
        return self._children(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self._tested.add(node.test)
        return self._children(node)

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        with self._uncertain():
            return self._children(node)

    @contextmanager
    def _uncertain(self) -> Iterator[None]:
        self._may_not_run += 1
        yield
        self._may_not_run -= 1

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        was_name = isinstance(node.value, ast.Attribute)
        node.value = self.visit(node.value)
        if was_name and not isinstance(node.value, ast.Attribute):
            hint = "put the value in a variable of a class or compare with `if`"
            self.refuse(node, "attribute_refused", "this value cannot be a pattern", hint)
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        node.body = self._visit_all(node.body)
        return node

    def _refuse_node(self, node: ast.AST) -> ast.AST:
        self.not_allowed(node)
        return node

    visit_TryStar = visit_TemplateStr = visit_Interpolation = _refuse_node
    visit_Interactive = visit_Expression = _refuse_node

    # -- match ---------------------------------------------------------------------------------

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> ast.AST:
        if node.name is not None:
            node.name = self._name(node, node.name, store=True)
        return cast(ast.AST, self.node_contents_visit(node))

    visit_MatchAs = visit_MatchStar = _capture

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        if node.rest is not None:
            node.rest = self._name(node, node.rest, store=True)
        return cast(ast.AST, self.node_contents_visit(node))

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        # A class pattern reads its keywords as attributes of *any* subject: `object(gi_frame=f)`.
        for index, attr in enumerate(node.kwd_attrs):
            attr = self._mangle(attr)
            kind = policy.kind_of(attr)
            if kind in {"power", "dunder"}:
                hint = "match on the class, then read the attribute"
                self.refuse(node, "attribute_refused", f"{attr!r} cannot be matched", hint)
            node.kwd_attrs[index] = policy.rename(attr)
        return cast(ast.AST, self.node_contents_visit(node))


# ---------------------------------------------------------------------------------------------

_SYNTAX: Final = {
    "TryStar": ("`except*`", "catch ExceptionGroup and look at its `exceptions`"),
    "TemplateStr": ("a template string", "use an f-string"),
    "Interpolation": ("a template string", "use an f-string"),
    "ListComp": ("unpacking in a comprehension", "write nested `for`"),
    "SetComp": ("unpacking in a comprehension", "write nested `for`"),
    "DictComp": ("unpacking in a comprehension", "write nested `for`"),
    "GeneratorExp": ("unpacking in a comprehension", "write nested `for`"),
}
_SLOT_DUNDERS: Final = frozenset({"__dict__", "__weakref__"})
# Position of the parameter that receives an attribute name.
_NAME_HOOKS: Final = {
    "__getattr__": 1, "__setattr__": 1, "__delattr__": 1, "__set_name__": 2,
}  # fmt: skip


def _is_step(node: ast.Assign) -> bool:
    """True for ``e = e.__cause__``, the step of a loop along the chain."""
    value, target = node.value, node.targets[0]
    return (
        isinstance(value, ast.Attribute)
        and isinstance(value.value, ast.Name)
        and isinstance(target, ast.Name)
        and len(node.targets) == 1
        and target.id == value.value.id
    )


def _all_args(args: ast.arguments) -> list[ast.arg]:
    optional = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *optional]
