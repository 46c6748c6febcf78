"""Transform the syntax tree of a script into one that the policy allows, or into findings.

Decisions are made by name, here, once. Ordinary attributes, subscripts, unpacking, iteration and
calls compile to the code that CPython would emit, so they cost nothing at run time. Guards are
called through names that no source text can spell (``@getattr``): an identifier in a tree may be
any string, an identifier in a source never holds ``@``, so no binding form, known or future, can
shadow a guard (the class of CVE-2026-55830).

Rule 1: a node without a visitor is refused (test_unknown_syntax_node_is_refused).
Rule 2: every field that binds a name is checked
    (test_every_grammar_field_that_can_hold_a_name_is_checked).
Rule 3: every child of a node is visited (test_a_forbidden_attribute_is_found_in_every_position).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from RestrictedPython.transformer import copy_locations

from . import _policy as policy
from ._definitions import DefinitionRules
from ._imports import ImportRules
from ._visitor import Issue, guard_call

__all__ = ["Issue", "ScriptTransformer"]


class ScriptTransformer(ImportRules, DefinitionRules):
    """Rewrites a module in place and collects every refusal in `issues`."""

    # -- names ---------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.expr:
        store = type(node.ctx) is not ast.Load
        name = node.id
        if not store and name in _CHECKED and name not in self.survey.bound:
            if name in policy.FAIL_WHEN_REACHED and self._may_not_run:
                pass
            elif name in policy.BUILTIN_HINTS:
                hint = policy.BUILTIN_HINTS[name]
                self.refuse(node, "builtin_refused", f"{name}() is not available", hint)
            elif name in policy.CALL_ONLY and node not in self._called:
                hint = policy.CALL_ONLY[name]
                self.refuse(node, "builtin_refused", f"{name} may only be called", hint)
        if name == "super" and node not in self._called and not store:
            # With arguments, it could start at a class of the library.
            if name in self.survey.bound:
                hint = "give your own function or variable another name"
                self.refuse(node, "name_refused", "super is the builtin in all places", hint)
            node.id = "@super"
            return node
        if not name.startswith(_DECIDED):
            return node
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
        self._assigned.add(node.value)
        return cast(ast.AST, self.node_contents_visit(node))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.name is not None:
            node.name = self._name(node, node.name, store=True)
        return cast(ast.AST, self.node_contents_visit(node))

    # -- attributes ----------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        attr = self._mangle(node.attr)
        kind = policy.kind_of(attr)
        loads = type(node.ctx) is ast.Load
        if loads and self.survey.aliases and kind in {"ordinary", "power"}:
            self.check_module_attribute(node)
        node.value = self.visit(node.value)
        if kind == "ordinary":
            self._refuse_prefix(node, attr)
            if loads and attr in policy.MAPPING_METHODS and node not in self._called:
                return guard_call("@field", node, [node.value, ast.Constant(attr)])
            return node
        if kind == "private":
            node.attr = policy.rename(attr)
            return node
        if loads:
            return self._guarded_load(node, attr, kind)
        if kind == "dunder" and attr not in policy.WRITABLE | policy.DEFINABLE:
            message = f"a script may not set {attr!r}"
            self.refuse(node, "attribute_refused", message, policy.READ_HINTS.get(attr, ""))
        return self._guarded_target(node, attr)

    def _guarded_load(self, node: ast.Attribute, attr: str, kind: policy.Kind) -> ast.expr:
        """Build the guard's call for reading a power name or a dunder, or refuse it."""
        if attr == "__class__" and node not in self._assigned:
            return guard_call("@class", node, [node.value])
        if kind == "power" or attr in policy.READABLE:
            return guard_call("@getattr", node, [node.value, ast.Constant(attr)])
        if attr in policy.KEEPABLE or (attr in policy.DEFINABLE and self._may_be_own(node.value)):
            return guard_call("@held", node, [node.value, ast.Constant(attr)])
        if attr in policy.IN_PLACE and node not in self._assigned:
            return guard_call(f"@{attr.strip('_')}", node, [node.value])
        hint = policy.READ_HINTS.get(attr) or policy.IN_PLACE.get(attr, "")
        if not hint and attr in policy.DEFINABLE:
            hint = f"call it: `x.{attr}(...)`"
        self.refuse(node, "attribute_refused", f"a script may not read {attr!r}", hint)
        return node

    def _may_be_own(self, node: ast.expr) -> bool:
        """True unless the value is certainly none of the script's own: ``str``, ``[]``."""
        if isinstance(node, ast.Name):
            return node.id in self.survey.bound
        return isinstance(node, ast.Attribute | ast.Call | ast.Subscript)

    def _guarded_target(self, node: ast.Attribute, attr: str) -> ast.expr:
        """Build a target for a guarded attribute, valid wherever one is stored or deleted."""
        target = ast.Subscript(
            value=guard_call("@attributes", node, [node.value]),
            slice=ast.Constant(attr),
            ctx=node.ctx,
        )
        copy_locations(target, node)
        return target

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute) or (
            isinstance(function, ast.Name)
            # Only the name `super` gets the class around it.
            and (function.id in policy.CALL_ONLY or not (node.args or node.keywords))
        ):
            self._called.add(function)
        if isinstance(function, ast.Attribute) and function.attr in policy.DEFINABLE:
            # `super().__init__(...)`: the method is called at once and never bound to a name.
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
        self._assigned.add(node.value)
        node.type_comment = None
        if scope is not None:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id in policy.NAMES_AS_TEXT:
                node.value = self._class_strings(target, node.value)
        return cast(ast.AST, self.node_contents_visit(node))

    def _class_strings(self, target: ast.Name, value: ast.expr) -> ast.expr:
        """Rename private names in `__slots__` and `__match_args__`, which hold names as text.

        Slots become a tuple: a script could change a list after the class is made, and `copy`
        would read the changed one.
        """
        name = target.id
        self._checked.add(target)
        constants: list[Any] = [value]
        if isinstance(value, ast.Tuple | ast.List):
            constants = [*value.elts]
        elif isinstance(value, ast.Dict) and name == "__slots__":
            constants = [key or value for key in value.keys]  # None stands for `**`
        if isinstance(value, ast.List | ast.Dict) and name == "__slots__":
            value = ast.copy_location(ast.Tuple(constants, ast.Load()), value)
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
            if not self._refuse_prefix(constant, attr):
                constant.value = policy.rename(attr)
        return value

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        in_class = self._class_scope is not None
        if node.value is not None:
            self._assigned.add(node.value)
            target = node.target
            if in_class and isinstance(target, ast.Name) and target.id in policy.NAMES_AS_TEXT:
                node.value = self._class_strings(target, node.value)
        node.annotation = self._annotation(node.annotation, in_class=in_class)
        node.target = self.visit(node.target)
        node.value = self._visit(node.value)
        if not isinstance(node.target, ast.Name):
            node.simple = 0
        return node

    # -- statements and expressions without a rule of their own ----------------------------------

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

    def _unchanged(self, node: ast.AST) -> ast.AST:
        return node

    visit_Constant = visit_Pass = visit_Break = visit_Continue = _unchanged
    visit_Await = visit_Match = visit_Compare = visit_UnaryOp = _children
    visit_While = visit_Assert = _children
    visit_MatchSingleton = visit_MatchSequence = visit_MatchOr = _children
    # The base class wraps these in guards; here they compile as in CPython.
    visit_Subscript = visit_AugAssign = visit_Return = visit_Dict = _children

    # -- code that may not run -------------------------------------------------------------------

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values[0] = self.visit(node.values[0])
        with self._uncertain():
            node.values[1:] = self._visit_all(node.values[1:])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self.visit(node.test)
        with self._uncertain():
            node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

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

    visit_TemplateStr = visit_Interpolation = _refuse_node
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
            if not self._refuse_prefix(node, attr):
                node.kwd_attrs[index] = policy.rename(attr)
        return cast(ast.AST, self.node_contents_visit(node))


# ---------------------------------------------------------------------------------------------

_CHECKED: Final = policy.FAIL_WHEN_REACHED | policy.BUILTIN_HINTS.keys() | policy.CALL_ONLY.keys()
# First characters of the names that a rule may refuse or rename.
_DECIDED: Final = ("_", policy.PRIVATE_PREFIX)
_SLOT_DUNDERS: Final = frozenset({"__dict__", "__weakref__"})


ScriptTransformer.visitors = {
    kind: getattr(ScriptTransformer, f"visit_{name}")
    for name, kind in vars(ast).items()
    if hasattr(ScriptTransformer, f"visit_{name}")
}
