"""Fields of the dataclasses of a script, and the options of `@dataclass`.

Names are checked before any text is made of them (tests/worker/test_dataclasses.py).
"""

from __future__ import annotations

import dataclasses
import keyword
import re
import types
import typing
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, MISSING, Field, InitVar
from typing import Any, Final

from ..._language import _policy as policy
from .._attributes import read_named
from .._freeze import class_namespace

__all__ = [
    "CLASSVAR",
    "FIELD",
    "FIELDS",
    "HAS_FACTORY",
    "INITVAR",
    "PARAMS",
    "FieldText",
    "Options",
    "check_frozen",
    "check_name",
    "check_stored",
    "collect_fields",
    "inherit_fields",
    "text_of_fields",
]

_library: Any = dataclasses
FIELD: Final = _library._FIELD
CLASSVAR: Final = _library._FIELD_CLASSVAR
INITVAR: Final = _library._FIELD_INITVAR
HAS_FACTORY: Final = _library._HAS_DEFAULT_FACTORY
FIELDS: Final = "__dataclass_fields__"
PARAMS: Final = "__dataclass_params__"

# The marker in a type annotation that is text: `x: "ClassVar[int]"`.
_MARK: Final = re.compile(r"^(?:\s*\w+\s*\.)?\s*(ClassVar|InitVar|KW_ONLY)\b")


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Options of `@dataclass`; the library reads `repr` and `frozen` from a class's options."""

    init: bool = True
    repr: bool = True
    eq: bool = True
    order: bool = False
    unsafe_hash: bool = False
    frozen: bool = False
    match_args: bool = True
    kw_only: bool = False
    slots: bool = False
    weakref_slot: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class FieldText:
    """A field as it stands in the text of the generated methods. The script does not hold it."""

    name: str
    """Checked by `check_name`."""
    kind: Any
    """`FIELD`, `CLASSVAR` or `INITVAR`."""
    type: Any
    default: Any
    default_factory: Any
    init: bool
    repr: bool
    compare: bool
    hash: bool | None
    kw_only: bool

    def read(self, receiver: str) -> str:
        """Return the text that reads the field of a variable.

        A field may be named like a method with power of a base: ``class S(str): format: object``.
        """
        if policy.kind_of(self.name) == "power":
            return f"__dataclass_read__({receiver}, {self.name!r})"
        return f"{receiver}.{self.name}"

    @property
    def parameter(self) -> str:
        """Name of the parameter of `__init__`, in the script's spelling."""
        return policy.demangle(self.name)


def text_of_fields(fields: Iterable[Field[Any]]) -> list[FieldText]:
    """Read the fields of a class once, for all methods.

    A script holds the fields, and its code is called while a class is made: by a descriptor among
    the defaults, or by an option that is no bool. So the options are converted first. Then the
    names are read and checked, after which no code of the script is called.
    """
    held = list(fields)
    options = [
        (
            bool(each.init),
            bool(each.repr),
            bool(each.compare),
            None if each.hash is None else bool(each.hash),
            bool(each.kw_only),
        )
        for each in held
    ]
    return [
        FieldText(
            check_stored(each.name),
            each._field_type,  # type: ignore[attr-defined]  # the library's mark
            each.type,
            each.default,
            each.default_factory,
            *converted,
        )
        for each, converted in zip(held, options, strict=True)
    ]


def check_name(name: Any) -> str:
    """Return the name of a field if it is valid in the text of a method.

    It is normalised as CPython normalises identifiers: a name that becomes ``__closure__`` when it
    is compiled is refused as such.
    """
    if type(name) is not str:
        raise TypeError("the name of a field must be a str")
    normal = unicodedata.normalize("NFKC", name)
    if normal != name or not name.isidentifier() or keyword.iskeyword(name):
        raise TypeError(f"{name!r} is not an identifier")
    # The parameter of `__init__` has the script's spelling, in which it could hide a value of the
    # generated text, all of which have such names.
    if policy.is_dunder(name) or policy.is_dunder(policy.demangle(name)):
        raise TypeError(f"a field may not be named {name!r}")
    return name


