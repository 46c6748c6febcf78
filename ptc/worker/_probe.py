"""Probe of the jail: tries every layer in a fork that went through the same jail.

One fork tries everything: the zygote's layers, then a worker's own, then the filter, which kills
it. The probe runs once when a zygote starts, so that a session fails closed, and ``ptc doctor``
shows its report.
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
from collections.abc import Callable

from ._inheritance import KNOWN_ENVIRONMENT
from ._isolation import ZygoteJail
from ._jail import OOM_FIRST
from ._layers import STILL_ALIVE, UNDER_FILTER, Findings, Layer, make_report
from ._listener import read_stopped_call
from ._worker_jail import confine_worker, lock_down
from .kernel import _libc

__all__ = ["probe_layers"]

_MEMORY_BYTES = 64 << 20
_CPU_SECONDS = 5
_TIMEOUT_MS = 10_000
_MAX_DESCRIPTORS = 1024


def probe_layers(jail: ZygoteJail) -> tuple[Layer, ...]:
    """Try every layer in one forked child and report; called by the zygote in its jail.

    A layer that is off raises nothing: `require_layers` decides.

    Raises:
        OSError: If no child could be forked at all.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _run_probe(jail, theirs.fileno())
        finally:
            os._exit(1)
    theirs.close()
    with ours:
        receiver = _Receiver(ours, jail)
        receiver.receive(child)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return make_report(jail, receiver.report, status, receiver.call)


class _Receiver:
    """Receiver of the probe's report and of the call at which its filter stopped it."""

    def __init__(self, ours: socket.socket, jail: ZygoteJail) -> None:
        self.report = b""
        self.call: tuple[int, ...] | None = None
        self._ours = ours
        self._listener_socket = jail.listener_socket
        self._listener = -1
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        if self._listener_socket is not None:
            self._poll.register(self._listener_socket, select.POLLIN)

    def receive(self, child: int) -> None:
        """Receive until the child exits, is stopped in a call, or exceeds `_TIMEOUT_MS`.

        In the last two cases the child is killed, before its listener is closed: without a
        listener the call would fail and the child continue.
        """
        try:
            while ready := self._poll.poll(_TIMEOUT_MS):
                for fd, _ in ready:
                    if self._handle(fd):
                        if self.call is not None:
                            os.kill(child, signal.SIGKILL)
                            self.report += _read_rest(self._ours)
                        return
            os.kill(child, signal.SIGKILL)
            self.report = b""
        finally:
            if self._listener >= 0:
                os.close(self._listener)

    def _handle(self, fd: int) -> bool:
        """Handle a readable descriptor; True if nothing more is to be received."""
        if fd == self._listener:
            self.call = read_stopped_call(fd)
            self._poll.unregister(fd)
            return self.call is not None
        if fd == self._ours.fileno():
            return not self._read_report()
        if self._listener_socket is not None:
            self._listener = self._listener_socket.receive_listener()[1] or -1
            if self._listener >= 0:
                self._poll.register(self._listener, select.POLLIN)
        return False

    def _read_report(self) -> bool:
        try:
            chunk = self._ours.recv(65536)
        except OSError:
            return False
        self.report += chunk
        return bool(chunk)


def _read_rest(ours: socket.socket) -> bytes:
    """Read the available bytes; the stopped child sends no more."""
    report = b""
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while chunk := ours.recv(65536):
            report += chunk
    return report


def _run_probe(jail: ZygoteJail, wire_fd: int) -> None:
    """Run in the child: try every layer, send the findings, then be killed by the filter."""
    found: Findings = {}
    if jail.confines:
        found |= _probe_zygote_layers()
    wire = confine_worker(jail, wire_fd, _MEMORY_BYTES, _CPU_SECONDS)
    found |= _probe_worker_layers(jail)
    problem = lock_down(jail, lambda: found.update(files=_limits_are_zero(resource.RLIMIT_NOFILE)))
    found["descriptors"] = _holds_only_the_wire(jail)
    found["violation_names"] = (not problem, problem)
    wire.sendall(json.dumps(found).encode() + UNDER_FILTER)  # the filter allows sending ...
    if jail.filter is None:
        return
    try:
        os.open("/", os.O_RDONLY)  # ... and nothing else: the process is killed here
    except OSError:
        wire.sendall(STILL_ALIVE)


