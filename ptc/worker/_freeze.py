"""Library classes that cannot be changed, by construction.

CPython refuses attribute stores on a type whose flag ``Py_TPFLAGS_IMMUTABLETYPE`` is set
(Include/object.h, since 3.10); static types have it. `freeze_types` sets it on every heap type of
the process, once, in the zygote, before a script exists. So ``Counter.most_common = evil`` raises
TypeError in C, in every spelling of the store. A class that is *not* frozen afterwards was made by
the script, and `_classes.is_script_class` recognises it by that.

Rule 1: the offset of the flags is checked on the running interpreter before anything is written
    (test_freeze_check_fails_if_type_flags_are_at_another_offset).
Rule 2: every heap type that exists is frozen, without exception: a type left out would count as
    the script's own. The cost is `weakref.finalize`, which stores its state on the class: its
    first use in a worker must come before the freeze
    (test_library_classes_reject_attribute_assignment).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from .._dataclass import compile_all

__all__ = [
    "IMMUTABLE",
    "WORD",
    "FreezeError",
    "all_types",
    "class_namespace",
    "freeze_types",
    "is_frozen",
    "make_slots_readonly",
    "own_annotations",
    "remove_attributes",
    "replace_attribute",
]

#: Py_TPFLAGS_IMMUTABLETYPE
IMMUTABLE: Final = 1 << 8
_HEAPTYPE: Final = 1 << 9
WORD: Final = ctypes.sizeof(ctypes.c_void_p)
"""Bytes of a pointer: 8, and 4 in a WebAssembly guest."""
# Offset of tp_flags in PyTypeObject, 3.11 to 3.15: PyVarObject (3 words), then tp_name,
# tp_basicsize .. tp_as_buffer: 18 words.
_OFFSET: Final = (3 + 18) * WORD

_frozen = False

# Captured: `_internals` replaces and removes these attributes in a worker.
_namespace_of: Final[Callable[[type], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__
_subclasses_of: Final[Callable[[type], list[type]]] = type.__dict__["__subclasses__"]


class FreezeError(RuntimeError):
    """Raised when the flags of a type cannot be found; the worker must not start."""


def is_frozen() -> bool:
    """True once `freeze_types` has run in this process."""
    return _frozen


def _flags(kind: type) -> ctypes.c_ulong:
    return ctypes.c_ulong.from_address(id(kind) + _OFFSET)


def _check_offset(offset_flags: Callable[[type], ctypes.c_ulong]) -> None:
    """Check the offset of `tp_flags` on types with known and different flags."""
    if sys.implementation.name != "cpython" or WORD not in {4, 8}:
        raise FreezeError("library classes can only be frozen on CPython")

    class Probe:
        value = 1

    for kind in (Probe, int, type, dict, BaseException, functools.partial, Exception):
        if offset_flags(kind).value != kind.__flags__:
            raise FreezeError("the flags of a type are not at the expected offset in this CPython")
    flags = offset_flags(Probe)
    flags.value |= IMMUTABLE
    try:
        if not Probe.__flags__ & IMMUTABLE:
            raise FreezeError("setting the flag of a type had no effect")
        try:
            Probe.value = 2
        except TypeError:
            return
        raise FreezeError("this CPython allows changes to an immutable type")
    finally:
        flags.value &= ~IMMUTABLE


def class_namespace(kind: type) -> Mapping[str, Any]:
    """Return the namespace of `kind` itself; ``kind.__dict__`` is a snapshot in a worker."""
    return _namespace_of(kind)


def own_annotations(kind: type) -> Any:
    """Return the annotations of a class of a script, without those of its bases; None: it has none.

    From 3.14 on, the namespace has a function that evaluates them instead, until they are read.
    """
    found = class_namespace(kind).get("__annotations__")
    if found is None and sys.version_info >= (3, 14):
        found = kind.__annotations__ or None
    return found


def all_types() -> Iterator[type]:
    """Yield every class of the process, from `object` down; gc does not track static types."""
    seen: set[type] = set()
    todo: list[type] = [object]
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        yield kind
        todo.extend(_subclasses_of(kind))
    for item in gc.get_objects():
        if issubclass(type(item), type) and item not in seen:
            seen.add(item)
            yield item


def freeze_types() -> int:
    """Make every existing class immutable; return the number of changed classes.

    Call it after everything that a run needs has been imported, and before the first script.

    Raises:
        FreezeError: If this interpreter has the flags elsewhere.
    """
    global _frozen
    compile_all()
    _check_offset(_flags)
    changed = 0
    for kind in all_types():
        flags = kind.__flags__
        if flags & IMMUTABLE or not flags & _HEAPTYPE:
            continue
        _flags(kind).value = flags | IMMUTABLE
        if not kind.__flags__ & IMMUTABLE:
            raise FreezeError(f"{kind.__name__} could not be frozen")
        changed += 1
    _frozen = True
    return changed


# Offsets in PyMemberDescrObject (descrobject.h: three words of PyObject_HEAD and d_type, then
# d_name, d_qualname) and in PyMemberDef (descrobject.h: name, type, offset, flags), 3.11 to 3.15.
_D_MEMBER: Final = 5 * WORD
_MEMBER_FLAGS: Final = 3 * WORD
_READONLY: Final = 1


def make_slots_readonly(kind: type) -> None:
    """Make the slots of `kind` read-only for good, also for ``object.__setattr__``.

    Raises:
        FreezeError: If this interpreter has the flags of a slot elsewhere.
    """
    for name, slot in _namespace_of(kind).items():
        if type(slot) is types.MemberDescriptorType:
            definition = ctypes.c_void_p.from_address(id(slot) + _D_MEMBER).value or 0
            if ctypes.c_char_p.from_address(definition).value != name.encode():
                raise FreezeError("the slots of a type are not at the expected offsets")
            ctypes.c_int.from_address(definition + _MEMBER_FLAGS).value |= _READONLY
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def replace_attribute(kind: type, name: str, value: object) -> None:
    """Replace an attribute of a library class, even of a static one; for the worker itself.

    It writes to the namespace behind the class: on 3.13 a store through the type misses the
    namespace of types such as `datetime.datetime`, which exists per interpreter.

    Raises:
        FreezeError: If the class does not have the new attribute afterwards.
    """
    (namespace,) = gc.get_referents(_namespace_of(kind))
    namespace[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
    if _namespace_of(kind).get(name) is not value:
        raise FreezeError(f"{kind.__name__}.{name} could not be replaced")


def remove_attributes(kind: type, names: Iterable[str]) -> None:
    """Remove attributes of a library class, even of a static one; missing ones are ignored."""
    (namespace,) = gc.get_referents(_namespace_of(kind))
    for name in names:
        namespace.pop(name, None)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
