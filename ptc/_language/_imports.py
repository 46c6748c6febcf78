"""Imports of a script: each becomes an assignment from a guard, or a finding.

The compiler refuses, with an alternative, an unknown module, an unknown name of a known module,
and an attribute of an imported module that its facade does not have. An import that the script
itself expects to fail (``try: import numpy`` / ``except ImportError``) fails at run time.
"""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from RestrictedPython.transformer import copy_locations

from .._policy_modules import NEWER
from .._refused_names import find_reason
from . import _policy as policy
from ._visitor import ScriptVisitor, guard_call

__all__ = ["ImportRules"]


class ImportRules(ScriptVisitor):
    """Visits the imports of a script, and its uses of imported modules."""

    def check_module_attribute(self, node: ast.Attribute) -> None:
        """Refuse a name that the facade of an imported module does not have."""
        module = _find_module(node.value, self.survey.aliases)
        if module is None or module not in policy.MODULES:
            return
        if node.attr in policy.MODULES[module] or f"{module}.{node.attr}" in policy.MODULES:
            return
        if self._import_may_fail and f"{module}.{node.attr}" in NEWER:
            return
        self._refuse_missing(node, module, node.attr)

    def _refuse_missing(self, node: ast.AST, module: str, name: str) -> None:
        hint = policy.MISSING_HINTS.get(f"{module}.{name}", "") or find_reason(module, name)
        hint = hint or _needs_no_import([name])
        if not hint and name in policy.BUILTIN_HINTS:
            hint = policy.BUILTIN_HINTS[name]
        if not hint:
            hint = _suggest(name, policy.MODULES[module])
        self.refuse(node, "module_name_refused", f"{module} has no {name!r} here", hint)

    def _check_module(self, node: ast.AST, module: str, names: Sequence[str] = ()) -> bool:
        if module in policy.MODULES or module in policy.OFFERED or self._import_may_fail:
            return True
        hint = policy.MODULE_HINTS.get(module) or policy.MODULE_HINTS.get(module.split(".")[0], "")
        if module.partition(".")[0] in policy.TRUSTED_PACKAGES:
            hint = _suggest(module, policy.OFFERED)
        hint = _needs_no_import(names) or hint or _suggest_module(module)
        self.refuse(node, "import_refused", f"import of {module!r} is not available", hint)
        return False

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        self._refuse_lazy(node)
        made: list[ast.stmt] = []
        for alias in node.names:
            if not self._check_module(alias, alias.name):
                continue
            target = alias.asname or alias.name.partition(".")[0]
            # `import a.b` binds `a`; `import a.b as c` binds the module itself.
            bound = "" if alias.asname else target
            arguments: list[ast.expr] = [ast.Constant(alias.name), ast.Constant(bound)]
            made.append(self._import(alias, target, guard_call("@import", alias, arguments)))
        return made or [ast.copy_location(ast.Pass(), node)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        self._refuse_lazy(node)
        module = node.module or ""
        made: list[ast.stmt] = [ast.copy_location(ast.Pass(), node)]
        if module == "__future__":
            for alias in node.names:
                if alias.name not in _FUTURES:
                    self.refuse(alias, "import_refused", f"unknown feature {alias.name!r}")
            return made
        if node.level:
            hint = "a script is one file; import by full name"
            self.refuse(node, "import_refused", "relative imports are not available", hint)
            return made
        if not self._check_module(node, module, [alias.name for alias in node.names]):
            return made
        for alias in node.names:
            name = alias.name
            if name == "*":
                hint = f"name what you need: `from {module} import ...`"
                self.refuse(alias, "import_refused", "`import *` is not available", hint)
                continue
            names = policy.MODULES.get(module)
            if names is not None and name not in names and not self._import_may_fail:
                self._refuse_missing(alias, module, name)
                continue
            arguments: list[ast.expr] = [ast.Constant(module), ast.Constant(name)]
            value = guard_call("@import_from", alias, arguments)
            made.append(self._import(alias, alias.asname or name, value))
        return made[1:] or made

    def _refuse_lazy(self, node: ast.Import | ast.ImportFrom) -> None:
        if getattr(node, "is_lazy", 0):  # PEP 810, 3.15: would bypass the guarded import
            self.refuse(node, "syntax_refused", "lazy imports are not available", "use `import`")

    def _import(self, node: ast.alias, target: str, value: ast.expr) -> ast.stmt:
        name = ast.Name(self._name(node, target, store=True), ast.Store())
        statement = ast.Assign([name], value, lineno=0)
        copy_locations(statement, node)
        return statement

    def visit_alias(self, node: ast.alias) -> ast.AST:
        raise AssertionError("aliases are visited by their import")

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        guarded = any(_catches_import_error(handler) for handler in node.handlers)
        self._import_may_fail += guarded
        self._may_not_run += bool(node.handlers)
        node.body = self._visit_all(node.body)
        self._import_may_fail -= guarded
        self._may_not_run += not node.handlers
        node.handlers = self._visit_all(node.handlers)
        self._may_not_run -= 1
        node.orelse = self._visit_all(node.orelse)
        node.finalbody = self._visit_all(node.finalbody)
        return node

    def visit_TryStar(self, node: ast.AST) -> ast.AST:
        # `ptc.worker._groups` makes it safe.
        return self.visit_Try(cast(ast.TryStar, node))

    def visit_If(self, node: ast.If) -> ast.AST:
        """Allow any import under `if TYPE_CHECKING:`, which never runs, or a version test."""
        name = getattr(node.test, "attr", getattr(node.test, "id", ""))
        never = name == "TYPE_CHECKING"
        compared = ast.unparse(node.test) if isinstance(node.test, ast.Compare) else ""
        versions, main = "version_info" in compared, "__name__" in compared
        node.test = self.visit(node.test)
        self._import_may_fail += never + versions
        self._may_not_run += not main
        node.body = self._visit_all(node.body)
        self._import_may_fail -= never
        node.orelse = self._visit_all(node.orelse)
        self._import_may_fail -= versions
        self._may_not_run -= not main
        return node


_FUTURES: Final = frozenset(
    [
        "annotations",
        "absolute_import",
        "division",
        "generators",
        "generator_stop",
        "nested_scopes",
        "print_function",
        "unicode_literals",
        "with_statement",
    ]
)
_IMPORT_ERRORS: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    kind = handler.type
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(isinstance(each, ast.Name) and each.id in _IMPORT_ERRORS for each in kinds)


def _find_module(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    """Return the module that an expression like `os.path` names, if it certainly is one."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute):
        parent = _find_module(node.value, aliases)
        if parent is not None and f"{parent}.{node.attr}" in policy.MODULES:
            return f"{parent}.{node.attr}"
    return None


def _needs_no_import(names: Iterable[str]) -> str:
    """Return the hint for names that a script has without an import; "" if there are none."""
    found = [name for name in names if name in _GIVEN or _is_exception(name)]
    if not found:
        return ""
    need = "needs" if len(found) == 1 else "need"
    return f"{', '.join(found)} {need} no import in a script"


_GIVEN: Final = frozenset({"ToolError", "ctx", "inputs"})
"""Names that the host adds to the builtins of a script."""


def _is_exception(name: str) -> bool:
    found = getattr(builtins, name, None)
    return isinstance(found, type) and issubclass(found, Exception)


def _suggest_module(module: str) -> str:
    """Suggest an alternative for an unknown module: that of the module it resembles."""
    hints = [name for name in policy.MODULE_HINTS if name not in policy.MODULES]
    for close in difflib.get_close_matches(module, [*policy.MODULES, *hints], n=1, cutoff=0.7):
        if close in policy.MODULE_HINTS:
            return f"as for {close!r}: {policy.MODULE_HINTS[close]}"
    return _suggest(module, policy.MODULES)


def _suggest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.7)
    if close:
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(entry for entry in names if "." not in entry)
    return f"available: {shown}"