def _probe_zygote_layers() -> Findings:
    # Before the limits: without a free descriptor, open() and socket() fail for that reason alone.
    return {
        "landlock": _fails_with({errno.EACCES}, lambda: os.close(os.open("/", os.O_RDONLY))),
        "empty_root": _root_is_empty(),
        "namespace_net": _fails_with(
            {errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT}, _reach_out
        ),
        "code_memory": _fails_with(
            {errno.EACCES},
            lambda: mmap.mmap(
                -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            ).close(),
        ),
    }


def _probe_worker_layers(jail: ZygoteJail) -> Findings:
    found = {
        "cpu": _limit_is(resource.RLIMIT_CPU, _CPU_SECONDS, _CPU_SECONDS + 1),
        "memory": _memory_runs_out(jail),
        "processes": _fails_with({errno.EAGAIN}, _fork),
        "environment": _environment_is_empty(jail),
        "file_size": _limits_are_zero(resource.RLIMIT_FSIZE, resource.RLIMIT_CORE),
        "goes_first": (jail.oom_score == OOM_FIRST, f"score {jail.oom_score} of {OOM_FIRST}"),
        "session": (os.getsid(0) == os.getpid(), f"session {os.getsid(0)}, process {os.getpid()}"),
    }
    if _libc.LINUX:
        found |= {
            "no_new_privs": _prctl_is(_libc.PR_GET_NO_NEW_PRIVS, 1),
            "not_dumpable": _prctl_is(_libc.PR_GET_DUMPABLE, 0),
            "capabilities": _no_capabilities(jail),
            "parent_death": _dies_with_the_zygote(),
        }
    return found


def _fails_with(reasons: set[int], attempt: Callable[[], object]) -> tuple[bool, str]:
    """Check that the attempt fails with one of these error numbers."""
    try:
        attempt()
    except OSError as error:
        return error.errno in reasons, errno.errorcode.get(error.errno or 0, str(error))
    return False, "it was allowed"


def _reach_out() -> None:
    """Connect over UDP, which Landlock does not cover: only a network namespace stops it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # TEST-NET-1, RFC 5737; connecting UDP sends nothing


def _root_is_empty() -> tuple[bool, str]:
    seen = [path for path in ("/proc", "/sys", "/dev", "/etc", "/usr") if os.path.exists(path)]
    if seen:
        return False, f"{' '.join(seen)} exist"
    read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    return read_only, "read-only tmpfs" if read_only else "the root can be written"


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _limit_is(which: int, soft: int, hard: int) -> tuple[bool, str]:
    seen = resource.getrlimit(which)
    return seen == (soft, hard), f"limits {seen[0]} and {seen[1]}"


def _memory_runs_out(jail: ZygoteJail) -> tuple[bool, str]:
    if not jail.baseline_bytes:
        return False, "this system does not report the size of the zygote"
    limit = jail.baseline_bytes + _MEMORY_BYTES
    held, detail = _limit_is(resource.RLIMIT_AS, limit, limit)
    try:
        bytearray(2 * _MEMORY_BYTES)
    except MemoryError:
        return held, f"baseline {jail.baseline_bytes >> 20} MiB"
    return False, f"twice the memory was allocated; {detail}"


def _limits_are_zero(*names: int) -> tuple[bool, str]:
    seen = [resource.getrlimit(which) for which in names]
    return all(limit == (0, 0) for limit in seen), f"limits {seen}"


def _holds_only_the_wire(jail: ZygoteJail) -> tuple[bool, str]:
    """Close every descriptor number to find open ones; the filter allows only that call."""
    seen = []
    for descriptor in range(_MAX_DESCRIPTORS):
        if descriptor == jail.wire_fd:
            continue
        with contextlib.suppress(OSError):
            os.close(descriptor)
            seen.append(descriptor)
    return not seen, f"open besides the wire: {seen}"


def _environment_is_empty(jail: ZygoteJail) -> tuple[bool, str]:
    foreign = sorted((jail.started_with | set(os.environ)) - KNOWN_ENVIRONMENT)
    if foreign:
        return False, f"the zygote was started with {', '.join(foreign)}; start it with none"
    return True, f"only {', '.join(sorted(os.environ))}"


def _prctl_is(option: int, wanted: int) -> tuple[bool, str]:
    seen = _libc.prctl(option)
    return seen == wanted, f"prctl returned {seen}"


def _no_capabilities(jail: ZygoteJail) -> tuple[bool, str]:
    held = _libc.capabilities()
    return held == 0, f"held {held:#x}; {jail.notes.get('capabilities', 'bounding set empty')}"


def _dies_with_the_zygote() -> tuple[bool, str]:
    seen = _libc.parent_death_signal()
    return seen == signal.SIGKILL, f"signal {seen}"
