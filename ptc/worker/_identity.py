"""Identity without addresses: `id()`, default reprs and default hashes that a replay reproduces.

CPython identifies objects by their address, which differs between processes: in `id(x)`, in
``<Node object at 0x7f...>``, and, through the default hash, in the iteration order of a set. Here
objects have numbers instead, assigned in the order in which a script asks for them. The hash of
classes and functions remains an address: too many tables of the interpreter are keyed by it. The
iteration order of a set of classes differs between processes, as in CPython.

Rule 1: no address reaches a script through `id`, `repr`, or the order of a set of its own objects,
    of tasks and tool calls, or of None (`ptc.worker.__main__` fixes its hash)
    (tests/worker/test_determinism.py::test_programs_using_object_identity_are_byte_identical).
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import ctypes
import hashlib
import pprint
import re
import reprlib
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Final
from xml.etree import ElementTree

from .._language import _policy as policy
from ._freeze import WORD, FreezeError, all_types, replace_attribute
from ._internals import bound_function, bound_object, builtin_owner

__all__ = [
    "ScriptObject",
    "calls_python",
    "find_id",
    "hide_addresses",
    "is_shown_as_builtin",
    "restart_numbers",
    "show_as_builtin",
    "stable_id",
    "type_slot",
]

# Looks like an address, so that printed text looks familiar.
_FIRST: Final = 0x7F00_0000_0000
_STEP: Final = 16
# Offsets in PyTypeObject, see `_freeze._OFFSET`; `_check_offsets` proves them.
_TP_NAME: Final = 3 * WORD
_TP_REPR: Final = (3 + 8) * WORD
_TP_HASH: Final = (3 + 12) * WORD

# Numbers below are for the zygote and for rehearsals, which use a few dozen.
_BEFORE_RUNS: Final = 1 << 16

_last = 0
_numbers: dict[int, tuple[int, object]] = {}


def _next() -> int:
    global _last
    _last += 1
    return _last


def restart_numbers() -> None:
    """Restart the numbers for a run, above all that were assigned before it."""
    global _last
    _last = _BEFORE_RUNS


def _number(obj: Any) -> int:
    """Return the number of `obj`, always the same and never that of another object."""
    real = builtins.id(obj)
    known = _numbers.get(real)
    if known is not None:
        return known[0]
    number = _next()
    holder: object
    try:
        # Dropped with the object, because another object may then have its address.
        holder = weakref.ref(obj, lambda _: _numbers.pop(real, None))
    except TypeError:
        holder = obj  # keeps it alive, so that no other object gets its address
    _numbers[real] = (number, holder)
    return number


def _own_number(obj: Any) -> int:
    """Return the number of `obj`, stored in the object: faster, and half the memory."""
    try:
        own = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return _number(obj)
    real = builtins.id(obj)
    # A name with "@" is shown to no script (`_views._is_shown`). A copy has its own number.
    number: int
    number, holder = own.get("@number", _NOBODY)
    if holder != real:
        number = _next()
        own["@number"] = (number, real)
    return number


_NOBODY: Final = (0, 0)


def stable_id(obj: object, /) -> int:
    """Stand in for `id`."""
    number = _own_number(obj) if isinstance(obj, ScriptObject) else _number(obj)
    return _FIRST + _STEP * number


def find_id(obj: object) -> int | None:
    """Return the `stable_id` of an object; None if no script can have asked for it."""
    if isinstance(obj, ScriptObject) or builtins.id(obj) in _numbers:
        return stable_id(obj)
    return None


stable_id.__name__ = stable_id.__qualname__ = "id"


_MISSING: Final = object()


class ScriptObject:
    """Base of a script's classes, below `object`: its hash is not an address."""

    __slots__ = ()

    def __hash__(self) -> int:
        bases = type(self).__mro__
        if bases[-2] is not ScriptObject:  # such as Enum after a mixin of the script
            for base in bases[bases.index(ScriptObject) + 1 : -1]:
                inherited = base.__dict__.get("__hash__", _MISSING)
                if inherited is None:
                    raise TypeError(f"unhashable type: {type(self).__name__!r}")
                if inherited is not _MISSING:
                    return int(inherited(self))
        # Not `_own_number`: a copy inherits this entry, which is harmless, and must then keep it.
        try:  # not `self.__dict__`, which a class with slots may answer by its `__getattr__`
            own = object.__getattribute__(self, "__dict__")
        except AttributeError:
            return _number(self)
        number: int = own.get("@hash", 0)
        if not number:
            number = own["@hash"] = _next()
        return number


