"""Interpreter internals: read by the worker, removed from the reach of scripts.

CPython offers many ways to read an attribute without writing its name in source: class patterns,
generated methods, format strings, C functions that take a name. A filter on names has to know all
of them. So the attributes that lead out of a script are deleted from the interpreter's own types:
a read that bypasses the filter finds no attribute of that name.

The functions here captured the descriptors beforehand, and only the worker holds them.

Rule 1: from anything that a script can hold, no attribute leads to a frame, a code object, a module
    or the globals of a function (tests/worker/test_reachability.py).
"""

from __future__ import annotations

import abc
import asyncio.format_helpers
import collections
import enum
import inspect
import operator
import sys
import types
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ._freeze import class_namespace, remove_attributes, replace_attribute

__all__ = [
    "bound_function",
    "bound_object",
    "builtin_owner",
    "closure_of",
    "code_of",
    "coroutine_await",
    "coroutine_frame",
    "coroutine_line",
    "defaults_of",
    "frame_back",
    "frame_code",
    "frame_globals",
    "frame_lasti",
    "frame_lineno",
    "frame_locals",
    "globals_of",
    "is_own_function",
    "is_script_frame",
    "is_unstarted",
    "keyword_defaults_of",
    "remove_internals",
    "traceback_frame",
]


def _reader(kind: type, name: str) -> Callable[[Any], Any]:
    """Return the function that reads attribute `name` of instances of `kind`."""
    read: Callable[[Any], Any] = kind.__dict__[name].__get__
    return read


code_of: Final = _reader(types.FunctionType, "__code__")
closure_of: Final = _reader(types.FunctionType, "__closure__")
defaults_of: Final = _reader(types.FunctionType, "__defaults__")
globals_of: Final = _reader(types.FunctionType, "__globals__")
keyword_defaults_of: Final = _reader(types.FunctionType, "__kwdefaults__")
bound_function: Final = _reader(types.MethodType, "__func__")
bound_object: Final = _reader(types.MethodType, "__self__")
builtin_owner: Final = _reader(types.BuiltinFunctionType, "__self__")
frame_back: Final = _reader(types.FrameType, "f_back")
frame_code: Final = _reader(types.FrameType, "f_code")
frame_globals: Final = _reader(types.FrameType, "f_globals")
frame_lasti: Final = _reader(types.FrameType, "f_lasti")
frame_lineno: Final = _reader(types.FrameType, "f_lineno")
frame_locals: Final = _reader(types.FrameType, "f_locals")
traceback_frame: Final = _reader(types.TracebackType, "tb_frame")
_subclasses: Final = type.__dict__["__subclasses__"]
_generator_code: Final = _reader(types.GeneratorType, "gi_code")

_RUNNING: Final = {
    types.CoroutineType: (_reader(types.CoroutineType, "cr_frame"),
                          _reader(types.CoroutineType, "cr_await")),
    types.GeneratorType: (_reader(types.GeneratorType, "gi_frame"),
                          _reader(types.GeneratorType, "gi_yieldfrom")),
    types.AsyncGeneratorType: (_reader(types.AsyncGeneratorType, "ag_frame"),
                               _reader(types.AsyncGeneratorType, "ag_await")),
}  # fmt: skip


_MARK: Final = "@getattr"
"""Guard that the globals of a script have, and no name of source can be."""


def is_own_function(obj: object) -> bool:
    """Return True for a function that the script's source defines."""
    return type(obj) is types.FunctionType and _MARK in globals_of(obj)


def is_script_frame(frame: types.FrameType) -> bool:
    """Return True for a frame that executes the script's source."""
    return _MARK in frame_globals(frame)


def coroutine_frame(running: object) -> types.FrameType | None:
    """Return the frame of a coroutine or generator; None if it has finished or has none."""
    readers = _RUNNING.get(type(running))
    return readers[0](running) if readers is not None else None


_coroutine_code: Final = _reader(types.CoroutineType, "cr_code")


def coroutine_line(coroutine: types.CoroutineType[Any, Any, Any]) -> int:
    """Return the line at which the function of a coroutine is defined."""
    line: int = _coroutine_code(coroutine).co_firstlineno
    return line


def is_unstarted(coroutine: types.CoroutineType[Any, Any, Any]) -> bool:
    """Return True if a coroutine has not been awaited yet."""
    active = coroutine.cr_running or coroutine.cr_suspended
    return coroutine_frame(coroutine) is not None and not active


def coroutine_await(running: object) -> object:
    """Return the object that a coroutine or generator awaits; None if it is unknown."""
    readers = _RUNNING.get(type(running))
    return readers[1](running) if readers is not None else None


# ---------------------------------------------------------------------------------------------
# Removal

# Attributes by type; a version may lack some. Each leads to a frame, a code object, the globals or
# closure of a function, the module of a builtin function, or the object that a host function is
# bound to.
_REMOVED: Final[dict[type, tuple[str, ...]]] = {
    types.GeneratorType: ("gi_frame", "gi_code", "gi_yieldfrom"),
    types.CoroutineType: ("cr_frame", "cr_code", "cr_await", "cr_origin"),
    types.AsyncGeneratorType: ("ag_frame", "ag_code", "ag_await"),
    types.FrameType: tuple(name for name in dir(types.FrameType) if name.startswith("f_")),
    types.TracebackType: ("tb_frame",),
    types.FunctionType: (
        "__annotate__", "__builtins__", "__closure__", "__code__", "__defaults__", "__globals__",
        "__kwdefaults__",
    ),
    # `__reduce__` returns `__self__` in a tuple.
    types.MethodType: ("__func__", "__self__", "__reduce__"),
    types.BuiltinFunctionType: ("__self__", "__reduce__"),
    types.CellType: ("cell_contents",),
    type: ("__subclasses__",),
    enum.EnumMeta: ("__signature__",),  # from 3.14 on with objects of `inspect`
}  # fmt: skip


