"""A heap whose reference counts never change, from CPython 3.12 on.

A forked worker writes to a page as soon as it reads an object on it, since it counts the reference.
An immortal object (PEP 683) is not counted. `make_heap_immortal` makes everything immortal that the
zygote holds, so a worker copies only pages that it really changes.

Rule 1: the layout of the reference count is checked on the running interpreter before anything is
    written; if it differs, nothing is changed and pages are copied as before
    (test_heap_stays_as_it_is_if_the_reference_count_is_elsewhere).
Rule 2: it changes no behaviour. An immortal object is never freed and so never finalized, but those
    objects belonged to the zygote, and a worker exits without finalizing anything. An object that a
    script creates is counted and freed as ever (test_objects_of_a_script_are_freed_as_before).

Writing counts is safe here and nowhere else: the process has one thread, executes no script, and
ends with ``os._exit``, so the interpreter never frees its heap.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

__all__ = ["make_heap_immortal"]

_COUNT: Final = 0xFFFF_FFFF if sys.version_info < (3, 14) else 3 << 30
"""_Py_IMMORTAL_REFCNT of Include/object.h (3.12, 3.13), _Py_IMMORTAL_INITIAL_REFCNT of
Include/refcount.h (3.14) on 64-bit builds: the lower half of the word, with the highest bit set."""
_IMMORTAL: Final = 1 << 31
"""Bit of the lower half by which CPython recognizes an immortal object."""
_NEW_REFERENCES: Final = 7
_IN_USE: Final = (types.FrameType, types.GeneratorType)
"""Types that hold variables of the functions that do this."""
_AT_ONCE: Final = 500
"""Objects per step. After longer lists, malloc places the buffers of workers on other pages."""
_WordAt: TypeAlias = Callable[[int], ctypes.c_uint32]
"""Returns the lower half of the reference count of the object at an address, in place."""


def _is_supported(word_at: _WordAt) -> bool:
    """Test the layout on an object of its own, in this interpreter."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 12):
        return False
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False  # another layout, with a count for each thread
    probe = [object()]
    word = word_at(id(probe[0]))
    before = word.value
    if before != sys.getrefcount(probe[0]) - 1:
        return False
    probe *= _NEW_REFERENCES
    if word.value != before + _NEW_REFERENCES - 1:
        return False
    del probe[1:]
    word.value = _COUNT
    try:
        probe *= _NEW_REFERENCES
        same = word.value == _COUNT
        del probe[1:]
        return same and word.value == _COUNT
    finally:
        word.value = before


def _parts_of_code(code: types.CodeType) -> tuple[object, ...]:
    """Return the objects of a code object that are counted while it runs; gc does not know them."""
    return (
        code.co_consts,
        code.co_names,
        code.co_filename,
        code.co_name,
        code.co_qualname,
        code.co_linetable,
        code.co_exceptiontable,
    )


def make_heap_immortal(word_at: _WordAt = ctypes.c_uint32.from_address) -> Iterator[int]:
    """Make every object that this process can reach immortal, some with each step.

    It writes to every page, so it is of use to workers that are forked afterwards. 90,000 objects
    take 40 to 90 ms in all.

    Yields:
        The number of objects that were changed. Nothing is yielded before 3.12, and if the layout
        is not the expected one.
    """
    if not _is_supported(word_at):
        return
    gc.unfreeze()
    todo = gc.get_objects()
    gc.freeze()
    while todo:
        found = _make_immortal(todo[-_AT_ONCE:], word_at)
        del todo[-_AT_ONCE:]
        code = [item for item in found if type(item) is types.CodeType]
        todo += gc.get_referents(*found, *map(_parts_of_code, code))
        yield len(found)


def _make_immortal(items: list[Any], word_at: _WordAt) -> list[Any]:
    """Make `items` immortal; return those that were not, without those that are in use."""
    count_of, found = sys.getrefcount, []
    # Most are found several times, or are CPython's own immortal objects.
    for item in items:
        if not count_of(item) & _IMMORTAL and type(item) not in _IN_USE:
            word_at(id(item)).value = _COUNT
            found.append(item)
    return found
