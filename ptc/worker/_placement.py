"""Placement in memory: what a worker changes lies close together.

A forked worker copies every page on which it changes a byte, which takes 2.5 us and 4 KiB. These
functions arrange the heap of the zygote so that the same changes fall on fewer pages:

* CPython changes the code that it executes: counters of specialisation, and from 3.13 on the
  history of branches. `gather_executed_code` copies this code to one place.
* New objects fill the holes that freed ones left, on as many pages. After `use_up_holes`, a worker
  creates its objects on new pages, side by side.

Rule 1: neither changes behaviour: a copy is equal to the code that it replaces, and blocks that are
    used up belong to nobody.
    tests/worker/test_placement.py
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, islice, repeat
from types import CodeType, FunctionType
from typing import Final

__all__ = ["gather_executed_code", "use_up_holes"]

_POOL_BYTES: Final = 16_384
"""POOL_SIZE of Objects/obmalloc.c (3.10 to 3.14): a pool holds blocks of one size."""
_POOL_HEADER: Final = 48
"""Offset of the first block of a pool."""
_BLOCK: Final = 16
"""Sizes of blocks are its multiples."""
_LARGEST_BLOCK: Final = 512
_BATCH_BYTES: Final = 4_096
_MOST_BATCHES: Final = 1_024
"""4 MiB of one size; half a megabyte suffices for all sizes without packages."""
_BYTES_HEADER: Final = sys.getsizeof(b"")
_kept: Final[list[object]] = []
"""Objects in the former holes. They stay as long as the process."""


def gather_executed_code(execute: Callable[[], object]) -> int:
    """Call `execute`, then replace the code of each function that it called by a copy.

    Must be called before scripts can hold functions, and before `make_heap_immortal`.

    Returns:
        The number of these functions. 0 before 3.12, where it would save few pages: a worker counts
        references there (see `_immortal`), and so copies the pages of most objects anyway.
    """
    if sys.version_info < (3, 12) or not hasattr(CodeType, "_co_code_adaptive"):
        execute()
        return 0
    gc.unfreeze()
    functions = [item for item in gc.get_objects() if type(item) is FunctionType]
    before = [_specialised(function) for function in functions]
    execute()
    executed = [
        function
        for function, code in zip(functions, before, strict=True)
        if _specialised(function) != code
    ]
    use_up_holes()
    copies: dict[int, CodeType] = {}
    # All copies exist before the first original is freed: no copy takes the place of one.
    replaced = [_copy(function.__code__, copies) for function in executed]
    for function, code in zip(executed, replaced, strict=True):
        function.__code__ = code
    return len(executed)


def _specialised(function: FunctionType) -> bytes:
    """Return the code of `function` as it is, with what CPython changed while executing it."""
    code: bytes = function.__code__._co_code_adaptive  # type: ignore[attr-defined]  # private
    return code


def _copy(code: CodeType, copies: dict[int, CodeType]) -> CodeType:
    """Return a copy of `code` and of the code that it contains; one copy of each."""
    copy = copies.get(id(code))
    if copy is None:
        constants = tuple(
            _copy(item, copies) if type(item) is CodeType else item for item in code.co_consts
        )
        copy = copies[id(code)] = code.replace(co_consts=constants)
    return copy


def use_up_holes() -> int:
    """Allocate the free blocks of all pools in use; return the number of blocks.

    0 if this process allocates its objects in another way.
    """
    # With nothing to visit, it only empties the free lists, whose objects are on old pages.
    gc.freeze()
    gc.collect()
    numbers = count(1 << 40)  # an int of 32 bytes each
    used = _use_up(_BLOCK, lambda number: [object() for _ in range(number)])
    used += _use_up(2 * _BLOCK, lambda number: islice(numbers, number))
    for size in range(3 * _BLOCK, _LARGEST_BLOCK + 1, _BLOCK):
        if not used:
            break
        used += _use_up(size, partial(_bytes_of, size - _BYTES_HEADER))
    return used


def _bytes_of(length: int, number: int) -> Iterable[object]:
    return map(bytes, repeat(length, number))


def _use_up(size: int, make: Callable[[int], Iterable[object]]) -> int:
    """Keep objects of `make` until they come from a new pool, which shows that all others are full.

    Returns:
        Their number, or 0 if no new pool was seen.
    """
    number = max(8, _BATCH_BYTES // size)
    first = (_POOL_HEADER, _POOL_HEADER + size, _POOL_HEADER + 2 * size)
    places: list[int] = []
    for batch in range(1, _MOST_BATCHES + 1):
        _kept.extend(make(number))
        places = places[-2:] + [id(item) % _POOL_BYTES for item in _kept[-number:]]
        if any(first == three for three in zip(places, places[1:], places[2:], strict=False)):
            return batch * number
    return 0
