"""A worker's part: handing its descriptors to the restorer, before its last jail layers."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING

from ..kernel import _libc, _seccomp, _written

if TYPE_CHECKING:
    from ._restorer import Restorer

__all__ = ["FIRST_MESSAGE_FDS", "LIFETIMES", "hand_over", "probe", "reach_mark", "reserve_room"]

FIRST_MESSAGE_FDS = 3
_SECONDS = 5.0
_ANSWER_BYTES = 1_000
_PR_SET_PTRACER = 0x59616D61


LIFETIMES = 4
"""CPU limits of one run that a worker may use in all."""
_ROOM_BYTES = 4 << 20
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_MOST_MAPPED = 1 << 30
_SMALL_OBJECTS, _SMALL_BYTES, _KEPT_EVERY = 5_000, 400, 500
_STACK_BYTES = 1 << 18
_kept: list[bytes] = []


def reserve_room() -> None:
    """Reserve address space that a run fills without asking the kernel for more."""
    _libc.tune_malloc(_TRIM_THRESHOLD, _MOST_MAPPED)
    _libc.tune_malloc(_TOP_PAD, 1 << 20)
    _libc.tune_malloc(_MMAP_THRESHOLD, 32 << 20)
    _libc.allocate_once(_ROOM_BYTES)
    _kept.extend([bytes(_SMALL_BYTES) for _ in range(_SMALL_OBJECTS)][::_KEPT_EVERY])


def reach_mark() -> None:
    """Stop for the tracer: for its image first, and after a run to be restored to that image."""
    _libc.syscall(_seccomp.MARK)


def hand_over(restorer: Restorer, wire: int, number: int, cpu: int) -> str:
    """Have the restorer trace this process and open its files; return why it cannot, or ``""``.

    Called in a new fork, before any script exists. The process is dumpable meanwhile, because the
    kernel allows neither tracing nor opening the memory of another one.

    Args:
        restorer: The restorer.
        wire: The worker's end of its wire.
        number: The host's id of the worker.
        cpu: CPU seconds of each of its runs.
    """
    try:
        tracker = _written.open_tracker()
    except OSError as error:
        return f"userfaultfd with asynchronous write protection, of Linux 6.7: {error}"
    ours, theirs = socket.socketpair()
    try:
        ours.settimeout(_SECONDS)
        _libc.prctl(_libc.PR_SET_DUMPABLE, 1)
        # Where Yama allows tracing by ancestors only. Other kernels do not know it.
        with contextlib.suppress(OSError):
            _libc.prctl(_PR_SET_PTRACER, restorer.pid)
        fds = array.array("i", [tracker, wire, theirs.fileno()])
        body = json.dumps({"number": number, "pid": os.getpid(), "cpu": cpu}).encode()
        restorer.workers.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        theirs.close()
        answer = ours.recv(_ANSWER_BYTES)
        return "" if answer == b"+" else answer[1:].decode(errors="replace") or "no answer"
    except OSError as error:
        return f"no answer: {error}"
    finally:
        _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
        ours.close()
        theirs.close()
        os.close(tracker)


def probe(restorer: Restorer) -> str:
    """Hand a new fork over, which then exits; return why that fails, or ``""``.

    Raises:
        OSError: If no process can be forked.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = _libc.fork()
        if pid == 0:
            try:
                theirs.send(hand_over(restorer, theirs.fileno(), 0, 1).encode() or b"+")
            finally:
                os._exit(0)
        theirs.close()
        answer = ours.recv(_ANSWER_BYTES)
        os.waitpid(pid, 0)
    return "" if answer == b"+" else answer.decode(errors="replace") or "it died"
