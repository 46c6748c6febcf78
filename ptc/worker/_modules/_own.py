"""Functions of the library that take attribute names, templates or functions, made safe.

The originals are gadgets: `operator.attrgetter` is getattr, `functools.update_wrapper` copies any
attribute from anything, `dataclasses.asdict` shows renamed names.
"""

from __future__ import annotations

import ast
import asyncio
import collections
import contextlib
import dataclasses
import enum
import functools
import heapq
import shlex
import types
import typing
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..._language import _policy as policy
from .. import _classes, _freeze
from .._attributes import read_named
from .._clock import Clock
from .._internals import globals_of
from .._types import ScriptType
from .._views import exact_text

# ---------------------------------------------------------------------------------------------
# operator


class attrgetter:  # the library's name
    """`operator.attrgetter`, under the rules of source."""

    __slots__ = ("_paths",)

    def __init__(self, attr: str, /, *attrs: str) -> None:
        self._paths = [exact_text(path).split(".") for path in (attr, *attrs)]

    def __call__(self, obj: Any) -> Any:
        found = [functools.reduce(read_named, path, obj) for path in self._paths]
        return tuple(found) if len(found) > 1 else found[0]


class methodcaller:  # the library's name
    """`operator.methodcaller`, under the rules of source."""

    __slots__ = ("_args", "_name", "_options")

    def __init__(self, name: str, /, *args: Any, **options: Any) -> None:
        self._name, self._args, self._options = exact_text(name), args, options

    def __call__(self, obj: Any) -> Any:
        return read_named(obj, self._name)(*self._args, **self._options)


# ---------------------------------------------------------------------------------------------
# functools

_FUNCTIONS: Final = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial,
    type(functools.cache(len)), types.MethodDescriptorType, types.MethodWrapperType,
    types.WrapperDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip


def _check_function(function: Any) -> None:
    """Let only functions be copied from: a class would hand out its raw descriptors."""
    kind = type(function)
    if kind in _FUNCTIONS or _classes.is_script_class(kind) or callable(function):
        return
    raise TypeError(f"expected a function, not {kind.__name__}")


def update_wrapper(wrapper: Any, wrapped: Any, *_: Any, **__: Any) -> Any:
    """Copy name, text and own attributes of `wrapped`: what `functools.wraps` is used for."""
    _check_function(wrapped)
    if type(wrapper) is types.FunctionType and not globals_of(wrapper).keys().isdisjoint(_MARKS):
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            value = getattr(wrapped, name, None)
            if type(value) is str or (value is None and name == "__doc__"):
                setattr(wrapper, name, value)
        if type(wrapped) is types.FunctionType:
            wrapper.__dict__.update(wrapped.__dict__)
    return wrapper


# Globals of functions that may be given another name: the script's, and the ones made here.
_MARKS: Final = frozenset({"@getattr", "asyncio_runner"})


def wraps(wrapped: Any, *_: Any, **__: Any) -> Callable[[Any], Any]:
    """`functools.wraps`."""
    return lambda wrapper: update_wrapper(wrapper, wrapped)