def check_stored(name: Any) -> str:
    """Return the name under which a field is stored if it is valid.

    A private name is stored renamed. A script can give a field another name: ``field.name = "_x"``
    would make its methods read the private attribute of a base of the library.
    """
    if policy.is_private(check_name(name)):
        raise TypeError(f"a field may not be stored as {name!r}")
    return str(name)


def _is_mark(annotation: Any, mark: Any, name: str) -> bool:
    if type(annotation) is str:
        match = _MARK.match(annotation)
        return match is not None and match[1] == name
    return annotation is mark or type(annotation) is mark or typing.get_origin(annotation) is mark


def _default_of(cls: type, name: str) -> Any:
    """Return the default of a field, if the script may read it: a base may have such a method."""
    try:
        return read_named(cls, name)
    except AttributeError:
        return MISSING


def _field(cls: type, name: str, annotation: Any, default_kw_only: bool) -> Field[Any]:
    """Create the field `name` of `cls`, as the library does."""
    default = _default_of(cls, name)
    if type(default) is Field:
        made: Any = default
    else:
        if isinstance(default, types.MemberDescriptorType):  # a slot: no default
            default = MISSING
        made = dataclasses.field(default=default)
    made.name, made.type = name, annotation
    made._field_type = FIELD
    shown = policy.demangle(name)
    if _is_mark(annotation, typing.ClassVar, "ClassVar"):
        made._field_type = CLASSVAR
    elif _is_mark(annotation, InitVar, "InitVar"):
        made._field_type = INITVAR
    if made._field_type is not FIELD and made.default_factory is not MISSING:
        raise TypeError(f"field {shown} cannot have a default factory")
    if made._field_type is not CLASSVAR:
        if made.kw_only is MISSING:
            made.kw_only = default_kw_only
    elif made.kw_only is not MISSING:
        raise TypeError(f"field {shown} is a ClassVar but specifies kw_only")
    if made._field_type is FIELD and type(made.default).__hash__ is None:
        raise ValueError(
            f"mutable default {type(made.default)} for field {shown} is not allowed: "
            "use default_factory"
        )
    return typing.cast(Field[Any], made)


def inherit_fields(cls: type) -> dict[str, Field[Any]]:
    """Return the fields of the bases, the most derived last."""
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        of_base = getattr(base, FIELDS, None)
        if type(of_base) is not dict:
            continue
        found.update((check_name(each.name), each) for each in of_base.values())
    return found


def check_frozen(cls: type, options: Options) -> None:
    """Raise `TypeError` unless all of the class and its bases are frozen, or none is."""
    frozen = [
        getattr(base, PARAMS).frozen
        for base in cls.__mro__[1:]
        if type(getattr(base, FIELDS, None)) is dict
    ]
    if any(frozen) and not options.frozen:
        raise TypeError("cannot inherit non-frozen dataclass from a frozen one")
    if frozen and not all(frozen) and options.frozen:
        raise TypeError("cannot inherit frozen dataclass from a non-frozen one")


def collect_fields(cls: type, options: Options) -> list[Field[Any]]:
    kw_only, seen = options.kw_only, False
    found: list[Field[Any]] = []
    annotations: Mapping[Any, Any] = cls.__annotations__
    for name, annotation in list(annotations.items()):
        check_name(name)
        if _is_mark(annotation, KW_ONLY, "KW_ONLY"):
            if seen:
                raise TypeError(f"{name!r} is KW_ONLY, but KW_ONLY has already been specified")
            kw_only = seen = True
        else:
            found.append(_field(cls, name, annotation, kw_only))
    for each in found:
        if type(getattr(cls, each.name, None)) is Field:
            if each.default is MISSING:
                delattr(cls, each.name)
            else:
                setattr(cls, each.name, each.default)
    for name, value in class_namespace(cls).items():
        if type(value) is Field and name not in annotations:
            shown = policy.demangle(name)
            raise TypeError(f"{shown!r} is a field but has no type annotation")
    return found
