"""The second fence: what the kernel refuses to a worker, and in which order that goes on.

Rule 1: A layer that the isolation level requires is on, or nothing starts; no weaker level is
    ever chosen silently. (test_a_missing_landlock_stops_the_start_and_names_the_way_out)
Rule 2: A raw script with full use of the C library gets nothing: no file, process, socket, clock
    of another process, or memory that can be executed, with or without namespaces.
    (test_no_escape_probe_succeeds)
Rule 3: What a worker may not do ends it, the call is known by name, and nothing an ordinary script
    does is answered that way. (test_a_forbidden_system_call_ends_the_worker_and_is_known_by_name,
    test_ordinary_work_survives_the_filter)
Rule 4: A worker holds one descriptor, its wire. (test_a_worker_holds_its_wire_and_nothing_else)
Rule 5: A worker dies with its zygote, and the host can kill it at any time.
    (test_workers_die_with_the_zygote, test_the_host_kills_a_worker_by_its_pidfd)
Rule 6: Every layer is reported by a probe that tried it, not by the call that set it.
    (test_every_required_layer_is_on_and_says_how_it_was_verified)

The order, and why: namespaces first, they need powers that the later layers take away; then the
empty root; then the capabilities; then Landlock. All of that survives a fork and is paid once, in
the zygote. A worker adds what is its own: session, descriptors, limits, and the filter last,
because the filter forbids every step before it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from ._witness import Witness
from .kernel import _landlock, _libc, _namespaces, _seccomp

__all__ = [
    "ISOLATION_LEVELS",
    "JAIL",
    "PROCESS",
    "TEST_ONLY",
    "JailError",
    "ZygoteJail",
    "confine_worker",
    "enter_worker_jail",
    "enter_zygote_jail",
    "shut",
]

JAIL = "jail"
"""The default level: seccomp, Landlock, limits and no_new_privs are required, namespaces used."""
PROCESS = "process"
"""Every layer of `JAIL` that the kernel offers; seccomp and Landlock are not required. Where one is
missing, one bug in the language layer gives a script the rights of the user."""
TEST_ONLY = "none"
"""No kernel layer but limits on memory and CPU time, for the tests of the language layer. Sessions
get it from `ptc.testing.NO_KERNEL_LAYER` only."""
ISOLATION_LEVELS = frozenset({JAIL, PROCESS, TEST_ONLY})

NOBODY = 65534
"""User and group a zygote started by root becomes: limits on processes do not bind root."""

KNOWN_ENVIRONMENT = frozenset({"PYTHONHASHSEED", "TZ", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"})
"""Variables that may be there: ours, and what CPython (PEP 538) and macOS add by themselves."""

LANDLOCK_ABI_WANTED = 4
"""Linux 6.7. Older ones do not refuse truncate (before 3) and TCP (before 4)."""

OOM_FIRST = 1000
"""The most there is: `OOM_SCORE_ADJ_MAX` of ``include/uapi/linux/oom.h``."""

ZYGOTE_FILES = 1024
"""Descriptors a zygote may have: a pidfd and a listener for each of up to 320 workers (64 ready,
256 in runs), its control socket and, in passing, wires."""

_ANY_LEVEL_LIMITS = {"RLIMIT_CORE": 0}
_STATIC_LIMITS = {
    **_ANY_LEVEL_LIMITS,
    "RLIMIT_FSIZE": 0,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_NICE": 0,
    "RLIMIT_RTPRIO": 0,
    "RLIMIT_SIGPENDING": 16,
    "RLIMIT_STACK": 8 << 20,
    "RLIMIT_NOFILE": ZYGOTE_FILES,
}

_WAY_OUT = (
    'Fix that, or name the weaker isolation level "process", which does without: one bug in the '
    "language layer is then your own user's rights."
)


class JailError(Exception):
    """Raised when a required layer cannot be put on. Says which, what it needs, the way out.

    Attributes:
        layer: Name of the missing layer.
    """

    def __init__(self, layer: str, problem: str, way_out: str = _WAY_OUT) -> None:
        super().__init__(f"jail layer {layer!r} is missing: {problem} {way_out}")
        self.layer = layer


@dataclass(frozen=True, slots=True)
class ZygoteJail:
    """What a zygote put on, and what its workers need to put on the rest."""

    isolation: str
    """`JAIL`, `PROCESS` or `TEST_ONLY`."""
    baseline_bytes: int
    """Address space of the zygote before any script; a worker's limit counts from here.
    0 where it cannot be measured (no Linux): there is no limit on memory then."""
    started_with: frozenset[str]
    """Names of the environment variables the zygote was started with."""
    namespaces: frozenset[str]
    """Namespaces that differ from the host's, by the kernel's own names for them."""
    empty_root: bool
    """True if the root is an empty read-only file system."""
    landlock_abi: int
    """ABI in force, 0 for none."""
    landlock_masks: tuple[int, int, int]
    """Rights refused: file system, network, scope."""
    notes: dict[str, str]
    """Why something optional is not on, by layer."""
    oom_score: int
    """How early the kernel's out-of-memory killer takes it, up to 1000; 0 where that is unknown."""
    zygote_pid: int
    """The zygote's own process id as a worker sees it; 1 in a PID namespace."""
    wire_fd: int
    """Number every worker's wire gets. Not the control socket's: an object of the zygote that
    closes its socket late must not close the wire."""
    filter: _seccomp.Filter | None
    """The workers' system call filter that kills; None where there is none."""
    witness: Witness | None
    """Learns which call a worker was stopped at, and holds the filter for it; None without one."""

    @property
    def confines(self) -> bool:
        """True unless the kernel layer is off, for tests."""
        return self.isolation != TEST_ONLY


