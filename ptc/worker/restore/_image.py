"""The image of a worker before its run, and the way back to it.

Rule 1: nothing that the worker's memory holds decides anything: its bytes are compared and
    overwritten, never followed. tests/worker/restore/test_corpora.py
Rule 2: whatever differs and is not written back costs the worker: `Unlike` is raised and the
    restorer kills it. tests/worker/restore/test_hostile_runs.py
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import socket
import struct
import termios
import time
from hashlib import sha256

from ..._dataclass import dataclass
from ..kernel import _trace, _written
from ..kernel._written import PAGE
from ._reading import Unlike, read_all, read_sizes, read_state, tracked, untracked

__all__ = ["Files", "Image", "Template"]

_OUTPUT_QUEUE = termios.TIOCOUTQ
_PROCESS_CLOCK = 2
_HOT_AFTER = 2
"""Runs that must have written a page before it is no longer protected."""
_MOST_HOT = 4096


@dataclass(frozen=True, slots=True)
class Files:
    """Descriptors of a worker's process."""

    tracker: int
    wire: socket.socket
    memory: int
    pagemap: int
    maps: int
    sizes: int
    descriptors: int
    peak: int
    folder: int
    """The process's folder in /proc."""

    def close(self) -> None:
        """Close all of them."""
        self.wire.close()
        for fd in (
            self.tracker, self.memory, self.pagemap, self.maps, self.sizes, self.descriptors,
            self.peak, self.folder,
        ):  # fmt: skip
            os.close(fd)


class Template:
    """Contents of mappings that workers have in common, since one process forked them all."""

    def __init__(self) -> None:
        self._contents: dict[tuple[int, int], bytes] = {}

    def share(self, start: int, end: int, data: bytes) -> tuple[bytes, dict[int, bytes]]:
        """Return the common content of a mapping, and the pages in which `data` differs from it."""
        common = self._contents.setdefault((start, end), data)
        if common == data:
            return common, {}
        own = {}
        for at in range(0, len(data), PAGE):
            page = data[at : at + PAGE]
            if common[at : at + PAGE] != page:
                own[start + at] = page
        return common, own


