"""A worker's part: handing its descriptors to the restorer, before its last jail layers."""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket

from ..._dataclass import dataclass
from ..kernel import _libc, _seccomp, _written

__all__ = ["FIRST_MESSAGE_FDS", "Restorer"]

FIRST_MESSAGE_FDS = 3
_SECONDS = 5.0
_ANSWER_BYTES = 1_000
_PR_SET_PTRACER = 0x59616D61

_ROOM_BYTES = 4 << 20
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_MOST_MAPPED = 1 << 30
_SMALL_OBJECTS, _SMALL_BYTES, _KEPT_EVERY = 5_000, 400, 500
_STACK_BYTES = 1 << 18
_kept: list[bytes] = []


@dataclass(frozen=True, slots=True)
class Restorer:
    """A zygote's handle of its restorer, and that of the zygote's forks."""

    pid: int
    workers: socket.socket
    """The socket on which new workers hand themselves over."""
    host: socket.socket
    """The host's end of the socket of requests; sent to it with the hello."""

    def hand_over(self, wire: int, number: int, cpu: int) -> str:
        """Have it trace this process and open its files; return why it cannot, or ``""``.

        Called in a new fork, before any script exists. The process is dumpable meanwhile, because
        the kernel allows neither tracing nor opening the memory of another one.

        Args:
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
            # Yama may allow tracing by ancestors only. Kernels without it refuse this request.
            with contextlib.suppress(OSError):
                _libc.prctl(_PR_SET_PTRACER, self.pid)
            fds = array.array("i", [tracker, wire, theirs.fileno()])
            body = json.dumps({"number": number, "pid": os.getpid(), "cpu": cpu}).encode()
            self.workers.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
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

    def probe(self) -> str:
        """Hand a new fork over, which then exits; return why that fails, or ``""``.

        Raises:
            OSError: If no process can be forked.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pid = _libc.fork()
            if pid == 0:
                try:
                    theirs.send(self.hand_over(theirs.fileno(), 0, 1).encode() or b"+")
                finally:
                    os._exit(0)
            theirs.close()
            answer = ours.recv(_ANSWER_BYTES)
            os.waitpid(pid, 0)
        return "" if answer == b"+" else answer.decode(errors="replace") or "it died"

    def reserve_room(self) -> None:
        """Reserve address space that a run fills without asking the kernel for more.

        In the zygote: its workers share the room as long as they do not fill it.
        """
        _libc.tune_malloc(_TRIM_THRESHOLD, _MOST_MAPPED)
        _libc.tune_malloc(_TOP_PAD, 1 << 20)
        _libc.tune_malloc(_MMAP_THRESHOLD, 32 << 20)
        _libc.allocate_once(_ROOM_BYTES)
        _kept.extend([bytes(_SMALL_BYTES) for _ in range(_SMALL_OBJECTS)][::_KEPT_EVERY])

    def reach_mark(self) -> None:
        """Stop for the tracer: first for its image, after a run to be restored to it."""
        _libc.syscall(_seccomp.MARK)

    def kill(self) -> None:
        """End it, because it cannot be used."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.workers.close()
        self.host.close()