def enter_zygote_jail(isolation: str, control_fd: int) -> ZygoteJail:
    """Put on everything that survives a fork. Returns in the process that goes on as zygote.

    Call it when everything is imported, before any thread: afterwards there is no file left to
    import from. With namespaces the caller's process stays behind as an empty shell that waits
    for the zygote and exits with its status; killing either kills every worker. The environment
    is emptied but for ``TZ=UTC0``: with no zone set, the C library would look for one in /etc
    every time a script formats a local time. Descriptors 0, 1 and 2 become /dev/null.

    Args:
        isolation: One of `ISOLATION_LEVELS`.
        control_fd: The one descriptor to keep, 3 or above.

    Raises:
        JailError: If a layer the level requires is missing.
        ValueError: If an argument is none of those above.
    """
    if isolation not in ISOLATION_LEVELS:
        msg = f"isolation must be one of {sorted(ISOLATION_LEVELS)}, not {isolation!r}"
        raise ValueError(msg)
    if control_fd < 3:
        msg = f"control_fd must be 3 or above, not {control_fd}: 0, 1 and 2 become /dev/null"
        raise ValueError(msg)
    try:
        return _enter(isolation, control_fd)
    except OSError as error:
        raise JailError(
            "start", f"the kernel refused a step that never fails ({error})."
        ) from error


def _enter(isolation: str, control_fd: int) -> ZygoteJail:
    notes: dict[str, str] = {}
    table = None if isolation == TEST_ONLY else _look_at_the_kernel(notes)
    if isolation == JAIL:
        _require(notes)
    baseline = _address_space_bytes(required=isolation == JAIL)
    oom_score = _go_first_when_memory_runs_out()
    started_with = _empty_environment()
    _libc.one_malloc_arena()
    _keep_only(control_fd)
    _leave_the_terminal()
    _leave_root(notes)
    namespaces, empty_root = frozenset[str](), False
    abi, masks = 0, (0, 0, 0)
    if isolation == TEST_ONLY:
        _limit(_ANY_LEVEL_LIMITS)
    else:
        if _libc.LINUX:
            namespaces, empty_root = _enter_namespaces(notes)
        _limit(_STATIC_LIMITS)
        _give_up_powers(notes)
        closed = empty_root and "net" in namespaces
        abi, masks = _restrict_files(notes, closed=closed, required=isolation == JAIL)
    wire_fd = 4 if control_fd == 3 else 3
    notice_fd = wire_fd + 2 if control_fd == wire_fd + 1 else wire_fd + 1
    tells = _seccomp.build(table, wire_fd, notice_fd) if table else None
    return ZygoteJail(
        isolation=isolation,
        baseline_bytes=baseline,
        started_with=started_with,
        namespaces=namespaces,
        empty_root=empty_root,
        landlock_abi=abi,
        landlock_masks=masks,
        notes=notes,
        oom_score=oom_score,
        zygote_pid=os.getpid(),
        wire_fd=wire_fd,
        filter=_seccomp.build(table, wire_fd) if table else None,
        witness=Witness(tells, notice_fd) if tells else None,
    )


