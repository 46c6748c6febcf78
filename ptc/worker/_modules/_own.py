"""Safe versions of library functions that take attribute names, templates or functions.

The originals are gadgets: `operator.attrgetter` is getattr, `functools.update_wrapper` copies any
attribute from anything, `dataclasses.asdict` shows renamed names.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import heapq
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from ..._language import _policy as policy
from .. import _classes
from .._attributes import read_named
from .._freeze import class_namespace
from .._internals import code_of, globals_of, is_own_function
from .._types import ScriptType, identifier, is_tool, type_of
from .._views import exact_text
from ._console import CONSOLE

# ---------------------------------------------------------------------------------------------
# operator


class attrgetter:  # the library's name
    """`operator.attrgetter`, under the rules of source."""

    __slots__ = ("_paths",)

    def __init__(self, attr: str, /, *attrs: str) -> None:
        if not all(isinstance(path, str) for path in (attr, *attrs)):
            raise TypeError("attribute name must be a string")
        self._paths = [exact_text(path).split(".") for path in (attr, *attrs)]

    def __repr__(self) -> str:
        return f"operator.attrgetter({', '.join(repr('.'.join(path)) for path in self._paths)})"

    def __call__(self, obj: Any) -> Any:
        found = [functools.reduce(read_named, path, obj) for path in self._paths]
        return tuple(found) if len(found) > 1 else found[0]


class methodcaller:  # the library's name
    """`operator.methodcaller`, under the rules of source."""

    __slots__ = ("_args", "_name", "_options")

    def __init__(self, name: str, /, *args: Any, **options: Any) -> None:
        self._name, self._args, self._options = exact_text(name), args, options

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self._options.items()]
        shown = ", ".join([repr(self._name), *map(repr, self._args), *named])
        return f"operator.methodcaller({shown})"

    def __call__(self, obj: Any) -> Any:
        return read_named(obj, self._name)(*self._args, **self._options)


# ---------------------------------------------------------------------------------------------
# functools

_FUNCTIONS: Final = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial,
    type(functools.cache(len)), types.MethodDescriptorType, types.MethodWrapperType,
    types.WrapperDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


def check_function(function: Any) -> None:
    """Raise `TypeError` for an object that is not a function: a class has raw descriptors."""
    kind = type(function)
    if kind in _FUNCTIONS or _classes.is_script_class(kind) or callable(function):
        return
    raise TypeError(f"expected a function, not {kind.__name__}")


def update_wrapper(
    wrapper: Any,
    wrapped: Any,
    assigned: Any = functools.WRAPPER_ASSIGNMENTS,
    updated: Any = functools.WRAPPER_UPDATES,
) -> Any:
    """Copy name, docstring and own attributes of `wrapped`, as `functools.wraps` does."""
    _check_wrapper(wrapper, [*assigned, *updated])
    own = type(wrapper) is types.FunctionType and (is_own_function(wrapper) or _is_made(wrapper))
    if _classes.is_script_class(type(wrapper)):
        _copy_facts(wrapper, wrapped)
    elif own:
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            value = getattr(wrapped, name, None)
            if type(value) is str or (value is None and name == "__doc__"):
                setattr(wrapper, name, value)
        if type(wrapped) is types.FunctionType and (is_own_function(wrapped) or _is_made(wrapped)):
            wrapper.__dict__.update(wrapped.__dict__)
            wrapper.__annotations__ = wrapped.__annotations__
        wrapper.__dict__["__wrapped__"] = wrapped
    return wrapper


_HEAP_TYPE: Final = 1 << 9


def _check_wrapper(wrapper: Any, names: list[Any]) -> None:
    """Raise the library's error if the attributes `names` of `wrapper` cannot be set."""
    if not all(isinstance(name, str) for name in names):
        raise TypeError("attribute name must be string")
    kind = type(wrapper)
    if isinstance(wrapper, type) and not wrapper.__flags__ & _HEAP_TYPE:
        raise TypeError(f"cannot set '__module__' attribute of immutable type {wrapper.__name__!r}")
    if isinstance(wrapper, type) or not kind.__dictoffset__:
        raise AttributeError(f"{kind.__name__!r} object has no attribute '__module__'")
    if not callable(wrapper) and not _classes.is_script_class(kind):
        raise TypeError(f"a script may not describe {kind.__name__!r} objects as functions")


