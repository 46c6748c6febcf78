"""Identity without addresses: `id()`, default reprs and default hashes that a replay sees again.

CPython tells objects apart by their address, which differs from process to process: in `id(x)`, in
``<Node object at 0x7f...>``, and, through the default hash, in the order in which a set is walked.
Here objects have numbers instead, given in the order in which a script asks. What is left is the
hash of classes and functions: too many tables of the interpreter are keyed by it. A set of classes
is walked in an order of its own in each process, as in CPython.

Rule 1: no address reaches a script through `id`, `repr`, or the order of a set of its own objects,
    of tasks and tool calls, or of None (which `ptc.worker.__main__` sees to)
    (tests/worker/test_determinism.py::test_programs_about_identity_give_the_same_bytes).
"""

from __future__ import annotations

import asyncio
import builtins
import ctypes
import hashlib
import pprint
import reprlib
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

from ._freeze import FreezeError, all_types, replace_attribute
from ._internals import builtin_owner

__all__ = ["ScriptObject", "hide_addresses", "known_id", "restart_numbers", "stable_id"]

# Looks like an address, so that what people print looks as ever.
_FIRST: Final = 0x7F00_0000_0000
_STEP: Final = 16
# Offsets in PyTypeObject on 64-bit builds, see `_freeze._OFFSET`; `_prove` proves them.
_TP_REPR: Final = 24 + 8 * 8
_TP_HASH: Final = 24 + 12 * 8

# Numbers below are for what the zygote and a rehearsal ask; some tens.
_BEFORE_RUNS: Final = 1 << 16

_last = 0
_asked: dict[int, tuple[int, object]] = {}


def _next() -> int:
    global _last
    _last += 1
    return _last


def restart_numbers() -> None:
    """Begin the numbers of a run, above all that were given before it."""
    global _last
    _last = _BEFORE_RUNS


def _number(obj: Any) -> int:
    """Number of `obj`, the same each time it is asked for and never another object's."""
    real = builtins.id(obj)
    known = _asked.get(real)
    if known is not None:
        return known[0]
    number = _next()
    holder: object
    try:
        # Gone with the object, whose address may then be another's.
        holder = weakref.ref(obj, lambda _: _asked.pop(real, None))
    except TypeError:
        holder = obj  # kept, so that no other gets its address
    _asked[real] = (number, holder)
    return number


def _own_number(obj: Any) -> int:
    """As `_number`, kept with the object: faster, and half the memory."""
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


def known_id(obj: object) -> int | None:
    """`stable_id` of an object if a script may have asked for it."""
    if isinstance(obj, ScriptObject) or builtins.id(obj) in _asked:
        return stable_id(obj)
    return None


stable_id.__name__ = stable_id.__qualname__ = "id"


class ScriptObject:
    """What stands between `object` and the classes of a script: a hash that is not an address."""

    __slots__ = ()

    def __hash__(self) -> int:
        # Not `_own_number`: a copy takes this along, which does no harm, and must then not lose it.
        try:
            number: int = self.__dict__["@hash"]
        except KeyError:
            number = self.__dict__["@hash"] = _next()
        except AttributeError:
            return _number(self)
        return number


# ---------------------------------------------------------------------------------------------
# Default reprs


def _type_name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _object_repr(self: object) -> str:
    return f"<{_type_name(type(self))} object at {stable_id(self):#x}>"


def _function_repr(self: types.FunctionType) -> str:
    return f"<function {self.__qualname__} at {stable_id(self):#x}>"


def _builtin_repr(self: types.BuiltinFunctionType) -> str:
    owner = builtin_owner(self)
    if owner is None or isinstance(owner, types.ModuleType):
        return f"<built-in function {self.__name__}>"
    kind = type(owner).__qualname__
    return f"<built-in method {self.__name__} of {kind} object at {stable_id(owner):#x}>"


def _wrapper_repr(self: types.MethodWrapperType) -> str:
    owner = self.__self__
    kind = type(owner).__qualname__
    return f"<method-wrapper {self.__name__!r} of {kind} object at {stable_id(owner):#x}>"


