"""The kernel's word about a stopped worker: raw processes under the filter that notifies."""

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
from ptc.worker._witness import Witness, read_stopped_call
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
    witness = Witness(_seccomp.build(TABLE, theirs.fileno(), NOTICE_FD), NOTICE_FD)
    pid = os.fork()
    if pid == 0:
        try:
            theirs.setblocking(True)
            _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
            witness.send_listener(os.getpid(), witness.filter.install(os.getpid()))
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
    taken_from, listener = witness.receive_listener()
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
        witness.close()
        ours.close()


def test_a_worker_is_stopped_in_the_call_and_killed_with_its_name_known() -> None:
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


def test_a_call_is_not_made_when_nobody_is_left_to_be_told() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        os.close(worker.listener)
        worker.wire.send(b"x")
        assert worker.said() == b"ENOSYS"


def test_a_worker_that_was_stopped_when_the_last_listener_goes_has_not_made_the_call() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        worker.wire.send(b"x")
        assert worker.readable(worker.listener)
        assert read_stopped_call(worker.listener) is not None
        os.close(worker.listener)
        assert worker.said() == b"ENOSYS"


def test_asking_after_a_worker_that_was_not_stopped_or_is_dead_does_not_wait() -> None:
    with child(lambda: os.open("/etc/passwd", os.O_RDONLY)) as worker:
        assert read_stopped_call(worker.listener) is None
        worker.wire.send(b"x")
        assert worker.readable(worker.listener)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.said() == b""
        assert read_stopped_call(worker.listener) is None


def test_the_socket_of_the_listener_is_gone_for_good() -> None:
    def attempt() -> None:
        assert TABLE is not None
        _libc.syscall(TABLE.numbers["sendmsg"], NOTICE_FD, 0, 0)

    with child(attempt) as worker:
        worker.wire.send(b"x")
        assert worker.said() == b"EBADF"


def test_an_unknown_call_and_an_unknown_machine_are_named_by_number() -> None:
    assert syscall_name(0xC000003E, 257) == "openat"
    assert syscall_name(0xC00000B7, 56) == "openat"
    assert syscall_name(0xC000003E, 9_999) == "number 9999 of architecture 0xc000003e"
    assert syscall_name(1, 0) == "number 0 of architecture 0x1"
