"""The few C library calls the jail needs and Python does not offer. It knows no policy.

Everything is resolved when the module is imported, so that nothing is looked up (or allocated by
the dynamic linker) once the process is jailed. Numbers are the kernel's, from
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
    "capabilities",
    "close_range",
    "drop_capabilities",
    "empty_bounding_set",
    "fork",
    "one_malloc_arena",
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
# PyDLL: the lock of the interpreter is held, so that the child has it too.
_FORK = ctypes.PyDLL(None, use_errno=True).fork
if LINUX:
    _SYSCALL = _LIBC.syscall
    _SYSCALL.restype = ctypes.c_long
    # Every argument is passed as a full register: an int left to ctypes' default is 32 bits wide
    # and the kernel would read garbage above it.
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
        OSError: With the errno the kernel answered.
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
        OSError: With the errno the kernel answered.
    """
    result = int(_PRCTL(option, *(*args, 0, 0, 0, 0)[:4]))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")
    return result


def path_call(name: str, *args: bytes | int | None) -> None:
    """Call one of the libc functions ``unshare mount umount2 pivot_root setdomainname``.

    Raises:
        OSError: With the errno the kernel answered.
    """
    function = getattr(_LIBC, name)
    converted = [ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args]
    if function(*converted) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def fork() -> int:
    """Fork as the C library does, without the handlers that Python hangs on to `os.fork`.

    They rebuild what `threading`, `logging` and `random` know of themselves, for a process that may
    have had other threads. A zygote has one, and its random numbers are to be the same in every
    worker; what the handlers touch are 140 pages that every worker would have to copy.

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


def parent_death_signal() -> int:
    """The signal this process gets when its parent dies, 0 for none."""
    value = ctypes.c_int()
    prctl(PR_GET_PDEATHSIG, ctypes.addressof(value))
    return value.value


def close_range(first: int, last: int = _MAX_FD) -> None:
    """Close every descriptor from `first` to `last`, both included; unknown ones are fine."""
    if first > last:
        return
    if LINUX:
        # Linux 5.9; an old container profile may still hide it.
        with contextlib.suppress(OSError):
            syscall(_CLOSE_RANGE, first, last, 0)
            return
    os.closerange(first, min(last, os.sysconf("SC_OPEN_MAX")) + 1)


def empty_bounding_set() -> bool:
    """Take every capability out of the bounding set; return whether it is empty now.

    Needs CAP_SETPCAP. Without it nothing is lost: no_new_privs stops an execve from gaining.
    """
    left = False
    for capability in range(64):
        try:
            if prctl(PR_CAPBSET_READ, capability):
                prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the last capability this kernel knows
                break
            left = True
    return not left


def drop_capabilities() -> tuple[str, ...]:
    """Give up every capability for good; return what the kernel did not let us do, in words.

    Raises:
        OSError: If the process's own sets cannot be emptied, which every process may do.
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
    """Every capability bit in the effective, permitted and inheritable sets, or-ed together."""
    data = ctypes.create_string_buffer(24)
    if _CAPGET(_HEADER, data) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"capget: {os.strerror(code)}")
    words: tuple[int, ...] = struct.unpack("=6I", data.raw)
    return words[0] | words[1] | words[2] | (words[3] | words[4] | words[5]) << 32


def one_malloc_arena() -> None:
    """Keep glibc's malloc in its main arena.

    When memory runs out glibc asks for a second arena, and to size it counts the CPUs through
    sched_getaffinity or /sys: calls that the filter answers with death, where the script should
    have had its MemoryError.
    """
    mallopt = getattr(_LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