def enter_worker_jail(
    jail: ZygoteJail, wire_fd: int, memory_bytes: int, cpu_seconds: int
) -> socket.socket:
    """Put on a worker's own part, in a fresh fork of the zygote; about 0.3 ms.

    Returns the wire as a blocking socket on `jail.wire_fd`, made before the filter because making
    one asks the kernel questions the filter forbids. Only `send`, `sendall`, `recv` and
    `recv_into` work on it afterwards. Every other descriptor is closed, 0, 1 and 2 included.

    Args:
        jail: What `enter_zygote_jail` returned.
        wire_fd: The worker's end of its wire, whatever its number.
        memory_bytes: Address space on top of the zygote's own.
        cpu_seconds: CPU time until SIGXCPU; SIGKILL comes one second later.

    Raises:
        OSError: If the kernel refused a step. The worker must then exit without running anything.
    """
    wire = confine_worker(jail, wire_fd, memory_bytes, cpu_seconds)
    shut(jail)
    return wire


def confine_worker(
    jail: ZygoteJail, wire_fd: int, memory_bytes: int, cpu_seconds: int
) -> socket.socket:
    """All of `enter_worker_jail` but `shut`. Public for the probe, which looks in between."""
    if _libc.LINUX:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != jail.zygote_pid:
        os._exit(1)  # the zygote died before the line above: nobody would ever stop this worker
    os.setsid()  # a group of its own: signals to "my group" reach no other worker
    if wire_fd != jail.wire_fd:
        os.dup2(wire_fd, jail.wire_fd, inheritable=False)
    _libc.close_range(0, jail.wire_fd - 1)
    if jail.witness is None:
        _libc.close_range(jail.wire_fd + 1)
    else:
        _libc.close_range(jail.wire_fd + 1, jail.witness.notice_fd - 1)
        _libc.close_range(jail.witness.notice_fd + 1)
    wire = socket.socket(fileno=jail.wire_fd)
    wire.setblocking(True)
    if jail.baseline_bytes:
        _limit({"RLIMIT_AS": jail.baseline_bytes + memory_bytes})
    # Hard above soft: SIGXCPU tells the host it was the limit, SIGKILL cannot be ignored.
    _limit({"RLIMIT_CPU": cpu_seconds + 1})
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (min(cpu_seconds, hard), hard))
    if jail.confines:
        _limit({"RLIMIT_NPROC": 0})
    return wire


def shut(jail: ZygoteJail, look: Callable[[], None] = lambda: None) -> str:
    """The last of `enter_worker_jail`: the filter, and no descriptor but the wire.

    Args:
        jail: What `enter_zygote_jail` returned.
        look: Called with everything on but, where nobody is told, the filter: for the probe.

    Returns:
        Why nobody will learn which call the worker is stopped at; ``""`` if the zygote will.

    Raises:
        OSError: If the kernel refused a step that every kernel of this level has.
    """
    problem = "there is no filter"
    if jail.witness is not None:
        pid = os.getpid()
        try:
            listener = jail.witness.filter.install(pid)
        except OSError as error:
            # EBUSY where a container's own filter has a listener: there may be one in a chain.
            problem = str(error)
            os.close(jail.witness.notice_fd)
        else:
            problem = ""
            jail.witness.hand_over(pid, listener)
    if jail.confines:
        # 0 descriptors: those that are open stay, no new one can be made.
        _limit({"RLIMIT_NOFILE": 0})
    look()
    if problem and jail.filter is not None:
        jail.filter.install(os.getpid())
    return problem


