"""The line at which a guest computes, read out of its memory as by an external profiler.

CPython publishes where its structures have their fields (`_Py_DebugOffsets`, at the start of
`_PyRuntime`). The table is read once, while a snapshot is made, before any script exists. Frames
are read in the guest's thread, between two of its instructions.

Rule 1: whatever is in the memory of a guest, reading takes bounded time and returns a number.
    tests/core/workers/test_wasm_place.py::test_hostile_memory_names_no_line
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from ..._dataclass import dataclass

__all__ = ["SCRIPT_NAME", "Layout", "find_layout", "find_line"]

SCRIPT_NAME: Final = "\ud800script"
"""File name of a script's code in the worker."""
_SCRIPT_TEXT: Final = SCRIPT_NAME.encode("utf-16-le", "surrogatepass")
_COOKIE: Final = b"xdebugpy"
_VERSIONS: Final = range(0x030F_00F0, 0x0310_0000)
"""Releases of Python 3.15, whose table has the fields at `_AT`."""
_AT: Final = {
    "interpreters_head": 4, "threads_head": 8, "current_frame": 25, "previous": 39,
    "executable": 40, "instr_ptr": 41, "filename": 47, "linetable": 50, "firstlineno": 51,
    "code": 55,
}  # fmt: skip
"""Positions in the table, in numbers of 64 bits after the cookie."""
_LAST: Final = max(_AT.values())
_MOST_OFFSET: Final = 1 << 20
_MOST_FRAMES: Final = 2_000
_MOST_TABLE_BYTES: Final = 1 << 16
"""Decoding so many takes 0.1 s."""
_MOST_LINE: Final = 1 << 24
_WORD: Final = struct.Struct("<I")
_TAGS: Final = 3
"""Lowest bits of a reference in a frame."""
_TEXT_LENGTH, _TEXT_START = 8, 28
_BYTES_LENGTH, _BYTES_START = 8, 16
"""Fields of `str` (not ASCII) and of `bytes`, with words of four bytes."""

Read = Callable[[int, int], bytes]
"""Copies a range of the guest; raises an error if it is not within the memory."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Address of the runtime's state in a guest, and offsets of fields."""

    runtime: int
    interpreters_head: int
    threads_head: int
    current_frame: int
    previous: int
    executable: int
    instr_ptr: int
    filename: int
    linetable: int
    firstlineno: int
    code: int


def find_layout(memory: bytes) -> Layout | None:
    """Return the layout of the interpreter in `memory`; None if it is of another version."""
    start = memory.find(_COOKIE)
    while start >= 0:
        fields = memory[start + len(_COOKIE) : start + len(_COOKIE) + 8 * (_LAST + 1)]
        if len(fields) == 8 * (_LAST + 1):
            table = struct.unpack(f"<{_LAST + 1}Q", fields)
            offsets = {name: table[at] for name, at in _AT.items()}
            if table[0] in _VERSIONS and not table[1] and max(offsets.values()) < _MOST_OFFSET:
                return Layout(start, **offsets)
        start = memory.find(_COOKIE, start + 1)
    return None


def find_line(layout: Layout, read: Read) -> int:
    """Return the line of the script's innermost frame; 0 if none is found."""

    def word(address: int) -> int:
        found: int = _WORD.unpack(read(address, _WORD.size))[0]
        return found

    try:
        interpreter = word(layout.runtime + layout.interpreters_head)
        thread = word(interpreter + layout.threads_head)
        frame = word(thread + layout.current_frame)
        for _ in range(_MOST_FRAMES):
            if not frame:
                break
            code = word(frame + layout.executable) & ~_TAGS
            if _is_script(layout, read, code):
                at = (word(frame + layout.instr_ptr) - code - layout.code) // 2
                return _line_of(layout, read, code, at)
            frame = word(frame + layout.previous)
    except Exception:  # noqa: BLE001  # a guest can write anything there; it must not learn of it
        return 0
    return 0


def _is_script(layout: Layout, read: Read, code: int) -> bool:
    """Return True for code of the script; other objects in a frame have anything at that offset."""
    try:
        (name,) = _WORD.unpack(read(code + layout.filename, _WORD.size))
        length = _WORD.unpack(read(name + _TEXT_LENGTH, _WORD.size))[0]
        if length != len(SCRIPT_NAME):
            return False
        return read(name + _TEXT_START, len(_SCRIPT_TEXT)) == _SCRIPT_TEXT
    except Exception:  # noqa: BLE001  # not an address: no name
        return False


def _line_of(layout: Layout, read: Read, code: int, at: int) -> int:
    """Return the line of the instruction number `at`."""
    first, table = (
        _WORD.unpack(read(code + offset, _WORD.size))[0]
        for offset in (layout.firstlineno, layout.linetable)
    )
    size = _WORD.unpack(read(table + _BYTES_LENGTH, _WORD.size))[0]
    if size > _MOST_TABLE_BYTES or first > _MOST_LINE:
        return 0
    return _decode(read(table + _BYTES_START, size), first, at)


_NO_COLUMNS, _LONG, _NO_LINE = 13, 14, 15
_ONE_LINE: Final = range(10, 13)


def _decode(table: Sequence[int], line: int, wanted: int) -> int:
    """Return the line of an instruction by a table of positions; 0 if it has none.

    An entry is a byte with its kind and the number of instructions, whose highest bit alone is set,
    and the bytes of its position (CPython, InternalDocs/code_objects.md).
    """
    at = number = 0
    while at < len(table):
        kind, count = table[at] >> 3 & 15, (table[at] & 7) + 1
        if kind in _ONE_LINE:
            line += kind - _ONE_LINE.start
        elif kind in {_NO_COLUMNS, _LONG}:
            line += _signed(table, at + 1)
        if number <= wanted < number + count:
            return line if kind != _NO_LINE and 0 < line < _MOST_LINE else 0
        number += count
        at += 1
        while at < len(table) and not table[at] & 0x80:
            at += 1
    return 0


def _signed(table: Sequence[int], at: int) -> int:
    """Decode a number of six bits a byte, the lowest first, with its sign in the lowest bit."""
    found = shift = 0
    for each in table[at : at + 6]:
        found |= (each & 63) << shift
        shift += 6
        if not each & 64:
            break
    return -(found >> 1) if found & 1 else found >> 1
