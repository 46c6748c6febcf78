"""Whether there is memory left to write a value as JSON, asked before it is done.

orjson does not survive a refused allocation, so that a large value near the limit on memory would
be a crash where a `MemoryError` is meant. It reserves eight bytes for each character of a text
before it writes it, and doubles its buffer. What is asked for here is address space, which is what
the limit is on; it is given back untouched.
"""

from __future__ import annotations

import mmap
from typing import Any

from ._values import holds_long_text

__all__ = ["require_headroom"]

_RESERVED = 8
"""Bytes that orjson reserves for a character of text."""
_SAFE = 29
"""A script that holds a 29th of its memory can have its texts written, 6 bytes a character when all
are escaped and 8 reserved, in a buffer that was doubled: 28 times as much."""
_PART_BYTES = 4
"""Of anything that is no text, or around one."""
_FEW_PARTS, _MOST_PARTS = 100, 1 << 21
_SMALL_BYTES = 65_536
"""What is written without asking: 1 us tells that most values are no larger."""


def require_headroom(value: object, most_bytes: int) -> None:
    """Do nothing if `value` can be written, as far as that can be told in time.

    Args:
        value: What is to be written.
        most_bytes: `Limits.max_memory_bytes` of the run.

    Raises:
        MemoryError: If it cannot.
    """
    size, whole = _buffer_bytes(value, _FEW_PARTS)
    if whole and size <= _SMALL_BYTES:
        return
    if holds_long_text(value):
        return  # `dumps` writes it in another way, and asks for the room itself
    # 12 us: hardly a script holds more.
    if _free(most_bytes - most_bytes // _SAFE):
        return
    size, _ = _buffer_bytes(value, _MOST_PARTS)
    if not _free(size):
        msg = "no memory is left to write this as JSON"
        raise MemoryError(msg)


def _free(size: int) -> bool:
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return False
    return True


def _buffer_bytes(value: object, most_parts: int) -> tuple[int, bool]:
    """The buffer that orjson comes to for `value`, and whether all of its parts were looked at."""
    total = longest = parts = 0
    todo: list[Any] = [value]
    while todo and parts < most_parts:
        item = todo.pop()
        parts += 1
        # Methods of the builtin types: those of a script's own class may never come back.
        if isinstance(item, str):
            size = str.__len__(item)
            longest = max(longest, size)
            total += size
        elif isinstance(item, dict):
            todo.extend(dict.keys(item))
            todo.extend(dict.values(item))
        elif isinstance(item, list):
            todo.extend(list.__iter__(item))
        elif isinstance(item, tuple):
            todo.extend(tuple.__iter__(item))
        total += _PART_BYTES
    return 1 << (total + _RESERVED * longest).bit_length(), not todo
