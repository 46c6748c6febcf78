"""`dataclass` for this package: that of the standard library, made in a tenth of the time.

The standard library compiles six methods for a frozen class, which takes 0.6 ms, and three for
another one: a third of the time to import a session. Here a class with slots gets one method of its
own, `__init__`, compiled when it is first used; the others are the same functions for all classes,
and read the fields with an `attrgetter`. Classes without slots are made by the standard library,
which type checkers see in any case.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, NoReturn

__all__ = ["compile_all", "dataclass"]

_FACTORY: Final = object()
"""Default of a parameter whose field has a `default_factory`."""


def _refuse(self: object, name: str, _value: object = None) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{name}={getattr(self, name)!r}" for name in self.__shown_names__]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _LaterInit:
    """`__init__` of a class: compiled when it is first looked up, which most are not."""

    __slots__ = ("_frozen", "_made")

    def __init__(self, made: Any, *, frozen: bool) -> None:
        self._made = made
        self._frozen = frozen

    def compile(self) -> Any:
        """Replace itself by the method, and return that."""
        _LATER.pop(self._made, None)
        self._made.__init__ = _make_init(self._made, frozen=self._frozen)
        return self._made.__init__

    def __get__(self, item: object, owner: type | None = None) -> Any:
        return self.compile().__get__(item, owner)


_LATER: Final[dict[type, _LaterInit]] = {}


def compile_all() -> None:
    """Compile what waits for its first use, before classes are made immutable."""
    for later in list(_LATER.values()):
        later.compile()


_METHODS: Final = {"__repr__": _repr}
_FROZEN: Final = {
    "__delattr__": _refuse_deletion,
    "__getstate__": _get_state,
    "__setattr__": _refuse,
    "__setstate__": _set_state,
}
_EQUAL: Final = {"__eq__": _eq, "__hash__": None}
_HASHED: Final = {"__eq__": _eq, "__hash__": _hash}


def _make(cls: type, *, frozen: bool, eq: bool = True, kw_only: bool = False) -> type:
    own = set(cls.__dict__)
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=True, kw_only=kw_only
    )(cls)
    fields = dataclasses.fields(made)
    compared = tuple(f.name for f in fields if f.compare)
    if len(compared) > 1:
        made.__compared__ = staticmethod(attrgetter(*compared))
    else:
        made.__compared__ = staticmethod(lambda self: tuple(getattr(self, n) for n in compared))
    made.__shown_names__ = tuple(f.name for f in fields if f.repr)
    compare: dict[str, Any] = (_HASHED if frozen else _EQUAL) if eq else {}
    for name, method in {**_METHODS, **(_FROZEN if frozen else {}), **compare}.items():
        if name not in own or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(made, name, method)
    if "__init__" not in own:
        made.__init__ = _LATER[made] = _LaterInit(made, frozen=frozen)
    return made  # type: ignore[no-any-return]  # `Any` above, for its new attributes


def _make_init(made: Any, *, frozen: bool) -> Any:
    """Compile a method that stores each argument; through its slot, where an attribute refuses."""
    fields = dataclasses.fields(made)
    scope: dict[str, Any] = {"_factory": _FACTORY}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for number, field in enumerate(fields):
        name, value, default = field.name, field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_make{number}"] = field.default_factory
            value, default = f"_make{number}()", "=_factory"
            if field.init:
                value += f" if {name} is _factory else {name}"
        elif field.default is not dataclasses.MISSING:
            scope[f"_default{number}"] = field.default
            default = f"=_default{number}"
            value = name if field.init else f"_default{number}"
        elif not field.init:
            continue  # set by __post_init__
        if field.init:
            parameters[bool(field.kw_only)].append(name + default)
        if frozen:
            scope[f"_set{number}"] = getattr(made, name).__set__
            lines.append(f"    _set{number}(self, {value})")
        else:
            lines.append(f"    self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join(["self", *parameters[False], *keywords])
    text = f"def __init__({head}):\n" + "\n".join(lines or ["    pass"])
    exec(text, scope)  # noqa: S102  # names of fields of our own classes
    init = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__module__ = made.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    return init


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, init=True, **options):
        """Return a dataclass, as `dataclasses.dataclass`."""
        if not (slots and init):
            options.update(frozen=frozen, slots=slots, init=init)
            return dataclasses.dataclass(cls, **options)
        if cls is not None:
            return _make(cls, frozen=frozen, **options)
        return lambda target: _make(target, frozen=frozen, **options)
