"""`typing.get_type_hints` for a script's functions and classes, without evaluating text.

The library runs an annotation that is text as Python. Here the text is parsed, and names,
attributes, subscriptions and unions in it are looked up under the rules of source.

Rule 1: no text is compiled to code, and a name in it is one that the script could write
    (test_type_hints_evaluate_no_code).
"""

from __future__ import annotations

import ast
import functools
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from .._language import _policy as policy
from ._attributes import read_named
from ._classes import ScriptSuper, is_script_class
from ._freeze import class_namespace, own_annotations
from ._internals import (
    bound_function,
    frame_back,
    frame_globals,
    globals_of,
    is_own_function,
    is_script_frame,
)
from ._types import exact_text

__all__ = ["get_type_hints", "resolve"]

_CHARS: Final = 2_000
_Find: typing.TypeAlias = Callable[[str], Any]


def get_type_hints(
    obj: Any, globalns: Any = None, localns: Any = None, include_extras: bool = False
) -> dict[str, Any]:
    """Return the annotations of a function or class of the script, text resolved.

    Raises:
        TypeError: If `obj` is something else, or an annotation is more than a type expression.
        NameError: If an annotation names an unknown variable.
    """
    names = [each for each in (localns, globalns) if each is not None]
    found: dict[str, Any] = {}
    for written, namespace in _annotations(obj):
        find = _finder([*names, namespace])
        for name, kind in written.items():
            hint = resolve(kind, find)
            found[policy.demangle(name)] = hint if include_extras else _strip(hint)
    return found


def _annotations(obj: Any) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return pairs of annotations and the globals in which they were written."""
    if type(obj) is types.MethodType:
        obj = bound_function(obj)
    while type(obj) is types.FunctionType and "__wrapped__" in obj.__dict__:
        obj = obj.__dict__["__wrapped__"]
    if is_own_function(obj):
        return [(dict(obj.__annotations__), globals_of(obj))]
    if isinstance(obj, type) and is_script_class(obj):
        bases = [base for base in reversed(obj.__mro__) if is_script_class(base)]
        return [(_own_annotations(base), _globals_of_class(obj)) for base in bases]
    raise TypeError(f"{obj!r} is not a class or function of the script")


def _own_annotations(kind: type) -> Mapping[str, Any]:
    found = own_annotations(kind)
    return dict(found) if type(found) is dict else {}


def _globals_of_class(kind: type) -> Mapping[str, Any]:
    """Return the script's globals, from a method of the class; a script has one module."""
    for base in kind.__mro__:
        for value in class_namespace(base).values():
            if is_own_function(value):
                found: Mapping[str, Any] = globals_of(value)
                return found
    return _module()


def _module() -> Mapping[str, Any]:
    """Return the globals of the script that called."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_script_frame(frame):
            found: Mapping[str, Any] = frame_globals(frame)
            return found
        frame = frame_back(frame)
    return {}


def _finder(namespaces: list[Any]) -> _Find:
    builtins: Mapping[str, Any] = next(
        (each["__builtins__"] for each in namespaces if type(each) is dict and "@getattr" in each),
        {},
    )

    def find(name: str) -> Any:
        if policy.is_dunder(name):
            raise NameError(f"an annotation may not name {name!r}")
        for namespace in [*namespaces, builtins]:
            if name in namespace:
                found = namespace[name]
                return ScriptSuper if found is super else found
        raise NameError(f"name {name!r} is not defined", name=name)

    return find


def resolve(kind: Any, find: _Find) -> Any:
    """Return an annotation with the text in it resolved."""
    if kind is None:
        return type(None)
    if isinstance(kind, str):
        return resolve(_evaluate(_parse(exact_text(kind)), find), find)
    if type(kind) is typing.ForwardRef:
        return resolve(kind.__forward_arg__, find)
    origin = typing.get_origin(kind)
    if origin is None or origin is typing.Literal:
        return kind
    return _rebuild(kind, origin, lambda part: resolve(part, find))


def _rebuild(kind: Any, origin: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to the types in a subscribed type."""
    stored = hasattr(kind, "copy_with")  # the alias of a callable does not nest its arguments
    args = kind.__args__ if stored else typing.get_args(kind)
    if origin is typing.Annotated:
        return typing.Annotated[(change(args[0]), *kind.__metadata__)]
    made = tuple(
        [change(each) for each in part]
        if type(part) is list
        else part
        if part is None or part is ... or part == ()
        else change(part)
        for part in args
    )
    if all(new is old for new, old in zip(made, args, strict=True)):
        return kind
    if isinstance(kind, types.UnionType):
        return functools.reduce(operator.or_, made)
    if isinstance(kind, types.GenericAlias):
        # A callable has an alias of its own, which shows the list of its arguments.
        plain = type(kind) is types.GenericAlias
        return types.GenericAlias(origin, made) if plain else origin[made]
    if origin is typing.Union:
        return typing.Union[made]  # noqa: UP007  # a value
    return kind.copy_with(made) if stored else kind


def _strip(kind: Any) -> Any:
    """Remove `Annotated`, `Required` and `NotRequired`, as the library does."""
    origin = typing.get_origin(kind)
    if origin is None or origin is typing.Literal:
        return kind
    if origin is typing.Annotated or origin in {typing.Required, typing.NotRequired}:
        return _strip(typing.get_args(kind)[0])
    return _rebuild(kind, origin, _strip)


def _parse(text: str) -> ast.expr:
    if len(text) > _CHARS:
        raise TypeError(f"an annotation may have {_CHARS:,} characters, not {len(text):,}")
    try:
        # Not the name of a file: CPython opens the file of a SyntaxError to quote from it.
        tree: Any = compile(text.strip(), "\ud800annotation", "eval", ast.PyCF_ONLY_AST)
    except SyntaxError:
        raise SyntaxError(f"Forward reference must be an expression -- got {text!r}") from None
    return tree.body  # type: ignore[no-any-return]  # an expression


def _evaluate(node: ast.expr, find: _Find) -> Any:
    match node:
        case ast.Name(id=name):
            return find(name)
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=value, attr=attr):
            return read_named(_evaluate(value, find), attr)
        case ast.Subscript(value=value, slice=part):
            return _evaluate(value, find)[_evaluate(part, find)]
        case ast.Tuple(elts=parts):
            return tuple([_evaluate(part, find) for part in parts])
        case ast.List(elts=parts):
            return [_evaluate(part, find) for part in parts]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union(_evaluate(left, find), _evaluate(right, find))
    text = "an annotation that is text may hold names, attributes, [...] and | only"
    raise TypeError(f"{text}: {ast.unparse(node)!r}")


def _union(left: Any, right: Any) -> Any:
    return left | right
