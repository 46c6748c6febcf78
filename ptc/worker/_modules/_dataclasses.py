"""`dataclasses` for the classes of a script.

The library generates methods that read and write attributes of whatever they are called on, makes a
second class for ``slots=True`` before anybody could look at its ``__match_args__``, and evaluates a
docstring that looks like a C signature. Here names are checked first, ``__match_args__`` is decided
before a hook of the script can run, and a generated method refuses receivers that are not instances
(tests/worker/test_dataclasses.py).

`Field`, `InitVar`, `KW_ONLY` and `MISSING` are the library's own.
"""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import inspect
import itertools
import keyword
import re
import reprlib
import sys
import types
import typing
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, InitVar
from typing import Any, Final

from ..._language import _policy as policy
from .._classes import is_script_class, register
from .._freeze import class_namespace
from .._signatures import signature_of
from ._copy import deepcopy

__all__ = ["asdict", "astuple", "dataclass", "dataclass_fields", "fields", "replace"]

_library: Any = dataclasses
_FIELD: Final = _library._FIELD
_CLASSVAR: Final = _library._FIELD_CLASSVAR
_INITVAR: Final = _library._FIELD_INITVAR
_HAS_FACTORY: Final = _library._HAS_DEFAULT_FACTORY
_FIELDS: Final = "__dataclass_fields__"
_PARAMS: Final = "__dataclass_params__"

# What a type annotation that is text says it is: `x: "ClassVar[int]"`.
_MARK: Final = re.compile(r"^(?:\s*\w+\s*\.)?\s*(ClassVar|InitVar|KW_ONLY)\b")


@dataclasses.dataclass(frozen=True, slots=True)
class _Options:
    """Options of `@dataclass`; the library reads `repr` and `frozen` of what a class has."""

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
    options = _Options(
        init, repr, eq, order, unsafe_hash, frozen, match_args, kw_only, slots, weakref_slot
    )

    def decorate(cls: Any) -> Any:
        if not (isinstance(cls, type) and is_script_class(cls)):
            raise TypeError("@dataclass is for classes of the script")
        return _process(cls, options)

    return decorate if cls is None else decorate(cls)


# ---------------------------------------------------------------------------------------------
# Fields


def _checked(name: Any) -> str:
    """Return the name of a field if it can stand in the text of a method.

    It is normalised as CPython normalises identifiers: a name that only becomes ``__closure__``
    when it is compiled is refused as that.
    """
    if type(name) is not str:
        raise TypeError("the name of a field must be a str")
    normal = unicodedata.normalize("NFKC", name)
    if normal != name or not name.isidentifier() or keyword.iskeyword(name):
        raise TypeError(f"{name!r} is not an identifier")
    if policy.is_dunder(name):
        raise TypeError(f"a field may not be called {name!r}")
    return name


def _is_mark(annotation: Any, mark: Any, name: str) -> bool:
    if type(annotation) is str:
        match = _MARK.match(annotation)
        return match is not None and match[1] == name
    return annotation is mark or type(annotation) is mark or typing.get_origin(annotation) is mark


def _field(cls: type, name: str, annotation: Any, default_kw_only: bool) -> Field[Any]:
    """Make the field `name` of `cls`, as the library does."""
    default = getattr(cls, name, MISSING)
    if type(default) is Field:
        made: Any = default
    else:
        if isinstance(default, types.MemberDescriptorType):  # a slot: no default
            default = MISSING
        made = dataclasses.field(default=default)
    made.name, made.type = name, annotation
    made._field_type = _FIELD
    shown = policy.demangle(name)
    if _is_mark(annotation, typing.ClassVar, "ClassVar"):
        made._field_type = _CLASSVAR
    elif _is_mark(annotation, InitVar, "InitVar"):
        made._field_type = _INITVAR
    if made._field_type is not _FIELD and made.default_factory is not MISSING:
        raise TypeError(f"field {shown} cannot have a default factory")
    if made._field_type is not _CLASSVAR:
        if made.kw_only is MISSING:
            made.kw_only = default_kw_only
    elif made.kw_only is not MISSING:
        raise TypeError(f"field {shown} is a ClassVar but specifies kw_only")
    if made._field_type is _FIELD and type(made.default).__hash__ is None:
        raise ValueError(
            f"mutable default {type(made.default)} for field {shown} is not allowed: "
            "use default_factory"
        )
    return typing.cast(Field[Any], made)


