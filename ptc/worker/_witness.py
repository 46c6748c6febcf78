"""Who is told which system call a worker was stopped at, without believing the worker.

Rule 1: A worker that was stopped in a call never goes on: nobody answers the kernel's question, and
    the zygote kills the worker. tests/worker/test_witness.py::
    test_a_worker_is_stopped_in_the_call_and_killed_with_its_name_known
Rule 2: If nobody is left to be told, the call fails with ENOSYS: it is not made either way.
    tests/worker/test_witness.py::test_a_call_is_not_made_when_nobody_is_left_to_be_told
Rule 3: A worker keeps neither its listener nor the socket it was handed over on.
    tests/worker/test_jail.py::test_a_worker_holds_its_wire_and_nothing_else

A filter that answers ``SECCOMP_RET_USER_NOTIF`` stops the worker in the call and puts a question to
the filter's listener: may it? (``Documentation/userspace-api/seccomp_filter.rst``). The listener is
a descriptor that the kernel gives to whoever installs the filter, here the worker; before it runs a
script it hands the listener to the zygote and closes its own. What is read from a listener is the
kernel's word: number, arguments and architecture of the call.

Why not otherwise: after SECCOMP_RET_KILL_PROCESS only the audit log (root's) knows the call. A
SIGSYS handler (SECCOMP_RET_TRAP) runs in the worker, which is what is not believed. A tracer needs
ptrace, doubles every signal and may itself be attacked.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import select
import socket
import struct

from .kernel import _libc
from .kernel._seccomp import Filter

__all__ = ["Witness", "stopped_at"]

# _IOWR('!', 0, struct seccomp_notif), include/uapi/linux/seccomp.h; the same on both machines.
_NOTIF_RECV = 0xC0502100
_NOTIF = struct.Struct("=QIIiIQ6Q")
"""id, pid, flags; then struct seccomp_data: number, architecture, instruction, arguments."""

# struct msghdr, struct iovec, the process id, struct cmsghdr with one descriptor; 64-bit glibc
# and musl alike (musl's padding is where glibc's upper halves of the lengths are).
_MESSAGE = struct.Struct("=QIxxxxQQQQixxxx QQ Ixxxx QiiIxxxx")
_PID_OFFSET, _FD_OFFSET = 72, 96
_HIGH_FD = 16


class Witness:
    """The socket on which workers hand their listeners to the zygote, and both its ends.

    Made once in the zygote. Its message is laid out here, so that a worker, whose every written
    page is a copy, writes two numbers and makes one call.
    """

    def __init__(self, filter_that_tells: Filter, notice_fd: int) -> None:
        """Make the socket; the workers' end gets the number `notice_fd`."""
        self.filter = filter_that_tells
        self.notice_fd = notice_fd
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with near:
            # High: an object of the zygote must not hold a number that in a worker is the wire's.
            self._near = socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD))
        number = far.detach()
        if number != notice_fd:
            os.dup2(number, notice_fd, inheritable=False)
            os.close(number)
        self._message = ctypes.create_string_buffer(_MESSAGE.size)
        start = ctypes.addressof(self._message)
        _MESSAGE.pack_into(
            self._message, 0,
            0, 0, start + 56, 1, start + 80, 20, 0,  # no name; one vector, control of 20 bytes
            start + _PID_OFFSET, 4,
            0,
            20, socket.SOL_SOCKET, socket.SCM_RIGHTS, 0,
        )  # fmt: skip

    def fileno(self) -> int:
        """The zygote's end: readable when a worker has handed its listener over."""
        return self._near.fileno()

    def close(self) -> None:
        """Close the zygote's end; the workers' end is a number of the caller's."""
        self._near.close()

    def hand_over(self, pid: int, listener: int) -> None:
        """Called in a worker, filtered: send the listener, close it and the socket.

        Raises:
            OSError: If it could not be sent. The worker must then exit: it is filtered, and nobody
                would learn of what it does.
        """
        struct.pack_into("=I", self._message, _PID_OFFSET, pid)
        struct.pack_into("=i", self._message, _FD_OFFSET, listener)
        number = self.filter.machine.numbers["sendmsg"]
        _libc.syscall(number, self.notice_fd, ctypes.addressof(self._message), 0)
        os.close(listener)
        os.close(self.notice_fd)

    def take(self) -> tuple[int, int | None]:
        """Called in the zygote: the process id of a worker and its listener.

        None: the zygote had no descriptor left for it, and the kernel closed it.
        """
        data, ancillary, _, _ = self._near.recvmsg(4, socket.CMSG_SPACE(4))
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload)
        return struct.unpack("=I", data)[0], fds[0] if fds else None


def stopped_at(listener: int) -> tuple[int, ...] | None:
    """The call a worker was stopped at: architecture, number, six arguments. None: it was not.

    The worker stays stopped. Never blocks: a worker that was killed meanwhile has no question left,
    and asking for it would wait for ever.
    """
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    if not any(events & select.POLLIN for _, events in poll.poll(0)):
        return None
    question = bytearray(_NOTIF.size)
    try:
        fcntl.ioctl(listener, _NOTIF_RECV, question)
    except OSError:
        return None
    _, _, _, number, architecture, _, *arguments = _NOTIF.unpack(question)
    return (architecture, number, *arguments)