# ---------------------------------------------------------------------------------------------
# Default reprs


def _type_name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _object_repr(self: object) -> str:
    return f"<{_type_name(type(self))} object at {stable_id(self):#x}>"


_as_builtin: dict[int, tuple[str, object]] = {}


def show_as_builtin(function: object, name: str) -> None:
    """Make the repr of a function of the worker that of the builtin which it stands for."""
    _as_builtin[builtins.id(function)] = name, function


def is_shown_as_builtin(function: object) -> bool:
    """True if scripts see a builtin function in `function`."""
    return builtins.id(function) in _as_builtin


def _method_repr(self: types.MethodType) -> str:
    if builtins.id(self) in _as_builtin:
        return f"<built-in function {_as_builtin[builtins.id(self)][0]}>"
    function = bound_function(self)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "?")
    return f"<bound method {name} of {bound_object(self)!r}>"


def _function_repr(self: types.FunctionType) -> str:
    if builtins.id(self) in _as_builtin:
        return f"<built-in function {_as_builtin[builtins.id(self)][0]}>"
    return f"<function {self.__qualname__} at {stable_id(self):#x}>"


def _builtin_repr(self: types.BuiltinFunctionType) -> str:
    owner = builtin_owner(self)
    if owner is None or isinstance(owner, types.ModuleType):
        return f"<built-in function {self.__name__}>"
    kind = _c_name(type(owner))
    return f"<built-in method {self.__name__} of {kind} object at {stable_id(owner):#x}>"


_names_in_c: dict[int, str] = {}
"""Names of types by their real `id`, in a guest, which cannot read them later."""


def _c_name(kind: type) -> str:
    """Return the name of a type in C, which has a module for a type that is written in C."""
    if sys.platform == "wasi" and _names_in_c:
        return _names_in_c.get(builtins.id(kind), kind.__name__)
    name = ctypes.c_char_p.from_address(builtins.id(kind) + _TP_NAME).value
    return name.decode() if name else kind.__name__


def _wrapper_repr(self: types.MethodWrapperType) -> str:
    owner = self.__self__
    kind = type(owner).__qualname__
    return f"<method-wrapper {self.__name__!r} of {kind} object at {stable_id(owner):#x}>"


def _running_repr(self: Any) -> str:
    kind = type(self).__name__
    return f"<{kind} object {self.__qualname__} at {stable_id(self):#x}>"


def _task_repr(self: asyncio.Task[Any]) -> str:
    # The library's repr has the files in which coroutines and callbacks are defined.
    coroutine = getattr(self.get_coro(), "__qualname__", "coroutine")
    return f"<Task {_state(self)} name={self.get_name()!r} coro=<{coroutine}()>{_outcome(self)}>"


def _future_repr(self: asyncio.Future[Any]) -> str:
    return f"<{type(self).__name__} {_state(self)}{_outcome(self)}>"


def _state(future: asyncio.Future[Any]) -> str:
    if not future.done():
        return "pending"
    return "cancelled" if future.cancelled() else "finished"


def _outcome(future: asyncio.Future[Any]) -> str:
    if not future.done() or future.cancelled():
        return ""
    error = future._exception
    if error is not None:
        return f" exception={error!r}"
    return f" result={reprlib.repr(future.result())}"


def _hash_repr(self: Any) -> str:
    return f"<{self.name} {_type_name(type(self))} object @ {stable_id(self):#x}>"


def _variable_repr(self: contextvars.ContextVar[Any]) -> str:
    return re.sub(r"at 0x[0-9a-f]+>$", f"at {stable_id(self):#x}>", _library_variable_repr(self))


def _token_repr(self: contextvars.Token[Any]) -> str:
    used = "used " if "used var=" in _library_token_repr(self)[:16] else ""
    return f"<Token {used}var={self.var!r} at {stable_id(self):#x}>"


_library_variable_repr: Final = contextvars.ContextVar.__repr__
_library_token_repr: Final = contextvars.Token.__repr__


def _reference_repr(self: weakref.ref[Any]) -> str:
    target = self()
    if target is None:
        return f"<weakref at {stable_id(self):#x}; dead>"
    kind = type(target).__name__
    if sys.version_info >= (3, 13):
        kind = _type_name(type(target)).removeprefix("__main__.")
    named = isinstance(target, type | types.FunctionType | types.BuiltinFunctionType)
    name = f" ({policy.demangle(target.__name__)})" if named else ""
    return f"<weakref at {stable_id(self):#x}; to {kind!r} at {stable_id(target):#x}{name}>"


