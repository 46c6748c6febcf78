"""The runtime's C interface, as far as its Python package does not offer it. Imported on first use.

Host functions are defined without checks by the package: it converts each argument and builds
objects for each call, which takes 100 us. Every address that a guest passes is checked here.

Rule 1: no address of a guest is read or written outside of its memory.
    tests/wasm/test_guest_alone.py::test_addresses_outside_of_memory_are_refused
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import wasmtime
from wasmtime import _bindings, _ffi

__all__ = [
    "WASM_STACK",
    "GuestMemory",
    "TrapError",
    "define",
    "make_engine",
    "watch_epochs",
]

WASM_STACK: Final = 8 << 20
"""Bytes of a guest's stack: the recursion limit of Python is met before."""
_IOVEC: Final = struct.Struct("<II")
_MAX_VECTORS: Final = 1_024


def make_engine() -> wasmtime.Engine:
    """Return a new engine; compiled code can be loaded by one with the same settings."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    # First: a stack over 2 MiB aborts the process without it.
    _ffi.wasmtime_config_async_stack_size_set(config.ptr(), WASM_STACK)
    config.max_wasm_stack = WASM_STACK
    return wasmtime.Engine(config)


class TrapError(Exception):
    """Raised by a host function: the guest is stopped at once."""


_HostFunction = Callable[[Sequence[int]], int]
# With plain addresses: a typed pointer and its items are objects that ctypes creates for each call.
_Callback: Final = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
)
_VALUE_BYTES: Final = 16
_UNPACK: Final = [struct.Struct("<" + "i12x" * count).unpack for count in range(17)]
"""Read the first 32 bits of so many arguments."""
_kept: list[Any] = []
"""Callbacks that the runtime may call for as long as the process lives."""
_no_finalizer: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(0)


def define(
    linker: wasmtime.Linker,
    module: str,
    name: str,
    kind: wasmtime.FuncType,
    function: _HostFunction,
) -> None:
    """Define a host function that returns an i32.

    Args:
        linker: Gets the function.
        module: Module of the import.
        name: Name of the import.
        kind: Its type.
        function: Gets the arguments, of each the first 32 bits. `TrapError`, or any other error,
            stops the guest.
    """
    count = len(kind.params)
    unpack, size = _UNPACK[count], count * _VALUE_BYTES

    def call(_data: Any, _caller: Any, values: int, _count: int) -> int:
        try:
            result = function(unpack(ctypes.string_at(values, size)))
            ctypes.c_int32.from_address(values).value = result
        except BaseException as error:  # noqa: BLE001  # no error may cross the runtime's frames
            text = str(error).encode()[:200]
            trap = _ffi.wasmtime_trap_new(
                ctypes.cast(ctypes.c_char_p(text), ctypes.POINTER(ctypes.c_char)), len(text)
            )
            return ctypes.cast(trap, ctypes.c_void_p).value or 0
        return 0

    plain = _Callback(call)
    _kept.append(plain)
    callback = ctypes.cast(plain, _ffi.wasmtime_func_unchecked_callback_t)
    texts = [text.encode() for text in (module, name)]
    pointers = [ctypes.cast(ctypes.c_char_p(text), ctypes.POINTER(ctypes.c_char)) for text in texts]
    error = _ffi.wasmtime_linker_define_func_unchecked(
        linker.ptr(),
        pointers[0],
        len(texts[0]),
        pointers[1],
        len(texts[1]),
        kind.ptr(),
        callback,
        None,
        _no_finalizer,
    )
    if ctypes.cast(error, ctypes.c_void_p).value:
        raise wasmtime.WasmtimeError._from_ptr(error)


_EpochCallback: Final = _bindings._wasmtime_store_epoch_deadline_callback.argtypes[1]
_NoEpochFinalizer: Final = _bindings._wasmtime_store_epoch_deadline_callback.argtypes[3]
_guests: Final = threading.local()


@_EpochCallback  # type: ignore[untyped-decorator]  # made by ctypes
def _on_epoch(_context: Any, _data: Any, delta: Any, _kind: Any) -> int:
    """Continue the guest of this thread, or stop it."""
    try:
        if _guests.may_continue():
            delta[0] = 1
            return 0
    except BaseException:  # noqa: BLE001, S110  # no error may cross the runtime's frames
        pass
    error = _ffi.wasmtime_error_new(b"stopped by the host")
    return ctypes.cast(error, ctypes.c_void_p).value or 0


def watch_epochs(store: wasmtime.Store, may_continue: Callable[[], bool]) -> None:
    """Have the guest ask whether it may continue whenever the epoch of its engine changes.

    Args:
        store: Store of the guest, which must run in the calling thread.
        may_continue: Called in that thread, between two instructions of the guest.
    """
    _guests.may_continue = may_continue
    _ffi.wasmtime_store_epoch_deadline_callback(store.ptr(), _on_epoch, None, _NoEpochFinalizer())
    store.set_epoch_deadline(1)


class GuestMemory:
    """The memory of a guest. It grows and never shrinks."""

    __slots__ = ("_base", "_context", "_known", "_memory")

    def __init__(self, store: wasmtime.Store, memory: wasmtime.Memory) -> None:
        self._context = store._context()
        self._memory = ctypes.byref(memory._memory)
        # 4 GiB of addresses are reserved for it, so it never moves.
        self._base = ctypes.cast(
            _ffi.wasmtime_memory_data(self._context, self._memory), ctypes.c_void_p
        ).value
        self._known = self.size  # asking the runtime for each access would take a microsecond

    @property
    def size(self) -> int:
        """Number of bytes."""
        size: int = _ffi.wasmtime_memory_data_size(self._context, self._memory)
        return size

    def address(self, start: int, size: int) -> int:
        """Return the host's address of a range of the guest.

        Raises:
            TrapError: If it is not within the memory.
        """
        start &= 0xFFFF_FFFF
        if size < 0 or start + size > self._known:
            self._known = self.size
            if size < 0 or start + size > self._known:
                raise TrapError("an address outside of the memory")
        return (self._base or 0) + start

    def read(self, start: int, size: int) -> bytes:
        """Copy a range."""
        return ctypes.string_at(self.address(start, size), size)

    def write(self, start: int, data: bytes) -> None:
        """Overwrite a range."""
        ctypes.memmove(self.address(start, len(data)), data, len(data))

    def vectors(self, start: int, count: int) -> list[tuple[int, int]]:
        """Read the addresses and sizes of buffers.

        Raises:
            TrapError: If there are too many, or they are not within the memory.
        """
        if not 0 <= count <= _MAX_VECTORS:
            raise TrapError("too many buffers")
        return list(_IOVEC.iter_unpack(self.read(start, count * _IOVEC.size)))

    def write_word(self, start: int, number: int) -> None:
        """Overwrite a word."""
        ctypes.c_uint32.from_address(self.address(start, 4)).value = number
