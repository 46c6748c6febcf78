"""`copy.copy` and `copy.deepcopy`, limited to the script's own data.

The library's version walks into any object and records each part in `memo`, a dict that the script
may hold: ``copy.deepcopy(ctx, memo)`` would store the objects behind `ctx` in it. Here containers,
library data and instances of script classes are copied, functions and classes are shared, and any
other object raises (test_deepcopy_does_not_walk_into_foreign_objects).
"""

from __future__ import annotations

import array
import collections
import copy
import datetime
import decimal
import enum
import fractions
import functools
import ipaddress
import pathlib
import re
import statistics
import types
import typing
import uuid
import weakref
import zoneinfo
from collections.abc import Callable, Collection
from typing import Any, Final
from xml.etree import ElementTree

from ..._language._policy import demangle
from .._classes import is_open, is_script_class
from .._freeze import class_namespace, replace_attribute
from .._identity import find_id, stable_id
from .._internals import bound_function, bound_object, globals_of
from .._record import Record
from .._views import NamespaceView
from ._facade import is_facade
from ._futures import Executor, Future
from ._locks import Barrier, Condition, Event, Lock, RLock, Semaphore
from ._log_handlers import Handler
from ._logging import Logger
from ._queues import Queue, SimpleQueue
from ._signature import Signature
from ._syntax_trees import copy_node, is_node
from ._threading import Thread, local

__all__ = ["confine_copies", "deepcopy", "shallow"]

# Immutable in every part, or shared by design, as in the library.
_SHARED: Final = (
    type(None), int, float, complex, str, bytes, bool, range, type(...),
    type(NotImplemented), type, types.FunctionType, types.BuiltinFunctionType, property,
    types.GenericAlias, types.UnionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo,
    zoneinfo.ZoneInfo, decimal.Decimal, fractions.Fraction, enum.Enum, re.Pattern, re.Match,
    type(functools.cache(len)), pathlib.PurePath, uuid.UUID,
    ipaddress.IPv4Address, ipaddress.IPv6Address,
    ipaddress.IPv4Network, ipaddress.IPv6Network, typing.TypeVar, statistics.NormalDist, Logger,
    weakref.ref, Signature,
)  # fmt: skip


_LOCK: Final = "_thread.lock"
#: Objects that hold a lock in the library, which cannot be copied.
_LOCKED: Final[dict[type, str]] = {
    Lock: _LOCK, Event: _LOCK, Condition: "_thread.RLock", Semaphore: _LOCK, Barrier: _LOCK,
    RLock: "_thread.RLock", SimpleQueue: "_queue.SimpleQueue", Queue: _LOCK, Thread: _LOCK,
    local: "_thread._local", Future: "_thread.RLock", Executor: "_queue.SimpleQueue",
    Handler: "_thread.RLock",
}  # fmt: skip
#: Those of them that have no shallow copy either.
_UNCOPIED: Final = frozenset({Lock, RLock, SimpleQueue, local})
_ITERATORS: Final = frozenset(
    map(type, (iter([]), iter(()), iter(range(0)), iter(""), iter("é"), iter(b"")))
)


class _Memo(dict[int, Any]):
    """Copies by the address of their original. The script never holds it.

    Its keys are addresses, so the script's `memo` is another dict, with the numbers of `id`
    (tests/worker/test_determinism.py::test_programs_using_object_identity_are_byte_identical).
    """

    __slots__ = ("held", "kept", "shown")

    def __init__(self, shown: dict[int, Any] | None) -> None:
        #: Keeps all originals alive: an address could be used again.
        self.kept: list[Any] = []
        #: Those that the script holds, or receives as a part of another: its `memo` gets them.
        self.held: list[Any] = []
        #: The script's `memo`; None until a `__deepcopy__` of the script needs one.
        self.shown = shown


#: Deep copies under way, by the address of the `memo` that the script holds.
_RUNNING: Final[dict[int, _Memo]] = {}


def deepcopy(x: Any, memo: Any = None, _nil: Any = None) -> Any:
    """`copy.deepcopy` for the script's own data."""
    if memo is not None and type(memo) is not dict:
        if not hasattr(memo, "get"):
            raise AttributeError(f"{type(memo).__name__!r} object has no attribute 'get'")
        raise TypeError("memo must be a dict")
    if memo is not None and id(memo) in _RUNNING:  # called by a __deepcopy__ of the script
        return _copy(x, _RUNNING[id(memo)])
    running = _Memo(memo)
    if memo is not None:
        _RUNNING[id(memo)] = running
    try:
        made = _copy(x, running)
    finally:
        if running.shown is not None:
            del _RUNNING[id(running.shown)]
    if memo is not None:
        # Only what was copied: a script can catch the error of a foreign object within.
        copied = [original for original in running.held if id(original) in running]
        for original in copied:
            memo[stable_id(original)] = running[id(original)]
        memo.setdefault(stable_id(memo), []).extend(copied)
    return made


