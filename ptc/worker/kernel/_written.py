"""Pages that a process has written: asynchronous write protection and its scan. Linux 6.7.

``Documentation/admin-guide/mm/userfaultfd.rst`` and ``pagemap.rst``: a page that was protected with
``UFFD_FEATURE_WP_ASYNC`` loses its protection when it is written, without a message, and
``PAGEMAP_SCAN`` reports the pages that have none. The first step is made in the process itself, the
others through its descriptors in another one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct

from . import _libc

__all__ = ["PAGE", "open_tracker", "protect", "register", "scan", "scan_tracked"]

PAGE = 4096
_USERFAULTFD = 323
"""x86-64."""
_USER_MODE_ONLY = 1
_API, _REGISTER, _PAGEMAP_SCAN = 0xC018AA3F, 0xC020AA00, 0xC0606610
_FEATURES = 1 << 15 | 1 << 13 | 1 << 12
"""WP_ASYNC, WP_UNPOPULATED, WP_HUGETLBFS_SHMEM."""
_MODE_WP = 2
_WPALLOWED, _WRITTEN, _PRESENT = 1, 2, 8
_PROTECT, _ONLY_TRACKED = 1, 2
"""PM_SCAN_WP_MATCHING, PM_SCAN_CHECK_WPASYNC."""
_CHANGED = (_PRESENT, _WPALLOWED, _WRITTEN | _PRESENT)
"""Masks of `_scan`: written or absent."""
_REGIONS = 4096
_SCAN = struct.Struct("=12Q")
_FOUND = (ctypes.c_uint64 * (3 * _REGIONS))()


def open_tracker() -> int:
    """Return a descriptor through which the writes of this process are tracked.

    Raises:
        OSError: If the kernel has no asynchronous write protection, or refuses it.
    """
    number = _libc.syscall(_USERFAULTFD, os.O_CLOEXEC | _USER_MODE_ONLY)
    try:
        fcntl.ioctl(number, _API, struct.pack("=3Q", 0xAA, _FEATURES, 0))
    except OSError:
        os.close(number)
        raise
    return number


def register(tracker: int, start: int, end: int) -> None:
    """Track the writes to a mapping of the tracker's process. Raises `OSError`."""
    fcntl.ioctl(tracker, _REGISTER, struct.pack("=4Q", start, end - start, _MODE_WP, 0))


def scan(pagemap: int, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of pages that may differ from what they were when they were protected.

    Those are the pages that were written, and those that are absent: a range that the process
    unmapped and let grow again, as its stack does, is still tracked and reads as zeros. Linux 6.18
    counts its pages as written; nothing documents that. So all pages must have been present, as
    they are after they were read.

    Raises:
        OSError: If a mapping in between is not tracked: it is not the one that was registered.
    """
    return _scan(pagemap, start, end, _ONLY_TRACKED, _CHANGED)


def scan_tracked(pagemap: int, start: int, end: int) -> list[tuple[int, int]]:
    """As `scan`, for all tracked mappings between two addresses. The kernel skips the others.

    For a process that has not changed its mappings since they were registered.
    """
    return _scan(pagemap, start, end, 0, _CHANGED)


def protect(pagemap: int, start: int, end: int) -> None:
    """Protect all pages of a tracked range again. Raises `OSError`."""
    _scan(pagemap, start, end, _ONLY_TRACKED | _PROTECT, (0, _WPALLOWED | _WRITTEN, 0))


def _scan(
    pagemap: int, start: int, end: int, flags: int, masks: tuple[int, int, int]
) -> list[tuple[int, int]]:
    """Scan for pages; `masks` are the inverted categories, those of which all and any must hold."""
    found: list[tuple[int, int]] = []
    while start < end:
        request = bytearray(
            _SCAN.pack(
                _SCAN.size, flags, start, end, 0, ctypes.addressof(_FOUND), _REGIONS, 0,
                *masks, _WPALLOWED,
            )
        )  # fmt: skip
        count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, request)
        words = _FOUND[: 3 * count]
        found += zip(words[::3], words[1::3], strict=True)
        if count < _REGIONS:
            # Linux 6.18 may report the end of the first 512 ranges, although all were scanned.
            return found
        start = _SCAN.unpack(request)[4]
    return found
