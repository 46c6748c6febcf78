"""Tracing of a process by ptrace(2): its registers, signal state and stops. x86-64 only.

Only the restorer uses it (`ptc.worker.restore`). Nothing here follows a pointer of the process that
is traced. Numbers are the kernel's, from ``include/uapi/linux/ptrace.h`` and ``linux/elf.h``.
"""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = [
    "EVENT_SECCOMP",
    "WALL",
    "Registers",
    "Tracee",
    "event_of",
    "supported",
]

EVENT_SECCOMP = 7
WALL = 0x40000000
"""``__WALL`` of waitpid(2)."""
_CONT, _GET_REGISTERS, _SET_REGISTERS = 7, 12, 13
_GET_REGISTER_SET, _SET_REGISTER_SET, _SEIZE = 0x4204, 0x4205, 0x4206
_PEEK_PENDING, _GET_MASK, _SET_MASK = 0x4209, 0x420A, 0x420B
_EVENT_MESSAGE = 0x4201
_OPTION_SECCOMP, _OPTION_EXIT_KILL = 1 << 7, 1 << 20
_PENDING_OF_PROCESS = 1
_EXTENDED_STATE = 0x202
"""``NT_X86_XSTATE``: x87, SSE, AVX and protection keys."""
_EXTENDED_BYTES = 16_384
_SIGNAL_INFO_BYTES = 128
_SIGNAL_MASK_BYTES = 8

_LIBC = ctypes.CDLL(None, use_errno=True)
_PTRACE = _LIBC.ptrace
_PTRACE.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_PTRACE.restype = ctypes.c_long

# Indexes in struct user_regs_struct.
_RAX, _ORIG_RAX, _FS_BASE = 10, 15, 21


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _PeekRequest(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("number", ctypes.c_int32))


def supported() -> bool:
    """Return True on a machine whose registers this module knows."""
    return platform.machine() == "x86_64" and ctypes.sizeof(ctypes.c_void_p) == 8


def event_of(status: int) -> int:
    """Return the event of a stop that waitpid reported; 0 if it is a signal or an exit."""
    return status >> 16 if os.WIFSTOPPED(status) else 0


def _ptrace(request: int, pid: int, address: object, data: object) -> int:
    result = int(_PTRACE(request, pid, address, data))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace {request:#x}: {os.strerror(code)}")
    return result


class Registers:
    """All registers of a stopped process, and its signal mask."""

    def __init__(self, pid: int) -> None:
        """Read them. The process must be stopped."""
        self._general = (ctypes.c_uint64 * 27)()
        _ptrace(_GET_REGISTERS, pid, None, ctypes.byref(self._general))
        self._extended = ctypes.create_string_buffer(_EXTENDED_BYTES)
        self._vector = _Vector(ctypes.addressof(self._extended), _EXTENDED_BYTES)
        _ptrace(_GET_REGISTER_SET, pid, _EXTENDED_STATE, ctypes.byref(self._vector))
        self._mask = ctypes.c_uint64()
        _ptrace(_GET_MASK, pid, _SIGNAL_MASK_BYTES, ctypes.byref(self._mask))
        self._bytes: bytes | None = None

    @property
    def thread_area(self) -> int:
        """Address of the data of the thread."""
        return self._general[_FS_BASE]

    def skip_call(self) -> None:
        """Change the saved registers, of a process stopped before a call, to those after it."""
        self._bytes = None
        self._general[_RAX] = 0
        self._general[_ORIG_RAX] = (1 << 64) - 1  # in no call: the kernel neither makes nor repeats

    def write(self, pid: int) -> bool:
        """Set the registers of a stopped process; return False if it has others afterwards.

        The kernel ignores some bits of the flags that a program can set, such as NT and ID.
        """
        _ptrace(_SET_REGISTER_SET, pid, _EXTENDED_STATE, ctypes.byref(self._vector))
        _ptrace(_SET_REGISTERS, pid, None, ctypes.byref(self._general))
        _ptrace(_SET_MASK, pid, _SIGNAL_MASK_BYTES, ctypes.byref(self._mask))
        return Registers(pid).as_bytes() == self.as_bytes()

    def as_bytes(self) -> bytes:
        """Return everything that was read, for comparison."""
        if self._bytes is None:
            extended = ctypes.string_at(self._extended, self._vector.length)
            self._bytes = bytes(self._general) + extended + bytes(self._mask)
        return self._bytes


class Tracee:
    """A process that this one traces. If the tracer ends, the kernel kills it."""

    def __init__(self, pid: int) -> None:
        """Begin to trace; the process goes on.

        Raises:
            OSError: If the kernel does not allow it.
        """
        self.pid = pid
        _ptrace(_SEIZE, pid, None, _OPTION_SECCOMP | _OPTION_EXIT_KILL)

    def message(self) -> int:
        """Return the value that the filter attached to the stop."""
        value = ctypes.c_ulong()
        _ptrace(_EVENT_MESSAGE, self.pid, None, ctypes.byref(value))
        return value.value

    def resume(self, signal: int = 0) -> None:
        """Continue the stopped process, delivering a signal if it is not 0."""
        _ptrace(_CONT, self.pid, None, signal)

    def has_pending_signal(self) -> bool:
        """Return True if a signal waits for the stopped process, blocked or not."""
        information = ctypes.create_string_buffer(_SIGNAL_INFO_BYTES)
        for flags in (0, _PENDING_OF_PROCESS):
            request = _PeekRequest(0, flags, 1)
            if _ptrace(_PEEK_PENDING, self.pid, ctypes.byref(request), information):
                return True
        return False