def _copy(x: Any, memo: _Memo, *, held: bool = True) -> Any:
    """Return a deep copy of `x`.

    Args:
        x: Any object.
        memo: Copies made so far.
        held: False: no script can hold it, such as the list behind an iterator.
    """
    kind = type(x)
    own = is_script_class(kind)
    if is_node(x):
        if id(x) not in memo:
            copy_node(x, lambda part: _copy(part, memo), lambda made: memo.update({id(x): made}))
        return memo[id(x)]
    _refuse_module(kind)
    _refuse_lock(kind, _LOCKED)
    if not own and kind is not Record and (issubclass(kind, _SHARED) or is_open(kind)):
        return x
    if id(x) in memo:
        return memo[id(x)]
    if memo.shown and (own_id := find_id(x)) in memo.shown:  # recorded by the script
        return memo.shown[own_id]
    memo.kept.append(x)
    if held:
        memo.held.append(x)
    if own:
        return _own_instance(x, kind, memo)
    return _copier_of(kind)(x, memo)


def _copier_of(kind: type) -> Callable[[Any, _Memo], Any]:
    """Return the function that copies objects of a class of the library."""
    if kind in _COPIERS:
        return _COPIERS[kind]
    if issubclass(kind, BaseException):
        return _copy_exception
    if issubclass(kind, types.SimpleNamespace):
        return _copy_namespace
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return _copy_record
    return _refuse


def _refuse(x: Any, memo: _Memo) -> Any:
    """Raise the library's error for an object that has no copy, else one that says where."""
    kind: Any = type(x)
    kind.__reduce_ex__(x, 4)
    raise TypeError(f"copy.deepcopy() of a {demangle(kind.__name__)!r} is not available: copy data")


def _refuse_lock(kind: type, refused: Collection[type]) -> None:
    for base in kind.__mro__:
        if base in refused and not hasattr(kind, "__deepcopy__"):
            raise TypeError(f"cannot pickle {_LOCKED[base]!r} object")


def _refuse_module(kind: type) -> None:
    if is_facade(kind):
        raise TypeError("cannot pickle 'module' object")


def _refuse_hooks(x: Any) -> None:
    """Refuse an object that holds a method of the protocol of copies, in place of its class.

    The library calls it, and sets the attributes that its result names, on any object.
    """
    try:
        own = object.__getattribute__(x, "__dict__")
    except AttributeError:
        return
    for name in _HOOKS.intersection(own):
        raise TypeError(f"an object that holds {name!r} cannot be copied")


_REDUCERS: Final = frozenset({"__reduce__", "__reduce_ex__"})
_HOOKS: Final = frozenset(
    {
        "__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__", "__getstate__",
        "__reduce__", "__reduce_ex__", "__setstate__",
    }
)  # fmt: skip


def shallow(x: Any) -> Any:
    """`copy.copy`.

    The library asks an object itself for its parts, and then sets any attribute that the answer
    names; here the class of a script's object is asked.
    """
    kind = type(x)
    _refuse_module(kind)
    _refuse_lock(kind, _UNCOPIED)
    if issubclass(kind, (Logger, weakref.ref, Signature)):
        return x
    if kind is types.MethodType:
        if "@getattr" not in globals_of(bound_function(x)):
            return x  # it stands for a builtin function
        return types.MethodType(bound_function(x), bound_object(x))
    if is_node(x):
        return copy_node(x, lambda part: part, lambda made: None)
    if not (is_script_class(kind) or issubclass(kind, types.SimpleNamespace)):
        _refuse_hooks(x)
        return copy.copy(x)
    custom = getattr(kind, "__copy__", None)
    if custom is not None:
        return custom(x)
    return _rebuild(x, kind, lambda part: part, lambda made: None)


