"""Attributes that the compiler cannot decide: power names, dunders, names passed as text.

Rule 1: the receiver's exact type decides about a guarded name, never the receiver's own claims
    (test_power_attribute_is_refused_on_foreign_objects).
Rule 2: a name passed as text follows the same rules as the name in source
    (test_getattr_with_a_string_follows_the_rules_of_source).
Rule 3: a format string reads attributes by the same rules
    (test_format_string_follows_the_attribute_rules_of_source).
"""

from __future__ import annotations

import _string  # type: ignore[import-not-found]  # private, but the parser of str.format
import enum
import functools
import string
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from .._language import _policy as policy
from ._classes import is_allowed_base, is_open, is_script_class
from ._freeze import class_namespace, own_annotations
from ._internals import (
    bound_function,
    bound_object,
    defaults_of,
    is_own_function,
    keyword_defaults_of,
)
from ._record import read_field
from ._types import ScriptType, stands_for, type_of
from ._views import demangle_keys, exact_text, namespace_of

__all__ = [
    "MISSING",
    "Attributes",
    "RefusedError",
    "attribute",
    "format_map",
    "has_named",
    "held_method",
    "method",
    "read_named",
    "refuse",
    "store",
]

MISSING: Final = object()


class RefusedError(AttributeError):
    """Raised when a guard refuses an attribute. The message has an alternative."""

    __module__ = "builtins"  # reprs and errors show it


def refuse(obj: object, name: str, hint: str = "") -> NoReturn:
    hint = hint or policy.READ_HINTS.get(name) or policy.IN_PLACE.get(name, "")
    kind = policy.demangle(type(obj).__name__)
    shown = policy.demangle(name)
    raise RefusedError(
        f"a script may not use {shown!r} of {kind!r}" + (f": {hint}" if hint else "")
    )


# ---------------------------------------------------------------------------------------------
# Attributes


def attribute(obj: Any, name: str) -> Any:
    """Load a guarded attribute: a power name, or a readable dunder."""
    if name in policy.READABLE:
        return _read_dunder(obj, name)
    kind = type(obj)
    if kind is super:
        return _read_super(obj, name)
    if _is_own(obj, kind, name) or (kind is functools.partial and name == "func"):
        return getattr(obj, name)
    if name in {"format", "format_map"}:
        if issubclass(kind, str):
            return _Formatter(str.__str__(obj), name)
        if obj is str or (issubclass(kind, type) and issubclass(obj, str)):
            return _format_unbound if name == "format" else _format_map_unbound
    refuse(obj, name)


def _read_super(obj: Any, name: str) -> Any:
    """Load `super().name`; the class that defines the name decides."""
    order = obj.__self_class__.__mro__
    for base in order[order.index(obj.__thisclass__) + 1 :]:
        if name in class_namespace(base):
            if _is_plain(base):
                return getattr(obj, name)
            if base is str and name in {"format", "format_map"} and isinstance(obj.__self__, str):
                return _Formatter(str.__str__(obj.__self__), name)
            break
    refuse(obj, name)


def _is_own(obj: Any, kind: type, name: str) -> bool:
    """True if the script defined `name` of `obj`, or the class of `obj` is open."""
    if is_open(kind):
        return True
    if issubclass(kind, type):
        for base in obj.__mro__:
            if name in class_namespace(base):
                return _is_plain(base)
        return False  # attributes of the metaclass: `mro`
    for base in kind.__mro__:
        if name in class_namespace(base):
            return _is_plain(base)
    # An attribute of the instance itself, or one from the script's own __getattr__.
    return _is_plain(kind) or is_own_function(obj)


def _is_plain(base: type) -> bool:
    """True if guarded names that `base` defines are the script's, or meant for it."""
    if is_script_class(base) or is_open(base):
        return True
    return bool(policy.TRUSTED_PACKAGES) and (
        str(base.__module__).partition(".")[0] in policy.TRUSTED_PACKAGES
    )


