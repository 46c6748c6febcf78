"""Identity of the processes that hold leases, and certain signs that one has ended."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["ProcessId", "has_ended", "is_of_earlier_boot", "this_process"]

_LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"})
"""File systems that one running kernel at a time can mount."""


class ProcessId(NamedTuple):
    """A process. A part that the system does not tell is empty."""

    host: str
    boot: str
    """Changes with each start of the machine; equal in all its containers."""
    clock: str
    """Two processes with the same value read the same monotonic clock."""
    pids: str
    """Two processes with the same value mean the same process by `pid`."""
    pid: int
    born: str
    """Start of the process, since another one may have its number later."""


def this_process() -> ProcessId:
    """Return the id of this process."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> ProcessId:
    """Build the id of the running process, cached by pid because a fork is another process."""
    host = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        born = _stat("self")[19]
        pids = f"{boot} {os.stat('/proc/self/ns/pid').st_ino}"
        # A process can see the /proc of another namespace, with other numbers.
        own_numbers = int(os.readlink("/proc/self")) == pid
    except OSError:
        return ProcessId(host, "", "", "", pid, "")
    try:
        clock = f"{boot} {os.stat('/proc/self/ns/time').st_ino}"
    except OSError:
        clock = boot  # Linux before 5.6 has one clock.
    return ProcessId(host, boot, clock, pids if own_numbers else "", pid, born)


def _stat(pid: int | str) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name of the process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def has_ended(process: ProcessId) -> bool:
    """Return True if `process` was in this PID namespace and has certainly ended."""
    if not process.pids or process.pids != this_process().pids:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # It exists.
    try:
        fields = _stat(process.pid)
    except OSError:
        return False  # A mount option hides it.
    # A zombie is still listed, but executes nothing.
    return fields[19] != process.born or fields[0] in "ZX"


def is_of_earlier_boot(process: ProcessId, file: Path | None) -> bool:
    """Return True if `process` certainly ended when this machine was restarted.

    That is certain only if no other machine can have `file` open. Two machines may have one name.
    """
    mine = this_process()
    if not process.boot or not mine.boot or process.boot == mine.boot:
        return False
    return process.host == mine.host and file is not None and _is_local(file)


def _is_local(file: Path) -> bool:
    try:
        device = os.stat(file).st_dev
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = {line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number}
    return bool(kinds) and kinds <= _LOCAL
