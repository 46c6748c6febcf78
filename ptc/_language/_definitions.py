"""Rules for definitions and their scopes: functions, classes, comprehensions, type parameters."""

from __future__ import annotations

import ast
from typing import Any, cast

from RestrictedPython.transformer import copy_locations

from . import _policy as policy
from ._scopes import ClassScope, class_names, outer_loads
from ._visitor import ScriptVisitor, guard_call

__all__ = ["DefinitionRules"]

_FUNCTION = object()  # marks a function, lambda or comprehension on the stack of scopes


class DefinitionRules(ScriptVisitor):
    """Visits the definitions of a script."""

    def _annotation(self, node: ast.expr, *, in_class: bool = False) -> ast.expr:
        if not self._lazy_annotations:
            return cast(ast.expr, self.visit(node))
        # `from __future__ import annotations`: text, as in CPython. dataclasses resolves these
        # marks in the text through sys.modules, which is not the script's: keep them as objects.
        marked = node.value if isinstance(node, ast.Subscript) else node
        mark = getattr(marked, "attr", getattr(marked, "id", ""))
        base = marked.value if isinstance(marked, ast.Attribute) else marked
        defined = isinstance(base, ast.Name) and base.id in self.survey.bound
        if in_class and defined and mark in {"ClassVar", "InitVar", "KW_ONLY"}:
            if isinstance(node, ast.Subscript):
                text = ast.Constant(ast.unparse(node.slice))
                node.slice = ast.copy_location(text, node.slice)
            return cast(ast.expr, self.visit(node))
        return ast.copy_location(ast.Constant(ast.unparse(node)), node)

    # -- functions -----------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        hook = node.name if self._class_scope is not None else ""
        node.name = self._name(node, node.name, store=True)
        node.decorator_list = self._visit_all(node.decorator_list)
        self._signature(node.args)
        if node.returns is not None:
            node.returns = self._annotation(node.returns)
        node.type_comment = None
        self._type_parameters(node)
        unused = node.name not in self.survey.read and node.name != "run"
        self._may_not_run += unused
        with self._scope(_FUNCTION):
            self._parameters(node.args)
            node.body = self._visit_all(node.body)
        self._may_not_run -= unused
        if hook in policy.NAME_HOOKS:
            self._restore_name(node, policy.NAME_HOOKS[hook])
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def _signature(self, args: ast.arguments) -> None:
        """Visit the defaults and annotations, which are evaluated outside of the function."""
        args.defaults = self._visit_all(args.defaults)
        args.kw_defaults = [self._visit(default) for default in args.kw_defaults]
        for arg in _all_args(args):
            if arg.annotation is not None:
                arg.annotation = self._annotation(arg.annotation)

    def _parameters(self, args: ast.arguments) -> None:
        for arg in _all_args(args):
            self.visit_arg(arg)

    def _restore_name(self, node: ast.FunctionDef | ast.AsyncFunctionDef, position: int) -> None:
        """Pass an attribute hook the name `_x` instead of the renamed one that CPython passes."""
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
        bound = class_names(node.body, self._mangle)
        private = frozenset(name for name in bound if policy.is_private(name))
        self._outer |= outer_loads(node.body)
        with self._scope(ClassScope(bound, private)):
            node.body = self._visit_all(node.body)
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


def _all_args(args: ast.arguments) -> list[ast.arg]:
    optional = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *optional]