def _read_dunder(obj: Any, name: str) -> Any:
    read = _READERS.get(name)
    if read is not None:
        return read(obj)
    value = getattr(obj, name)
    if value is None or type(value) is str:
        return policy.demangle(value) if value else value
    if is_script_class(type(obj)):  # from its own __getattr__
        return value
    refuse(obj, name)


def _read_cause(obj: Any) -> Any:
    return obj.__cause__ if isinstance(obj, BaseException) else _read_own(obj, "__cause__")


def _read_context(obj: Any) -> Any:
    return obj.__context__ if isinstance(obj, BaseException) else _read_own(obj, "__context__")


def _read_suppress_context(obj: Any) -> Any:
    if isinstance(obj, BaseException):
        return obj.__suppress_context__
    return _read_own(obj, "__suppress_context__")


def _read_traceback(obj: Any) -> Any:
    """Return copies of the lines in the traceback, which itself leads to frames."""
    from ._modules._traceback import safe_traceback

    if isinstance(obj, BaseException):
        return safe_traceback(obj)
    return _read_own(obj, "__traceback__")


def _read_own(obj: Any, name: str) -> Any:
    """Load `name` of an object of the script, where it comes from its `__getattr__`."""
    if is_script_class(type(obj)):
        return getattr(obj, name)
    refuse(obj, name)


def _read_notes(obj: Any) -> Any:
    if isinstance(obj, BaseException):
        return list(obj.__notes__)
    refuse(obj, "__notes__")


def _read_members(obj: Any) -> Any:
    if isinstance(obj, enum.EnumMeta):
        return types.MappingProxyType(dict(obj.__members__))
    refuse(obj, "__members__")


def _read_annotations(obj: Any) -> Any:
    kind = type(obj)
    if issubclass(kind, type):
        if is_script_class(obj):
            return demangle_keys(obj.__annotations__)
    elif is_own_function(obj):
        return dict(obj.__annotations__)
    elif is_script_class(kind):
        for base in kind.__mro__:
            found = own_annotations(base) if is_script_class(base) else None
            if type(found) is dict:
                return demangle_keys(found)
    refuse(obj, "__annotations__")


def _own_class(obj: Any, name: str) -> Any:
    """Return the class of the script that `obj` is, or is an instance of."""
    owner = obj if issubclass(type(obj), type) else type(obj)
    if not is_script_class(owner):
        refuse(obj, name)
    return owner


def _read_class(obj: Any) -> Any:
    if is_script_class(type(obj)):
        return type_of(obj)
    refuse(obj, "__class__")


def _read_match_args(obj: Any) -> Any:
    return tuple(map(policy.demangle, _own_class(obj, "__match_args__").__match_args__))


def _read_dataclass_fields(obj: Any) -> Any:
    from ._modules._dataclasses import fields_by_name

    owner = _own_class(obj, "__dataclass_fields__")
    found = fields_by_name(owner)
    if found is None:
        shown = policy.demangle(owner.__name__)
        raise AttributeError(f"type object {shown!r} has no attribute '__dataclass_fields__'")
    return found


def _read_alias(obj: Any, name: str) -> Any:
    """Load a part of `list[int]`, of a union, or of a generic class of the script."""
    own_generic = name == "__parameters__" and issubclass(type(obj), type) and is_script_class(obj)
    if not own_generic and typing.get_origin(obj) is None:
        refuse(obj, name)
    found = getattr(obj, name)
    # The origin of `typing.Type[int]` is a metaclass.
    return ScriptType if isinstance(found, type) and issubclass(found, type) else found


def _function_of(obj: Any) -> Any:
    """Return the function of a bound method, or `obj` itself."""
    return bound_function(obj) if type(obj) is types.MethodType else obj


def _read_defaults(obj: Any) -> Any:
    function = _function_of(obj)
    if is_own_function(function):
        return defaults_of(function)
    refuse(obj, "__defaults__")


def _read_keyword_defaults(obj: Any) -> Any:
    function = _function_of(obj)
    if is_own_function(function):
        found = keyword_defaults_of(function)
        return None if found is None else dict(found)
    refuse(obj, "__kwdefaults__")


