"""Entry of a confined command: ``python -I -S -c ENTRY FOLDER SPEC LIFELINE REPORT``.

One launcher process per command: it enters the namespaces, forks the command, waits for it, and
kills every process that is left. It is executed as a new program because the host has threads, and
no Python may run between fork and exec in a threaded process.

Rule 1: When this process has exited, so has every process that the command started.
    (test_no_process_of_a_command_survives_it)
Rule 2: If the host dies for any reason, the command is killed.
    (test_a_command_dies_with_its_host)
Rule 3: The command cannot impersonate this process: it holds neither the report nor the lifeline,
    nor the listener of its own filter. (test_command_has_no_descriptor_but_its_streams)

With a PID namespace there is a second process, the first one inside; when it exits, the kernel
kills all others in the namespace. Without one, orphans are reparented to this process
(PR_SET_CHILD_SUBREAPER), which kills descendants until none is left.

If paths in the root are protected, this process is also the command's broker (`_broker`).

SPEC is a file of NUL-terminated fields, see `_Spec`. REPORT receives lines. The first one is the
outcome of the command: ``exit N``, ``signal N``, ``refused TEXT``, ``missing ERRNO TEXT`` if the
program could not be started, or ``fault TEXT``. Others are ``protected RULE LIFTED-BY PATH``, one
for each refused change.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import warnings  # noqa: F401  # `os.execvpe` imports it: too late once files are confined

from ..._protected import Protection
from ..kernel import _libc
from . import _filter, _jail, _mounts
from ._broker import Broker, receive_listener
from ._broker_calls import handlers
from ._folders import Folders

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]

_MAX_FILE_BYTES = 8 << 30
_ROUNDS = 10_000


class _Spec:
    """The command and its settings, as written by the host."""

    def __init__(self, data: bytes) -> None:
        fields = iter(data.split(b"\0"))
        self.network = next(fields) == b"network"
        self.required = next(fields) == b"required"
        changes = next(fields)
        self.writable = changes != b"fixed"
        self.brokered = changes == b"brokered"
        """True: the launcher makes the changes in the root, except to protected paths."""
        self.max_memory_bytes = int(next(fields))
        self.root = next(fields)
        self.cwd = next(fields)
        """Relative to the root, without links; empty for the root."""
        self.tmp = next(fields)
        lists = []
        for _ in range(7):
            lists.append([next(fields) for _ in range(int(next(fields)))])
        self.readable, self.programs, environment, self.argv, lifted, home, files = lists
        """`programs`: files that may be executed; empty for every readable file."""
        self.protection = Protection(
            map(os.fsdecode, lifted),
            # ``.`` first: a home that is the root has no further names.
            [os.fsdecode(name) for name in home[1:]] if home else None,
            map(os.fsdecode, files),
        )
        pairs = [item.partition(b"=") for item in environment]
        self.environment = {name: value for name, _, value in pairs}


def main() -> NoReturn:
    """Run the command that the arguments name, then exit with status 0."""
    spec_fd, lifeline, report = map(int, sys.argv[1:4])
    try:
        _run(_Spec(_read_all(spec_fd)), lifeline, report)
    except BaseException as error:  # noqa: BLE001 - any error is reported to the host
        _report(report, f"fault {type(error).__name__}: {error}")
        os._exit(1)
    os._exit(0)


def _read_all(fd: int) -> bytes:
    parts = []
    offset = 0
    while part := os.pread(fd, 1 << 16, offset):
        parts.append(part)
        offset += len(part)
    os.close(fd)
    return b"".join(parts)


def _report(report: int, line: str) -> None:
    # If the host has died, the lifeline closes too.
    with contextlib.suppress(OSError):
        os.write(report, line.encode("utf-8", "replace")[:4_000] + b"\n")


def _run(spec: _Spec, lifeline: int, report: int) -> None:
    missing = _jail.missing_layers(brokered=spec.brokered)
    if spec.required and missing:
        _report(report, "refused " + "; ".join(missing))
        return
    guard = _Guard(spec) if spec.brokered and not missing else None
    entered = _jail.enter_namespaces(network=spec.network)
    if "pid" in entered:
        child = os.fork()
        if child == 0:
            _first_process(spec, entered, lifeline, report, guard)
    else:
        mounts = _mounts.set_up_mounts(entered, spec.root, spec.tmp, writable=spec.writable)
        _jail.isolate_process_tree()
        child = os.fork()
        if child == 0:
            _become_command(spec, entered, mounts, lifeline, report, guard)
    _release_streams()
    if guard is not None:
        guard.drop_privileges()
    status = _wait(child, lifeline, guard)
    if "pid" not in entered:
        _kill_descendants()
        if status is not None:
            _report_exit(report, status)
    if guard is not None:
        guard.report_refusals(report)


class _Guard:
    """Holder of a command's broker, created before the command starts."""

    def __init__(self, spec: _Spec) -> None:
        import _socket

        self._protection = spec.protection
        self._folders = Folders(spec.root)
        self._near, self.far = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        """The process that becomes the command sends its listener on `far`."""
        self._broker: Broker | None = None

    def close_sockets(self) -> None:
        """Close the sockets in the process between the launcher and the command."""
        self._near.close()
        self.far.close()

    def drop_privileges(self) -> None:
        """Drop all capabilities in the launcher after the command was forked."""
        self.far.close()
        _libc.drop_capabilities()

    def register(self, poll: select.poll) -> None:
        """Register for the arrival of the listener."""
        poll.register(self._near.fileno(), select.POLLIN)

    def wait_ms(self) -> int | None:
        """Return the time-out for `poll`; None waits indefinitely."""
        return 10 if self._broker is not None and self._broker.has_blocked else None

    def handle(self, events: list[tuple[int, int]], poll: select.poll) -> None:
        """Handle the events of `poll`: receive the listener, serve and retry its calls."""
        for fd, what in events:
            if fd == self._near.fileno():
                poll.unregister(fd)
                taken = receive_listener(self._near)
                if taken is not None:
                    listener, self._folders.scratch = taken
                    numbers = handlers(_filter.numbers())
                    self._broker = Broker(listener, self._folders, self._protection, numbers)
                    poll.register(listener, select.POLLIN)
            elif self._broker is not None and fd == self._broker.listener:
                if what & select.POLLIN:
                    self._broker.serve()
                else:
                    poll.unregister(fd)  # No process of the command is left.
        if self._broker is not None and self._broker.has_blocked:
            self._broker.retry()

    def report_refusals(self, report: int) -> None:
        """Report the refused changes."""
        if self._broker is not None:
            for path, rule, entry in self._broker.refusals:
                shown = path.replace("\n", "\\n")
                _report(report, f"protected {rule} {entry} {shown}")