def _inherited(cls: type, options: _Options) -> dict[str, Field[Any]]:
    """Fields of the bases, the most derived last."""
    found: dict[str, Field[Any]] = {}
    frozen: list[bool] = []
    for base in cls.__mro__[-1:0:-1]:
        of_base = getattr(base, _FIELDS, None)
        if type(of_base) is not dict:
            continue
        found.update((_checked(each.name), each) for each in of_base.values())
        frozen.append(getattr(base, _PARAMS).frozen)
    if any(frozen) and not options.frozen:
        raise TypeError("cannot inherit non-frozen dataclass from a frozen one")
    if frozen and not all(frozen) and options.frozen:
        raise TypeError("cannot inherit frozen dataclass from a non-frozen one")
    return found


def _own_fields(cls: type, options: _Options) -> list[Field[Any]]:
    kw_only, seen = options.kw_only, False
    found: list[Field[Any]] = []
    annotations: Mapping[Any, Any] = cls.__annotations__
    for name, annotation in list(annotations.items()):
        _checked(name)
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


# ---------------------------------------------------------------------------------------------
# Methods


def _recursive_repr(function: Any) -> Any:
    """Show an object inside itself as ``...``; `pprint` looks for what is wrapped."""
    wrapper: Any = reprlib.recursive_repr()(function)
    wrapper.__wrapped__ = function
    return wrapper


class _Methods:
    """Text of the methods of one class, and the values that the text names."""

    def __init__(self, fields: Mapping[str, Field[Any]]) -> None:
        self._texts: list[str] = []
        self._fields = fields
        self._values: dict[str, Any] = {
            "__dataclass_require__": self._require,
            "__dataclass_type__": type,
            "__dataclass_hash__": hash,
            "__dataclass_super__": super,
            "__dataclass_setattr__": object.__setattr__,
            "__dataclass_repr__": _recursive_repr,
            "__dataclass_demangle__": policy.demangle,
            "__dataclass_frozen__": FrozenInstanceError,
            "__dataclass_factory__": _HAS_FACTORY,
        }

    def _require(self, receiver: Any) -> None:
        """Refuse a receiver that is not an instance of the class, or of one made from it."""
        for base in type(receiver).__mro__:
            if class_namespace(base).get(_FIELDS) is self._fields:
                return
        name = policy.demangle(type(receiver).__name__)
        raise TypeError(f"a method of a dataclass was called on {name!r}, not on an instance")

    def name(self, value: Any) -> str:
        """A name for `value` in the text."""
        name = f"__dataclass_value_{len(self._values)}__"
        self._values[name] = value
        return name

    def add(self, name: str, arguments: str, body: Iterable[str], decorator: str = "") -> None:
        """Add the method `name`, the first of whose `arguments` is its receiver."""
        receiver = arguments.partition(",")[0]
        self._texts += [f" {decorator}"] if decorator else []
        self._texts += [
            f" def {name}({arguments}):",
            f"  if __dataclass_type__({receiver}) is not __dataclass_class__:",
            f"   __dataclass_require__({receiver})",
            *(f"  {line}" for line in body),
        ]

    def make(self, names: Iterable[str]) -> tuple[dict[str, Any], Callable[[type], None]]:
        """Return the methods by name, and a function that tells them the class."""
        names = list(names)
        text = "\n".join(
            [
                f"def __create_fn__({', '.join(self._values)}):",
                " __dataclass_class__ = None",
                *self._texts,
                " def __dataclass_bind__(cls):",
                "  nonlocal __dataclass_class__",
                "  __dataclass_class__ = cls",
                f" return [{', '.join(names)}], __dataclass_bind__",
            ]
        )
        namespace: dict[str, Any] = {"__builtins__": {"NotImplemented": NotImplemented}}
        # The text holds checked identifiers and names of ours, nothing that a script wrote.
        exec(compile(text, "\ud800dataclass", "exec"), namespace)  # noqa: S102  # see above
        made, bind = namespace["__create_fn__"](**self._values)
        return dict(zip(names, made, strict=True)), bind


