"""C library calls that the jail needs and Python does not offer. Contains no policy.

All symbols are resolved on import, so that the dynamic linker looks up and allocates nothing once
the process is jailed. Numbers are the kernel's, from
``include/uapi/linux/{prctl,capability,mount}.h``; they are the same on x86-64 and aarch64.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys

__all__ = [
    "buffer_output",
    "capabilities",
    "close_range",
    "drop_capabilities",
    "empty_bounding_set",
    "fork",
    "limit_malloc_arenas",
    "parent_death_signal",
    "path_call",
    "prctl",
    "syscall",
]

LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_GET_PDEATHSIG = 2
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_NO_NEW_PRIVS = 38
PR_GET_NO_NEW_PRIVS = 39
PR_CAP_AMBIENT = 47
PR_SET_MDWE = 65
PR_MDWE_REFUSE_EXEC_GAIN = 1
_PR_CAP_AMBIENT_CLEAR_ALL = 4

SECUREBITS = 0xEF
"""NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock; KEEP_CAPS locked off."""

_CAPABILITY_VERSION_3 = 0x20080522
_M_ARENA_MAX = -8
_CLOSE_RANGE = 436
_MAX_FD = 0x7FFFFFFF

_LIBC = ctypes.CDLL(None, use_errno=True)
# PyDLL holds the interpreter lock, so that the child holds it too.
_FORK = ctypes.PyDLL(None, use_errno=True).fork
if LINUX:
    _SYSCALL = _LIBC.syscall
    _SYSCALL.restype = ctypes.c_long
    # Pass every argument as a full register: by default ctypes passes an int with 32 bits, and the
    # kernel would read garbage in the upper half.
    _SYSCALL.argtypes = [ctypes.c_long] * 7
    _PRCTL = _LIBC.prctl
    _PRCTL.restype = ctypes.c_int
    _PRCTL.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    _CAPGET = _LIBC.capget
    _CAPSET = _LIBC.capset
    _HEADER = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)


def syscall(number: int, *args: int) -> int:
    """Make a system call by number; pointers are passed as addresses.

    Raises:
        OSError: With the errno of the kernel.
    """
    padded = (*args, 0, 0, 0, 0, 0, 0)[:6]
    result = int(_SYSCALL(number, *padded))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"syscall {number}: {os.strerror(code)}")
    return result


def prctl(option: int, *args: int) -> int:
    """Set or read an attribute of this process; the manual page lists them.

    Raises:
        OSError: With the errno of the kernel.
    """
    result = int(_PRCTL(option, *(*args, 0, 0, 0, 0)[:4]))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")
    return result


def path_call(name: str, *args: bytes | int | None) -> None:
    """Call one of the libc functions ``unshare mount umount2 pivot_root setdomainname``.

    Raises:
        OSError: With the errno of the kernel.
    """
    function = getattr(_LIBC, name)
    converted = [ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args]
    if function(*converted) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def fork() -> int:
    """Create a child process without the handlers that Python adds to `os.fork`.

    The handlers reset `threading`, `logging` and `random`, for a process that may have had other
    threads. A zygote has one thread, and its random numbers must be the same in every worker. The
    handlers touch 140 pages, which every worker would have to copy.

    Returns:
        0 in the child, the child's process id in the parent.

    Raises:
        OSError: If the kernel refused.
    """
    pid = int(_FORK())
    if pid < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"fork: {os.strerror(code)}")
    return pid


def tune_malloc(parameter: int, value: int) -> None:
    """Set a parameter of the allocator, by its number in malloc.h."""
    _LIBC.mallopt(parameter, value)


def allocate_once(size: int) -> None:
    """Allocate `size` bytes and release them again: the allocator keeps their address space."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free(ctypes.c_void_p(library.malloc(ctypes.c_size_t(size))))


def parent_death_signal() -> int:
    """Return the signal this process receives when its parent dies, 0 for none."""
    value = ctypes.c_int()
    prctl(PR_GET_PDEATHSIG, ctypes.addressof(value))
    return value.value


def close_range(first: int, last: int = _MAX_FD) -> None:
    """Close every descriptor from `first` to `last`, both included; skip those not open."""
    if first > last:
        return
    if LINUX:
        # Linux 5.9; an old container profile may still hide it.
        with contextlib.suppress(OSError):
            syscall(_CLOSE_RANGE, first, last, 0)
            return
    os.closerange(first, min(last, os.sysconf("SC_OPEN_MAX")) + 1)


def empty_bounding_set() -> bool:
    """Drop every capability from the bounding set; return True if it is empty now.

    Requires CAP_SETPCAP. A failure is harmless: with no_new_privs, an execve gains nothing.
    """
    left = False
    for capability in range(64):
        try:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # beyond the last capability of this kernel
                break
            left = True
    return not left


def drop_capabilities() -> tuple[str, ...]:
    """Drop every capability permanently; return descriptions of the steps that failed.

    Raises:
        OSError: If the process's own sets cannot be emptied, which needs no privilege.
    """
    missed: tuple[str, ...] = () if empty_bounding_set() else ("bounding set kept",)
    try:
        prctl(PR_SET_SECUREBITS, SECUREBITS)
    except OSError:
        missed += ("securebits kept",)
    prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    if _CAPSET(_HEADER, ctypes.create_string_buffer(24)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")
    return missed


def capabilities() -> int:
    """Return the union of the effective, permitted and inheritable capability sets."""
    data = ctypes.create_string_buffer(24)
    if _CAPGET(_HEADER, data) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capget: {os.strerror(code)}")
    words: tuple[int, ...] = struct.unpack("=6I", data.raw)
    return words[0] | words[1] | words[2] | (words[3] | words[4] | words[5]) << 32


def limit_malloc_arenas() -> None:
    """Restrict glibc's malloc to its main arena.

    When memory runs out, glibc creates a second arena, and to size it counts the CPUs through
    sched_getaffinity or /sys. The filter kills the process for these calls, although the script
    should get a MemoryError.
    """
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


_OUTPUT_BYTES = 1 << 16
_IOFBF = 0


def buffer_output() -> None:
    """Give the C library's standard output a buffer.

    A numerical library reports some errors there: LAPACK does if a matrix has a NaN. Without a
    buffer, the first report inspects the descriptor, and the filter kills the process for that.
    """
    with contextlib.suppress(ValueError):  # the stream has another name, as on macOS
        stream = ctypes.c_void_p.in_dll(_LIBC, "stdout")
        _LIBC.setvbuf(stream, _OUTPUT, _IOFBF, ctypes.c_size_t(_OUTPUT_BYTES))


_OUTPUT = ctypes.create_string_buffer(_OUTPUT_BYTES)
"""The buffer; it must outlive the stream."""