def _own_instance(x: Any, kind: type, memo: _Memo) -> Any:
    custom = getattr(x, "__deepcopy__", None)  # of the object: its `__getattr__` may answer
    if custom is not None:
        if memo.shown is None:
            memo.shown = {}
            _RUNNING[id(memo.shown)] = memo
        made = custom(memo.shown)
        memo[id(x)] = made
        return made

    def record(made: Any) -> None:
        memo[id(x)] = made

    return _rebuild(x, kind, lambda part: _copy(part, memo), record)


def _rebuild(x: Any, kind: Any, part: Callable[[Any], Any], record: Callable[[Any], None]) -> Any:
    """Reduce `x` and build it again, with `part` applied to each part."""
    if issubclass(kind, enum.Enum):
        return x
    _refuse_hooks(x)
    for base in kind.__mro__:
        # No class statement can define one. The library calls it, and sets what it names.
        if is_script_class(base) and any(name in class_namespace(base) for name in _REDUCERS):
            raise TypeError(f"an instance of {demangle(base.__name__)!r} cannot be copied")
    reduced: tuple[Any, ...] = (*kind.__reduce_ex__(x, 4), None, None, None)
    make, args, state, items, pairs = reduced[:5]
    made = make(*(part(arg) for arg in args))
    # Its `__new__` may return a foreign object. `issubclass` is wrong: an ABC can claim any class.
    if kind not in type(made).__mro__:
        raise TypeError(f"__new__ of {demangle(kind.__name__)!r} must return an instance of it")
    record(made)
    _restore(made, state, part)
    for item in items or ():
        made.append(part(item))
    for key, value in pairs or ():
        made[part(key)] = part(value)
    return made


def _restore(made: Any, state: Any, part: Callable[[Any], Any]) -> None:
    """Set the state of `made`: by its `__setstate__`, or as attributes and slots."""
    if state is None:
        return
    if hasattr(type(made), "__setstate__"):  # of a frozen dataclass with slots, or of the library
        made.__setstate__(_copy_state(state, part))
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if hasattr(made, "__setstate__"):  # from its `__getattr__`
        shown = [found and NamespaceView(_copy_state(found, part)) for found in (attributes, slots)]
        made.__setstate__(tuple(shown) if isinstance(state, tuple) else shown[0])
        return
    for name, value in (attributes or {}).items():
        made.__dict__[name] = part(value)
    for name, value in (slots or {}).items():
        setattr(made, name, part(value))