def _parameter(each: Field[Any]) -> str:
    """The parameter of `__init__`: a private field is passed under the script's name for it."""
    return policy.demangle(each.name)


def _add_init(methods: _Methods, fields: list[Field[Any]], cls: type, options: _Options) -> None:
    in_order = [each for each in fields if each.init and not each.kw_only]
    keywords = [each for each in fields if each.init and each.kw_only]
    _require_order(in_order)
    receiver = "__dataclass_self__" if any(each.name == "self" for each in fields) else "self"
    arguments = [receiver]
    defaults: dict[str, str] = {}
    for each in fields:
        if each.default_factory is not MISSING:
            defaults[each.name] = methods.name(each.default_factory)
        elif each.default is not MISSING:
            defaults[each.name] = methods.name(each.default)

    def declared(each: Field[Any]) -> str:
        default = defaults.get(each.name, "")
        if default and each.default_factory is not MISSING:
            default = "__dataclass_factory__"
        annotation = methods.name(each.type)
        return f"{_parameter(each)}: {annotation}" + (f" = {default}" if default else "")

    arguments += map(declared, in_order)
    if keywords:
        arguments += ["*", *map(declared, keywords)]
    body = []
    for each in fields:
        value = _initial(each, defaults, slots=options.slots)
        if value and each._field_type is _FIELD:  # type: ignore[attr-defined]  # the library's mark
            body.append(_assignment(each.name, value, receiver, frozen=options.frozen))
    if hasattr(cls, "__post_init__"):
        given = ", ".join(
            _parameter(each)
            for each in fields
            if each._field_type is _INITVAR  # type: ignore[attr-defined]  # as above
        )
        body.append(f"{receiver}.__post_init__({given})")
    methods.add("__init__", ", ".join(arguments), body)


def _require_order(fields: Iterable[Field[Any]]) -> None:
    """Refuse a field without a default after one with a default."""
    before = None
    for each in fields:
        if each.default is not MISSING or each.default_factory is not MISSING:
            before = each
        elif before is not None:
            text = f"non-default argument {_parameter(each)!r} follows default argument"
            if sys.version_info >= (3, 13):
                text += f" {_parameter(before)!r}"
            raise TypeError(text)


def _initial(each: Field[Any], defaults: Mapping[str, str], *, slots: bool) -> str:
    """The expression for the first value of a field; empty if its class has the value."""
    name = _parameter(each)
    if each.default_factory is not MISSING:
        factory = defaults[each.name]
        return (
            f"{factory}() if {name} is __dataclass_factory__ else {name}"
            if each.init
            else f"{factory}()"
        )
    if each.init:
        return name
    return defaults[each.name] if slots and each.default is not MISSING else ""


def _assignment(name: str, value: str, receiver: str, *, frozen: bool) -> str:
    if frozen:
        return f"__dataclass_setattr__({receiver}, {name!r}, {value})"
    return f"{receiver}.{name} = {value}"


def _tuple(receiver: str, fields: Iterable[Field[Any]]) -> str:
    return "(" + "".join(f"{receiver}.{each.name}, " for each in fields) + ")"


