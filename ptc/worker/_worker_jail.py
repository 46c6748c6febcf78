"""A worker's own part of the kernel layer, set up in each fork of the zygote.

The rules and the order of the layers are in `_jail`.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable

from ._isolation import ZygoteJail
from ._jail import set_limits
from .kernel import _libc

__all__ = ["confine_worker", "enter_worker_jail", "lock_down"]


def enter_worker_jail(
    jail: ZygoteJail, wire_fd: int, memory_bytes: int, cpu_seconds: int
) -> socket.socket:
    """Set up a worker's own layers, in a new fork of the zygote; about 0.3 ms.

    Returns the wire as a blocking socket on `jail.wire_fd`, created before the filter because
    creating one makes system calls that the filter forbids. Only `send`, `sendall`, `recv` and
    `recv_into` work on it afterwards. Every other descriptor is closed, 0, 1 and 2 included.

    Args:
        jail: Result of `enter_zygote_jail`.
        wire_fd: The worker's end of its wire, under any number.
        memory_bytes: Address space on top of the zygote's own.
        cpu_seconds: CPU time until SIGXCPU; SIGKILL follows one second later.

    Raises:
        OSError: If the kernel refused a step. The worker must then exit without running anything.
    """
    wire = confine_worker(jail, wire_fd, memory_bytes, cpu_seconds)
    lock_down(jail)
    return wire


def confine_worker(
    jail: ZygoteJail, wire_fd: int, memory_bytes: int, cpu_seconds: int, hard_seconds: int = 0
) -> socket.socket:
    """Perform all of `enter_worker_jail` except `lock_down`; the probe inspects in between."""
    if _libc.LINUX:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != jail.zygote_pid:
        os._exit(1)  # the zygote died before the line above: nothing would ever stop this worker
    os.setsid()  # a process group of its own: signals to the group reach no other worker
    if wire_fd != jail.wire_fd:
        os.dup2(wire_fd, jail.wire_fd, inheritable=False)
    _libc.close_range(0, jail.wire_fd - 1)
    if jail.listener_socket is None:
        _libc.close_range(jail.wire_fd + 1)
    else:
        _libc.close_range(jail.wire_fd + 1, jail.listener_socket.notice_fd - 1)
        _libc.close_range(jail.listener_socket.notice_fd + 1)
    wire = socket.socket(fileno=jail.wire_fd)
    wire.setblocking(True)
    if jail.baseline_bytes:
        set_limits({"RLIMIT_AS": jail.baseline_bytes + memory_bytes})
    # Hard above soft: SIGXCPU identifies the limit to the host, SIGKILL cannot be ignored.
    set_limits({"RLIMIT_CPU": (hard_seconds or cpu_seconds) + 1})
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (min(cpu_seconds, hard), hard))
    if jail.confines:
        set_limits({"RLIMIT_NPROC": 0})
    return wire


def lock_down(
    jail: ZygoteJail, look: Callable[[], None] = lambda: None, *, traced: bool = False
) -> str:
    """Finish `enter_worker_jail`: install the filter, and close all descriptors but the wire.

    Args:
        jail: Result of `enter_zygote_jail`.
        look: Called, for the probe, with every layer on except a filter without listener.
        traced: True for a worker that its tracer can restore.

    Returns:
        The reason why the zygote cannot read the call that stops the worker; ``""`` if it can.

    Raises:
        OSError: If the kernel refused a step that every kernel of this level supports.
    """
    problem = "there is no filter"
    if jail.listener_socket is not None:
        pid = os.getpid()
        try:
            program = jail.traced_filter if traced else jail.listener_socket.filter
            assert program is not None  # noqa: S101  # there is one wherever there is a listener
            listener = program.install(pid)
        except OSError as error:
            # EBUSY if a container's own filter has a listener: a chain of filters may have one.
            problem = str(error)
            os.close(jail.listener_socket.notice_fd)
        else:
            problem = ""
            jail.listener_socket.send_listener(pid, listener)
    if jail.confines:
        # 0 descriptors: open ones stay open, no new one can be created.
        set_limits({"RLIMIT_NOFILE": 0})
    look()
    if problem and jail.filter is not None:
        jail.filter.install(os.getpid())
    return problem