def _read_wrapped(obj: Any) -> Any:
    """Load the undecorated function, if the script defines it."""
    own = is_script_class(type(obj))
    if own or type(obj) in {types.FunctionType, _CACHED}:
        wrapped = obj.__wrapped__ if own else obj.__dict__.get("__wrapped__")
        if is_own_function(wrapped) or (wrapped is not None and is_script_class(type(wrapped))):
            return wrapped
    refuse(obj, "__wrapped__")


_CACHED: Final = type(functools.cache(len))

_READERS: Final = {
    "__cause__": _read_cause,
    "__context__": _read_context,
    "__suppress_context__": _read_suppress_context,
    "__traceback__": _read_traceback,
    "__defaults__": _read_defaults,
    "__kwdefaults__": _read_keyword_defaults,
    "__wrapped__": _read_wrapped,
    "__notes__": _read_notes,
    "__members__": _read_members,
    "__annotations__": _read_annotations,
    "__match_args__": _read_match_args,
    "__dataclass_fields__": _read_dataclass_fields,
    "__args__": lambda obj: _read_alias(obj, "__args__"),
    "__origin__": lambda obj: _read_alias(obj, "__origin__"),
    "__parameters__": lambda obj: _read_alias(obj, "__parameters__"),
    "__class__": _read_class,
}


def store(obj: Any, name: str, value: Any) -> None:
    """Store a guarded attribute, or delete it if `value` is `MISSING`."""
    kind = type(obj)
    own_class = issubclass(kind, type) and is_script_class(obj)
    own_function = is_own_function(obj)
    if policy.is_dunder(name):
        allowed = (
            name in policy.WRITABLE
            and (own_class or own_function or is_script_class(kind))
            and (type(value) is str or value is None)
        ) or (own_class and name in policy.VARIABLES)
    else:
        allowed = own_class or own_function or is_script_class(kind) or is_open(kind)
    if not allowed:
        hook = own_class and name in policy.NAME_HOOKS
        refuse(obj, name, "define it in the body of the class" if hook else "")
    if value is MISSING:
        delattr(obj, name)
    else:
        setattr(obj, name, value)


class Attributes:
    """Guarded attributes as items, so that they can be the target of every form of assignment."""

    __slots__ = ("_obj",)

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def __getitem__(self, name: str) -> Any:
        return attribute(self._obj, name)

    def __setitem__(self, name: str, value: Any) -> None:
        store(self._obj, name, value)

    def __delitem__(self, name: str) -> None:
        store(self._obj, name, MISSING)


def method(obj: Any, name: str) -> Any:
    """Load a dunder method that is called at once: `super().__init__(...)`."""
    kind = type(obj)
    if kind is super:
        return _guard_method(getattr(obj, name), obj, name)
    if issubclass(kind, type):
        if is_allowed_base(obj):
            return _guard_method(getattr(obj, name), obj, name)
    elif is_script_class(kind) or name in policy.OPERATOR_METHODS:
        return _guard_method(getattr(obj, name), obj, name)
    refuse(obj, name)


def held_method(obj: Any, name: str) -> Any:
    """Load a dunder method that is kept as a value: ``original = cls.__init__``.

    Only the script's own functions can be kept: a slot of the interpreter leads to its type.
    """
    real = method(obj, name)
    if real is None or name in policy.KEEPABLE or is_own_function(_function_of(real)):
        return real
    refuse(obj, name, f"it is not a function of the script; call it: `x.{name}(...)`")


def _guard_method(real: Any, obj: Any, name: str) -> Any:
    """Return the method `real`, or a stand-in that checks its arguments."""
    if name == "__new__":

        def new(cls: Any, *args: Any, **options: Any) -> Any:
            if not (isinstance(cls, type) and is_script_class(cls)):
                raise TypeError("__new__ makes instances of the script's own classes only")
            return real(cls, *args, **options)

        return new
    if name in {"__setattr__", "__delattr__"}:
        return lambda *args: _call_setter(real, args)
    if name in {"__get__", "__set__", "__delete__", "__set_name__"} and (
        type(real) not in {types.MethodType, types.FunctionType}
    ):
        refuse(obj, name)
    return real