def _copy_facts(wrapper: Any, wrapped: Any) -> None:
    """Describe an object of the script as a function: a decorator that is written as a class."""
    for name in ("__name__", "__qualname__", "__doc__"):
        value = getattr(wrapped, name, None)
        if type(value) is str or (value is None and name == "__doc__"):
            setattr(wrapper, name, value)
    if is_own_function(wrapped):
        for name, value in [*wrapped.__dict__.items()]:
            if not policy.is_dunder(name):  # a `__setattr__` of the script would see the value
                setattr(wrapper, name, value)
    wrapper.__wrapped__ = wrapped


def coroutine_test(real: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Make ``iscoroutinefunction``: a tool counts wherever its call is awaited."""

    def iscoroutinefunction(func: Any) -> bool:
        target = func
        while isinstance(target, functools.partial):
            target = target.func
        if is_tool(target):
            return asyncio._get_running_loop() is not None
        return real(func)

    return iscoroutinefunction


def _is_made(function: Any) -> bool:
    """Return True for a function that a decorator made, here or in `functools`."""
    names = globals_of(function)
    return "singledispatch" in names and "<locals>" in code_of(function).co_qualname


def wraps(
    wrapped: Any,
    assigned: Any = functools.WRAPPER_ASSIGNMENTS,
    updated: Any = functools.WRAPPER_UPDATES,
) -> Callable[[Any], Any]:
    """`functools.wraps`."""
    return functools.partial(update_wrapper, wrapped=wrapped, assigned=assigned, updated=updated)


def plain_function(function: Any) -> Any:
    """Return `function`, or a stand-in if the library would copy attributes of a class."""
    check_function(function)
    if type(function) in _FUNCTIONS:
        return function

    def call(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return call


class cached_property:  # the library's name
    """`functools.cached_property`.

    The library's version stores its key where a script can change it, and with it any key of an
    object's ``__dict__``: ``__reduce_ex__``, for example.
    """

    def __init__(self, func: Any) -> None:
        self._function = func
        self._name: str | None = None
        if sys.version_info >= (3, 13):
            _ = func.__module__  # the library copies it
        text = getattr(func, "__doc__", None)
        self.__doc__ = text if type(text) is str else None

    @property
    def attrname(self) -> str | None:
        """The name under which a class has it."""
        return None if self._name is None else policy.demangle(self._name)

    def __set_name__(self, owner: Any, name: str) -> None:
        if policy.is_dunder(name):
            raise TypeError(f"a cached_property may not be named {name!r}")
        if self._name is not None and self._name != name:
            raise TypeError(
                "Cannot assign the same cached_property to two different names "
                f"({policy.demangle(self._name)!r} and {policy.demangle(name)!r})."
            )
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        name = self._name
        if name is None:
            raise TypeError(
                "Cannot use cached_property instance without calling __set_name__ on it."
            )
        try:
            kept = object.__getattribute__(instance, "__dict__")
        except AttributeError:
            raise TypeError(
                f"No '__dict__' attribute on {policy.demangle(type(instance).__name__)!r} "
                f"instance to cache {policy.demangle(name)!r} property."
            ) from None
        if name not in kept:
            kept[name] = self._function(instance)
        return kept[name]

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)


def lru_cache(maxsize: Any = 128, typed: bool = False) -> Any:
    """`functools.lru_cache`."""
    if callable(maxsize) and isinstance(typed, bool):
        return functools.lru_cache(128, typed)(plain_function(maxsize))
    decorate = functools.lru_cache(maxsize, typed)

    def decorating_function(user_function: Any) -> Any:
        if not callable(user_function):
            raise TypeError("the first argument must be callable")
        return decorate(plain_function(user_function))

    return decorating_function


def cache(user_function: Any, /) -> Any:
    """`functools.cache`."""
    return lru_cache(maxsize=None)(user_function)


# ---------------------------------------------------------------------------------------------
# heapq


def merge(*iterables: Any, key: Any = None, reverse: bool = False) -> Any:
    """`heapq.merge`, which reads `__self__` of the last iterator's `__next__`.

    Only a generator has that attribute in a worker.
    """
    return heapq.merge(*map(_items, iterables), key=key, reverse=reverse)


def _items(iterable: Any) -> Any:
    yield from iterable


# ---------------------------------------------------------------------------------------------
# contextlib


def contextmanager(function: Any) -> Any:
    """`contextlib.contextmanager`."""
    return contextlib.contextmanager(plain_function(function))


def asynccontextmanager(function: Any) -> Any:
    """`contextlib.asynccontextmanager`."""
    return contextlib.asynccontextmanager(plain_function(function))


# ---------------------------------------------------------------------------------------------
# collections, typing, types, enum

_UNSET: Final = object()


def namedtuple(typename: Any, field_names: Any, **options: Any) -> Any:
    """`collections.namedtuple` of exact text only: the library compiles text made of the names.

    It asks `rename` twice: first to replace invalid names, then to refuse them.
    """
    options.pop("module", None)
    if "rename" in options:
        options["rename"] = bool(options["rename"])
    if isinstance(field_names, str):
        field_names = exact_text(field_names).replace(",", " ").split()
    names = [_identifier_of(name) for name in field_names]
    made = collections.namedtuple(_identifier_of(typename), names, **options)  # type: ignore[misc]  # the names are data
    made.__module__ = "__main__"
    return _classes.register(made)


def _identifier_of(value: Any) -> str:
    """Return the identifier that a tuple takes from an object of any type."""
    return identifier(value if isinstance(value, str) else str(value))


def NamedTuple(typename: Any, fields: Any = _UNSET, /, **kwargs: Any) -> Any:
    """`typing.NamedTuple` as a function."""
    if fields is not _UNSET and fields is not None:
        if kwargs:
            raise TypeError(
                "Either list of fields or keywords can be provided to NamedTuple, not both"
            )
        fields = [(_identifier_of(name), kind) for name, kind in fields]
    given = () if fields is _UNSET else (fields,)
    kwargs = {identifier(name): kind for name, kind in kwargs.items()}
    made = typing.NamedTuple(_identifier_of(typename), *given, **kwargs)  # type: ignore[misc]  # as above
    made.__module__ = "__main__"
    return _classes.register(made)


def TypedDict(typename: Any, fields: Any = _UNSET, /, *, total: bool = True, **kwargs: Any) -> Any:
    """`typing.TypedDict` as a function."""
    if fields is not _UNSET and fields is not None:
        fields = {exact_text(name): kind for name, kind in dict(fields).items()}
    given = () if fields is _UNSET else (fields,)
    made: Any = typing.TypedDict(exact_text(typename), *given, total=total, **kwargs)  # type: ignore[misc]  # as above
    made.__module__ = "__main__"
    return _classes.register(made)


for _own, _real in ((NamedTuple, typing.NamedTuple), (TypedDict, typing.TypedDict)):
    _classes.stand_in_for_base(_own, _real)


class SimpleNamespace(types.SimpleNamespace):
    """`types.SimpleNamespace` with private names in the script's spelling."""

    __slots__ = ()

    def __init__(self, /, *args: Any, **values: Any) -> None:
        if len(args) > (sys.version_info >= (3, 13)):
            raise TypeError(
                "no positional arguments expected"
                if sys.version_info < (3, 13)
                else f"SimpleNamespace expected at most 1 argument, got {len(args)}"
            )
        for mapping in args:
            values = {**dict(mapping), **values}
        values = {exact_text(name): value for name, value in values.items()}
        for name in values:
            # Library code reads hooks such as __dataclass_fields__ from instances.
            if policy.is_dunder(name):
                raise TypeError(f"a namespace may not hold {name!r}")
        super().__init__(**{policy.rename(name): value for name, value in values.items()})

    def __repr__(self) -> str:
        pairs = (f"{policy.demangle(k)}={v!r}" for k, v in self.__dict__.items())
        kind = type(self)
        name = "namespace" if kind is SimpleNamespace else policy.demangle(kind.__name__)
        return f"{name}({', '.join(pairs)})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, types.SimpleNamespace):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__ = None  # as the library's: mutable


def reveal_type(obj: Any, /) -> Any:
    """`typing.reveal_type`: prints the name of the type and returns the object."""
    shown = policy.demangle(type_of(obj).__name__)
    CONSOLE.show(f"Runtime type is {shown!r}", file=CONSOLE.stderr)
    return obj


def get_original_bases(cls: Any, /) -> tuple[Any, ...]:
    """`types.get_original_bases`, with `object` in place of a class that scripts do not know."""
    if not isinstance(cls, type):
        raise TypeError(f"Expected an instance of type, not {type(cls).__name__!r}")
    found = class_namespace(cls).get("__orig_bases__", cls.__bases__)
    return tuple(
        object if isinstance(base, type) and not _classes.is_known(base) else base for base in found
    )


def get_origin(kind: Any) -> Any:
    """`typing.get_origin`, but never a metaclass."""
    found = typing.get_origin(kind)
    return ScriptType if isinstance(found, type) and issubclass(found, type) else found
