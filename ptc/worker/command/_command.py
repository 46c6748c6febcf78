"""Entry of a confined command: ``python -I -S -c ENTRY FOLDER SPEC LIFELINE REPORT``.

One process a command: it enters the namespaces, forks the command, waits, and sees to it that
nothing of it is left. It is started by name, since the host has threads, in which no Python may
run between fork and exec.

Rule 1: When this process has ended, so has every process the command started.
    (test_no_process_of_a_command_survives_it)
Rule 2: If the host goes away, for whatever reason, the command is killed.
    (test_a_command_dies_with_its_host)
Rule 3: The command cannot speak for this process: it holds neither the report nor the lifeline,
    nor the listener of its own filter. (test_a_command_holds_no_descriptor_but_its_streams)

With a PID namespace there is a second process, the first one inside, whose end is by the kernel
the end of all others in it. Without one, orphans come to this process (PR_SET_CHILD_SUBREAPER),
which kills descendants until there is none.

Where paths in the root are protected this process is also the command's broker (`_broker`).

SPEC is a file: fields that end in NUL, see `_Spec`. REPORT takes lines. The first one says how the
command ended: ``exit N``, ``signal N``, ``refused TEXT``, ``missing ERRNO TEXT`` if the program
could not be started, or ``fault TEXT``. Others are ``protected RULE LIFTED-BY PATH``: a change that
was refused.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys

from ..._protected import Protection
from ..kernel import _libc
from . import _filter, _jail
from ._broker import Broker, Places, take
from ._broker_calls import handlers

TYPE_CHECKING = False  # As `typing` says, which takes 3 ms to import.
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["main"]

_MAX_FILE_BYTES = 8 << 30
_ROUNDS = 10_000


class _Spec:
    """What to run and how, as the host wrote it."""

    def __init__(self, data: bytes) -> None:
        fields = iter(data.split(b"\0"))
        self.network = next(fields) == b"network"
        self.required = next(fields) == b"required"
        changes = next(fields)
        self.writable = changes != b"fixed"
        self.brokered = changes == b"brokered"
        """True: the launcher makes the changes in the root, but not to what is protected."""
        self.max_memory_bytes = int(next(fields))
        self.root = next(fields)
        self.cwd = next(fields)
        """Beneath the root, without links; empty for the root."""
        self.tmp = next(fields)
        lists = []
        for _ in range(6):
            lists.append([next(fields) for _ in range(int(next(fields)))])
        self.readable, self.programs, environment, self.argv, lifted, home = lists
        """`programs`: all that may be executed; empty for what can be read."""
        self.protection = Protection(
            map(os.fsdecode, lifted),
            # ``.`` first: of a home that is the root there are no further names.
            [os.fsdecode(name) for name in home[1:]] if home else None,
        )
        pairs = [item.partition(b"=") for item in environment]
        self.environment = {name: value for name, _, value in pairs}


def main() -> NoReturn:
    """Run the command that the arguments name, then exit with status 0."""
    spec_fd, lifeline, report = map(int, sys.argv[1:4])
    try:
        _run(_Spec(_read_all(spec_fd)), lifeline, report)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the host hears of it
        _say(report, f"fault {type(error).__name__}: {error}")
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


def _say(report: int, line: str) -> None:
    # If the host has gone, the lifeline says so too.
    with contextlib.suppress(OSError):
        os.write(report, line.encode("utf-8", "replace")[:4_000] + b"\n")


def _run(spec: _Spec, lifeline: int, report: int) -> None:
    lacking = _jail.problems(brokered=spec.brokered)
    if spec.required and lacking:
        _say(report, "refused " + "; ".join(lacking))
        return
    guard = _Guard(spec) if spec.brokered and not lacking else None
    entered = _jail.enter_namespaces(network=spec.network)
    if "pid" in entered:
        child = os.fork()
        if child == 0:
            _first_process(spec, entered, lifeline, report, guard)
    else:
        settled = _jail.settle(entered, spec.root, spec.tmp, writable=spec.writable)
        _jail.isolate_process_tree()
        child = os.fork()
        if child == 0:
            _become_command(spec, entered, settled, lifeline, report, guard)
    _let_go_of_streams()
    if guard is not None:
        guard.stand_by()
    status = _wait(child, lifeline, guard)
    if "pid" not in entered:
        _kill_descendants()
        if status is not None:
            _say_end(report, status)
    if guard is not None:
        guard.tell(report)


class _Guard:
    """The broker of a command, from before the command has started."""

    def __init__(self, spec: _Spec) -> None:
        import _socket

        self._protection = spec.protection
        self._places = Places(spec.root)
        self._near, self.far = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        """`far` is what the command sends its listener on, before it is one."""
        self._broker: Broker | None = None

    def withdraw(self) -> None:
        """Called in a process that stands between: hold nothing of it."""
        self._near.close()
        self.far.close()

    def stand_by(self) -> None:
        """Called in the launcher when the command has been forked: have no more power than it."""
        self.far.close()
        _libc.drop_capabilities()

    def register(self, poll: select.poll) -> None:
        """Wait for the listener."""
        poll.register(self._near.fileno(), select.POLLIN)

    def wait_ms(self) -> int | None:
        """How long `poll` may wait; None: for ever."""
        return 10 if self._broker is not None and self._broker.is_waiting else None

    def attend(self, events: list[tuple[int, int]], poll: select.poll) -> None:
        """Do what there is to do."""
        for fd, what in events:
            if fd == self._near.fileno():
                poll.unregister(fd)
                taken = take(self._near)
                if taken is not None:
                    listener, self._places.scratch = taken
                    numbers = handlers(_filter.numbers())
                    self._broker = Broker(listener, self._places, self._protection, numbers)
                    poll.register(listener, select.POLLIN)
            elif self._broker is not None and fd == self._broker.listener:
                if what & select.POLLIN:
                    self._broker.serve()
                else:
                    poll.unregister(fd)  # Nobody is left who could ask.
        if self._broker is not None and self._broker.is_waiting:
            self._broker.retry()

    def tell(self, report: int) -> None:
        """Report what was refused."""
        if self._broker is not None:
            for path, rule, entry in self._broker.refusals:
                shown = path.replace("\n", "\\n")
                _say(report, f"protected {rule} {entry} {shown}")


def _wait(child: int, lifeline: int, guard: _Guard | None) -> int | None:
    """Wait for `child`; kill it and give None if the host closes the lifeline first."""
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
            guard.attend(events, poll)
    ended = watched in ready
    if not ended:
        signal.pidfd_send_signal(watched, signal.SIGKILL)
    # For the first process of a PID namespace this returns when all others in it are gone.
    status = os.waitpid(child, 0)[1]
    return status if ended else None


def _say_end(report: int, status: int) -> None:
    # If the command could not be started a line before this one says so; the first one counts.
    code = os.waitstatus_to_exitcode(status)
    _say(report, f"signal {-code}" if code < 0 else f"exit {code}")


def _first_process(
    spec: _Spec, entered: frozenset[str], lifeline: int, report: int, guard: _Guard | None
) -> NoReturn:
    """Be process 1 of the namespace: start the command, collect orphans, end with it."""
    try:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
        settled = _jail.settle(entered, spec.root, spec.tmp, writable=spec.writable)
        child = os.fork()
        if child == 0:
            _become_command(spec, entered, settled, lifeline, report, guard)
        _let_go_of_streams()
        if guard is not None:
            guard.withdraw()
        # Not even another process of the same user may look into this one.
        _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
        _libc.drop_capabilities()
        _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == child:
                _say_end(report, status)
                os._exit(0)
    except BaseException as error:  # noqa: BLE001 - as in `main`
        _say(report, f"fault {type(error).__name__}: {error}")
    os._exit(1)


def _let_go_of_streams() -> None:
    """Only the command holds its streams: they end when it does."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _become_command(
    spec: _Spec,
    entered: frozenset[str],
    settled: frozenset[str],
    lifeline: int,
    report: int,
    guard: _Guard | None,
) -> NoReturn:
    try:
        os.close(lifeline)
        os.setsid()
        # Python ignores these two; programs expect the default.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        _limit(spec.max_memory_bytes)
        os.chdir(os.path.join(spec.root, spec.cwd))
        _jail.confine(
            entered,
            settled,
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
            _say(report, f"missing {error.errno} {error.strerror}")
    except _jail.Refused as refused:
        _say(report, f"refused {refused}")
    except BaseException as error:  # noqa: BLE001 - as in `main`
        _say(report, f"fault {type(error).__name__}: {error}")
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
    """Kill and collect until nothing is left of what was started under this process."""
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
                    # The program's name is in brackets and may hold anything, brackets too.
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
