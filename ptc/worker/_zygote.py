"""The zygote: a process that has imported everything a script may use, and forks the workers.

Rule 1: it never holds a secret: it starts with an empty environment and no descriptor except its
    control socket.
    tests/worker/test_zygote.py::test_zygote_inherits_no_environment_or_files_of_the_host
Rule 2: it enters the jail before it forks, and refuses to serve if a required layer is missing.
    tests/worker/test_zygote.py::test_session_refuses_to_start_with_a_missing_layer
Rule 3: a worker serves one run and exits; it shares no descriptor with another.
    tests/worker/test_jail.py

Control messages are single datagrams of JSON on a SOCK_SEQPACKET socket. From the host:
``{"fork": id, "memory": bytes, "cpu": seconds}`` with the worker's socket attached, ``{"kill":
id}``. To the host: ``{"hello": ...}`` with the zygote's own pidfd, ``{"forked": id}`` with the
worker's, ``{"exited": id, "signal": n, "status": n, "call": null, "why": text}``, ``{"error":
text}``; ``call`` is ``[architecture, number, argument ...]`` of the system call at which a worker
was stopped.
"""

from __future__ import annotations

import array
import errno
import os
import resource
import select
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from .._dataclass import dataclass
from .._language._compiler import POLICY_VERSION
from .._wire._protocol import PLACE_SIGNAL, Kind
from ._immortal import make_heap_immortal
from ._isolation import JailError, ZygoteJail
from ._jail import enter_zygote_jail
from ._layers import Layer, require_layers
from ._listener import read_stopped_call
from ._packages import PackageError, close_files
from ._placement import use_up_holes
from ._prepare import prepare_runtime, redirect_output
from ._probe import probe_layers
from ._runtime import Runtime
from ._wire import Wire
from ._worker_jail import confine_worker, enter_worker_jail, lock_down
from .kernel._libc import buffer_output, fork

if TYPE_CHECKING:
    from .restore._hand_over import Restorer

__all__ = ["main"]

_MESSAGE_BYTES = 65_536
_LIFETIMES = 4
"""CPU limits of one run that a worker may use in all, if it is restored after its runs."""


def main(control_fd: int, isolation: str, packages: Sequence[str] = (), restore: str = "") -> None:
    """Prepare, enter the jail, send hello and serve until the host closes the control socket."""
    control = socket.socket(fileno=control_fd)
    layers: tuple[Layer, ...] = ()
    reason = ""
    if restore:
        # Before the modules of the library are prepared for scripts. Not otherwise: it takes time.
        from .restore import _restorer  # noqa: F401  # imported again in the jail
    try:
        runtime = prepare_runtime(packages, forks=True)
        use_up_holes()
        jail = enter_zygote_jail(isolation, control.fileno(), restore)
        layers = probe_layers(jail)
        require_layers(layers)
        if packages:
            buffer_output()
            close_files()
        if restore:
            jail, reason = _check_restorer(jail, layers)
        redirect_output()
    except (JailError, PackageError) as error:
        _send(control, {"error": str(error), "layers": [asdict(layer) for layer in layers]})
        os._exit(1)
    myself = os.pidfd_open(os.getpid())
    hello: dict[str, Any] = {"layers": [asdict(layer) for layer in layers]}
    hello["policy"] = POLICY_VERSION
    _send(
        control,
        {"hello": hello | ({"no_restorer": reason} if reason else {})},
        (myself,) if jail.restorer is None else (myself, jail.restorer.host.fileno()),
    )
    os.close(myself)
    if jail.restorer is not None:
        jail.restorer.host.close()
    _Server(control, runtime, jail).serve()