def _look_at_the_kernel(notes: dict[str, str]) -> _seccomp.Machine | None:
    """Note what is missing, before anything is changed; the machine's filter, if it has one."""
    table = _seccomp.machine()
    if not _libc.LINUX or table is None:
        machines = " and ".join(_seccomp.MACHINES)
        notes["seccomp"] = f"there is a filter for 64-bit {machines} Linux only"
        table = None
    elif reason := _seccomp.available(table):
        notes["seccomp"] = (
            f"{reason}. It needs Linux >= 4.14 with CONFIG_SECCOMP_FILTER=y and seccomp(2) let "
            "through by the container's profile"
        )
        table = None
    if not _libc.LINUX or _landlock.abi() < 1:
        notes["landlock"] = (
            "the kernel does not offer it. It needs Linux >= 5.13 with CONFIG_SECURITY_LANDLOCK=y, "
            "'landlock' in its lsm= list (cat /sys/kernel/security/lsm), and a container profile "
            "that lets landlock_* through"
        )
    return table


def _require(notes: dict[str, str]) -> None:
    """Raise `JailError` for the first thing that is missing."""
    for layer in ("seccomp", "landlock"):
        if layer in notes:
            raise JailError(layer, f"{notes[layer]}.")
    if len(os.listdir("/proc/self/task")) != 1:
        way_out = "Enter the jail before the first thread starts."
        raise JailError("single_thread", "the zygote has threads already.", way_out)


def _address_space_bytes(*, required: bool) -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError as error:
        if required:
            problem = f"the zygote's own size is unknown ({error}). It needs /proc mounted."
            raise JailError("memory", problem) from error
        return 0


def _go_first_when_memory_runs_out() -> int:
    """Have the kernel take a worker, the largest first, before the host and all else.

    Each worker's memory is limited, but not what all of them take together. Raising the score needs
    no power (proc(5)); children inherit it.
    """
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            file.write(b"%d" % OOM_FIRST)
            file.seek(0)
            return int(file.read())
    except OSError:
        return 0


def _empty_environment() -> frozenset[str]:
    """Empty the environment; return the names of what the process was started with.

    They are looked up where the kernel keeps them: clearing `os.environ` leaves the strings on
    the initial stack, where a script with full use of the C library can read them.
    """
    names = set(os.environ)
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        names |= {os.fsdecode(item.partition(b"=")[0]) for item in file.read().split(b"\0") if item}
    os.environ.clear()
    os.environ["TZ"] = "UTC0"
    time.tzset()
    return frozenset(names)