def _plain_function(function: Any) -> Any:
    """`function`, or a stand-in for it where the library would copy a class's attributes."""
    _check_function(function)
    if type(function) in _FUNCTIONS:
        return function

    def call(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return call


class cached_property:  # the library's name
    """`functools.cached_property`.

    The library's keeps the name under which it stores where a script can write to it, and with it
    any key of an object's ``__dict__``: ``__reduce_ex__``, for one.
    """

    def __init__(self, func: Any) -> None:
        self._function = func
        self._name: str | None = None
        text = getattr(func, "__doc__", None)
        self.__doc__ = text if type(text) is str else None

    def __set_name__(self, owner: Any, name: str) -> None:
        if policy.is_dunder(name):
            raise TypeError(f"a cached_property may not be called {name!r}")
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
    if callable(maxsize) and not isinstance(maxsize, int):
        return functools.lru_cache(128, typed)(_plain_function(maxsize))
    decorate = functools.lru_cache(maxsize, typed)
    return lambda function: decorate(_plain_function(function))


def cache(function: Any, /) -> Any:
    """`functools.cache`."""
    return functools.cache(_plain_function(function))


def _annotated_class(function: Any) -> Any:
    if type(function) is not types.FunctionType:
        raise TypeError("register() needs a class, or a function whose first argument has one")
    found = [kind for name, kind in function.__annotations__.items() if name != "return"]
    if not found or isinstance(found[0], str):
        raise TypeError("write the class: `@f.register(int)`; annotations as text are not read")
    return found[0]


def singledispatch(function: Any) -> Any:
    """`functools.singledispatch`; annotations that are text are not evaluated."""
    _check_function(function)
    registry: dict[Any, Any] = {object: function}

    def dispatch(kind: Any) -> Any:
        for base in kind.__mro__:
            if base in registry:
                return registry[base]
        matching = [known for known in registry if issubclass(kind, known)]
        return registry[matching[-1]]

    def register(kind: Any, implementation: Any = None) -> Any:
        if implementation is None:
            if isinstance(kind, type) or typing.get_origin(kind) is types.UnionType:
                return lambda chosen: register(kind, chosen)
            implementation, kind = kind, _annotated_class(kind)
        for each in typing.get_args(kind) or (kind,):
            if not isinstance(each, type):
                raise TypeError(f"{each!r} is not a class")
            registry[each] = implementation
        return implementation

    def wrapper(*args: Any, **options: Any) -> Any:
        if not args:
            raise TypeError(f"{function.__name__} requires at least 1 positional argument")
        return dispatch(type(args[0]))(*args, **options)

    update_wrapper(wrapper, function)
    wrapper.register = register  # type: ignore[attr-defined]  # functions take attributes
    wrapper.dispatch = dispatch  # type: ignore[attr-defined]  # functions take attributes
    return wrapper


# ---------------------------------------------------------------------------------------------
# heapq


def merge(*iterables: Any, key: Any = None, reverse: bool = False) -> Any:
    """`heapq.merge`, which asks the last iterator's `__next__` for the object it is bound to.

    Only a generator answers in a worker.
    """
    return heapq.merge(*map(_items, iterables), key=key, reverse=reverse)


def _items(iterable: Any) -> Any:
    yield from iterable


# ---------------------------------------------------------------------------------------------
# contextlib


def contextmanager(function: Any) -> Any:
    """`contextlib.contextmanager`."""
    return contextlib.contextmanager(_plain_function(function))


def asynccontextmanager(function: Any) -> Any:
    """`contextlib.asynccontextmanager`."""
    return contextlib.asynccontextmanager(_plain_function(function))


# ---------------------------------------------------------------------------------------------
# collections, typing, types, enum

_UNSET: Final = object()


def namedtuple(typename: Any, field_names: Any, **options: Any) -> Any:
    """`collections.namedtuple`. The library compiles text made of the names: exact text only."""
    options.pop("module", None)
    if isinstance(field_names, str):
        field_names = exact_text(field_names).replace(",", " ").split()
    names = [_identifier(name if isinstance(name, str) else str(name)) for name in field_names]
    made = collections.namedtuple(_identifier(typename), names, **options)  # type: ignore[misc]  # the names are data
    made.__module__ = "__main__"
    return _classes.register(made)


def _identifier(name: Any) -> str:
    """`name` as CPython reads it in a source: a check must see what is compiled."""
    return unicodedata.normalize("NFKC", exact_text(name))


def NamedTuple(typename: Any, fields: Any = _UNSET, /, **kwargs: Any) -> Any:
    """`typing.NamedTuple` as a function."""
    if fields is not _UNSET and fields is not None:
        fields = [(_identifier(name), kind) for name, kind in fields]
    given = () if fields is _UNSET else (fields,)
    kwargs = {_identifier(name): kind for name, kind in kwargs.items()}
    made = typing.NamedTuple(_identifier(typename), *given, **kwargs)  # type: ignore[misc]  # as above
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
    """`types.SimpleNamespace` whose private names are the script's."""

    def __init__(self, /, *args: Any, **values: Any) -> None:
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
        return f"namespace({', '.join(pairs)})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, types.SimpleNamespace):
            return self.__dict__ == other.__dict__
        return NotImplemented

    __hash__ = None  # as the library's: mutable


def get_origin(kind: Any) -> Any:
    """`typing.get_origin`, which never gives a metaclass."""
    found = typing.get_origin(kind)
    return ScriptType if isinstance(found, type) and issubclass(found, type) else found


def vet_annotations() -> None:
    """Let text in an annotation be parsed and never compiled: `typing.List["Node"]`.

    Nothing evaluates it here. And CPython opens the file of what it cannot compile, to quote from
    it, which the filter would take for an attack.
    """

    def parse(source: str, filename: str, mode: str) -> Any:
        return compile(source, "\ud800annotation", mode, ast.PyCF_ONLY_AST)

    vars(typing)["compile"] = parse


def vet_enum_calls() -> None:
    """Make `Enum("Name", members)` follow the rules of a class statement.

    Enum classes must be the real ones, for isinstance and for subclassing, so it is their
    metaclass in this process, the worker, that learns to check.
    """
    original = enum.EnumMeta.__call__
    if getattr(original, "vetted", False):
        return

    def call(cls: Any, value: Any, *args: Any, **options: Any) -> Any:
        if cls._member_map_ or not (args or options):
            return original(cls, value, *args, **options)
        base = options.pop("type", None)
        if base is not None and not _classes.is_allowed_base(base):
            raise TypeError("a script may not subclass this type")
        names = args[0] if args else options.pop("names", ())
        chosen = {key: options[key] for key in ("start", "boundary") if key in options}
        members = _members(names)
        made = original(cls, exact_text(value), members, type=base, module="__main__", **chosen)
        return _classes.register(made)

    call.vetted = True  # type: ignore[attr-defined]  # functions take attributes
    _freeze.replace_attribute(enum.EnumMeta, "__call__", call)


def vet_enum_properties() -> None:
    """Make what `enum` puts in the place of an attribute follow the rules of source.

    A member that has the name of a method of a mixin becomes a property, which reads that name of
    the member's *value* (3.12): ``gi_frame`` of a generator.
    """
    prop: Any = enum.property
    original = prop.__get__
    if getattr(original, "vetted", False):
        return

    def get(self: Any, instance: Any, ownerclass: Any = None) -> Any:
        if instance is not None:
            function = self.fget
            if function is not None:
                return function(instance)
            read = getattr(self, "_attr_type", None)
            if read == "attr":
                return read_named(self._cls_type, self.name)
            if read == "desc":
                return read_named(instance._value_, self.name)
        return original(self, instance, ownerclass)

    get.vetted = True  # type: ignore[attr-defined]  # functions take attributes
    _freeze.replace_attribute(prop, "__get__", get)


def vet_field_names() -> None:
    """Let the name of a dataclass's field be nothing but a name.

    The library makes the text of methods of it, and reads attributes by it; a script has the field
    in hand and could write another name to it, also while a class is being made.
    """
    slot: Any = dataclasses.Field.__dict__["name"]
    if isinstance(slot, property):
        return

    def write(self: Any, name: Any) -> None:
        if name is not None and not (
            type(name) is str and name.isidentifier() and not policy.is_dunder(name)
        ):
            raise TypeError("the name of a field must be an identifier without double underscores")
        slot.__set__(self, name)

    _freeze.replace_attribute(dataclasses.Field, "name", property(slot.__get__, write))


def _members(names: Any) -> list[Any]:
    """Members as exact text, or pairs of exact text and value."""
    if isinstance(names, str):
        found: list[Any] = [
            _identifier(name) for name in exact_text(names).replace(",", " ").split()
        ]
    elif isinstance(names, Mapping):
        found = [(_identifier(name), value) for name, value in dict(names).items()]
    else:
        found = []
        for each in names:
            pair = each if isinstance(each, str) else tuple(each)
            found.append(
                _identifier(pair) if isinstance(pair, str) else (_identifier(pair[0]), pair[1])
            )
    for each in found:
        if (each if type(each) is str else each[0]).startswith("_"):
            raise TypeError("the name of an enum member may not start with an underscore")
    return found


# ---------------------------------------------------------------------------------------------
# asyncio


async def _awaited(call: Any) -> Any:
    return await call


def _as_coroutine(awaitable: Any) -> Any:
    """A call on ctx has started already; what wants a coroutine gets one that waits for it."""
    return _awaited(awaitable) if isinstance(awaitable, asyncio.Future) else awaitable


def create_task(coro: Any, *, name: Any = None) -> Any:
    """`asyncio.create_task`, which also takes a call on ctx."""
    return asyncio.create_task(_as_coroutine(coro), name=name)


class TaskGroup(asyncio.TaskGroup):
    """`asyncio.TaskGroup`, which also takes calls on ctx."""

    def create_task(self, coro: Any, *, name: Any = None) -> Any:  # type: ignore[override]  # no `context`: contextvars is not offered
        """As `asyncio.TaskGroup.create_task`."""
        return super().create_task(_as_coroutine(coro), name=name)


def asyncio_runner(clock: Clock) -> Callable[..., Any]:
    """`asyncio.run`, on the loop of the run, which is the only one there is."""

    def asyncio_run(main: Any, *, debug: bool | None = None) -> Any:
        if asyncio._get_running_loop() is not None or clock.drive is None:
            raise RuntimeError(
                "asyncio.run() cannot be called while a loop is running; "
                "write `await` before the coroutine instead"
            )
        if not isinstance(main, types.CoroutineType):
            raise ValueError(f"a coroutine was expected, got {type(main).__name__}")
        return clock.drive(main)

    return asyncio_run


_LITERAL_CHARS: Final = 1 << 20


def literal_eval(node_or_string: str) -> Any:
    """`ast.literal_eval` of text; a tree cannot be had.

    The name of the file cannot be a path and warnings are off: CPython opens the file of an error,
    and of a warning, to quote from it, which the jail would take for an attack.
    """
    text = exact_text(node_or_string)
    if len(text) > _LITERAL_CHARS:
        raise ValueError(f"a literal may have {_LITERAL_CHARS} characters, not {len(text)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(text.lstrip(" \t"), "\ud800literal", "eval", ast.PyCF_ONLY_AST)
        return ast.literal_eval(tree)
    except SyntaxError as error:
        error.filename = "<unknown>"
        raise
    except ValueError:
        # The library's message holds an address, which no two runs have in common.
        raise ValueError("malformed node or string: it is not a literal") from None


def shlex_split(s: str, comments: bool = False, posix: bool = True) -> list[str]:
    """`shlex.split`, which reads standard input when it is given None."""
    return shlex.split(exact_text(s), comments, posix)
