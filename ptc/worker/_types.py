"""Classes as a script sees them: `type(x)`, and stand-ins for classes that it may not call.

Rule 1: a script never receives a metaclass (test_type_never_returns_a_metaclass).
Rule 2: no task or future is created on a loop of the script's own
    (test_script_cannot_construct_a_task_from_its_type).
"""

from __future__ import annotations

import asyncio
import types
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from ._identity import is_shown_as_builtin

__all__ = [
    "Future",
    "ScriptType",
    "Task",
    "Token",
    "exact_text",
    "identifier",
    "is_tool",
    "make_classes_with",
    "stands_for",
    "target_of",
    "tool_type",
    "type_of",
]


_CLASS_MAKERS: Final[list[Callable[..., Any]]] = []
"""The function behind ``type(name, bases, namespace)``; `_classes` imports this module."""


def make_classes_with(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register the function behind ``type(name, bases, namespace)``."""
    _CLASS_MAKERS.append(function)
    return function


class _TypeMeta(type):
    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and not options:
            return type_of(args[0])
        if len(args) == 1:
            raise TypeError("type() takes no keyword arguments")
        if len(args) != 3:
            raise TypeError("type() takes 1 or 3 arguments")
        kinds: tuple[type, ...] = (str, tuple, dict)
        for at, (value, kind) in enumerate(zip(args, kinds, strict=True), 1):
            if not isinstance(value, kind):
                shown = "None" if value is None else type(value).__name__
                message = f"type.__new__() argument {at} must be {kind.__name__}, not {shown}"
                raise TypeError(message)
        (make_class,) = _CLASS_MAKERS
        return make_class(*args, **options)

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, type)

    __iter__ = None  # or `__getitem__` would make the class an endless iterable

    def __repr__(cls) -> str:
        return "<class 'type'>"

    def __getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)


class ScriptType(metaclass=_TypeMeta):
    """The script's `type`: returns the class of an object, or makes a checked class."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Exist, as the method of `type` does: ``issubclass(type, Callable)`` asks for it."""
        raise TypeError("'type' object is not callable")  # of an instance: there is none


ScriptType.__name__ = ScriptType.__qualname__ = "type"
ScriptType.__module__ = "builtins"


def exact_text(name: object) -> str:
    """Return `name` as an exact `str`: a subclass may lie about its text.

    Raises:
        TypeError: If `name` is not text.
    """
    if type(name) is str:
        return name
    if isinstance(name, str):
        return str.__str__(name)
    raise TypeError(f"attribute name must be string, not {type(name).__name__!r}")


def identifier(name: Any) -> str:
    """Return `name` as CPython reads it in source, where two spellings may be one name.

    Text that the library compiles is made of such names. A check must see the compiled name, and
    CPython opens the file of invalid text, which the system call filter would report as an attack.
    """
    return unicodedata.normalize("NFKC", exact_text(name))


class _OpaqueMeta(type):
    """Metaclass of a class that is only for isinstance()."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        raise TypeError(f"{cls.__name__} objects are made by asyncio.create_task() and by ctx")

    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, _OPAQUE[cls])

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _OPAQUE.get(kind, kind)) and issubclass(
            _OPAQUE.get(kind, kind), _OPAQUE[cls]
        )

    def __getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    __iter__ = None  # as above

    def __repr__(cls) -> str:
        return f"<class '_asyncio.{cls.__name__}'>"


# The real classes take `loop=`, and a loop made by the script would receive the worker's context
# variables with every callback.
Future = _OpaqueMeta("Future", (), {"__slots__": (), "__module__": "_asyncio"})
Task = _OpaqueMeta("Task", (Future,), {"__slots__": (), "__module__": "_asyncio"})
_OPAQUE: Final[dict[type, type]] = {Future: asyncio.Future, Task: asyncio.Task}


_TypeMeta.__name__ = _OpaqueMeta.__name__ = "type"  # as errors show it


class Token:
    """Stands for a class that a script may name but never hold, such as a metaclass."""

    __slots__ = ("_name",)

    def __init__(self, name: str, target: type) -> None:
        self._name = name
        _TARGETS[self] = target

    def __repr__(self) -> str:
        return f"<class '{self._name}'>"


# Not an attribute, which could be read by other means than its name.
_TARGETS: Final[dict[Token, type]] = {}


def target_of(token: Token) -> type:
    """Return the class that `token` stands for."""
    return _TARGETS[token]


_FUNCTIONS: Final = (types.FunctionType, types.MethodType)
_SHOWN: Final[dict[type, type]] = {Token: ScriptType}


def stands_for(shown: type) -> Callable[[type], type]:
    """Make `type(x)` return `shown` for instances of a worker class.

    A script that holds a class can call it: ``type("".format)(template, ...)`` reached a format
    string that no guard had checked.
    """

    def record(kind: type) -> type:
        _SHOWN[kind] = shown
        return kind

    return record


_TOOLS: Final[set[type]] = set()


def tool_type(kind: type) -> type:
    """Declare that instances of `kind` call tools: in an event loop, their results are awaited."""
    _TOOLS.add(kind)
    return kind


def is_tool(obj: object) -> bool:
    """True for ``ctx.name``."""
    return type(obj) in _TOOLS


def type_of(obj: object) -> Any:
    """Return the class of `obj`; never a metaclass, which could make classes without checks."""
    kind = type(obj)
    if kind in _FUNCTIONS and is_shown_as_builtin(obj):
        return types.BuiltinFunctionType
    if kind in _SHOWN:
        return _SHOWN[kind]
    if issubclass(kind, type):
        return ScriptType
    if issubclass(kind, asyncio.Future):
        return Task if issubclass(kind, asyncio.Task) else Future
    return kind
