"""Reading of the files in /proc of a worker that is stopped: its mappings, signals and limits."""

from __future__ import annotations

import os

__all__ = ["Unlike", "read_all", "read_sizes", "read_state", "tracked", "untracked"]

_PART_BYTES = 1 << 16
_SIZES_BYTES = 256
_SPECIAL = ("[vvar", "[vdso", "[vsyscall")
_COMPARED = (
    b"Umask", b"State", b"Tgid", b"Uid", b"Gid", b"Groups", b"VmSize", b"VmLck", b"VmPin",
    b"VmData", b"VmStk", b"VmExe", b"VmLib", b"Threads", b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn",
    b"SigCgt", b"CapInh", b"CapPrm", b"CapEff", b"CapBnd", b"CapAmb", b"NoNewPrivs", b"Seccomp",
    b"Seccomp_filters", b"Cpus_allowed", b"Mems_allowed",
)  # fmt: skip
"""Fields of ``/proc/PID/status`` that no run may change."""


class Unlike(Exception):
    """Raised if a worker cannot be restored; says why."""


def read_all(fd: int) -> bytes:
    """Read a file of /proc from its beginning."""
    os.lseek(fd, 0, os.SEEK_SET)
    parts = []
    while part := os.read(fd, _PART_BYTES):
        parts.append(part)
    return b"".join(parts)


def read_sizes(fd: int) -> tuple[bytes, bytes]:
    """Read the sizes of all mappings, and of data and stack, from ``/proc/PID/statm``."""
    fields = os.pread(fd, _SIZES_BYTES, 0).split()
    return fields[0], fields[5]


def tracked(maps: bytes) -> list[tuple[int, int]]:
    """Return the mappings that a process can write, or has without a file.

    Raises:
        Unlike: If it shares memory that it can write.
    """
    found = []
    for start, end, rights, inode, name in _mappings(maps):
        if rights[3] == "s" and "w" in rights:
            raise Unlike(f"a mapping is shared: {rights} {name}")
        if name.startswith(_SPECIAL) or rights[:3] == "---" or rights[3] == "s":
            continue
        if "w" in rights or inode == "0":
            found.append((start, end))
    return found


def untracked(maps: bytes) -> list[tuple[int, int]]:
    """Return the other mappings that can only be read: constants of files, after relocation."""
    found = tracked(maps)
    return [
        (start, end)
        for start, end, rights, _, name in _mappings(maps)
        if rights[:3] == "r--" and (start, end) not in found and not name.startswith(_SPECIAL)
    ]


def _mappings(maps: bytes) -> list[tuple[int, int, str, str, str]]:
    """Return start, end, rights, inode and name of each mapping."""
    found = []
    for line in maps.decode("utf-8", "surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        start, _, end = fields[0].partition("-")
        name = fields[5] if len(fields) > 5 else ""
        found.append((int(start, 16), int(end, 16), fields[1], fields[4], name))
    return found


def read_state(folder: int) -> list[bytes]:
    """Read what the kernel holds for a process: signals, limits, privileges.

    The limit of CPU time is left out, since it moves on with each run.

    Args:
        folder: Descriptor of its folder in /proc.
    """
    rows = []
    for name in ("status", "limits"):
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            lines = read_all(fd).splitlines()
        finally:
            os.close(fd)
        if name == "status":
            rows += [line for line in lines if line.partition(b":")[0] in _COMPARED]
        else:
            rows += [line for line in lines if not line.startswith(b"Max cpu time")]
    return rows