def _element_repr(self: ElementTree.Element) -> str:
    return f"<Element {self.tag!r} at {stable_id(self):#x}>"


_REPRS: Final[dict[type, Callable[[Any], str]]] = {
    object: _object_repr,
    types.FunctionType: _function_repr,
    types.BuiltinFunctionType: _builtin_repr,
    types.MethodType: _method_repr,
    types.MethodWrapperType: _wrapper_repr,
    types.GeneratorType: _running_repr,
    types.CoroutineType: _running_repr,
    types.AsyncGeneratorType: _running_repr,
    asyncio.Future: _future_repr,
    asyncio.Task: _task_repr,
    contextvars.ContextVar: _variable_repr,
    contextvars.Token: _token_repr,
    weakref.ref: _reference_repr,
    ElementTree.Element: _element_repr,
    # OpenSSL's classes; Python's own have the default repr.
    **{
        type(made): _hash_repr
        for made in (hashlib.md5(usedforsecurity=False), hashlib.shake_128())
        if type(made).__repr__ is not object.__repr__
    },
}


def _recursion(obj: object) -> str:
    """Return the text that `pprint` shows for a container inside itself."""
    return f"<Recursion on {type(obj).__name__} with id={stable_id(obj)}>"


def type_slot(kind: type, offset: int) -> ctypes.c_void_p:
    """Return the slot of a type at an offset, which can be read and written."""
    return ctypes.c_void_p.from_address(builtins.id(kind) + offset)


class _Python:
    """Its type slots hold the C functions that call the Python methods of a type."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "python"

    def __str__(self) -> str:
        return "python"

    def __hash__(self) -> int:
        return 0


def calls_python(offset: int) -> int | None:
    """Return the C function that calls the Python method of a slot."""
    return type_slot(_Python, offset).value


def hide_addresses() -> None:
    """Replace the address in default reprs, and in the hash of tasks and coroutines, by a number.

    Call it in the zygote, once all modules are loaded, before the types are frozen.

    Raises:
        FreezeError: If this interpreter has the slots elsewhere.
    """
    _check_offsets()
    python_repr = calls_python(_TP_REPR)
    replaced = {type_slot(kind, _TP_REPR).value: kind for kind in _REPRS}
    # A type has a copy of the pointer that it inherits.
    heirs = [kind for kind in all_types() if type_slot(kind, _TP_REPR).value in replaced]
    for kind, show in _REPRS.items():
        replace_attribute(kind, "__repr__", show)
    for kind in heirs:
        type_slot(kind, _TP_REPR).value = python_repr
    # Tasks, calls and coroutines are stored in sets: by scripts, TaskGroup, `wait`, `as_completed`.
    default = type_slot(object, _TP_HASH).value
    heirs = [kind for kind in all_types() if issubclass(kind, _HASHED)]
    heirs = [kind for kind in heirs if type_slot(kind, _TP_HASH).value == default]
    for kind in _HASHED:
        replace_attribute(kind, "__hash__", _number)
    for kind in heirs:
        type_slot(kind, _TP_HASH).value = calls_python(_TP_HASH)
    # For the repr of a Queue, of failing reprs, and of dictionaries of weak references.
    for module in (asyncio.queues, reprlib, weakref):
        vars(module)["id"] = stable_id
    pprint.__dict__["_recursion"] = _recursion
    if sys.platform == "wasi":
        _names_in_c.update({builtins.id(kind): _c_name(kind) for kind in all_types()})


_HASHED: Final = (asyncio.Future, types.CoroutineType, ElementTree.Element)


def _check_offsets() -> None:
    """Check the offsets of the slots: by their contents, and by the effect of writing to them.

    Only a class of this function is written to, so that a wrong offset does no harm elsewhere.
    """

    class Plain:
        __slots__ = ()

    for offset in (_TP_REPR, _TP_HASH):
        default = type_slot(object, offset).value
        others = {type_slot(kind, offset).value for kind in (int, str, _Python)}
        if default is None or type_slot(Plain, offset).value != default or default in others:
            raise FreezeError(_NOT_THERE)
        type_slot(Plain, offset).value = type_slot(_Python, offset).value
    for name in ("__repr__", "__hash__"):
        replace_attribute(Plain, name, vars(_Python)[name])  # leaves the slots alone
    if repr(Plain()) != "python" or hash(Plain()) != 0:
        raise FreezeError(_NOT_THERE)


_NOT_THERE: Final = "the slots of a type are not at the expected offsets in this CPython"
