"""Methods that `@dataclass` generates for a script's class.

A generated method refuses receivers that are not instances (tests/worker/test_dataclasses.py).
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import Any

from ..._language import _policy as policy
from .._attributes import attribute
from .._freeze import class_namespace
from ._dataclass_fields import FIELD, FIELDS, HAS_FACTORY, INITVAR, FieldText, Options

__all__ = [
    "Methods",
    "add_comparisons",
    "add_frozen",
    "add_init",
    "add_repr",
    "tuple_text",
]


def _recursive_repr(function: Any) -> Any:
    """Show an object inside itself as ``...``; `pprint` looks for the wrapped function."""
    wrapper: Any = reprlib.recursive_repr()(function)
    wrapper.__wrapped__ = function
    return wrapper


class Methods:
    """Source text of the methods of one class, and the values that the text refers to."""

    def __init__(self, fields: Mapping[str, Field[Any]]) -> None:
        self._texts: list[str] = []
        self._fields = fields
        self._values: dict[str, Any] = {
            "__dataclass_require__": self._require,
            "__dataclass_read__": attribute,
            "__dataclass_type__": type,
            "__dataclass_hash__": hash,
            "__dataclass_super__": super,
            "__dataclass_setattr__": object.__setattr__,
            "__dataclass_repr__": _recursive_repr,
            "__dataclass_demangle__": policy.demangle,
            "__dataclass_frozen__": FrozenInstanceError,
            "__dataclass_factory__": HAS_FACTORY,
        }

    def _require(self, receiver: Any) -> None:
        """Refuse a receiver that is not an instance of the class, or of one made from it."""
        for base in type(receiver).__mro__:
            if class_namespace(base).get(FIELDS) is self._fields:
                return
        name = policy.demangle(type(receiver).__name__)
        raise TypeError(f"a method of a dataclass was called on {name!r}, not on an instance")

    def name(self, value: Any) -> str:
        """Return a name for `value` in the text."""
        name = f"__dataclass_value_{len(self._values)}__"
        self._values[name] = value
        return name

    def add(self, name: str, arguments: str, body: Iterable[str], decorator: str = "") -> None:
        """Add the method `name`; the first of its `arguments` is the receiver."""
        receiver = arguments.partition(",")[0]
        returns = " -> None" if name == "__init__" else ""
        self._texts += [f" {decorator}"] if decorator else []
        self._texts += [
            f" def {name}({arguments}){returns}:",
            f"  if __dataclass_type__({receiver}) is not __dataclass_class__:",
            f"   __dataclass_require__({receiver})",
            *(f"  {line}" for line in body),
        ]

    def make(self, names: Iterable[str]) -> tuple[dict[str, Any], Callable[[type], None]]:
        """Return the methods by name, and a function that binds them to the class."""
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
        # The text has checked identifiers and our own names, no text of a script.
        # Not under this module's own `annotations` feature: the annotations are values.
        code = compile(text, "\ud800dataclass", "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102  # see above
        made, bind = namespace["__create_fn__"](**self._values)
        return dict(zip(names, made, strict=True)), bind


def add_init(methods: Methods, fields: list[FieldText], cls: type, options: Options) -> None:
    in_order = [each for each in fields if each.init and not each.kw_only]
    keywords = [each for each in fields if each.init and each.kw_only]
    _require_order(in_order)
    receiver = "__dataclass_self__" if any(each.parameter == "self" for each in fields) else "self"
    arguments = [receiver]
    defaults: dict[str, str] = {}
    for each in fields:
        if each.default_factory is not MISSING:
            defaults[each.name] = methods.name(each.default_factory)
        elif each.default is not MISSING:
            defaults[each.name] = methods.name(each.default)

    def declared(each: FieldText) -> str:
        default = defaults.get(each.name, "")
        if default and each.default_factory is not MISSING:
            default = "__dataclass_factory__"
        annotation = methods.name(each.type)
        return f"{each.parameter}: {annotation}" + (f" = {default}" if default else "")

    arguments += map(declared, in_order)
    if keywords:
        arguments += ["*", *map(declared, keywords)]
    body = []
    for each in fields:
        value = _initial(each, defaults, slots=options.slots)
        if value and each.kind is FIELD:
            body.append(_assignment(each.name, value, receiver, frozen=options.frozen))
    if hasattr(cls, "__post_init__"):
        given = ", ".join(each.parameter for each in fields if each.kind is INITVAR)
        body.append(f"{receiver}.__post_init__({given})")
    methods.add("__init__", ", ".join(arguments), body)


def _require_order(fields: Iterable[FieldText]) -> None:
    """Refuse a field without a default after one with a default."""
    before = None
    for each in fields:
        if each.default is not MISSING or each.default_factory is not MISSING:
            before = each
        elif before is not None:
            text = f"non-default argument {each.parameter!r} follows default argument"
            if sys.version_info >= (3, 13):
                text += f" {before.parameter!r}"
            raise TypeError(text)


def _initial(each: FieldText, defaults: Mapping[str, str], *, slots: bool) -> str:
    """Return the expression for the initial value of a field; empty if its class has the value."""
    name = each.parameter
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


def tuple_text(receiver: str, fields: Iterable[FieldText]) -> str:
    return "(" + "".join(f"{each.read(receiver)}, " for each in fields) + ")"


def add_comparisons(methods: Methods, fields: list[FieldText], options: Options) -> list[str]:
    compared = [each for each in fields if each.compare]
    mine, other = tuple_text("self", compared), tuple_text("other", compared)
    same = "if __dataclass_type__(other) is __dataclass_type__(self):"
    names = []
    if options.eq:
        equal = f"{mine} == {other}"
        body = [same, f" return {equal}", "return NotImplemented"]
        if sys.version_info >= (3, 13):  # one by one, and an object equals itself
            terms = [f"{each.read('self')} == {each.read('other')}" for each in compared]
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


def add_frozen(methods: Methods, fields: list[FieldText]) -> list[str]:
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


def add_repr(methods: Methods, fields: list[FieldText]) -> None:
    # Values first: a read has quotes of its own, which an f-string before 3.12 cannot contain.
    shown = [each for each in fields if each.repr]
    lines = [f"__dataclass_{at}__ = {each.read('self')}" for at, each in enumerate(shown)]
    text = ", ".join(f"{each.parameter}={{__dataclass_{at}__!r}}" for at, each in enumerate(shown))
    lines.append(f'return f"{{__dataclass_type__(self).__qualname__}}({text})"')
    methods.add("__repr__", "self", lines, decorator="@__dataclass_repr__")