def _check_restorer(jail: ZygoteJail, layers: tuple[Layer, ...]) -> tuple[ZygoteJail, str]:
    """Return the jail, without a restorer that cannot work, and the reason."""
    restorer = jail.restorer
    if restorer is None:
        return jail, jail.notes.get("restore", "there is no filter of system calls")
    try:
        reason = restorer.probe()
    except OSError as error:
        reason = str(error)
    for layer in layers:
        if layer.name == "violation_names" and not layer.on:
            reason = f"the filter of system calls has no listener: {layer.detail}"
    if not reason:
        restorer.reserve_room()
        return jail, ""
    restorer.kill()
    return replace(jail, restorer=None), reason


def _send(control: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    control.sendmsg([orjson.dumps(message)], rights)


@dataclass(slots=True)
class _WorkerProcess:
    """A worker process that has not been reaped."""

    number: int
    """The host's id of the worker."""
    pid: int
    pidfd: int
    listener: int | None = None
    """Listener of its filter, notified of the call at which it was stopped."""
    call: tuple[int, ...] | None = None
    """The call at which it was stopped."""


class _Server:
    """Server of the control socket: forks on request and reports every exit."""

    def __init__(self, control: socket.socket, runtime: Runtime, jail: ZygoteJail) -> None:
        self._control = control
        self._runtime = runtime
        self._jail = jail
        self._by_pid: dict[int, _WorkerProcess] = {}
        self._by_pidfd: dict[int, _WorkerProcess] = {}
        self._by_listener: dict[int, _WorkerProcess] = {}
        self._own_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._poll = select.poll()
        self._listeners = self._restorer = -1

    def serve(self) -> None:
        """Serve until the control socket closes, then exit; the workers die with this process."""
        self._poll.register(self._control, select.POLLIN)
        if self._jail.listener_socket is not None:
            self._listeners = self._jail.listener_socket.fileno()
            self._poll.register(self._listeners, select.POLLIN)
        if self._jail.restorer is not None:
            self._restorer = os.pidfd_open(self._jail.restorer.pid)
            self._poll.register(self._restorer, select.POLLIN)
        else:  # a worker serves one run: the first result need not wait
            while not self._by_pid:
                self._handle(self._poll.poll())
        self._make_immortal()
        while True:
            self._handle(self._poll.poll())

    def _make_immortal(self) -> None:
        """Make the heap immortal; fork no worker meanwhile, since it would copy more pages."""
        self._poll.modify(self._control, 0)  # reported when it is closed, too
        for _ in make_heap_immortal():
            self._handle(self._poll.poll(0))
        self._poll.modify(self._control, select.POLLIN)

    def _handle(self, ready: list[tuple[int, int]]) -> None:
        for fd, events in ready:
            if fd == self._control.fileno():
                self._request()
            elif fd == self._listeners:
                self._take_listener()
            elif fd in self._by_listener:
                self._handle_stopped_call(self._by_listener[fd], events)
            elif fd in self._by_pidfd:
                self._reap(self._by_pidfd[fd])
            elif fd == self._restorer:
                os._exit(1)  # its workers died with it

    def _request(self) -> None:
        size = array.array("i").itemsize
        data, ancillary, _, _ = self._control.recvmsg(_MESSAGE_BYTES, socket.CMSG_SPACE(4 * size))
        if not data:
            # The host has exited. PDEATHSIG and the PID namespace kill the workers.
            os._exit(0)
        fds = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[: len(payload) - len(payload) % size])
        message = orjson.loads(data)
        if "kill" in message:
            self._kill(message["kill"])
        elif not fds:
            # The kernel drops a descriptor that exceeds this process's limit.
            self._report_failed_fork(message["fork"], os.strerror(errno.EMFILE))
        else:
            self._fork(message, fds[0])

    def _kill(self, number: int) -> None:
        """Kill a worker on behalf of the host, which did not receive its pidfd."""
        for worker in self._by_pid.values():
            if worker.number == number:
                signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)

    def _report_failed_fork(self, number: int, why: str) -> None:
        ended = {"exited": number, "signal": 0, "status": -1, "call": None, "why": why}
        _send(self._control, ended)

    def _fork(self, message: dict[str, Any], wire_fd: int) -> None:
        number = message["fork"]
        try:
            pid = fork()
        except OSError as error:
            os.close(wire_fd)
            self._report_failed_fork(number, str(error))
            return
        if pid == 0:
            self._run_worker(message, wire_fd)
        os.close(wire_fd)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            # It is a child and not reaped yet, so its pid cannot have been reused.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._report_failed_fork(number, str(error))
            return
        worker = _WorkerProcess(number, pid, pidfd)
        self._by_pid[pid] = self._by_pidfd[pidfd] = worker
        self._poll.register(pidfd, select.POLLIN)
        _send(self._control, {"forked": number}, (pidfd,))

    def _run_worker(self, message: dict[str, Any], wire_fd: int) -> None:
        try:
            self._control.detach()
            signal.signal(PLACE_SIGNAL, self._runtime.report_place)
            restorer = self._jail.restorer
            if restorer is not None and not restorer.hand_over(
                wire_fd, message["fork"], message["cpu"]
            ):
                self._serve_repeatedly(restorer, message, wire_fd)
            wire = Wire(enter_worker_jail(self._jail, wire_fd, message["memory"], message["cpu"]))
            wire.send(Kind.READY, b"[]")
            self._runtime.serve(wire)
        finally:
            # No unwinding, no __del__, no atexit: no more code of the script runs.
            os._exit(0)

    def _serve_repeatedly(
        self, restorer: Restorer, message: dict[str, Any], wire_fd: int
    ) -> NoReturn:
        """Serve runs, after each of which the restorer puts this process back to its mark."""
        cpu = message["cpu"]
        sock = confine_worker(self._jail, wire_fd, message["memory"], cpu, _LIFETIMES * cpu)
        lock_down(self._jail, traced=True)
        self._runtime.warm()
        wire = Wire(sock)
        restorer.reach_mark()
        # From here after each restoring, too. The restorer has announced this worker.
        self._runtime.serve(wire)
        restorer.reach_mark()
        os._exit(1)  # never: it is stopped until it is restored or killed

    def _take_listener(self) -> None:
        """Receive the listener of a worker that has entered its jail."""
        assert self._jail.listener_socket is not None  # noqa: S101  # it was readable
        pid, listener = self._jail.listener_socket.receive_listener()
        worker = self._by_pid.get(pid)
        if worker is None:  # it has already exited
            if listener is not None:
                os.close(listener)
        elif listener is None:
            # Its forbidden calls would fail without a report: do not let it run.
            signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)
        else:
            self._close_listener(worker)
            worker.listener = listener
            self._by_listener[listener] = worker
            self._poll.register(listener, select.POLLIN)

    def _handle_stopped_call(self, worker: _WorkerProcess, events: int) -> None:
        """Handle a worker that was stopped in a call, or has exited. It is never answered."""
        assert worker.listener is not None  # noqa: S101  # the event came from it
        if events & select.POLLIN and worker.call is None:
            worker.call = read_stopped_call(worker.listener)
            if worker.call is not None:
                signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)
        if events & (select.POLLHUP | select.POLLERR):
            self._close_listener(worker)

    def _close_listener(self, worker: _WorkerProcess) -> None:
        if worker.listener is not None:
            self._poll.unregister(worker.listener)
            del self._by_listener[worker.listener]
            os.close(worker.listener)
            worker.listener = None

    def _reap(self, worker: _WorkerProcess) -> None:
        # Descriptor numbers are reused: the event may belong to an older one.
        pid, status, spent = os.wait4(worker.pid, os.WNOHANG)
        if pid == 0:
            return
        self._close_listener(worker)
        self._poll.unregister(worker.pidfd)
        os.close(worker.pidfd)
        del self._by_pidfd[worker.pidfd], self._by_pid[pid]
        ended = {
            "exited": worker.number,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            "call": worker.call,
            # ru_maxrss counts all pages shared with this process: subtract them.
            "memory": max(0, spent.ru_maxrss - self._own_kib) << 10,
        }
        _send(self._control, ended)
