"""Checks added to parts of the library that scripts must share with the worker.

A stand-in would not do: isinstance() and subclassing need the real class.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import re
import sys
import types
from collections.abc import Mapping
from typing import Any, Final

from .. import _classes, _freeze
from .._attributes import read_named
from .._types import identifier
from .._views import exact_text
from ._dataclass_fields import check_name
from ._own import plain_function

__all__ = [
    "vet_annotations",
    "vet_decorators",
    "vet_enum_calls",
    "vet_enum_members",
    "vet_enum_properties",
    "vet_field_names",
    "vet_flags",
    "vet_pattern_groups",
]


def vet_annotations() -> None:
    """Make `typing` parse text in an annotation, never compile it: `typing.List["Node"]`.

    Nothing evaluates it here. And CPython opens the file of invalid source to quote from it, which
    the system call filter would report as an attack.
    """

    def parse(source: str, filename: str, mode: str) -> Any:
        return compile(source, "\ud800annotation", mode, ast.PyCF_ONLY_AST)

    for module in ("typing", "annotationlib"):  # the second from 3.14 on
        if module in sys.modules:
            vars(sys.modules[module])["compile"] = parse


def vet_enum_calls() -> None:
    """Make `Enum("Name", members)` follow the rules of a class statement.

    Enum classes must be the real ones, for isinstance and for subclassing, so the check is added
    to their metaclass in the worker process.
    """
    original = enum.EnumMeta.__call__
    if getattr(original, "vetted", False):
        return

    def call(cls: Any, *args: Any, **options: Any) -> Any:
        if cls._member_map_ or len(args) + len(options) < 2:
            return original(cls, *args, **options)
        surplus = len(args) > 2 and sys.version_info < (3, 12)
        if surplus or options.keys() - _ENUM_OPTIONS or not (args or "value" in options):
            return original(cls, *args, **options)  # raises
        value, *rest = args or (options.pop("value"),)
        base = options.pop("type", None)
        if base is not None and not _classes.is_allowed_base(base):
            raise TypeError("a script may not subclass this type")
        names = rest[0] if rest else options.pop("names", ())
        chosen = {key: options[key] for key in ("start", "boundary") if key in options}
        members = _members(names)
        made = original(cls, exact_text(value), members, type=base, module="__main__", **chosen)
        return _classes.register(made)

    call.__name__, call.__qualname__ = original.__name__, original.__qualname__
    call.vetted = True  # type: ignore[attr-defined]  # functions take attributes
    _freeze.replace_attribute(enum.EnumMeta, "__call__", call)


_ENUM_OPTIONS: Final = frozenset(
    {"value", "names", "module", "qualname", "type", "start", "boundary"}
)


def vet_enum_properties() -> None:
    """Make the properties that `enum` creates for attributes follow the rules of source.

    A member with the name of a mixin's method becomes a property, which reads that name from the
    member's *value* (3.12): ``gi_frame`` of a generator.
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


def vet_enum_members() -> None:
    """Make the values and names of the library's enum members constant: ``re.I._value_ = 0``.

    They are shared with the worker's own code. The library sets each once, when it makes a member.
    """

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if not _classes.is_script_class(type(self)) and name in object.__getattribute__(
            self, "__dict__"
        ):
            raise AttributeError(f"a script may not change {type(self).__name__} members")
        object.__setattr__(self, name, value)

    if "__setattr__" not in vars(enum.Enum):
        type.__setattr__(enum.Enum, "__setattr__", set_attribute)


def vet_pattern_groups() -> None:
    """Make `groupindex` of a pattern a copy.

    A proxy hands out its dict to the `==` of a script: the library's own patterns could be changed.
    """
    names: Any = re.Pattern.__dict__["groupindex"]
    if not isinstance(names, property):
        copied = property(lambda self: types.MappingProxyType(dict(names.__get__(self))))
        _freeze.replace_attribute(re.Pattern, "groupindex", copied)


def vet_decorators() -> None:
    """Make the decorators of `contextlib` copy nothing but what `functools.wraps` of a script does.

    The library's copies the namespace of any object to the function that it makes.
    """
    for kind in (contextlib.ContextDecorator, contextlib.AsyncContextDecorator):
        original: Any = kind.__call__
        if getattr(original, "vetted", False):
            continue

        def call(self: Any, func: Any, *, original: Any = original) -> Any:
            return original(self, plain_function(func))

        call.vetted = True  # type: ignore[attr-defined]  # functions take attributes
        _freeze.replace_attribute(kind, "__call__", call)


def vet_field_names() -> None:
    """Make the name of a dataclass's field accept identifiers only.

    The library builds the text of methods from it, and reads attributes by it. A script holds the
    field and could write another name to it, even while a class is being made.
    """
    slot: Any = dataclasses.Field.__dict__["name"]
    if isinstance(slot, property):
        return

    def write(self: Any, name: Any) -> None:
        slot.__set__(self, None if name is None else check_name(name))

    _freeze.replace_attribute(dataclasses.Field, "name", property(slot.__get__, write))
    metadata: Any = dataclasses.Field.__dict__["metadata"]
    # A proxy hands out its dict, as in `vet_pattern_groups`; that of most fields is one and empty.
    copied = property(lambda self: types.MappingProxyType(dict(metadata.__get__(self))),
                      metadata.__set__)  # fmt: skip
    _freeze.replace_attribute(dataclasses.Field, "metadata", copied)


def vet_flags() -> None:
    """Make `re` take exact flags: its cache compares them, and the worker uses it, too."""
    compiler: Any = vars(re)["_compile"]
    if getattr(compiler, "vetted", False):
        return

    def compile_pattern(pattern: Any, flags: Any) -> Any:
        if type(flags) is not int and type(flags) is not re.RegexFlag and isinstance(flags, int):
            flags = int.__index__(flags)
        return compiler(pattern, flags)

    compile_pattern.vetted = True  # type: ignore[attr-defined]  # functions take attributes
    re.__dict__["_compile"] = compile_pattern


def _members(names: Any) -> list[Any]:
    """Return members as exact text, or as pairs of exact text and value."""
    if isinstance(names, str):
        found: list[Any] = [
            identifier(name) for name in exact_text(names).replace(",", " ").split()
        ]
    elif isinstance(names, Mapping):
        found = [(identifier(name), value) for name, value in dict(names).items()]
    else:
        found = []
        for each in names:
            if isinstance(each, str):
                found.append(identifier(each))
                continue
            name, value = each
            found.append((identifier(name), value))
    for each in found:
        if (each if type(each) is str else each[0]).startswith("_"):
            raise TypeError("the name of an enum member may not start with an underscore")
    return found