def _wait(child: int, lifeline: int, guard: _Guard | None) -> int | None:
    """Wait for `child`; kill it and return None if the host closes the lifeline first."""
    watched = os.pidfd_open(child)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    if guard is not None:
        guard.register(poll)
    ready: set[int] = set()
    while not {watched, lifeline} & ready:
        events = poll.poll(None if guard is None else guard.wait_ms())
        ready = {fd for fd, _ in events}
        if guard is not None:
            guard.handle(events, poll)
    exited = watched in ready
    if not exited:
        signal.pidfd_send_signal(watched, signal.SIGKILL)
    # For the first process of a PID namespace this returns after all others in it have exited.
    status = os.waitpid(child, 0)[1]
    return status if exited else None


def _report_exit(report: int, status: int) -> None:
    # If the command could not be started, an earlier line reports it; the first line counts.
    code = os.waitstatus_to_exitcode(status)
    _report(report, f"signal {-code}" if code < 0 else f"exit {code}")


def _first_process(
    spec: _Spec, entered: frozenset[str], lifeline: int, report: int, guard: _Guard | None
) -> NoReturn:
    """Run as process 1 of the namespace: start the command, reap orphans, exit with it."""
    try:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        mounts = _mounts.set_up_mounts(entered, spec.root, spec.tmp, writable=spec.writable)
        child = os.fork()
        if child == 0:
            _become_command(spec, entered, mounts, lifeline, report, guard)
        _release_streams()
        if guard is not None:
            guard.close_sockets()
        # No other process may inspect this one, not even of the same user.
        _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
        _libc.drop_capabilities()
        _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
        while True:
            exited, status = os.waitpid(-1, 0)
            if exited == child:
                _report_exit(report, status)
                os._exit(0)
    except BaseException as error:  # noqa: BLE001 - as in `main`
        _report(report, f"fault {type(error).__name__}: {error}")
    os._exit(1)


def _release_streams() -> None:
    """Redirect the standard streams to /dev/null, so that they close when the command exits."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _become_command(
    spec: _Spec,
    entered: frozenset[str],
    mounts: frozenset[str],
    lifeline: int,
    report: int,
    guard: _Guard | None,
) -> NoReturn:
    try:
        os.close(lifeline)
        os.setsid()
        # Python ignores these two signals; programs expect the default.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        _limit(spec.max_memory_bytes)
        os.chdir(os.path.join(spec.root, spec.cwd))
        _jail.confine(
            entered,
            mounts,
            root=spec.root,
            tmp=spec.tmp,
            readable=spec.readable,
            programs=spec.programs,
            writable=spec.writable,
            network=spec.network,
            required=spec.required,
            handover=None if guard is None else guard.far,
        )
        os.set_inheritable(report, False)
        _libc.close_range(3, report - 1)
        _libc.close_range(report + 1)
        try:
            os.execvpe(spec.argv[0], spec.argv, spec.environment)  # noqa: S606 - the purpose
        except OSError as error:
            _report(report, f"missing {error.errno} {error.strerror}")
    except _jail.MissingLayerError as refused:
        _report(report, f"refused {refused}")
    except BaseException as error:  # noqa: BLE001 - as in `main`
        _report(report, f"fault {type(error).__name__}: {error}")
    os._exit(125)


def _limit(max_memory_bytes: int) -> None:
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": _MAX_FILE_BYTES}
    if max_memory_bytes:
        limits["RLIMIT_AS"] = max_memory_bytes
    for name, value in limits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _kill_descendants() -> None:
    """Kill and reap until this process has no descendants."""
    for _ in range(_ROUNDS):
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The program's name is in brackets and may contain anything, also brackets.
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
