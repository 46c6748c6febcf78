"""`dataclasses` for the classes of a script.

The library generates methods that read and write attributes of any receiver, makes a second class
for ``slots=True`` before its ``__match_args__`` could be checked, and evaluates a docstring that
looks like a C signature. Here names are checked first (`_dataclass_fields`), a generated method
refuses receivers that are not instances (`_dataclass_methods`), and ``__match_args__`` is decided
before a hook of the script can run (tests/worker/test_dataclasses.py).

`Field`, `InitVar`, `KW_ONLY` and `MISSING` are the library's own.
"""

from __future__ import annotations

import abc
import collections
import copy
import inspect
import itertools
import keyword
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field
from typing import Any, Final

from ..._language import _policy as policy
from .._attributes import read_named
from .._classes import is_script_class, make_class, register
from .._freeze import class_namespace
from .._record import Record
from .._signatures import signature_of
from .._types import exact_text
from ._copy import deepcopy
from ._dataclass_fields import (
    CLASSVAR,
    FIELD,
    FIELDS,
    HAS_FACTORY,
    INITVAR,
    PARAMS,
    FieldText,
    Options,
    check_frozen,
    check_stored,
    collect_fields,
    inherit_fields,
    text_of_fields,
)
from ._dataclass_methods import (
    Methods,
    add_comparisons,
    add_frozen,
    add_init,
    add_repr,
    tuple_text,
)

__all__ = [
    "asdict",
    "astuple",
    "copy_replace",
    "dataclass",
    "dataclass_fields",
    "fields",
    "fields_by_name",
    "make_dataclass",
    "replace",
]


