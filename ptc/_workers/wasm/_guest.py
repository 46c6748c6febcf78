"""A guest: a copy of a snapshot in a thread of this process, which executes one script.

It has the two descriptors by which frames cross and no other function: no file, clock, entropy,
environment or network.

Rule 1: a guest is stopped at once, whatever it executes.
    tests/wasm/test_session.py::test_deadline_stops_what_computes
Rule 2: a guest has no function of the system but reading and writing frames.
    tests/wasm/test_guest_alone.py::test_guest_has_no_file_no_clock_and_no_entropy
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from .._worker import Exit
from ._pipe import Pipe
from ._place import find_line
from ._snapshot import WASM_PAGE, Snapshot, call_turn, in_big_stack

__all__ = ["Guest"]

_FROM_HOST, _TO_HOST, _ERRORS = 0, 1, 2
_NOT_OPEN, _FAULT, _MISSING = 8, 21, 52
"""Errors of the guest's system interface: EBADF, EFAULT, ENOSYS."""
_MOST_WRITTEN: Final = 1 << 20
"""Bytes of one write; the guest repeats it for the rest."""
_LAST_WORDS: Final = 2_000


class Guest:
    """One guest; `start` it, and `stop` it at any time, from any thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        pipe: Pipe,
        memory_bytes: int,
        on_end: Callable[[Exit], None],
        on_place: Callable[[int], None] = lambda _line: None,
    ) -> None:
        """Prepare a guest.

        Args:
            snapshot: Its memory at the start.
            pipe: The stream of its frames.
            memory_bytes: Memory that it may use beyond that.
            on_end: Called in its thread, with the way it ended, after everything was released.
            on_place: Called in its thread after `ask_place`, with the line of the script; 0: it is
                not known.
        """
        self._snapshot = snapshot
        self._pipe = pipe
        self._memory_bytes = memory_bytes
        self._on_end = on_end
        self._on_place = on_place
        self._place_wanted = False
        self._stopped = False
        self._ended = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._cpu = 0.0
        self._clock: int | None = None
        self._memory: Any = None
        self._status: int | None = None
        self._last_words = b""

    def start(self) -> None:
        """Start its thread."""
        self._thread = in_big_stack("ptc-wasm-guest", self._main)

    def stop(self) -> None:
        """Stop it between two instructions, or where it waits."""
        self._stopped = True
        self._pipe.close()
        self._snapshot.interpreter.engine.increment_epoch()

    def ask_place(self) -> bool:
        """Have a guest that computes report its line; return False if that is not known."""
        if self._snapshot.layout is None:
            return False
        self._place_wanted = True
        self._snapshot.interpreter.engine.increment_epoch()
        return True

    def cpu_seconds(self) -> float | None:
        """Return the CPU time that it has used; None if it has ended."""
        with self._lock:
            if self._ended:
                return None
            if self._clock is not None:
                return time.clock_gettime(self._clock)
        # Measured by the guest's thread itself, when the epoch changes.
        self._snapshot.interpreter.engine.increment_epoch()
        return self._cpu

    # -- in its thread ---------------------------------------------------------------------------

    def _main(self) -> None:
        how = Exit(signal=0, status=1, trap="the guest could not be started")
        try:
            if hasattr(time, "pthread_getcpuclockid"):  # not on macOS and Windows
                self._clock = time.pthread_getcpuclockid(threading.get_ident())
            how = self._run()
        finally:
            with self._lock:
                # The clock of a thread must not be read once the thread has ended.
                self._ended = True
            self._pipe.guest_ended()
            self._on_end(how)

    def _run(self) -> Exit:
        import wasmtime

        from ._wasmtime import GuestMemory, watch_epochs

        snapshot = self._snapshot
        store = wasmtime.Store(snapshot.interpreter.engine)
        trap = ""
        try:
            store.set_limits(memory_size=snapshot.size + self._memory_bytes)
            watch_epochs(store, self._may_continue)
            linker = _linker(snapshot.interpreter)
            exports = linker.instantiate(store, snapshot.interpreter.module).exports(store)
            memory: Any = exports["memory"]
            memory.grow(store, (snapshot.size - memory.data_len(store)) // WASM_PAGE)
            self._memory = GuestMemory(store, memory)
            for address, place, size in snapshot.runs:
                ctypes.memmove(self._memory.address(address, size), place, size)
            _thread.guest = self
            call_turn(exports, store, "_ptc_serve()")
        except wasmtime.Trap as error:
            trap = self._describe(error.trap_code.name if error.trap_code else str(error))
        except wasmtime.WasmtimeError as error:
            # After the stack of the guest comes the cause, at the end.
            trap = self._describe(str(error).strip().splitlines()[-1].strip())
        finally:
            _thread.guest = None
            used = 0 if self._memory is None else self._memory.size - snapshot.size
            self._memory = None
            store.close()
        return Exit(signal=0, status=self._status or 0, memory_bytes=max(0, used), trap=trap)

    def _describe(self, trap: str) -> str:
        """Return the reason of a trap in words; empty after an ordinary exit."""
        if self._status is not None:
            return ""
        if self._stopped:
            return "stopped by the host"
        words = trap.lower().replace("_", " ")
        last = self._last_words.decode(errors="replace").strip()
        return f"{words}: {last.splitlines()[0]}" if last else words

    def _may_continue(self) -> bool:
        self._cpu = time.thread_time()
        layout = self._snapshot.layout
        if self._place_wanted and layout is not None:
            self._place_wanted = False
            self._on_place(find_line(layout, self._memory.read))
        return not self._stopped

    def read(self, values: Sequence[int]) -> int:
        """Serve ``fd_read``: wait for frames of the host."""
        source, start, count, count_at = values
        if source != _FROM_HOST:
            return _NOT_OPEN
        memory = self._memory
        vectors = memory.vectors(start, count)
        if not vectors:
            return _FAULT
        address, size = vectors[0]
        memory.address(address, size)
        data = self._pipe.guest_read(size) if size else b""
        if data is None:
            raise _stopped()
        memory.write(address, data)
        memory.write_word(count_at, len(data))
        return 0

    def write(self, values: Sequence[int]) -> int:
        """Serve ``fd_write``: pass on frames, or keep the last words of the interpreter."""
        target, start, count, count_at = values
        if target not in {_TO_HOST, _ERRORS}:
            return _NOT_OPEN
        memory, left, parts = self._memory, _MOST_WRITTEN, []
        for address, size in memory.vectors(start, count):
            parts.append(memory.read(address, min(size, left)))
            left -= len(parts[-1])
        data = b"".join(parts)
        if target == _ERRORS:
            self._last_words = (self._last_words + data)[-_LAST_WORDS:]
        elif data and not self._pipe.guest_write(data):
            raise _stopped()
        memory.write_word(count_at, len(data))
        return 0

    def exit(self, status: int) -> NoReturn:
        """Serve ``proc_exit``."""
        self._status = status
        raise _stopped()


def _stopped() -> Exception:
    from ._wasmtime import TrapError

    return TrapError("stopped")


_thread: Final = threading.local()
"""The guest of a thread, for the host functions, which all guests share."""


@cache
def _linker(interpreter: Any) -> Any:
    """Return the functions of guests: those of frames, and errors in place of all others."""
    import wasmtime

    from ._wasmtime import define

    def refuse(_values: Sequence[int]) -> int:
        return _MISSING

    def refuse_host(_values: Sequence[int]) -> int:
        return -1

    special: dict[str, Callable[[Sequence[int]], int]] = {
        "fd_read": lambda values: _thread.guest.read(values),
        "fd_write": lambda values: _thread.guest.write(values),
        "proc_exit": lambda values: _thread.guest.exit(values[0]),
        "call": refuse_host,
    }
    linker = wasmtime.Linker(interpreter.engine)
    atexit.register(linker.close)  # as in `load_interpreter`
    for needed in interpreter.module.imports:
        define(
            linker,
            needed.module,
            needed.name or "",
            needed.type,
            special.get(needed.name or "", refuse),
        )
    return linker