def remove_internals(offered: Callable[[type], bool]) -> None:
    """Remove the attributes that lead out of a script; for good, in this process.

    Call it in the zygote, once everything is imported.

    Args:
        offered: True for classes that a script may know; subclass checks are limited to them.
    """
    _patch_library(offered)
    for kind, names in _REMOVED.items():
        remove_attributes(kind, names)
    replace_attribute(type, "__dict__", property(_snapshot))
    # The object that lacks an attribute may be the worker's own. The interpreter sets it on every
    # such error, so a C function drops it; the result is ignored.
    replace_attribute(AttributeError, "obj", property(fset=_drop))


_drop: Any = operator.is_


def _snapshot(kind: type) -> Mapping[str, Any]:
    """Return a copy of a class's namespace.

    A real proxy exposes the dict behind it: ``proxy == spy`` calls the spy with that dict, and a
    script could then replace methods of `dict` itself.
    """
    return types.MappingProxyType(dict(class_namespace(kind)))


def _patch_library(offered: Callable[[type], bool]) -> None:
    """Replace the standard library's own uses of the removed attributes."""

    def subclasses(cls: type) -> list[type]:
        """Return the subclasses of an ABC to `_abc`, which looks for registered classes in them."""
        return [kind for kind in _subclasses(cls) if offered(kind)]

    replace_attribute(abc.ABCMeta, "__subclasses__", subclasses)
    if not hasattr(sys, "_getframemodulename"):  # before 3.12
        typing.__dict__["_caller"] = _caller
    collections.__dict__["namedtuple"] = _namedtuple
    # For the message about a callback that raised, which reads `__code__`.
    asyncio.format_helpers.__dict__["_get_function_source"] = lambda function: None
    inspect.__dict__["_has_code_flag"] = has_code_flag
    inspect.__dict__["isawaitable"] = is_awaitable
    inspect.__dict__["_shadowed_dict"] = _shadowed_dict
    if sys.version_info >= (3, 14):
        import annotationlib

        annotationlib.__dict__["call_annotate_function"] = _annotations
        # Names that a `NamedTuple` does not take over from its class statement. The cell holds the
        # namespace of the statement.
        typing.__dict__["_special"] |= {"__classdictcell__"}
    if hasattr(inspect, "_has_coroutine_mark"):  # 3.12
        inspect.__dict__["_has_coroutine_mark"] = _has_coroutine_mark


def _annotations(annotate: Any, _format: Any, **_options: Any) -> Any:
    """Stand in for `annotationlib.call_annotate_function`, which builds another function.

    It has a form with names that are defined later, and one with text; this one has values only.
    """
    return annotate(1)


_inspect: Any = inspect
_library_shadowed_dict: Final = _inspect._shadowed_dict


def _shadowed_dict(kind: type) -> Any:
    """Stand in for `inspect._shadowed_dict`, which a check of a Protocol calls from 3.12 on.

    It returns the `__dict__` that a class defines itself. For metaclasses that is the snapshot
    above, whose content is the namespace, so nothing is shadowed.
    """
    if issubclass(kind, type):
        return _inspect._sentinel
    return _library_shadowed_dict(kind)


_library_namedtuple: Any = collections.namedtuple
_set_defaults: Final = types.FunctionType.__dict__["__defaults__"].__set__


def _namedtuple(*args: Any, defaults: Any = None, **options: Any) -> Any:
    """Stand in for `collections.namedtuple`, which stores defaults in an attribute of `__new__`."""
    made = _library_namedtuple(*args, defaults=defaults, **options)
    if defaults is not None:
        function = made.__new__
        _set_defaults(function, function.__dict__.pop("__defaults__"))
    return made


def _caller(depth: int = 1, default: str = "__main__") -> str | None:
    """Stand in for `typing._caller`, which returns the calling module to a check of a Protocol."""
    try:
        frame = sys._getframe(depth + 1)
    except ValueError:
        return None
    name: str | None = frame_globals(frame).get("__name__", default)
    return name


def _underlying(function: Any) -> Any:
    """Return the function behind bound methods and partials."""
    import functools

    while True:
        if isinstance(function, types.MethodType):
            function = bound_function(function)
        elif isinstance(function, functools.partial):
            function = function.func
        else:
            return function


def has_code_flag(function: Any, flag: int) -> bool:
    """Stand in for `inspect._has_code_flag`: True if the code of `function` has `flag` set."""
    function = _underlying(function)
    return isinstance(function, types.FunctionType) and bool(code_of(function).co_flags & flag)


def _has_coroutine_mark(function: Any) -> bool:
    """Stand in for `inspect._has_coroutine_mark`; no function of a script has the mark."""
    return False


def is_awaitable(value: Any) -> bool:
    """Stand in for `inspect.isawaitable`."""
    if isinstance(value, types.GeneratorType):
        return bool(_generator_code(value).co_flags & inspect.CO_ITERABLE_COROUTINE)
    return isinstance(value, types.CoroutineType | Awaitable)
