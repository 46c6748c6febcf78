"""`ast` for reading: trees are parsed, walked, changed and written as text, never compiled.

A script holds real nodes, so that `isinstance` and `match` work. The library walks a node by the
names in its `_fields`, and an instance can shadow them: ``node._fields = ("__reduce_ex__",)`` makes
`ast.iter_fields` a `getattr` without checks. Here the fields of a node are those of its exact
class, and the library receives only trees without such attributes and without foreign objects.

Rule 1: no function here reads an attribute whose name a script chose
    (test_ast_functions_ignore_fields_that_a_script_sets).
"""

from __future__ import annotations

import ast
import os
import sys
import types
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from ..._language._compiler import MAX_BRACKETS, has_deep_brackets
from .._classes import open_type
from .._views import exact_text

__all__ = ["BASES", "copy_node", "is_node", "literal_eval", "open_nodes", "syntax_members"]

_LITERAL_CHARS: Final = 1 << 20
_SOURCE_CHARS: Final = 1 << 20
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    kind: kind._fields
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_LEAVES: Final = frozenset(
    {str, bytes, int, float, complex, bool, types.NoneType, types.EllipsisType}
)


def is_node(value: object) -> bool:
    """True for a node of the library: scripts can make no other."""
    return type(value) in _FIELDS


def _fields_of(node: Any) -> tuple[str, ...]:
    fields = _FIELDS.get(type(node))
    if fields is None:
        raise AttributeError(f"{type(node).__name__!r} object has no attribute '_fields'")
    if type(node.__dict__) is not dict:  # ast.Name(**{"__dict__": ...}): it could hide names
        raise TypeError("the attributes of a node must be a dict")
    for name in node.__dict__:
        # The library reads `_fields` and `_attributes`; names of the script are renamed.
        if name.startswith("_"):
            raise TypeError(f"a node may not hold {name!r}")
    return fields


def _parts(value: Any) -> Iterator[Any]:
    """Yield the contents of a field, whatever its shape."""
    if type(value) in (list, tuple, frozenset):
        yield from value
    elif type(value) in _FIELDS:
        for name in _fields_of(value):
            yield value.__dict__.get(name)
    elif type(value) not in _LEAVES:
        raise TypeError(f"a tree may not hold {type(value).__name__!r} objects")


def _check_tree(node: Any) -> Any:
    """Return `node`, once every part of it is a node or a constant."""
    _fields_of(node)
    todo, seen = [node], set()
    while todo:
        value = todo.pop()
        if type(value) in _LEAVES or id(value) in seen:
            continue
        seen.add(id(value))
        todo.extend(_parts(value))
    return node


# ---------------------------------------------------------------------------------------------
# Text to trees, and back


def _parse_text(text: str, mode: str, **options: Any) -> Any:
    """Parse text.

    The file name cannot be a path and warnings are off: CPython opens the file of an error, and of
    a warning, to quote from it, which the system call filter would report as an attack.
    """
    if sum(map(text.count, "([{")) > MAX_BRACKETS and has_deep_brackets(text):
        raise MemoryError("too many nested brackets")  # as CPython's parser, for a few more
    flags = ast.PyCF_ONLY_AST
    if options.pop("type_comments", False):
        flags |= ast.PyCF_TYPE_COMMENTS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(text, "\ud800text", mode, flags, dont_inherit=True, **options)
    except SyntaxError as error:
        error.filename = "<unknown>"
        if len(error.args) == 2:
            error.args = (error.args[0], ("<unknown>", *error.args[1][1:]))
        raise


def _text_of(source: object, most: int, what: str) -> str:
    text = source.decode() if type(source) is bytes else exact_text(source)
    if len(text) > most:
        raise ValueError(f"{what} may have {most} characters, not {len(text)}")
    return text


def parse(
    source: Any,
    filename: Any = "<unknown>",
    mode: str = "exec",
    *,
    type_comments: bool = False,
    feature_version: Any = None,
    optimize: int = -1,
) -> Any:
    """`ast.parse`."""
    if is_node(source):
        return source
    os.fspath(filename)
    if not isinstance(source, str | bytes):
        _parse_text("", mode)  # the library checks the mode first
    if type(feature_version) is tuple:
        feature_version = feature_version[1]
    version = -1 if feature_version is None else feature_version
    text = _text_of(source, _SOURCE_CHARS, "a source")
    return _parse_text(text, mode, type_comments=type_comments, _feature_version=version)


def literal_eval(node_or_string: Any) -> Any:
    """`ast.literal_eval` of text or of a tree."""
    if is_node(node_or_string):
        tree = _check_tree(node_or_string)
    elif not isinstance(node_or_string, str):
        raise ValueError(f"malformed node or string: {node_or_string!r}")
    else:
        tree = _parse_text(
            _text_of(node_or_string, _LITERAL_CHARS, "a literal").lstrip(" \t"), "eval"
        )
    try:
        return ast.literal_eval(tree)
    except ValueError:
        # The library's message has an address, which differs in every run.
        raise ValueError("malformed node or string: it is not a literal") from None