class Image:
    """State of a worker that is stopped before its first run."""

    def __init__(self, tracee: _trace.Tracee, files: Files, cpu: int, template: Template) -> None:
        """Read it. The worker must be stopped at its mark.

        Raises:
            Unlike: If it can never be restored.
            OSError: If the kernel refuses a step.
        """
        self._tracee, self._files, self._cpu = tracee, files, cpu
        self._maps = read_all(files.maps)
        self._registers = _trace.Registers(tracee.pid)
        self._registers.skip_call()
        self._sizes = read_sizes(files.sizes)
        self._fds = _count_fds(files.descriptors)
        if self._fds != len(os.listdir(files.descriptors)):
            raise Unlike("the kernel does not count descriptors")
        self._ranges = tracked(self._maps)
        self._groups = _join(self._ranges)
        self._limits = resource.prlimit(tracee.pid, resource.RLIMIT_CPU)
        self._contents: dict[tuple[int, int], bytes] = {}
        self._own: dict[int, bytes] = {}
        self._wanted: dict[int, bytes] = {}
        """Whole contents by start of a mapping, for comparison only."""
        for start, end in self._ranges:
            data = os.pread(files.memory, end - start, start)
            if len(data) != end - start:
                raise Unlike("a mapping cannot be read")
            common, own = template.share(start, end, data)
            self._contents[start, end] = common
            self._own.update(own)
            _written.register(files.tracker, start, end)
        for start, end in self._groups:
            _written.protect(files.pagemap, start, end)
        self._times: dict[int, int] = {}
        self._hot: set[int] = set()
        self._last: list[tuple[int, int]] = []
        self._plan: list[tuple[int, memoryview]] = []
        self._cold: list[int] = []
        self._check_quiet()
        self._write_registers()

    def restore(self, *, remapped: bool) -> None:
        """Put the worker at its mark back. Raises `Unlike` or `OSError`; it is then unusable.

        Args:
            remapped: True if it may have changed its mappings.
        """
        self._check_quiet()
        written = self._scan(remapped=remapped)
        if written != self._last:
            self._last, self._plan = written, self._make_plan(written)
            self._cold = self._find_cold(written)
        memory = self._files.memory
        for start, data in self._plan:
            if os.pwrite(memory, data, start) != len(data):
                raise Unlike("a page cannot be written")
        if self._cold:
            self._protect_cold()
        self._write_registers()
        self._renew_limit()
        os.write(self._files.peak, b"5")

    def _scan(self, *, remapped: bool) -> list[tuple[int, int]]:
        """Check the mappings, and return the pages that were written."""
        files = self._files
        # Without a call, only the stack can grow.
        if read_sizes(files.sizes) != self._sizes:
            raise Unlike("a mapping differs")
        if not remapped:
            first, last = self._groups[0][0], self._groups[-1][1]
            return _written.scan_tracked(files.pagemap, first, last)
        if read_all(files.maps) != self._maps:
            raise Unlike("a mapping differs")
        # Each on its own, so that a new mapping at an old address is noticed.
        scans = [_written.scan(files.pagemap, start, end) for start, end in self._groups]
        return [found for scan in scans for found in scan]

    def _write_registers(self) -> None:
        if not self._registers.write(self._tracee.pid):
            raise Unlike("a register differs")

    def differing_pages(self, ignored: list[tuple[int, int]]) -> list[int]:
        """Compare all tracked memory with the image; return the addresses of pages that differ.

        Args:
            ignored: Ranges that the kernel writes, in the area of restartable sequences.
        """
        found = []
        for start, end in self._contents:
            data = bytearray(os.pread(self._files.memory, end - start, start))
            for low, high in ignored:
                first, last = max(start, low), min(end, high)
                if first < last:
                    data[first - start : last - start] = self._bytes(first, last)
            want = self._wanted.get(start)
            if want is None:
                want = self._wanted[start] = bytes(self._content(start, end, start, end))
            if data != want:
                pages = range(0, end - start, PAGE)
                found += [
                    start + at for at in pages if data[at : at + PAGE] != want[at : at + PAGE]
                ]
        return found

    def read_rest(self) -> list[bytes]:
        """Read what a worker has besides its tracked memory, for comparison: see `_reading`.

        Code is left out: 20 MB, of which `mprotect` is reported.
        """
        digest = sha256()
        for start, end in untracked(self._maps):
            digest.update(os.pread(self._files.memory, end - start, start))
        registers = _trace.Registers(self._tracee.pid).as_bytes()
        descriptors = b" ".join(sorted(map(os.fsencode, os.listdir(self._files.descriptors))))
        return [digest.digest(), registers, descriptors, *read_state(self._files.folder)]

    @property
    def thread_area(self) -> int:
        """Address of the data of the worker's thread."""
        return self._registers.thread_area

    def _bytes(self, first: int, last: int) -> bytes:
        page = first - first % PAGE
        data = self._own.get(page)
        if data is None:
            start, end = next(s for s in self._contents if s[0] <= first < s[1])
            data = self._contents[start, end][page - start : page - start + PAGE]
        return data[first - page : last - page]

    def _check_quiet(self) -> None:
        """Check what the kernel holds for the worker outside of its memory and registers."""
        queued = struct.pack("=i", 0)
        wire = self._files.wire.fileno()
        for request, whose in ((termios.FIONREAD, "host"), (_OUTPUT_QUEUE, "worker")):
            if fcntl.ioctl(wire, request, queued) != queued:
                raise Unlike(f"the wire holds bytes of the {whose}")
        if self._tracee.has_pending_signal():
            raise Unlike("a signal is pending")
        if _count_fds(self._files.descriptors) != self._fds:
            raise Unlike("a descriptor was closed")

    def _make_plan(self, written: list[tuple[int, int]]) -> list[tuple[int, memoryview]]:
        """List what is written where; a range of pages may cross mappings."""
        plan = []
        spans = iter(self._ranges)
        start, end = next(spans)
        for first, last in written:
            while first < last:
                while end <= first:
                    start, end = next(spans, (last, last + PAGE))
                if first < start:
                    raise Unlike("written pages are in no tracked mapping, or out of order")
                stop = min(last, end)
                plan.append((first, self._content(start, end, first, stop)))
                first = stop
        return plan

    def _content(self, start: int, end: int, first: int, last: int) -> memoryview:
        common = memoryview(self._contents[start, end])[first - start : last - start]
        own = self._own
        if not any(at in own for at in range(first, last, PAGE)):
            return common
        parts = [
            own.get(at) or common[at - first : at - first + PAGE] for at in range(first, last, PAGE)
        ]
        return memoryview(b"".join(parts))

    def _find_cold(self, written: list[tuple[int, int]]) -> list[int]:
        """Count the writes of protected pages; return those to protect again."""
        cold = []
        for first, last in written:
            for page in range(first, last, PAGE):
                if page in self._hot:
                    continue
                times = self._times[page] = self._times.get(page, 0) + 1
                if times >= _HOT_AFTER and len(self._hot) < _MOST_HOT:
                    self._hot.add(page)
                else:
                    cold.append(page)
        return cold

    def _protect_cold(self) -> None:
        for page in self._cold:
            _written.protect(self._files.pagemap, page, page + PAGE)
        # Protected pages are absent from the next scan, so that the plan is made anew.
        self._last = []

    def _renew_limit(self) -> None:
        """Move the soft limit of CPU time on; the hard one cannot be raised."""
        used = time.clock_gettime((~self._tracee.pid << 3) | _PROCESS_CLOCK)
        soft, hard = math.ceil(used) + self._cpu, self._limits[1]
        if soft > hard:
            raise Unlike("its CPU time is spent")
        if soft != self._limits[0]:
            resource.prlimit(self._tracee.pid, resource.RLIMIT_CPU, (soft, hard))
            self._limits = soft, hard


def _count_fds(folder: int) -> int:
    """Return the number of descriptors: the size of the folder, from Linux 6.2 on."""
    return os.fstat(folder).st_size


def _join(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join adjacent ranges."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
