"""The line of a guest that computes, found in memory that a hostile guest wrote."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable

import pytest

from ptc._workers.wasm._place import SCRIPT_NAME, Layout, _decode, find_layout, find_line

LAYOUT = Layout(
    runtime=0x100, interpreters_head=8, threads_head=16, current_frame=24, previous=4, executable=0,
    instr_ptr=28, filename=80, linetable=92, firstlineno=44, code=128,
)  # fmt: skip
SIZE = 1 << 16
INTERPRETER, THREAD, FRAME, CODE, NAME, TABLE = 0x200, 0x300, 0x400, 0x500, 0x700, 0x800
LINE = 12


def put(memory: bytearray, address: int, *words: int) -> None:
    struct.pack_into(f"<{len(words)}I", memory, address, *words)


def plain_memory() -> bytearray:
    """Return the memory of a guest whose script executes line 12."""
    memory = bytearray(SIZE)
    put(memory, LAYOUT.runtime + 8, INTERPRETER)
    put(memory, INTERPRETER + 16, THREAD)
    put(memory, THREAD + 24, FRAME)
    put(memory, FRAME, CODE | 1, 0)
    put(memory, FRAME + 28, CODE + 128 + 2 * 3)
    put(memory, CODE + 44, LINE - 2)
    put(memory, CODE + 80, NAME)
    put(memory, CODE + 92, TABLE)
    text = SCRIPT_NAME.encode("utf-16-le", "surrogatepass")
    put(memory, NAME + 8, len(SCRIPT_NAME))
    memory[NAME + 28 : NAME + 28 + len(text)] = text
    # Three instructions on the first line, four on the second one after it.
    table = bytes([0x80 | 13 << 3 | 2, 0, 0x80 | 12 << 3 | 3, 0, 0])
    put(memory, TABLE + 8, len(table))
    memory[TABLE + 16 : TABLE + 16 + len(table)] = table
    return memory


def reader(memory: bytearray) -> Callable[[int, int], bytes]:
    def read(start: int, size: int) -> bytes:
        start &= 0xFFFF_FFFF
        if size < 0 or start + size > len(memory):
            raise ValueError("an address outside of the memory")
        return bytes(memory[start : start + size])

    return read


def test_script_name_is_that_of_the_worker() -> None:
    from ptc.worker import _runtime

    assert _runtime._FILENAME == SCRIPT_NAME


def test_line_of_the_innermost_frame_is_found() -> None:
    assert find_line(LAYOUT, reader(plain_memory())) == LINE


def test_lines_are_those_of_the_interpreter() -> None:
    source = "def f(a):\n" + "".join(
        f"    for i in range({n}):\n        a = (a +\n            i * {n})\n\n" for n in range(25)
    )
    names: dict[str, object] = {}
    exec(compile(source, "<test>", "exec"), names)  # noqa: S102  # the text above
    code = names["f"].__code__  # type: ignore[attr-defined]  # a function
    lines = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
    found = [_decode(code.co_linetable, code.co_firstlineno, n) for n in range(len(lines))]
    assert found == [line or 0 for line in lines]
    assert len(set(found)) > 50


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (LAYOUT.runtime + 8, [0xFFFF_FFF0]),
        (INTERPRETER + 16, [0]),
        (THREAD + 24, [0]),
        (THREAD + 24, [SIZE - 2]),
        (FRAME, [0xFFFF_FFFC]),
        (FRAME, [NAME, FRAME]),  # frames in a circle
        (FRAME + 28, [0]),
        (FRAME + 28, [0xFFFF_FFFF]),
        (CODE + 44, [0xFFFF_FFFF]),
        (CODE + 80, [SIZE - 10]),
        (CODE + 92, [0xFFFF_FFFF]),
        (TABLE + 8, [0xFFFF_FFFF]),
        (TABLE + 8, [(1 << 16) + 1]),
        (TABLE + 8, [0]),
        (NAME + 8, [0xFFFF_FFFF]),
        (NAME + 28, [0]),
    ],
)
def test_hostile_memory_names_no_line(address: int, words: list[int]) -> None:
    memory = plain_memory()
    put(memory, address, *words)
    assert find_line(LAYOUT, reader(memory)) == 0


def test_any_memory_gives_a_number_in_bounded_time() -> None:
    source = random.Random(1)
    places = [each + at for each in (INTERPRETER, THREAD, FRAME, CODE, NAME, TABLE) for at in
              range(0, 132, 4)]  # fmt: skip
    started = time.process_time()
    for _ in range(100):
        memory = plain_memory()
        for _ in range(source.randint(1, 6)):
            word = source.choice([0, FRAME, CODE, TABLE, source.randrange(SIZE), 2**32 - 1])
            put(memory, source.choice(places), word)
        line = find_line(LAYOUT, reader(memory))
        assert type(line) is int
        assert 0 <= line < 1 << 24
    assert time.process_time() - started < 10


def test_longest_table_takes_bounded_time() -> None:
    for byte in (0xF8, 0x80 | 14 << 3, 0x7F):
        started = time.process_time()
        assert _decode(bytes([byte]) * (1 << 16), 1, 1 << 30) == 0
        assert time.process_time() - started < 2


def test_other_version_of_the_interpreter_has_no_layout() -> None:
    table = [0x030F_00F0, 0, *range(8, 80)]
    memory = b"\0" * 40 + b"xdebugpy" + struct.pack(f"<{len(table)}Q", *table)
    found = find_layout(memory)
    assert found is not None
    assert (found.runtime, found.code) == (40, 61)
    for at, value in ((0, 0x0310_00F0), (1, 1), (55, 1 << 40)):
        other = [*table]
        other[at] = value
        assert find_layout(b"xdebugpy" + struct.pack(f"<{len(other)}Q", *other)) is None
    assert find_layout(memory[:100]) is None
    assert find_layout(b"") is None
