"""Kernel reports of the system call at which a worker was stopped, without trusting the worker.

Rule 1: A worker stopped in a call never continues: nobody answers the kernel's notification, and
    the zygote kills the worker. tests/worker/test_listener.py::
    test_forbidden_call_stops_the_worker_and_is_identified
Rule 2: If no listener is left, the call fails with ENOSYS: it is not made either way.
    tests/worker/test_listener.py::test_call_fails_with_enosys_if_the_listener_is_already_closed
Rule 3: A worker keeps neither its listener nor the socket on which it sent the listener.
    tests/worker/test_jail.py::test_worker_has_no_descriptor_but_its_wire

A filter that returns ``SECCOMP_RET_USER_NOTIF`` stops the worker in the call and notifies the
filter's listener (``Documentation/userspace-api/seccomp_filter.rst``). The kernel gives the
listener, a descriptor, to the process that installs the filter, here the worker; before it runs a
script, the worker sends the listener to the zygote and closes its own. The kernel itself writes the
data read from a listener: number, arguments and architecture of the call.

Rejected alternatives: after SECCOMP_RET_KILL_PROCESS only the audit log (root's) knows the call. A
SIGSYS handler (SECCOMP_RET_TRAP) runs in the worker, which is not trusted. A tracer needs ptrace,
doubles every signal and may itself be attacked.
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

__all__ = ["ListenerSocket", "read_stopped_call"]

# _IOWR('!', 0, struct seccomp_notif), include/uapi/linux/seccomp.h; the same on both machines.
_NOTIF_RECV = 0xC0502100
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""id, pid, flags; then struct seccomp_data: number, architecture, instruction, arguments."""

# struct msghdr, struct iovec, the process id, struct cmsghdr with one descriptor; 64-bit glibc
# and musl alike (musl's padding is where glibc's upper halves of the lengths are).
_MESSAGE = struct.Struct("=QIxxxxQQQQixxxx QQ Ixxxx QiiIxxxx")
_PID_OFFSET, _FD_OFFSET = 72, 96
_HIGH_FD = 16


class ListenerSocket:
    """Both ends of the socket on which workers send their listeners to the zygote.

    Created once in the zygote, with a prepared message: a worker writes two numbers and makes one
    call, because every page it writes is copied.
    """

    def __init__(self, notifying_filter: Filter, notice_fd: int) -> None:
        """Create the socket; the workers' end gets the number `notice_fd`."""
        self.filter = notifying_filter
        self.notice_fd = notice_fd
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with near:
            # High: an object of the zygote must not own the number of a worker's wire.
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
        """Return the zygote's end, readable when a worker has sent its listener."""
        return self._near.fileno()

    def close(self) -> None:
        """Close the zygote's end; the caller owns the workers' end."""
        self._near.close()

    def send_listener(self, pid: int, listener: int) -> None:
        """Send the listener and close it and the socket. Called in a worker under its filter.

        Raises:
            OSError: If it could not be sent. The worker must then exit: its forbidden calls would
                not be reported.
        """
        struct.pack_into("=I", self._message, _PID_OFFSET, pid)
        struct.pack_into("=i", self._message, _FD_OFFSET, listener)
        number = self.filter.machine.numbers["sendmsg"]
        _libc.syscall(number, self.notice_fd, ctypes.addressof(self._message), 0)
        os.close(listener)
        os.close(self.notice_fd)

    def receive_listener(self) -> tuple[int, int | None]:
        """Receive a worker's process id and listener. Called in the zygote.

        The listener is None if the zygote had no descriptor left and the kernel closed it.
        """
        data, ancillary, _, _ = self._near.recvmsg(4, socket.CMSG_SPACE(4))
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload)
        return struct.unpack("=I", data)[0], fds[0] if fds else None


def read_stopped_call(listener: int) -> tuple[int, ...] | None:
    """Read the call at which a worker was stopped: architecture, number, six arguments, or None.

    The worker stays stopped. Never blocks: a killed worker has no notification left, and reading it
    would wait forever.
    """
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    if not any(events & select.POLLIN for _, events in poll.poll(0)):
        return None
    notification = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _NOTIF_RECV, notification)
    except OSError:
        return None
    _, _, _, number, architecture, _, *arguments = _NOTIFICATION.unpack(notification)
    return (architecture, number, *arguments)
