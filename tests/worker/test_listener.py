"""Kernel reports of a stopped worker: raw processes under the filter that notifies a listener."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ptc._workers._syscall_names import syscall_name
from ptc.worker._listener import ListenerSocket, read_stopped_call
from ptc.worker.kernel import _libc, _seccomp

TABLE = _seccomp.machine()
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _seccomp.MACHINES,
    reason="the jail is for Linux on x86-64 and aarch64",
)
PATIENCE_MS = 20_000
NOTICE_FD = 200


@dataclass
class Child:
    """A process under the filter, its wire, and its listener as the parent has it."""

    pid: int
    wire: socket.socket
    listener: int

    def said(self) -> bytes:
        self.wire.settimeout(PATIENCE_MS / 1000)
        return self.wire.recv(64)

    def readable(self, what: int) -> bool:
        poll = select.poll()
        poll.register(what, select.POLLIN)
        return bool(poll.poll(PATIENCE_MS))


@contextlib.contextmanager
def child(attempt: Callable[[], object]) -> Iterator[Child]:
    """Fork a process that waits for a byte, attempts, and says how that went."""
    assert TABLE is not None
    ours, theirs = socket.socketpair()
    listener_socket = ListenerSocket(_seccomp.build(TABLE, theirs.fileno(), NOTICE_FD), NOTICE_FD)
    pid = os.fork()
    if pid == 0:
        try:
            theirs.setblocking(True)
            _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
            listener_socket.send_listener(os.getpid(), listener_socket.filter.install(os.getpid()))
            theirs.recv(1)
            try:
                attempt()
                said = b"it went on"
            except OSError as error:
                said = errno.errorcode[error.errno or 0].encode()
            theirs.send(said)
        finally:
            os._exit(0)
    theirs.close()
    taken_from, listener = listener_socket.receive_listener()
    assert taken_from == pid
    assert listener is not None
    try:
        yield Child(pid, ours, listener)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            os.close(listener)
        os.close(NOTICE_FD)
        listener_socket.close()
        ours.close()


def test_forbidden_call_stops_the_worker_and_is_identified() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        worker.wire.send(b"x")
        assert worker.readable(worker.listener)
        call = read_stopped_call(worker.listener)
        assert call is not None
        architecture, number, *arguments = call
        assert syscall_name(architecture, number) == "openat"
        assert arguments[0] & 0xFFFFFFFF == -100 & 0xFFFFFFFF  # AT_FDCWD
        assert len(arguments) == 6
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.said() == b""


def test_call_fails_with_enosys_if_the_listener_is_already_closed() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        os.close(worker.listener)
        worker.wire.send(b"x")
        assert worker.said() == b"ENOSYS"


def test_stopped_call_fails_with_enosys_when_the_listener_closes() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        worker.wire.send(b"x")
        assert worker.readable(worker.listener)
        assert read_stopped_call(worker.listener) is not None
        os.close(worker.listener)
        assert worker.said() == b"ENOSYS"


def test_query_about_an_unstopped_or_dead_worker_returns_at_once() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        assert read_stopped_call(worker.listener) is None
        worker.wire.send(b"x")
        assert worker.readable(worker.listener)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.said() == b""
        assert read_stopped_call(worker.listener) is None


def test_listener_socket_is_unusable_after_the_handover() -> None:
    def attempt() -> None:
        assert TABLE is not None
        _libc.syscall(TABLE.numbers["sendmsg"], NOTICE_FD, 0, 0)

    with child(attempt) as worker:
        worker.wire.send(b"x")
        assert worker.said() == b"EBADF"


def test_unknown_call_and_architecture_are_named_by_number() -> None:
    assert syscall_name(0xC000003E, 257) == "openat"
    assert syscall_name(0xC00000B7, 56) == "openat"
    assert syscall_name(0xC000003E, 9_999) == "number 9999 of architecture 0xc000003e"
    assert syscall_name(1, 0) == "number 0 of architecture 0x1"
