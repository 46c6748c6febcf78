"""System calls of the path boundary that Python does not have."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

from ptc._core._folder import Folder, PosixFolder

__all__ = [
    "RESOLVE_BENEATH",
    "RESOLVE_NO_MAGICLINKS",
    "RESOLVE_NO_SYMLINKS",
    "has_openat2",
    "is_kernels_own",
    "is_kernels_own_entry",
    "openat2",
]

# openat2(2), Linux 5.6. Not in the `os` module up to Python 3.14.
_SYS_OPENAT2 = 437
"""The same number on every architecture but alpha (include/uapi/asm-generic/unistd.h)."""
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08


class _OpenHow(ctypes.Structure):
    """``struct open_how`` of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def openat2(folder: int, path: bytes, flags: int, resolve: int) -> int | None:
    """Open a path; None if the kernel refuses."""
    how = _OpenHow(flags=flags, mode=0, resolve=resolve)
    fd: int = _libc().syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(folder),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    return fd if fd >= 0 else None


@lru_cache(maxsize=1)
def has_openat2() -> bool:
    """False before Linux 5.6, and if a filter of the host forbids the call."""
    if sys.platform != "linux":
        return False
    at_cwd = -100  # AT_FDCWD
    fd = openat2(at_cwd, b".", os.O_PATH | os.O_CLOEXEC, RESOLVE_BENEATH)
    if fd is None:
        return False
    os.close(fd)
    return True


# statfs(2). Python's fstatvfs omits the type of the file system.
_KERNELS_OWN = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0xF97CFF8C,  # selinuxfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0xCAFE4A11,  # bpf
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0x62656570,  # configfs
    }
)
"""Types of file systems whose regular files are a kernel interface (linux/magic.h)."""


def is_kernels_own(fd: int) -> bool:
    """True if `fd` is on such a file system, or if its type is unknown."""
    if sys.platform != "linux":
        return False
    # struct statfs has 120 bytes on 64-bit systems; f_type is its first long.
    buffer = (ctypes.c_ulong * 32)()
    if _libc().fstatfs(ctypes.c_int(fd), buffer) != 0:
        return True
    return buffer[0] & 0xFFFFFFFF in _KERNELS_OWN


def is_kernels_own_entry(folder: Folder, name: str) -> bool:
    """True if an entry, not a folder, is on such a file system; it is not opened for reading."""
    if sys.platform != "linux" or not isinstance(folder, PosixFolder):
        return False
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        return is_kernels_own(fd)
    finally:
        os.close(fd)