def dataclass(
    cls: Any = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    order: bool = False,
    unsafe_hash: bool = False,
    frozen: bool = False,
    match_args: bool = True,
    kw_only: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Any:
    """`dataclasses.dataclass`, for classes of the script."""
    options = Options(
        init, repr, eq, order, unsafe_hash, frozen, match_args, kw_only, slots, weakref_slot
    )

    def wrap(cls: Any) -> Any:
        if not hasattr(cls, "__module__"):
            raise AttributeError(f"{type(cls).__name__!r} object has no attribute '__module__'")
        if not isinstance(cls, type):
            raise AttributeError(f"{type(cls).__name__!r} object has no attribute '__mro__'")
        if not is_script_class(cls):
            raise TypeError("@dataclass works on classes of the script only")
        return _process(cls, options)

    return wrap if cls is None else wrap(cls)


def make_dataclass(
    cls_name: Any, fields: Any, *, bases: Any = (), namespace: Any = None, **options: Any
) -> Any:
    """`dataclasses.make_dataclass`; the names follow the rules of a class statement."""
    members: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    for each in fields:
        if not isinstance(each, str) and len(each) not in {2, 3}:
            raise TypeError(f"Invalid field: {each!r}")
        name, kind, *default = (each, "typing.Any") if isinstance(each, str) else each
        if not isinstance(name, str) or not exact_text(name).isidentifier():
            raise TypeError(f"Field names must be valid identifiers: {name!r}")
        name = exact_text(name)
        if keyword.iskeyword(name):
            raise TypeError(f"Field names must not be keywords: {name!r}")
        if name in annotations:
            raise TypeError(f"Field name duplicated: {name!r}")
        annotations[name] = kind
        if default:
            (members[name],) = default
    options.pop("module", None)
    members = {**dict(namespace or {}), **members, "__annotations__": annotations}
    made = make_class(cls_name, tuple(bases), members)
    return dataclass(**options)(made)


def _hash_action(cls: type, options: Options) -> str:
    """Return ``"add"``, ``"none"`` or ``""``, by the library's table."""
    own = class_namespace(cls)
    value = own.get("__hash__", MISSING)
    explicit = not (value is MISSING or (value is None and "__eq__" in own))
    if options.unsafe_hash:
        if explicit:
            raise TypeError(f"Cannot overwrite attribute __hash__ in class {cls.__name__}")
        return "add"
    if explicit or not options.eq:
        return ""
    return "add" if options.frozen else "none"


_STOP: Final = "" if sys.version_info >= (3, 13) else "."
_NO_OVERWRITE: Final = {
    **dict.fromkeys(
        ["__lt__", "__le__", "__gt__", "__ge__"],
        f"{_STOP} Consider using functools.total_ordering",
    ),
    **dict.fromkeys(["__setattr__", "__delattr__"], ""),
}


# ---------------------------------------------------------------------------------------------
# The class


def _process(cls: Any, options: Options) -> Any:
    all_fields = inherit_fields(cls)
    all_fields.update((each.name, each) for each in collect_fields(cls, options))
    check_frozen(cls, options)
    if options.order and not options.eq:
        raise ValueError("eq must be true if order is true")
    if options.weakref_slot and not options.slots:
        raise TypeError("weakref_slot is True but slots is False")
    setattr(cls, PARAMS, options)
    setattr(cls, FIELDS, all_fields)
    hashing = _hash_action(cls, options)
    initial = [each for each in text_of_fields(all_fields.values()) if each.kind is not CLASSVAR]
    real = [each for each in initial if each.kind is FIELD]
    made, bind = _methods(cls, options, all_fields, initial, real, hashing)
    for name, function in made.items():
        function.__qualname__ = f"{cls.__qualname__}.{name}"
        if name == "__hash__" or name not in class_namespace(cls):
            setattr(cls, name, function)
        elif name in _NO_OVERWRITE:
            shown = policy.demangle(cls.__name__)
            raise TypeError(
                f"Cannot overwrite attribute {name} in class {shown}{_NO_OVERWRITE[name]}"
            )
    if hashing == "none":
        cls.__hash__ = None
    bind(cls)
    if not cls.__doc__:
        cls.__doc__ = policy.demangle(cls.__name__) + _signature(cls, initial, made)
    if options.match_args and "__match_args__" not in class_namespace(cls):
        type.__setattr__(cls, "__match_args__", _match_args(initial))
    if options.slots:
        cls = _with_slots(cls, [each.name for each in real], options)
        bind(cls)
    abc.update_abstractmethods(cls)
    return register(cls)


def _field_kind(each: Any) -> Any:
    return each._field_type


def _methods(
    cls: type,
    options: Options,
    all_fields: Mapping[str, Field[Any]],
    initial: list[FieldText],
    real: list[FieldText],
    hashing: str,
) -> tuple[dict[str, Any], Callable[[type], None]]:
    methods, names = Methods(all_fields), []
    if options.init:
        add_init(methods, initial, cls, options)
        names.append("__init__")
    if options.repr:
        add_repr(methods, real)
        names.append("__repr__")
    names += add_comparisons(methods, real, options)
    if options.frozen:
        names += add_frozen(methods, real)
    if hashing == "add":
        hashed = [each for each in real if (each.compare if each.hash is None else each.hash)]
        methods.add(
            "__hash__", "self", [f"return __dataclass_hash__({tuple_text('self', hashed)})"]
        )
        names.append("__hash__")
    made, bind = methods.make(names)
    if "__init__" in made:
        made["__init__"].__annotations__["return"] = None
    if sys.version_info >= (3, 13):
        made["__replace__"] = lambda self, /, **changes: replace(self, **changes)
        made["__replace__"].__name__ = "_replace"
    return made, bind


def _match_args(initial: Iterable[FieldText]) -> tuple[str, ...]:
    """Return the names that a class pattern may read by position: all of them, or none.

    A pattern reads them from any object that counts as an instance, and `abc` lets a class claim
    foreign ones, so there are none if an object of the interpreter has an attribute of that name.
    """
    names = tuple(each.name for each in initial if each.init and not each.kw_only)
    return () if any(policy.kind_of(name) in {"power", "dunder"} for name in names) else names


def _signature(cls: type, initial: list[FieldText], made: Mapping[str, Any]) -> str:
    """Return the signature that the library uses as the docstring of a class without one."""
    own_new = next((k for k in cls.__mro__ if "__new__" in class_namespace(k)), object)
    try:
        if (
            class_namespace(cls).get("__init__", MISSING) is made.get("__init__")
            and own_new is object
        ):
            return _init_signature(initial)
        for name in ("__new__", "__init__"):
            function = getattr(cls, name, None)
            if type(function) is types.FunctionType:
                parameters = list(signature_of(function).parameters.values())[1:]
                return str(inspect.Signature(parameters))
    except (TypeError, ValueError):
        return ""
    return "()" if _is_plain(cls) else ""


def _is_plain(cls: type) -> bool:
    """True for a class that no builtin creates: those of C have no signature."""
    defined = [class_namespace(base).keys() for base in cls.__mro__[:-1]]
    return not any(names & {"__new__", "__init__"} for names in defined)


def _init_signature(initial: Iterable[FieldText]) -> str:
    ordered = sorted((each for each in initial if each.init), key=lambda each: each.kw_only)
    parameters = []
    for each in ordered:
        kind = (
            inspect.Parameter.KEYWORD_ONLY
            if each.kw_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        default: Any = inspect.Parameter.empty
        if each.default is not MISSING:
            default = each.default
        elif each.default_factory is not MISSING:
            default = HAS_FACTORY
        parameters.append(
            inspect.Parameter(each.parameter, kind, default=default, annotation=each.type)
        )
    return str(inspect.Signature(parameters))


def _with_slots(cls: Any, names: list[str], options: Options) -> Any:
    """Make a copy of the class `cls` with slots for its fields."""
    own = dict(class_namespace(cls))
    if "__slots__" in own:
        raise TypeError(f"{policy.demangle(cls.__name__)} already specifies __slots__")
    inherited = set(itertools.chain.from_iterable(map(_slots, cls.__mro__[1:-1])))
    wanted = [*names, "__weakref__"] if options.weakref_slot else names
    own["__slots__"] = tuple(name for name in wanted if name not in inherited)
    for name in (*names, "__dict__", "__weakref__"):
        own.pop(name, None)
    qualname = cls.__qualname__
    made = type(cls)(cls.__name__, cls.__bases__, own)
    made.__qualname__ = qualname
    if options.frozen:
        made.__getstate__, made.__setstate__ = _get_state, _set_state
    return made


def _get_state(self: Any) -> list[Any]:
    """Return the values of the fields: `copy` could not set them on a frozen instance."""
    return [_read(self, each.name) for each in dataclass_fields(type(self)) or ()]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclass_fields(type(self)) or (), state, strict=False):
        object.__setattr__(self, check_stored(each.name), value)


def _slots(kind: type) -> Iterator[str]:
    declared = class_namespace(kind).get("__slots__")
    if declared is None:
        if sys.version_info >= (3, 13) and kind.__weakrefoffset__:
            yield "__weakref__"
    elif type(declared) is str:
        yield declared
    else:
        yield from declared


# ---------------------------------------------------------------------------------------------
# Functions over instances


def dataclass_fields(kind: type) -> tuple[Field[Any], ...] | None:
    """Return the fields of a dataclass from its class, never from an instance, which may lie."""
    for base in kind.__mro__:
        found = class_namespace(base).get(FIELDS)
        if found is not None:
            return tuple(each for each in found.values() if _field_kind(each) is FIELD)
    return None


def fields_by_name(kind: type) -> dict[str, Field[Any]] | None:
    """Return a copy of `__dataclass_fields__`; None if `kind` is not a dataclass."""
    for base in kind.__mro__:
        found = class_namespace(base).get(FIELDS)
        if found is not None:
            return {policy.demangle(name): _demangle_field(each) for name, each in found.items()}
    return None


def _demangle_field(each: Field[Any]) -> Field[Any]:
    if not each.name.startswith(policy.PRIVATE_PREFIX):
        return each
    shown = copy.copy(each)
    shown.name = policy.demangle(each.name)
    return shown


def fields(class_or_instance: Any) -> tuple[Any, ...]:
    """`dataclasses.fields`."""
    obj = class_or_instance
    kind = obj if isinstance(obj, type) else type(obj)
    found = dataclass_fields(kind)
    if found is None:
        name = repr(policy.demangle(kind.__name__))
        shown = f"type object {name}" if kind is obj else f"{name} object"
        try:
            raise AttributeError(f"{shown} has no attribute {FIELDS!r}")
        except AttributeError:  # the context that the library's error has
            raise TypeError("must be called with a dataclass type or instance") from None
    return tuple(_demangle_field(each) for each in found)


def _values_of(obj: Any) -> list[tuple[str, Any]] | None:
    """Return names and values of the fields of an instance; None if it is not of a dataclass.

    An object of a tool's result counts as one: scripts read its fields as attributes.
    """
    if type(obj) is Record:
        return list(obj.items())
    found = None if isinstance(obj, type) else dataclass_fields(type(obj))
    if found is None:
        return None
    return [(policy.demangle(each.name), _read(obj, each.name)) for each in found]


def _read(obj: Any, name: str) -> Any:
    """Load the field of an instance, of which a base may have an attribute of that name."""
    return read_named(obj, check_stored(name))


def _convert(obj: Any, make: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    values = _values_of(obj)
    if values is not None:
        return make([(name, _convert(value, make)) for name, value in values])
    kind = type(obj)
    if isinstance(obj, tuple) and hasattr(kind, "_fields"):
        return kind(*[_convert(item, make) for item in obj])
    if isinstance(obj, list | tuple):
        return kind(_convert(item, make) for item in obj)
    if isinstance(obj, dict):
        pairs = [(_convert(k, make), _convert(v, make)) for k, v in obj.items()]
        if isinstance(obj, collections.defaultdict):
            return kind(obj.default_factory, pairs)
        return kind(pairs)
    return deepcopy(obj)


def asdict(obj: Any, *, dict_factory: Any = dict) -> Any:
    """`dataclasses.asdict`, with the script's spelling of names."""
    if _values_of(obj) is None:
        raise TypeError("asdict() should be called on dataclass instances")
    return _convert(obj, dict_factory)


def astuple(obj: Any, *, tuple_factory: Any = tuple) -> Any:
    """`dataclasses.astuple`."""
    if _values_of(obj) is None:
        raise TypeError("astuple() should be called on dataclass instances")
    return _convert(obj, lambda values: tuple_factory([value for _, value in values]))


def replace(obj: Any, /, **changes: Any) -> Any:
    """`dataclasses.replace`."""
    kind = type(obj)
    if isinstance(obj, type) or dataclass_fields(kind) is None:
        raise TypeError("replace() should be called on dataclass instances")
    for each in getattr(kind, FIELDS).values():
        name = policy.demangle(each.name)
        if _field_kind(each) is CLASSVAR:
            continue
        if not each.init:
            if name in changes:
                text = f"field {name} is declared with init=False, it cannot be specified with "
                raise (TypeError if sys.version_info >= (3, 13) else ValueError)(f"{text}replace()")
        elif name not in changes:
            if _field_kind(each) is INITVAR and each.default is MISSING:
                text = f"InitVar {name!r} must be specified with replace()"
                raise (TypeError if sys.version_info >= (3, 13) else ValueError)(text)
            changes[name] = _read(obj, each.name)
    return kind(**changes)


def copy_replace(obj: Any, /, **changes: Any) -> Any:
    """`copy.replace` of 3.13."""
    kind = type(obj)
    if dataclass_fields(kind) is not None:
        return replace(obj, **changes)
    function = getattr(kind, "__replace__", None)
    if function is None:
        raise TypeError(f"replace() does not support {policy.demangle(kind.__name__)} objects")
    return function(obj, **changes)


copy_replace.__name__ = copy_replace.__qualname__ = "replace"
