"""Unique ids of the processes that hold leases."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

__all__ = ["is_gone", "this_process"]


def this_process() -> str:
    """Return a unique id of this process: host, boot id, pid and start time."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> str:
    """Build the id of the running process, cached by pid because a fork is another process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        born = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        boot, born = "", ""
    return f"{socket.gethostname()}|{boot}|{pid}|{born}"


def is_gone(owner: str) -> bool:
    """Return True if `owner` was a process of this machine and has ended."""
    host, boot, pid, born = owner.split("|")
    mine = this_process().split("|")
    if [host] != mine[:1] or not boot:
        return False
    if boot != mine[1]:
        return True
    try:
        now = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    # A zombie is still listed, but executes nothing.
    return now[19] != born or now[0] in "ZX"
