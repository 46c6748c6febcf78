"""State that the zygote inherits and gives up: its environment, descriptors, terminal and user."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from .kernel import _libc

__all__ = [
    "KNOWN_ENVIRONMENT",
    "close_all_except",
    "detach_from_terminal",
    "drop_root",
    "empty_environment",
]

NOBODY = 65534
"""User and group of a zygote started by root, since limits on processes do not bind root."""

KNOWN_ENVIRONMENT = frozenset({"PYTHONHASHSEED", "TZ", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"})
"""Permitted environment variables: ours, and those that CPython (PEP 538) and macOS add."""


def empty_environment() -> frozenset[str]:
    """Empty the environment; return the names of the variables the process was started with.

    They are read from the kernel: clearing `os.environ` leaves the strings on the initial stack,
    where code with full use of the C library can read them.
    """
    names = set(os.environ)
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        names |= {os.fsdecode(item.partition(b"=")[0]) for item in file.read().split(b"\0") if item}
    os.environ.clear()
    os.environ["TZ"] = "UTC0"
    time.tzset()
    return frozenset(names)


def close_all_except(control_fd: int) -> None:
    """Close everything but `control_fd`; redirect the standard streams to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        os.dup2(null, standard, inheritable=False)
    _libc.close_range(3, control_fd - 1)
    _libc.close_range(control_fd + 1)


def detach_from_terminal() -> None:
    """Start a session with default signals in /: Ctrl-C in the host's terminal is for the host."""
    with contextlib.suppress(PermissionError):  # already a session leader
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir("/")


def drop_root(notes: dict[str, str]) -> None:
    """Become nobody if started by root. If that fails, the probe of `processes` decides."""
    if os.geteuid() != 0:
        return
    if _libc.LINUX:
        _libc.empty_bounding_set()  # impossible as nobody
    try:
        os.setgroups([])
        os.setgid(NOBODY)  # as root this sets the real, effective and saved id
        os.setuid(NOBODY)
    except OSError as error:
        notes["user"] = f"still uid {os.getuid()}: {error}"
    if _libc.LINUX:
        # The change of user made /proc/self belong to root; the id maps are written through it.
        _libc.prctl(_libc.PR_SET_DUMPABLE, 1)