def dump(node: Any, *args: Any, **options: Any) -> str:
    """`ast.dump`."""
    if not is_node(node):
        raise TypeError(f"expected AST, got {type(node).__name__!r}")
    return ast.dump(_check_tree(node), *args, **options)


def unparse(ast_obj: Any) -> str:
    """`ast.unparse`."""
    if type(ast_obj) is list:
        return "\n".join(unparse(each) for each in ast_obj)
    return ast.unparse(_check_tree(ast_obj))


def get_docstring(node: Any, clean: bool = True) -> str | None:
    """`ast.get_docstring`."""
    if not is_node(node):
        raise TypeError(f"{type(node).__name__!r} can't have docstrings")
    _fields_of(node)
    return ast.get_docstring(node, clean)


def get_source_segment(source: str, node: Any, *, padded: bool = False) -> str | None:
    """`ast.get_source_segment`."""
    _fields_of(node)
    return ast.get_source_segment(exact_text(source), node, padded=padded)


# ---------------------------------------------------------------------------------------------
# Walks


def iter_fields(node: Any) -> Iterator[tuple[str, Any]]:
    """`ast.iter_fields`."""
    for name in _fields_of(node):
        try:
            yield name, getattr(node, name)
        except AttributeError:
            continue


def iter_child_nodes(node: Any) -> Iterator[Any]:
    """`ast.iter_child_nodes`."""
    for _, value in iter_fields(node):
        if type(value) is list:
            yield from (item for item in value if is_node(item))
        elif is_node(value):
            yield value


def walk(node: Any) -> Iterator[Any]:
    """`ast.walk`."""
    todo = deque([node])
    while todo:
        each = todo.popleft()
        todo.extend(iter_child_nodes(each))
        yield each


def copy_location(new_node: Any, old_node: Any) -> Any:
    """`ast.copy_location`."""
    for node in (new_node, old_node):
        _fields_of(node)
    return ast.copy_location(new_node, old_node)


def fix_missing_locations(node: Any) -> Any:
    """`ast.fix_missing_locations`."""
    return ast.fix_missing_locations(_check_tree(node))


def increment_lineno(node: Any, n: int = 1) -> Any:
    """`ast.increment_lineno`."""
    return ast.increment_lineno(_check_tree(node), n)


# Before 3.14 the library also calls `visit_Num` and the like, with a warning.
_OLD_NAMES: Final = {
    int: "Num", float: "Num", complex: "Num", str: "Str", bytes: "Bytes",
    bool: "NameConstant", types.NoneType: "NameConstant", types.EllipsisType: "Ellipsis",
}  # fmt: skip


class NodeVisitor:
    """`ast.NodeVisitor`."""

    def visit(self, node: Any) -> Any:
        """Call the method for the class of `node`."""
        return getattr(self, f"visit_{type(node).__name__}", self.generic_visit)(node)

    def generic_visit(self, node: Any) -> Any:
        """Visit the children of `node`."""
        for _, value in iter_fields(node):
            if type(value) is list:
                for item in value:
                    if is_node(item):
                        self.visit(item)
            elif is_node(value):
                self.visit(value)

    if sys.version_info < (3, 14):

        def visit_Constant(self, node: Any) -> Any:
            """Call the method with the old name of the constant, or `generic_visit`."""
            old = getattr(self, f"visit_{_OLD_NAMES.get(type(node.value), '')}", None)
            return self.generic_visit(node) if old is None else old(node)


class NodeTransformer(NodeVisitor):
    """`ast.NodeTransformer`."""

    def generic_visit(self, node: Any) -> Any:
        """Replace the children of `node` by what their methods return."""
        for name, value in iter_fields(node):
            if type(value) is list:
                value[:] = self._visit_items(value)
            elif is_node(value):
                new = self.visit(value)
                if new is None:
                    delattr(node, name)
                else:
                    setattr(node, name, new)
        return node

    def _visit_items(self, items: list[Any]) -> list[Any]:
        made: list[Any] = []
        for item in items:
            new = self.visit(item) if is_node(item) else item
            if is_node(item) and type(new) in (list, tuple):
                made.extend(new)
            elif new is not None or item is None:
                made.append(new)
        return made


BASES: Final = (NodeVisitor, NodeTransformer)


def copy_node(node: Any, part: Any, record: Any) -> Any:
    """Return a copy of `node`; for `copy.deepcopy`.

    Args:
        node: A node.
        part: Copies one part.
        record: Receives the copy before its parts are copied.
    """
    _fields_of(node)
    made: Any = ast.AST.__new__(type(node))
    record(made)
    for name, value in node.__dict__.items():
        made.__dict__[name] = part(value)
    return made


def open_nodes() -> None:
    """Let scripts read every field of a node, such as `func`, which is guarded elsewhere."""
    for kind in _FIELDS:
        open_type(kind)


def syntax_members() -> dict[str, Any]:
    """Return the members of `ast` that replace those of the library."""
    functions = (
        copy_location, dump, fix_missing_locations, get_docstring, get_source_segment,
        increment_lineno, iter_child_nodes, iter_fields, literal_eval, parse, unparse, walk,
    )  # fmt: skip
    return {each.__name__: each for each in (*functions, *BASES)}