def _copy_state(state: Any, part: Callable[[Any], Any]) -> Any:
    """Copy the parts of a state. The script holds these, but not the dict: the real `__dict__`."""
    if type(state) is dict:
        return {name: part(value) for name, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(
            _copy_state(each, part) if type(each) is dict else part(each) for each in state
        )
    return part(state)


def _copy_list(x: Any, memo: _Memo) -> Any:
    made: list[Any] = []
    memo[id(x)] = made
    made.extend(_copy(item, memo) for item in x)
    return made


def _copy_tuple(x: Any, memo: _Memo) -> Any:
    made = tuple([_copy(item, memo) for item in x])
    if id(x) in memo:  # it holds itself, through a list
        return memo[id(x)]
    if all(old is new for old, new in zip(x, made, strict=True)):
        made = x
    memo[id(x)] = made
    return made


def _copy_record(x: Any, memo: _Memo) -> Any:
    made = type(x)._make([_copy(item, memo) for item in tuple.__iter__(x)])
    memo[id(x)] = made
    return made


def _copy_set(x: Any, memo: _Memo) -> Any:
    made = type(x)(_copy(item, memo) for item in x)
    memo[id(x)] = made
    return made


def _copy_dict(x: Any, memo: _Memo) -> Any:
    made = type(x)()
    memo[id(x)] = made
    for key, value in x.items():
        made[_copy(key, memo)] = _copy(value, memo)
    return made


def _copy_defaultdict(x: Any, memo: _Memo) -> Any:
    made: Any = collections.defaultdict(x.default_factory)
    memo[id(x)] = made
    for key, value in x.items():
        made[_copy(key, memo)] = _copy(value, memo)
    return made


def _copy_deque(x: Any, memo: _Memo) -> Any:
    made: Any = collections.deque(maxlen=x.maxlen)
    memo[id(x)] = made
    made.extend(_copy(item, memo) for item in x)
    return made


def _copy_chain(x: Any, memo: _Memo) -> Any:
    made = type(x)(*(_copy(each, memo) for each in x.maps))
    memo[id(x)] = made
    return made


def _copy_wrapper(x: Any, memo: _Memo) -> Any:
    made = type(x)()
    memo[id(x)] = made
    made.data = _copy(x.data, memo)
    return made


def _copy_method(x: Any, memo: _Memo) -> Any:
    if "@getattr" not in globals_of(bound_function(x)):
        return x  # it stands for a builtin function, and is bound to an object of the worker
    return types.MethodType(bound_function(x), _copy(bound_object(x), memo))


def _copy_partial(x: Any, memo: _Memo) -> Any:
    made = functools.partial(_copy(x.func, memo))
    memo[id(x)] = made  # before the arguments, which may hold it
    arguments, options = _copy(x.args, memo), _copy(x.keywords, memo)
    attributes = _copy_state(x.__dict__, lambda value: _copy(value, memo))
    made.__setstate__((made.func, arguments, options, attributes))  # type: ignore[attr-defined]  # of C
    return made


def _copy_exception(x: Any, memo: _Memo) -> Any:
    made = type(x)(*(_copy(arg, memo) for arg in x.args))
    memo[id(x)] = made
    return made


def _copy_iterator(x: Any, memo: _Memo) -> Any:
    _, args, *state = x.__reduce__()
    made: Any = iter(*(_copy(each, memo, held=False) for each in args))
    if state:
        made.__setstate__(*state)
    memo[id(x)] = made
    return made


def _copy_namespace(x: Any, memo: _Memo) -> Any:
    made = type(x)()
    memo[id(x)] = made
    _restore(made, x.__dict__, lambda part: _copy(part, memo))
    return made


def _copy_element(x: Any, memo: _Memo) -> Any:
    made = x.makeelement(_copy(x.tag, memo), _copy(x.attrib, memo))
    memo[id(x)] = made
    made.text, made.tail = _copy(x.text, memo), _copy(x.tail, memo)
    made.extend([_copy(each, memo) for each in x])
    return made


_COPIERS: Final[dict[type, Callable[[Any, _Memo], Any]]] = {
    list: _copy_list,
    tuple: _copy_tuple,
    dict: _copy_dict,
    Record: _copy_dict,
    collections.OrderedDict: _copy_dict,
    collections.Counter: _copy_dict,
    collections.defaultdict: _copy_defaultdict,
    collections.deque: _copy_deque,
    collections.ChainMap: _copy_chain,
    collections.UserDict: _copy_wrapper,
    collections.UserList: _copy_wrapper,
    set: _copy_set,
    frozenset: _copy_set,
    slice: lambda x, memo: slice(*(_copy(part, memo) for part in (x.start, x.stop, x.step))),
    bytearray: lambda x, memo: bytearray(x),
    array.array: lambda x, memo: copy.copy(x),
    types.MethodType: _copy_method,
    functools.partial: _copy_partial,
    decimal.Context: lambda x, memo: x.copy(),
    ElementTree.Element: _copy_element,
    **dict.fromkeys(_ITERATORS, _copy_iterator),
}


def confine_copies() -> None:
    """Let the copies of `UserDict` and `UserList` be made in instances of the class alone.

    The library's methods take any object as `self`, and write to what its `__new__` returns.
    """
    for base in (collections.UserDict, collections.UserList):
        replace_attribute(base, "__copy__", _copier_of_wrapper(base))

    def copy_dict(self: Any) -> Any:
        _require(collections.UserDict, self)
        if type(self) is collections.UserDict:
            return collections.UserDict(self.data.copy())
        data, self.data = self.data, {}
        try:
            made = shallow(self)
        finally:
            self.data = data
        made.update(self)
        return made

    copy_dict.__name__, copy_dict.__qualname__ = "copy", "UserDict.copy"
    replace_attribute(collections.UserDict, "copy", copy_dict)


def _copier_of_wrapper(base: type) -> Callable[[Any], Any]:
    def copy_wrapper(self: Any) -> Any:
        _require(base, self)
        kind: Any = type(self)
        made = kind.__new__(kind)
        if kind not in type(made).__mro__:
            raise TypeError(f"__new__ of {demangle(kind.__name__)!r} must return an instance of it")
        made.__dict__.update(self.__dict__)
        made.__dict__["data"] = shallow(self.__dict__["data"])
        return made

    copy_wrapper.__name__, copy_wrapper.__qualname__ = "__copy__", f"{base.__name__}.__copy__"
    return copy_wrapper


def _require(base: type, obj: Any) -> None:
    if base not in type(obj).__mro__:
        raise TypeError(f"expected a {base.__name__!r} object, not {type(obj).__name__!r}")
