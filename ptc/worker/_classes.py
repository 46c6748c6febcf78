"""Classes of a script: how they are made, and how they are recognised.

Rule 1: a class statement accepts bases from a list only
    (test_class_with_a_disallowed_base_is_refused).
Rule 2: no script names a metaclass (test_a_metaclass_is_refused).
Rule 3: no class makes `match` read a guarded attribute by position
    (test_match_args_cannot_name_a_power_attribute).
"""

from __future__ import annotations

import abc
import builtins
import enum
import types
import typing
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .._language import _policy as policy
from . import _freeze
from ._identity import ScriptObject
from ._types import Token, exact_text, identifier, make_classes_with, stands_for, target_of

__all__ = [
    "ScriptSuper",
    "allow_bases",
    "build_class",
    "check_match_args",
    "is_allowed_base",
    "is_known",
    "is_open",
    "is_script_class",
    "make_class",
    "offer",
    "open_type",
    "register",
    "stand_in_for_base",
]

_T = typing.TypeVar("_T")
_made: weakref.WeakSet[type] = weakref.WeakSet()
_bases: set[type] = {
    object, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset,
}  # fmt: skip
_open: set[type] = set()
_offered: set[type] = set()


def allow_bases(*kinds: type) -> None:
    """Let scripts subclass `kinds`. Each is reviewed: no method runs text or walks attributes."""
    _bases.update(kinds)


def open_type(kind: type[_T]) -> type[_T]:
    """Declare that every public attribute of instances of `kind` is meant for scripts.

    For `ctx` and similar objects with tool names as attributes: a tool may be named `evaluate`.
    """
    _open.add(kind)
    return kind


def offer(kind: type) -> None:
    """Declare that scripts find `kind` in a module, so that it may be shown to them."""
    _offered.add(kind)


def is_known(kind: type) -> bool:
    """True if scripts may know `kind`: their own classes, and those that modules offer."""
    return kind in _offered or kind in _bases or is_script_class(kind)


def is_open(kind: type) -> bool:
    """True if the public attributes of instances of `kind` are meant for scripts."""
    return kind in _open


def register(kind: type) -> type:
    """Record a class that library code made for the script, such as a namedtuple."""
    check_match_args(kind)
    _made.add(kind)
    return kind


def is_script_class(kind: type) -> bool:
    """True if `kind` was made by or for the script."""
    if _freeze.is_frozen():
        # A class that is not frozen was made after the freeze, or is being made.
        return not kind.__flags__ & _freeze.IMMUTABLE
    return kind in _made


def is_allowed_base(kind: object) -> bool:
    """True if a script may subclass `kind`."""
    if not isinstance(kind, type):
        return False
    if is_script_class(kind) or kind in _bases:
        return True
    # `except*` trusts split() of a group, see `_groups`: no class may define its own.
    if issubclass(kind, BaseException):
        return not issubclass(kind, BaseExceptionGroup)
    return False


def check_match_args(kind: type) -> None:
    """Empty `__match_args__` if it names an attribute that a pattern may not read.

    The tuple is checked on every new class, even if it is inherited or dataclasses made it,
    because `abc` lets a class claim foreign instances.

    Raises:
        TypeError: If it is not a tuple of text.
    """
    if not _may_match(getattr(kind, "__match_args__", ())):
        type.__setattr__(kind, "__match_args__", ())


def _effective_match_args(namespace: Mapping[str, Any], bases: tuple[Any, ...]) -> Any:
    if "__match_args__" in namespace:
        return namespace["__match_args__"]
    found = (getattr(base, "__match_args__", None) for base in bases)
    return next((names for names in found if names is not None), ())


def _may_match(names: Any) -> bool:
    """True if a class pattern may read `names` by position."""
    if type(names) is not tuple or any(type(name) is not str for name in names):
        raise TypeError("__match_args__ must be a tuple of text constants")
    return all(policy.kind_of(name) not in {"power", "dunder"} for name in names)


