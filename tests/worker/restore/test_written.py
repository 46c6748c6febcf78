"""Pages that a process has written, as the kernel reports them."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

from ptc.worker.kernel._written import PAGE, open_tracker, protect, register, scan, scan_tracked

PAGES = 4_000
END = (1 << 47) - PAGE
"""End of the addresses of a process."""
Scan: TypeAlias = Callable[[int, int, int], list[tuple[int, int]]]


@contextmanager
def tracked_room() -> Iterator[tuple[mmap.mmap, int, int]]:
    """Protect memory of this process; yield it with its address and the pagemap."""
    try:
        tracker = open_tracker()
    except OSError as error:
        pytest.skip(f"no asynchronous write protection: {error}")
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    room = mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        room.write(b"a" * len(room))
        start = ctypes.addressof(held := ctypes.c_char.from_buffer(room))
        del held
        register(tracker, start, start + len(room))
        protect(pagemap, start, start + len(room))
        yield room, start, pagemap
    finally:
        room.close()
        os.close(pagemap)
        os.close(tracker)


@pytest.mark.parametrize("step", [2, 3, 7])
@pytest.mark.parametrize("report", [scan, scan_tracked])
def test_each_written_range_is_reported_once(step: int, report: Scan) -> None:
    # Regression: from the 513th range on, each was reported twice.
    with tracked_room() as (room, start, pagemap):
        assert report(pagemap, start, start + len(room)) == []
        for page in range(0, PAGES, step):
            room[page * PAGE] = 98
        found = report(pagemap, start, start + len(room))
    written = range(start, start + PAGES * PAGE, step * PAGE)
    assert found == [(page, page + PAGE) for page in written]


def test_scan_over_other_mappings_reports_tracked_ones_only() -> None:
    with tracked_room() as (room, start, pagemap):
        room[0] = 98
        assert scan_tracked(pagemap, PAGE, END) == [(start, start + PAGE)]
        with pytest.raises(PermissionError):
            scan(pagemap, PAGE, END)
