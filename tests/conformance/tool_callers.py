"""Find tools that can call other tools, in the bytecode that their functions reach.

The search follows every function, class and module of the project that a function names, also
those that it imports while it runs. It finds too much rather than too little.
"""

from __future__ import annotations

import ast
import dis
import functools
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ptc import Tool

__all__ = ["POWERS", "modules_with_powers", "powers_of", "reached_files"]

POWERS = frozenset({"call_tool", "program", "restricted", "result_of", "step", "tools"})
"""Members of `ToolContext` that call tools, or return them."""
NAMED = POWERS - {"tools"}
"""Those whose names have no other meaning in the project."""
_MENTION = re.compile(
    r"\.(?:call_tool|restricted|result_of|step)\b|\.program\(|getattr\([^)]*(?:"
    + "|".join(NAMED)
    + ")"
)
PACKAGES = ("ptc", "ptc_tools", "ptc_bindings")
FIELDS = {("ptc_tools/_todo.py", "step")}
"""Files and fields of their data that have the name of a power. None may say ``ctx.NAME``."""
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def powers_of(tool: Tool) -> set[str]:
    """Return the powers that a tool's function may use."""
    return {
        str(step.argval)
        for code in _reached(tool)
        if not POWERS.isdisjoint(code.co_names)
        for step in dis.get_instructions(code)
        if step.opname in _ATTRIBUTES and step.argval in POWERS - _fields_of(Path(code.co_filename))
    }


def _fields_of(file: Path) -> set[str]:
    found = {name for path, name in FIELDS if file.as_posix().endswith(path)}
    text = file.read_text(encoding="utf-8") if found else ""
    return {name for name in found if not re.search(rf"(?:ctx|context)\.{name}\b", text)}


def reached_files(tool: Tool) -> set[str]:
    """Return the files of the code that a tool's function may execute."""
    return {code.co_filename for code in _reached(tool)}


def modules_with_powers() -> dict[str, set[str]]:
    """Return the powers that each file of the project names, by path; workers have none."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        (folder,) = importlib.import_module(package).__path__
        for file in sorted(Path(folder).rglob("*.py")):
            if "worker" in file.relative_to(folder).parts:
                continue
            text = file.read_text(encoding="utf-8")
            if _MENTION.search(text):
                names = (_named(ast.parse(text)) & NAMED) - _fields_of(file)
                found |= {str(file): names} if names else {}
    return found


def _named(tree: ast.AST) -> set[str]:
    """Return the powers that a module uses, also as ``getattr(context, "name")``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr != "program":
            found.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".program"):
            # Other objects have a field of this name, which nobody calls.
            found.add("program")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            found |= {str(a.value) for a in node.args[1:2] if isinstance(a, ast.Constant)}
    return found


@functools.cache
def _reached(tool: Tool) -> frozenset[CodeType]:
    found: set[CodeType] = set()
    seen: set[int] = set()
    queue: list[Any] = [tool.function]
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        for reached in _parts_of(item):
            if isinstance(reached, CodeType):
                # Methods that `dataclass` has generated read fields and call nothing.
                if (reached.co_filename, reached.co_name[:2]) != ("<string>", "__"):
                    found.add(reached)
            else:
                queue.append(reached)
    return frozenset(found)


_KNOWN: dict[int, tuple[Any, list[Any]]] = {}
"""Parts by the identity of an object, which lives as long as its entry."""


def _parts_of(item: Any) -> list[Any]:
    if id(item) not in _KNOWN:
        _KNOWN[id(item)] = (item, [part for part in _parts(item) if part is not None])
    return _KNOWN[id(item)][1]


def _parts(item: Any) -> Iterator[Any]:
    """Yield the code of an object, and the objects that it names."""
    if isinstance(item, functools.partial):
        yield from (item.func, *item.args, *item.keywords.values())
    elif isinstance(item, MethodType):
        yield from (item.__func__, item.__self__)
    elif isinstance(item, Tool):
        yield item.function
    elif isinstance(item, property):
        yield from (item.fget, item.fset)
    elif isinstance(item, classmethod | staticmethod):
        yield item.__func__
    elif isinstance(item, FunctionType):
        yield from _parts_of_function(item)
    elif isinstance(item, type):
        if _is_own(item.__module__):
            yield from vars(item).values()
            yield from item.__mro__
    elif not isinstance(item, ModuleType) and _is_own(type(item).__module__):
        yield type(item)


def _parts_of_function(function: FunctionType) -> Iterator[Any]:
    function = inspect.unwrap(function)
    if not _is_own(function.__module__):
        # A function of a library or of a caller. Its closure may hold functions of the project.
        yield from _cells(function)
        return
    yield from _cells(function)
    for code in _nested(function.__code__):
        yield code
        for name in code.co_names:
            yield from _with_members(function.__globals__.get(name), code)
        yield from _imported(code, function.__globals__)


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not assigned yet


def _imported(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """Yield what a function imports while it runs."""
    if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return
    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        before = steps[max(0, number - 4) : number]
        constants = [s.argval for s in before if "CONST" in s.opname or "SMALL_INT" in s.opname]
        level = next((c for c in constants if type(c) is int), 0)
        full = importlib.util.resolve_name("." * level + step.argval, names.get("__package__"))
        if _is_own(full):
            for member in _with_members(importlib.import_module(full), code):
                yield from _with_members(member, code)


def _with_members(value: Any, code: CodeType) -> Iterator[Any]:
    """Yield a value, and of a module the members whose names are in the code."""
    yield value
    if isinstance(value, ModuleType) and _is_own(value.__name__):
        yield from (getattr(value, member, None) for member in code.co_names)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _is_own(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in PACKAGES