def _resolve(bases: tuple[object, ...]) -> tuple[object, ...]:
    for base in bases:
        if isinstance(base, type) or type(base) in _ALIASES:
            continue
        # By identity: a script's `==` may return True for anything.
        if any(base is function for function in _entry_functions):
            continue
        raise TypeError(_base_error(base))
    found = [
        next((real for own, real in _entry_functions.items() if base is own), base)
        for base in bases
    ]
    return types.resolve_bases(typing.cast(Any, found))


def stand_in_for_base(own: Callable[..., Any], real: Any) -> None:
    """Replace `own`, a function that scripts call, by `real` in a list of bases."""
    _entry_functions[own] = real


_ALIASES: Final = {
    types.GenericAlias, type(list[int]), type(list), type(typing.Callable),
    type(tuple), type(typing.Annotated[int, ""]), type(typing.Any),
}  # fmt: skip


class _Sample(typing.Generic[_T]):
    pass


_ALIASES.add(type(_Sample[int]))
_entry_functions: dict[Callable[..., Any], Any] = {}
# The classes that these two become in a list of bases.
_bases.update(types.resolve_bases(typing.cast(Any, (typing.NamedTuple, typing.TypedDict))))
_METACLASSES: Final = (abc.ABCMeta, enum.EnumMeta, type)
_ABSENT: Final = object()


def _base_error(base: object) -> str:
    named = base if isinstance(base, type | types.FunctionType) else type(base)
    if isinstance(base, Token):
        named = target_of(base)
    name = policy.demangle(named.__name__)
    if isinstance(base, Token) or name == "type":
        remedy = "use __init_subclass__ of a base class, or a class decorator"
    else:
        remedy = "subclass object, a builtin data type, an exception, or wrap an instance"
    return f"a script may not subclass {name}; {remedy}"


def build_class(
    function: Callable[..., Any],
    name: str,
    /,
    *bases: Any,
    metaclass: Any = _ABSENT,
    **options: Any,
) -> Any:
    """Stand in for `__build_class__`, which the class statement calls."""
    maker, resolved = _maker(bases, metaclass)
    made = builtins.__build_class__(
        function, policy.demangle(name), *resolved, metaclass=maker, **options
    )
    return _finish(made)


class _SuperMeta(type):
    def __call__(cls, *args: Any) -> Any:
        if not args:
            raise RuntimeError("super(): no arguments")
        if not (isinstance(args[0], type) and is_script_class(args[0])):
            raise TypeError("super() starts at a class of the script")
        real: Any = super
        return real(*args)

    def __instancecheck__(cls, obj: object) -> bool:
        return type(obj) is super

    def __repr__(cls) -> str:
        return "<class 'super'>"


class ScriptSuper(metaclass=_SuperMeta):
    """The script's `super`, but for calls without arguments.

    Behind a class of the worker that stands for one of the library is that of the library, some of
    whose methods it replaces: ``super(random.Random, r).seed()`` read the system's entropy.
    """

    __slots__ = ()


ScriptSuper.__name__ = ScriptSuper.__qualname__ = "super"
ScriptSuper.__module__ = "builtins"
_SuperMeta.__name__ = "type"
stands_for(ScriptSuper)(super)


@make_classes_with
def make_class(name: Any, bases: Any, namespace: Any, /, **options: Any) -> Any:
    """Stand in for ``type(name, bases, namespace)``, under the rules of a class statement.

    Raises:
        TypeError: If a class statement could not define a name in `namespace`.
    """
    name = exact_text(name)
    if policy.is_dunder(name):
        raise TypeError(f"a class may not be named {name!r}")
    for number, value, kind in ((2, bases, tuple), (3, namespace, Mapping)):
        if not isinstance(value, kind):
            wanted = "tuple" if kind is tuple else "dict"
            found = type(value).__name__
            message = f"type.__new__() argument {number} must be {wanted}, not {found}"
            raise TypeError(message)
    members = dict(_checked_members(dict(namespace)))
    maker, resolved = _maker(tuple(bases), _ABSENT)
    prepared = maker.__prepare__(name, resolved, **options)
    prepared["__module__"], prepared["__qualname__"] = "__main__", name
    for key, value in members.items():
        prepared[key] = value
    return _finish(maker(name, resolved, prepared, **options))


