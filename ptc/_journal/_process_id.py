"""Who drives a run: a process, told apart from others of its number, before and elsewhere."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

__all__ = ["is_gone", "this_process"]


def this_process() -> str:
    """This process, told apart from a later one with its number and from other machines'."""
    return _process(os.getpid())


@cache
def _process(pid: int) -> str:
    """The running process; by its number, for a fork is another one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        born = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        boot, born = "", ""
    return f"{socket.gethostname()}|{boot}|{pid}|{born}"


def is_gone(owner: str) -> bool:
    """True if `owner` was a process of this machine and is gone."""
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
    # A zombie is still listed, and does nothing any more.
    return now[19] != born or now[0] in "ZX"
