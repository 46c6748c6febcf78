"""The object that `import x` binds in a script: fixed names, and no references to other modules.

A real module leads to `os` in two steps (`json.codecs.builtins.open`); a facade has one slot for
each name of the table in `ptc._policy_modules` and nothing else, not even a `__dict__`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ..._language._policy import MODULES
from .._classes import offer, open_type
from .._freeze import make_slots_readonly
from .._identity import show_as_builtin
from .._internals import (
    bound_function,
    bound_object,
    closure_of,
    code_of,
    defaults_of,
    globals_of,
    keyword_defaults_of,
)

__all__ = ["is_facade", "make_facade", "make_module"]


def _set(self: Any, name: str, value: object) -> None:
    member = getattr(type(self), name, None)
    if not isinstance(member, property):
        _refuse(self, name)
    member.__set__(self, value)


def _refuse(self: Any, name: str) -> NoReturn:
    raise AttributeError(f"{self!r} cannot be changed; keep {name!r} in a variable of your own")


def _stand_in(module: str, name: str, member: Any) -> Any:
    """Give a function of the worker the name, and the look, of the library's function."""
    if isinstance(member, type):
        _name_class(module, name, member)
        return member
    method = type(member) is types.MethodType
    function = bound_function(member) if method else member
    if type(function) is not types.FunctionType or not function.__module__.startswith("ptc."):
        return member
    real = _library_member(module, name)
    if id(member) in _named:  # under two names
        function = _copy_of(function)
        member = types.MethodType(function, bound_object(member)) if method else function
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(real, "__doc__", None)
    _named[id(member)] = member
    if type(real) is types.BuiltinFunctionType:
        show_as_builtin(member, name)
    return member


def _library_member(module: str, name: str) -> Any:
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def _name_class(module: str, name: str, kind: type) -> None:
    """Give a class of the worker the names of the library's class, which reprs and errors show."""
    if not kind.__module__.startswith("ptc."):
        return
    real = _library_member(module, name)
    if not isinstance(real, type):
        kind.__module__, kind.__name__, kind.__qualname__ = module, name, name
    else:
        kind.__name__, kind.__qualname__ = real.__name__, real.__qualname__
        kind.__module__ = real.__module__
        kind.__doc__ = real.__doc__


_named: dict[int, object] = {}


def _copy_of(function: types.FunctionType) -> types.FunctionType:
    made = types.FunctionType(
        code_of(function), globals_of(function), function.__name__, defaults_of(function),
        closure_of(function),
    )  # fmt: skip
    made.__kwdefaults__ = keyword_defaults_of(function)
    return made


def make_facade(name: str, members: Mapping[str, object]) -> object:
    """Create a frozen object with the members that the table lists for module `name`.

    One class per module, with slots: CPython loads from a slot about as fast as from a module,
    two to three times faster than through a class or a `__getattr__` (measured on 3.11 to 3.13).

    Args:
        name: A module of the table.
        members: Values by name. A property is a member that can change, such as `sys.stdout`.

    Raises:
        ValueError: If a member is not in the table.
    """
    surplus = members.keys() - MODULES[name]
    if surplus:
        raise ValueError(f"{name}: {', '.join(sorted(surplus))} not in the table of modules")
    named = {each: _stand_in(name, each, value) for each, value in members.items()}
    real = sys.modules.get(name)
    facts = {each: getattr(real, each, None) for each in ("__doc__", "__name__", "__version__")}
    spec = getattr(real, "__spec__", None)
    shown = name if spec is None else spec.name
    return make_module(shown, named, {each: text for each, text in facts.items() if text})


def is_facade(kind: type) -> bool:
    """True if `kind` is the class of a module as scripts see it."""
    return kind in _KINDS


_KINDS: Final[set[type]] = set()


def make_module(
    name: str, members: Mapping[str, object], facts: Mapping[str, object] | None = None
) -> object:
    """Create a facade with `members`, without checking the table.

    Args:
        name: Name of the module.
        members: Values by name, as for `make_facade`.
        facts: Attributes that describe the module, such as ``__doc__``.
    """
    described = {"__doc__": None, "__name__": name, **(facts or {})}
    live = {each: value for each, value in members.items() if isinstance(value, property)}
    fixed = {each: value for each, value in members.items() if each not in live}
    kind: type[object] = open_type(
        type(
            "module",
            (),
            {
                **live,
                "__doc__": described.pop("__doc__"),
                "__slots__": (*described, *fixed),
                "__setattr__": _set,
                "__delattr__": _refuse,
                "__repr__": lambda self: f"<module {name!r}>",
                "__module__": "builtins",
            },
        )
    )
    made = kind()
    for member, value in {**described, **fixed}.items():
        object.__setattr__(made, member, value)
        if isinstance(value, type):
            offer(value)
    make_slots_readonly(kind)
    _KINDS.add(kind)
    return made