def _add_comparisons(methods: _Methods, fields: list[Field[Any]], options: _Options) -> list[str]:
    compared = [each for each in fields if each.compare]
    mine, other = _tuple("self", compared), _tuple("other", compared)
    same = "if __dataclass_type__(other) is __dataclass_type__(self):"
    names = []
    if options.eq:
        equal = f"{mine} == {other}"
        body = [same, f" return {equal}", "return NotImplemented"]
        if sys.version_info >= (3, 13):  # one by one, and an object equals itself
            terms = [f"self.{each.name} == other.{each.name}" for each in compared]
            body[1] = f" return {' and '.join(terms) or 'True'}"
            body[:0] = ["if self is other:", " return True"]
        methods.add("__eq__", "self, other", body)
        names.append("__eq__")
    if options.order:
        for name, sign in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
            body = [same, f" return {mine} {sign} {other}", "return NotImplemented"]
            methods.add(name, "self, other", body)
            names.append(name)
    return names


def _add_frozen(methods: _Methods, fields: list[Field[Any]]) -> list[str]:
    condition = "if __dataclass_type__(self) is __dataclass_class__"
    if fields:
        condition += f" or name in {{{', '.join(repr(each.name) for each in fields)}}}"
    for name, more, word in (
        ("__setattr__", ", value", "assign to"),
        ("__delattr__", "", "delete"),
    ):
        methods.add(
            name,
            f"self, name{more}",
            [
                f"{condition}:",
                " name = __dataclass_demangle__(name)",
                f' raise __dataclass_frozen__(f"cannot {word} field {{name!r}}")',
                f"__dataclass_super__(__dataclass_class__, self).{name}(name{more})",
            ],
        )
    return ["__setattr__", "__delattr__"]


def _add_repr(methods: _Methods, fields: list[Field[Any]]) -> None:
    shown = ", ".join(f"{_parameter(e)}={{self.{e.name}!r}}" for e in fields if e.repr)
    line = f'return f"{{__dataclass_type__(self).__qualname__}}({shown})"'
    methods.add("__repr__", "self", [line], decorator="@__dataclass_repr__")


def _hash_action(cls: type, options: _Options) -> str:
    """``"add"``, ``"none"`` or nothing, by the table of the library."""
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


def _process(cls: Any, options: _Options) -> Any:
    all_fields = _inherited(cls, options)
    all_fields.update((each.name, each) for each in _own_fields(cls, options))
    if options.order and not options.eq:
        raise ValueError("eq must be true if order is true")
    if options.weakref_slot and not options.slots:
        raise TypeError("weakref_slot is True but slots is False")
    setattr(cls, _PARAMS, options)
    setattr(cls, _FIELDS, all_fields)
    hashing = _hash_action(cls, options)
    initial: list[Any] = [each for each in all_fields.values() if _kind(each) is not _CLASSVAR]
    real = [each for each in initial if _kind(each) is _FIELD]
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
        cls = _with_slots(cls, [each.name for each in real], weakref=options.weakref_slot)
        bind(cls)
    abc.update_abstractmethods(cls)
    return register(cls)


def _kind(each: Any) -> Any:
    return each._field_type


def _methods(
    cls: type,
    options: _Options,
    all_fields: Mapping[str, Field[Any]],
    initial: list[Any],
    real: list[Any],
    hashing: str,
) -> tuple[dict[str, Any], Callable[[type], None]]:
    methods, names = _Methods(all_fields), []
    if options.init:
        _add_init(methods, initial, cls, options)
        names.append("__init__")
    if options.repr:
        _add_repr(methods, real)
        names.append("__repr__")
    names += _add_comparisons(methods, real, options)
    if options.frozen:
        names += _add_frozen(methods, real)
    if hashing == "add":
        hashed = [each for each in real if (each.compare if each.hash is None else each.hash)]
        methods.add("__hash__", "self", [f"return __dataclass_hash__({_tuple('self', hashed)})"])
        names.append("__hash__")
    made, bind = methods.make(names)
    if "__init__" in made:
        made["__init__"].__annotations__["return"] = None
    if sys.version_info >= (3, 13):
        made["__replace__"] = lambda self, /, **changes: replace(self, **changes)
        made["__replace__"].__name__ = "_replace"
    return made, bind