def _running_repr(self: Any) -> str:
    kind = type(self).__name__
    return f"<{kind} object {self.__qualname__} at {stable_id(self):#x}>"


def _task_repr(self: asyncio.Task[Any]) -> str:
    # The library's names the files in which coroutines and callbacks are defined.
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


_REPRS: Final[dict[type, Callable[[Any], str]]] = {
    object: _object_repr,
    types.FunctionType: _function_repr,
    types.BuiltinFunctionType: _builtin_repr,
    types.MethodWrapperType: _wrapper_repr,
    types.GeneratorType: _running_repr,
    types.CoroutineType: _running_repr,
    types.AsyncGeneratorType: _running_repr,
    asyncio.Future: _future_repr,
    asyncio.Task: _task_repr,
    # Of OpenSSL; where Python has its own, they have the default.
    **{
        type(made): _hash_repr
        for made in (hashlib.md5(usedforsecurity=False), hashlib.shake_128())
        if type(made).__repr__ is not object.__repr__
    },
}


def _recursion(obj: object) -> str:
    """What `pprint` shows of a container inside itself."""
    return f"<Recursion on {type(obj).__name__} with id={stable_id(obj)}>"


def _slot(kind: type, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(builtins.id(kind) + offset)


class _Shown:
    """Its slots hold the C functions that call what is found on the type by name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "shown"

    def __hash__(self) -> int:
        return 0


def hide_addresses() -> None:
    """Give default reprs, and the hash of tasks and coroutines, numbers of ours for addresses.

    Call it in the zygote, once all modules are loaded, before the types are frozen.

    Raises:
        FreezeError: If this interpreter keeps the slots elsewhere.
    """
    _prove()
    calls_python = _slot(_Shown, _TP_REPR).value
    replaced = {_slot(kind, _TP_REPR).value: kind for kind in _REPRS}
    # A type has a copy of the pointer of the base it took it from.
    heirs = [kind for kind in all_types() if _slot(kind, _TP_REPR).value in replaced]
    for kind, show in _REPRS.items():
        replace_attribute(kind, "__repr__", show)
    for kind in heirs:
        _slot(kind, _TP_REPR).value = calls_python
    # Tasks, calls and coroutines are kept in sets: by scripts, TaskGroup, `wait`, `as_completed`.
    default = _slot(object, _TP_HASH).value
    heirs = [kind for kind in all_types() if issubclass(kind, _HASHED)]
    heirs = [kind for kind in heirs if _slot(kind, _TP_HASH).value == default]
    for kind in _HASHED:
        replace_attribute(kind, "__hash__", _number)
    for kind in heirs:
        _slot(kind, _TP_HASH).value = _slot(_Shown, _TP_HASH).value
    for module in (asyncio.queues, reprlib):  # for the repr of a Queue, and of what has none
        vars(module)["id"] = stable_id
    vars(pprint)["_recursion"] = _recursion


_HASHED: Final = (asyncio.Future, types.CoroutineType)


def _prove() -> None:
    """Check that we look at the slots: by what they hold, and by what writing to them does.

    Written to is a class of this function's only, so that a wrong place does no harm elsewhere.
    """

    class Plain:
        __slots__ = ()

    for offset in (_TP_REPR, _TP_HASH):
        default = _slot(object, offset).value
        others = {_slot(kind, offset).value for kind in (int, str, _Shown)}
        if default is None or _slot(Plain, offset).value != default or default in others:
            raise FreezeError(_NOT_THERE)
        _slot(Plain, offset).value = _slot(_Shown, offset).value
    for name in ("__repr__", "__hash__"):
        replace_attribute(Plain, name, vars(_Shown)[name])  # leaves the slots alone
    if repr(Plain()) != "shown" or hash(Plain()) != 0:
        raise FreezeError(_NOT_THERE)


_NOT_THERE: Final = "the slots of a type are not where this CPython should have them"