def _call_setter(real: Any, args: tuple[Any, ...]) -> Any:
    """Call `super().__setattr__(name, value)` or `object.__setattr__(self, name, value)`."""
    bound = (
        bound_object(real) if type(real) is types.MethodType else getattr(real, "__self__", None)
    )
    if isinstance(bound, type):
        raise TypeError("set attributes of a class with `Class.name = value`")
    target = args[0] if bound is None and args else bound
    if not is_script_class(type(target)):
        raise TypeError("__setattr__ and __delattr__ work on the script's own objects only")
    at = 1 if bound is None else 0
    if len(args) <= at:
        raise TypeError("expected the name of an attribute")
    name = exact_text(args[at])
    if policy.is_dunder(name):
        refuse(target, name)
    return real(*args[:at], policy.rename(name), *args[at + 1 :])


def read_named(obj: Any, name: object) -> Any:
    """Load an attribute by a name that is passed as text."""
    text = exact_text(name)
    kind = policy.kind_of(text)
    if kind == "ordinary":
        return read_field(obj, text)
    if kind == "private":
        return getattr(obj, policy.rename(text))
    if kind == "power" or text in policy.READABLE:
        return attribute(obj, text)
    if text in policy.DEFINABLE:
        return held_method(obj, text)
    refuse(obj, text)


def has_named(obj: Any, name: object) -> bool:
    """True if the script can read the attribute with a name that is passed as text."""
    text = exact_text(name)
    if text == "__class__" or (text == "__doc__" and issubclass(type(obj), type)):
        return True
    if policy.is_dunder(text) and text not in policy.READABLE:
        if text not in policy.TESTABLE:
            return False
        if text == "__dict__":
            return namespace_of(obj) is not None
        return hasattr(obj, text)
    try:
        read_named(obj, text)
    except AttributeError:
        return False
    return True


# ---------------------------------------------------------------------------------------------
# Format strings


class _Walker(string.Formatter):
    """`str.format` for templates that name a guarded attribute."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        first, rest = _string.formatter_field_name_split(field_name)
        obj = self.get_value(first, args, kwargs)
        steps = list(rest)
        for at, (is_attribute, name) in enumerate(steps):
            if not is_attribute:
                obj = obj[name]
            elif name == "__class__" and at + 1 < len(steps):
                obj = type_of(obj)
            else:
                obj = read_named(obj, name)
        return obj, first


def _attributes_in(template: str, depth: int = 2) -> Iterator[str]:
    for _, field, spec, _ in _string.formatter_parser(template):
        if field is not None:
            for is_attribute, name in _string.formatter_field_name_split(field)[1]:
                if is_attribute:
                    yield name
        if spec and depth:
            yield from _attributes_in(spec, depth - 1)


def _is_ordinary(template: str) -> bool:
    """True if CPython's own formatting reads no guarded or renamed attribute."""
    if "." not in template:
        return True
    return all(policy.kind_of(name) == "ordinary" for name in _attributes_in(template))


def _format(template: str, args: tuple[Any, ...], values: Mapping[str, Any]) -> str:
    if _is_ordinary(template):
        return template.format(*args, **values)
    return _Walker().vformat(template, args, values)


def format_map(template: str, values: Mapping[str, Any]) -> str:
    """Call `str.format_map` under the rules of source."""
    return (
        template.format_map(values)
        if _is_ordinary(template)
        else _Walker().vformat(template, (), values)
    )


@stands_for(types.BuiltinMethodType)
class _Formatter:
    """The bound method `"...".format`."""

    __slots__ = ("_map", "_template")

    def __init__(self, template: str, name: str) -> None:
        self._template = exact_text(template)
        self._map = name == "format_map"

    def __call__(self, *args: Any, **values: Any) -> str:
        if self._map:
            (mapping,) = args
            return format_map(self._template, mapping)
        return _format(self._template, args, values)


def _format_unbound(template: str, /, *args: Any, **values: Any) -> str:
    return _format(exact_text(template), args, values)


def _format_map_unbound(template: str, values: Mapping[str, Any], /) -> str:
    return format_map(exact_text(template), values)