def _match_args(initial: Iterable[Field[Any]]) -> tuple[str, ...]:
    """Names that a class pattern may read by position: all of them, or none.

    A pattern reads them of whatever passes for an instance, and `abc` lets a class claim foreign
    ones, so a name that some object of the interpreter answers to is not among them.
    """
    names = tuple(each.name for each in initial if each.init and not each.kw_only)
    return () if any(policy.kind_of(name) in {"power", "dunder"} for name in names) else names


def _signature(cls: type, initial: list[Any], made: Mapping[str, Any]) -> str:
    """What the library says of a class without a docstring: how it is called."""
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
    return "()"


def _init_signature(initial: Iterable[Any]) -> str:
    ordered = sorted((each for each in initial if each.init), key=lambda each: bool(each.kw_only))
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
            default = _HAS_FACTORY
        parameters.append(
            inspect.Parameter(_parameter(each), kind, default=default, annotation=each.type)
        )
    return str(inspect.Signature(parameters))


def _with_slots(cls: Any, names: list[str], *, weakref: bool) -> Any:
    """A new class like `cls` with slots for its fields."""
    own = dict(class_namespace(cls))
    if "__slots__" in own:
        raise TypeError(f"{policy.demangle(cls.__name__)} already specifies __slots__")
    inherited = set(itertools.chain.from_iterable(map(_slots, cls.__mro__[1:-1])))
    wanted = [*names, "__weakref__"] if weakref else names
    own["__slots__"] = tuple(name for name in wanted if name not in inherited)
    for name in (*names, "__dict__", "__weakref__"):
        own.pop(name, None)
    qualname = cls.__qualname__
    made = type(cls)(cls.__name__, cls.__bases__, own)
    made.__qualname__ = qualname
    return made


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
    """Fields of a dataclass as its class has them; what an instance says of itself is no guide."""
    for base in kind.__mro__:
        found = class_namespace(base).get(_FIELDS)
        if found is not None:
            return tuple(each for each in found.values() if _kind(each) is _FIELD)
    return None


def _spelled(each: Field[Any]) -> Field[Any]:
    if not each.name.startswith(policy.PRIVATE_PREFIX):
        return each
    shown = copy.copy(each)
    shown.name = policy.demangle(each.name)
    return shown


def fields(class_or_instance: Any) -> tuple[Any, ...]:
    """`dataclasses.fields`."""
    obj = class_or_instance
    found = dataclass_fields(obj if isinstance(obj, type) else type(obj))
    if found is None:
        raise TypeError("must be called with a dataclass type or instance")
    return tuple(_spelled(each) for each in found)


def _values_of(obj: Any) -> list[tuple[str, Any]] | None:
    """Names and values of the fields of an instance; None if it is not of a dataclass."""
    found = None if isinstance(obj, type) else dataclass_fields(type(obj))
    if found is None:
        return None
    return [(policy.demangle(each.name), getattr(obj, _checked(each.name))) for each in found]


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
    for each in getattr(kind, _FIELDS).values():
        name = _parameter(each)
        if _kind(each) is _CLASSVAR:
            continue
        if not each.init:
            if name in changes:
                text = f"field {name} is declared with init=False, it cannot be specified with "
                raise (TypeError if sys.version_info >= (3, 13) else ValueError)(f"{text}replace()")
        elif name not in changes:
            if _kind(each) is _INITVAR and each.default is MISSING:
                text = f"InitVar {name!r} must be specified with replace()"
                raise (TypeError if sys.version_info >= (3, 13) else ValueError)(text)
            changes[name] = getattr(obj, _checked(each.name))
    return kind(**changes)