def _checked_members(namespace: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a class that is made from a dict, with private names renamed."""
    for key, value in namespace.items():
        name = exact_text(key)
        if name in {"__module__", "__qualname__"}:
            continue
        if name == "__annotations__":
            value = {policy.rename(identifier(each)): kind for each, kind in dict(value).items()}
        elif name == "__doc__":
            if value is not None and type(value) is not str:
                raise TypeError("__doc__ must be a text")
        elif policy.is_dunder(name) and (name not in policy.VARIABLES):
            raise TypeError(f"{name} must be defined in a class statement")
        yield policy.rename(name), value


def _maker(bases: tuple[Any, ...], metaclass: Any) -> tuple[_Maker, tuple[Any, ...]]:
    """Check the bases of a new class; return its maker, and the bases that it has."""
    resolved = tuple(_resolve(bases))
    for base in resolved:
        if not is_allowed_base(base):
            raise TypeError(_base_error(base))
    if _hashes_by_address(resolved):
        resolved = (*(base for base in resolved if base is not object), ScriptObject)
        bases = (*(base for base in bases if base is not object), ScriptObject)
    chosen: Any = type
    if metaclass is not _ABSENT:
        chosen = target_of(metaclass) if type(metaclass) is Token else None
        if not any(chosen is known for known in _METACLASSES):
            raise TypeError("metaclasses are not available; use a decorator or __init_subclass__")
    return _Maker(chosen, bases, resolved), resolved


def _finish(made: Any) -> Any:
    """Check a class that was made, and record it."""
    if not isinstance(made, type):
        raise TypeError("a class statement must make a class")
    if policy.PRIVATE_PREFIX in made.__qualname__:
        made.__qualname__ = policy.demangle(made.__qualname__)
    if isinstance(made, enum.EnumMeta):
        _check_enum(made)
    return register(made)


class _Maker:
    """A metaclass that calls the real one with the checked bases.

    CPython would ask each base for its entries once more, and a script could answer differently.
    """

    __slots__ = ("_bases", "_metaclass", "_written")

    def __init__(self, metaclass: Any, written: tuple[Any, ...], bases: tuple[Any, ...]) -> None:
        for base in bases:
            kind = type(base)
            if issubclass(kind, metaclass):
                metaclass = kind
            elif not issubclass(metaclass, kind):
                raise TypeError(
                    "metaclass conflict: the metaclass of a derived class must be a (non-strict) "
                    "subclass of the metaclasses of all its bases"
                )
        self._metaclass = metaclass
        self._written = written
        self._bases = bases

    def __prepare__(self, name: str, bases: tuple[Any, ...], /, **options: Any) -> Any:
        return self._metaclass.__prepare__(name, bases, **options)

    def __call__(self, name: str, bases: tuple[Any, ...], namespace: Any, /, **options: Any) -> Any:
        if list(map(id, self._written)) != list(map(id, self._bases)):
            namespace["__orig_bases__"] = self._written
        # Before a hook of the script sees the class: a pattern in `__init_subclass__` uses them.
        if not _may_match(_effective_match_args(namespace, self._bases)):
            namespace["__match_args__"] = ()
        return self._metaclass(name, bases, namespace, **options)


def _hashes_by_address(bases: tuple[Any, ...]) -> bool:
    """True if the iteration order of a set of instances would differ in every process."""
    if typing.Protocol in bases:
        return False
    return all(
        base.__hash__ is object.__hash__
        and all(is_script_class(kind) or kind in _NEUTRAL for kind in base.__mro__)
        for base in bases
    )


_NEUTRAL: Final = {object, abc.ABC, typing.Generic, typing.Protocol}


def _check_enum(made: enum.EnumMeta) -> None:
    for name in made.__members__:
        if name.startswith(policy.PRIVATE_PREFIX):
            raise TypeError(
                f"enum {made.__name__}: the name {policy.demangle(name)!r} may not start with "
                "an underscore; move the value out of the class"
            )