def _keep_only(control_fd: int) -> None:
    """Close everything but `control_fd`; /dev/null sits where careless code prints to."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for standard in (0, 1, 2):
        os.dup2(null, standard, inheritable=False)
    _libc.close_range(3, control_fd - 1)
    _libc.close_range(control_fd + 1)


def _leave_the_terminal() -> None:
    """Own session, plain signals, no directory: Ctrl-C in the host's terminal is the host's."""
    with contextlib.suppress(PermissionError):  # already the leader of its own
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir("/")


def _leave_root(notes: dict[str, str]) -> None:
    """Become nobody if started by root. If that fails the probe of `processes` decides."""
    if os.geteuid() != 0:
        return
    if _libc.LINUX:
        _libc.empty_bounding_set()  # as nobody we could not any more
    try:
        os.setgroups([])
        os.setgid(NOBODY)  # as root: real, effective and saved, all three
        os.setuid(NOBODY)
    except OSError as error:
        notes["user"] = f"still uid {os.getuid()}: {error}"
    if _libc.LINUX:
        # The change of user hid /proc/self behind root; the id maps are written through it.
        _libc.prctl(_libc.PR_SET_DUMPABLE, 1)


def _enter_namespaces(notes: dict[str, str]) -> tuple[frozenset[str], bool]:
    """Take what the kernel allows; with a PID namespace, return in its first process only."""
    before = _namespaces.links()
    uid, gid = os.getuid(), os.getgid()
    refused = _namespaces.unshare()
    notes.update({f"namespace_{name}": reason for name, reason in refused.items()})
    if "user" not in refused:
        _try(notes, "namespace_user", lambda: _namespaces.map_ids(uid, gid))
    if "uts" not in refused:
        _try(notes, "namespace_uts", _namespaces.neutral_host_name)
    if "pid" not in refused:
        _become_first_process()
    after = _namespaces.links()
    entered = frozenset(name for name, link in after.items() if link != before.get(name))
    empty = "mount" in entered and _try(notes, "empty_root", _namespaces.empty_root)
    if "mount" not in entered:
        notes["empty_root"] = "no mount namespace"
    return entered, empty


def _try(notes: dict[str, str], layer: str, step: Callable[[], object]) -> bool:
    """Take an optional step; write down why it failed."""
    try:
        step()
    except OSError as error:
        notes[layer] = str(error)
        return False
    return True


def _become_first_process() -> None:
    """Fork into the new PID namespace. The parent stays behind as a shell and never returns."""
    shell = os.pidfd_open(os.getpid())
    child = os.fork()
    if child:
        _be_the_shell(child)
    _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    # getppid() is 0 here, alive or dead: ask the pidfd if the shell died before the line above.
    if select.select([shell], [], [], 0)[0]:
        os._exit(1)
    os.close(shell)


def _be_the_shell(child: int) -> NoReturn:
    """Hold nothing, wait for the zygote, exit as it did. Runs no script and no message."""
    try:
        # The control socket too: if it stayed open here the host would not see the zygote die.
        _libc.close_range(0)
        # What is refused here is refused to the zygote too, and that one can say so.
        with contextlib.suppress(OSError):
            _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
            _libc.drop_capabilities()
            _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status if status >= 0 else 128 - status)
    finally:
        os._exit(1)


def _limit(limits: dict[str, int]) -> None:
    """Set soft and hard limit alike, never above the hard limit that is there."""
    for name, value in limits.items():
        which = getattr(resource, name, None)  # not every system has every limit
        if which is None:
            continue
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _give_up_powers(notes: dict[str, str]) -> None:
    """no_new_privs, no capabilities, no writable memory that is executable, not dumpable."""
    if not _libc.LINUX:
        return
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    missed = _libc.drop_capabilities()
    if missed:
        notes["capabilities"] = ", ".join(missed)
    # Linux 6.3: writable memory never becomes executable, filter or not.
    mdwe = (_libc.PR_SET_MDWE, _libc.PR_MDWE_REFUSE_EXEC_GAIN)
    _try(notes, "code_memory", lambda: _libc.prctl(*mdwe))
    # Last of the credentials: a change of user or capabilities resets both.
    _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
    if os.getpid() == 1:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)


def _restrict_files(
    notes: dict[str, str], *, closed: bool, required: bool
) -> tuple[int, tuple[int, int, int]]:
    """Landlock: its ABI, 0 for none, and the rights it refuses.

    Args:
        notes: Why it is off.
        closed: True if an empty root and a network namespace close what older ABIs leave open.
        required: True: raise if it leaves anything open.
    """
    abi = _landlock.abi() if "landlock" not in notes else 0
    if abi < LANDLOCK_ABI_WANTED and not closed:
        problem = (
            f"the kernel offers ABI {abi}, which leaves truncate or TCP open, and there are no "
            f"mount and network namespaces to close them. It needs ABI {LANDLOCK_ABI_WANTED} "
            "(Linux >= 6.7), or unprivileged user namespaces with any ABI."
        )
        if required:
            raise JailError("landlock", problem)
        notes.setdefault("landlock", problem)
    if not abi:
        return 0, (0, 0, 0)
    try:
        return abi, _landlock.restrict(abi)
    except OSError as error:
        if required:
            raise
        notes["landlock"] = str(error)
        return 0, (0, 0, 0)
