"""A hostile module in place of the interpreter: it abuses the host functions as no Python could.

Each guest ends with a trap, or is stopped. None ends this process or sends more than it has.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ptc._workers._worker import Exit
from ptc._workers.wasm._guest import Guest
from ptc._workers.wasm._pipe import Pipe

PAGE = 1 << 16
OUTSIDE = "an address outside of the memory"
STOPPED = "stopped by the host"
MODULE = """(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "host_alloc") (param i32) (result i32) (i32.const 4096))
  (func $vector (param i32 i32)
    (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (local.get 1)))
  (func (export "turn") (param i32 i32) (result i32) %s (i32.const 0))
  (func $start %s) (start $start))"""
WRITE = "(drop (call $write (i32.const 1) (i32.const %s) (i32.const %s) (i32.const %s)))"
READ = "(drop (call $read (i32.const 0) (i32.const %s) (i32.const %s) (i32.const %s)))"
VECTOR = "(call $vector (i32.const %s) (i32.const %s))"
LOOP = "(loop $again %s (br $again))"


def guest_of(turn: str, start: str = "", patience_s: float = 0.3) -> tuple[Exit, int]:
    """Execute a module; return how it ended, and the bytes that it has sent."""
    import wasmtime

    from ptc._workers.wasm._wasmtime import make_engine

    class Interpreter:
        engine = make_engine()
        module = wasmtime.Module(engine, MODULE % (turn, start))

    ended = threading.Event()
    exits: list[Exit] = []

    def on_end(how: Exit) -> None:
        exits.append(how)
        ended.set()

    snapshot: Any = SimpleNamespace(interpreter=Interpreter(), size=PAGE, runs=())
    pipe = Pipe(lambda function: None)
    guest = Guest(snapshot, pipe, 16 * PAGE, on_end)
    guest.start()
    if not ended.wait(patience_s):
        sent = len(pipe._from_guest)
        guest.stop()
        assert ended.wait(5), "the guest was not stopped"
        return exits[0], sent
    return exits[0], len(pipe._from_guest)


@pytest.mark.parametrize(
    "turn",
    [
        WRITE % (0xFFFFFFFF, 1, 8),
        WRITE % (-8, 1, 8),
        WRITE % (0, 0x80000000, 8),
        WRITE % (0, -1, 8),
        WRITE % (PAGE - 4, 1, 8),
        WRITE % (0, 0, PAGE - 3),
        VECTOR % (0xFFFFFFFF, 1) + WRITE % (0, 1, 8),
        VECTOR % (PAGE - 1, 2) + WRITE % (0, 1, 8),
        READ % (0xFFFFFFFF, 1, 8),
        READ % (0, 0x80000000, 8),
        VECTOR % (0, 0x80000000) + READ % (0, 1, 8),
        VECTOR % (0xFFFFFFFF, 0xFFFFFFFF) + READ % (0, 1, 8),
    ],
)
def test_false_pointers_and_lengths_are_traps(turn: str) -> None:
    how, sent = guest_of(turn)
    assert OUTSIDE in how.trap or "too many buffers" in how.trap
    assert sent == 0


@pytest.mark.parametrize("start", [LOOP % "", LOOP % "(drop (memory.grow (i32.const 1)))"])
def test_start_section_that_loops_is_stopped(start: str) -> None:
    assert guest_of("", start)[0].trap == STOPPED


@pytest.mark.parametrize("start", ["unreachable", WRITE % (0, 1, 8), READ % (0, 1, 8)])
def test_start_section_that_traps_or_calls_the_host_ends_the_guest(start: str) -> None:
    how, sent = guest_of("", start)
    assert how.trap
    assert sent == 0


def test_memory_does_not_grow_beyond_its_limit() -> None:
    how, _ = guest_of(LOOP % "(drop (memory.grow (i32.const 1)))")
    assert how.trap == STOPPED
    assert how.memory_bytes == 16 * PAGE


@pytest.mark.parametrize("size", [1, PAGE])
def test_guest_that_writes_for_ever_is_held_by_a_bounded_pipe(size: int) -> None:
    how, sent = guest_of(VECTOR % (0, size) + LOOP % (WRITE % (0, 1, 8)))
    assert how.trap == STOPPED
    # The pipe takes a last write while there is room.
    assert 0 < sent <= 2 << 20
