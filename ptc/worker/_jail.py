"""The kernel layer of the sandbox, as set up in the zygote and inherited by its workers.

This module confines the zygote; `_worker_jail` confines its workers. The rules hold for both. The
isolation levels are in `_isolation`; `_inheritance` has the steps for inherited state.

Rule 1: Every layer that the isolation level requires is on, or nothing starts; no weaker level is
    ever chosen silently. (test_missing_landlock_is_an_error_with_a_suggested_fix)
Rule 2: Raw code with full use of the C library gains nothing: no file, process, socket, clock
    of another process, or executable memory, with or without namespaces.
    (test_no_escape_probe_succeeds)
Rule 3: A forbidden system call kills the worker and is reported by name; nothing an ordinary script
    does is forbidden. (test_forbidden_system_call_ends_the_worker_and_is_named,
    test_ordinary_work_survives_the_filter)
Rule 4: A worker holds one descriptor, its wire. (test_worker_has_no_descriptor_but_its_wire)
Rule 5: A worker dies with its zygote, and the host can kill it at any time.
    (test_workers_die_with_the_zygote, test_the_host_kills_a_worker_by_its_pidfd)
Rule 6: The state of every layer is verified by a probe, not inferred from the call that set it.
    (test_required_jail_layers_are_on_and_report_how_they_were_verified)

Order of the layers: namespaces first, since they need privileges that later layers drop; then the
empty root, the capabilities and Landlock. These survive a fork and are set up once, in the zygote.
A worker adds its own session, descriptors and limits, and the filter last, because the filter
forbids every step before it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ._inheritance import close_all_except, detach_from_terminal, drop_root, empty_environment
from ._isolation import ISOLATION_LEVELS, JAIL, TEST_ONLY, JailError, ZygoteJail
from ._listener import ListenerSocket
from .kernel import _landlock, _libc, _namespaces, _seccomp

if TYPE_CHECKING:
    from .restore._hand_over import Restorer

__all__ = ["LANDLOCK_ABI_WANTED", "OOM_FIRST", "enter_zygote_jail", "set_limits"]

LANDLOCK_ABI_WANTED = 4
"""Linux 6.7. Older ABIs do not restrict truncate (before 3) and TCP (before 4)."""

OOM_FIRST = 1000
"""The maximum, `OOM_SCORE_ADJ_MAX` of ``include/uapi/linux/oom.h``."""

ZYGOTE_FILES = 1024
"""Maximum number of descriptors in a zygote: a pidfd and a listener for each of up to 320 workers
(64 ready, 256 in runs), its control socket and, briefly, wires."""

_HIGH_FD = 16

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


def enter_zygote_jail(isolation: str, control_fd: int, restore: str = "") -> ZygoteJail:
    """Set up every layer that survives a fork. Returns in the process that becomes the zygote.

    Call it after all imports and before any thread: afterwards no file can be imported. With
    namespaces the caller's process remains as an empty shell that waits for the zygote and exits
    with its status; killing either kills every worker. The environment is emptied except for
    ``TZ=UTC0``: with no zone set, the C library would look for one in /etc every time a script
    formats a local time. Descriptors 0, 1 and 2 become /dev/null.

    Args:
        isolation: One of `ISOLATION_LEVELS`.
        control_fd: The one descriptor to keep open, 3 or above.
        restore: ``"1"`` to have workers restored after their runs if the kernel can, ``"2"`` to
            compare them afterwards, for tests.

    Raises:
        JailError: If a layer that the level requires is missing.
        ValueError: If an argument is invalid.
    """
    if isolation not in ISOLATION_LEVELS:
        msg = f"isolation must be one of {sorted(ISOLATION_LEVELS)}, not {isolation!r}"
        raise ValueError(msg)
    if control_fd < 3:
        msg = f"control_fd must be 3 or above, not {control_fd}: 0, 1 and 2 become /dev/null"
        raise ValueError(msg)
    try:
        return _enter(isolation, control_fd, restore)
    except OSError as error:
        raise JailError(
            "start", f"the kernel refused a step that should always succeed ({error})."
        ) from error


def _enter(isolation: str, control_fd: int, restore: str) -> ZygoteJail:
    notes: dict[str, str] = {}
    table = None if isolation == TEST_ONLY else _check_kernel(notes)
    if isolation == JAIL:
        _require(notes)
    baseline = _address_space_bytes(required=isolation == JAIL)
    oom_score = _raise_oom_score()
    started_with = empty_environment()
    _libc.limit_malloc_arenas()
    close_all_except(control_fd)
    detach_from_terminal()
    drop_root(notes)
    # Prepared here, because the empty root has neither /proc nor modules.
    start = _prepare_restorer(restore) if restore and table is not None else None
    restorer = None
    namespaces, empty_root = frozenset[str](), False
    abi, masks = 0, (0, 0, 0)
    if isolation == TEST_ONLY:
        set_limits(_ANY_LEVEL_LIMITS)
    else:
        if _libc.LINUX:
            namespaces, empty_root = _enter_namespaces(notes)
        set_limits(_STATIC_LIMITS)
        _drop_privileges(notes)
        if start is not None:
            restorer = _start_restorer(notes, *start)
        closed = empty_root and "net" in namespaces
        abi, masks = _restrict_files(notes, closed=closed, required=isolation == JAIL)
    wire_fd = 4 if control_fd == 3 else 3
    notice_fd = wire_fd + 2 if control_fd == wire_fd + 1 else wire_fd + 1
    notifies = _seccomp.build(table, wire_fd, notice_fd) if table else None
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
        listener_socket=ListenerSocket(notifies, notice_fd) if notifies else None,
        restorer=restorer,
        traced_filter=_seccomp.build(table, wire_fd, notice_fd, traced=True)
        if table and restorer
        else None,
    )


def _prepare_restorer(mode: str) -> tuple[int, Callable[[], Restorer]]:
    """Open /proc; return it, and the function that starts the restorer, a module that is loaded."""
    from .restore._restorer import start_restorer

    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # High: workers and the zygote use fixed low numbers.
        proc = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
    finally:
        os.close(descriptor)
    return proc, partial(start_restorer, proc, verify=mode == "2")


def _start_restorer(
    notes: dict[str, str], proc: int, start: Callable[[], Restorer]
) -> Restorer | None:
    """Start the restorer; record why there is none.

    It may open the files of /proc and nothing else, and neither trace nor read the memory of other
    processes than the workers. Landlock allows a process to trace those that are confined by its
    own layers and more: so the zygote takes this layer, too, and adds its own (`_restrict_files`)
    once the restorer is started. Linux ``Documentation/userspace-api/landlock.rst``, "Ptrace
    restrictions".
    """
    grants = [(proc, _landlock.READ | _landlock.WRITE_FILE)]
    try:
        if "landlock" not in notes:
            _landlock.restrict_except(_landlock.abi(), grants, network=False)
        return start()
    except OSError as error:
        notes["restore"] = str(error)
        return None


def _check_kernel(notes: dict[str, str]) -> _seccomp.Machine | None:
    """Record missing layers before any change; return the machine's filter table, if any."""
    table = _seccomp.machine()
    if not _libc.LINUX or table is None:
        machines = " and ".join(_seccomp.MACHINES)
        notes["seccomp"] = f"the filter supports only 64-bit {machines} Linux"
        table = None
    elif reason := _seccomp.available(table):
        notes["seccomp"] = (
            f"{reason}. It needs Linux >= 4.14 with CONFIG_SECCOMP_FILTER=y, and a container "
            "profile that allows seccomp(2)"
        )
        table = None
    if not _libc.LINUX or _landlock.abi() < 1:
        notes["landlock"] = (
            "the kernel does not offer it. It needs Linux >= 5.13 with CONFIG_SECURITY_LANDLOCK=y, "
            "'landlock' in its lsm= list (cat /sys/kernel/security/lsm), and a container profile "
            "that allows landlock_*"
        )
    return table


def _require(notes: dict[str, str]) -> None:
    """Require seccomp, Landlock and a single thread.

    Raises:
        JailError: If one is missing; names the first.
    """
    for layer in ("seccomp", "landlock"):
        if layer in notes:
            raise JailError(layer, f"{notes[layer]}.")
    if len(os.listdir("/proc/self/task")) != 1:
        remedy = "Enter the jail before the first thread starts."
        raise JailError("single_thread", "the zygote already has threads.", remedy)


def _address_space_bytes(*, required: bool) -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError as error:
        if required:
            problem = f"the zygote's size cannot be read ({error}). It needs /proc mounted."
            raise JailError("memory", problem) from error
        return 0


def _raise_oom_score() -> int:
    """Have the kernel kill workers, the largest first, before the host and other processes.

    Each worker's memory is limited, but not their sum. Raising the score needs no privilege
    (proc(5)); children inherit it.
    """
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            file.write(b"%d" % OOM_FIRST)
            file.seek(0)
            return int(file.read())
    except OSError:
        return 0


def _enter_namespaces(notes: dict[str, str]) -> tuple[frozenset[str], bool]:
    """Enter all namespaces the kernel allows; return in the first process of a PID namespace."""
    before = _namespaces.namespace_links()
    uid, gid = os.getuid(), os.getgid()
    refused = _namespaces.unshare()
    notes.update({f"namespace_{name}": reason for name, reason in refused.items()})
    if "user" not in refused:
        _attempt(notes, "namespace_user", lambda: _namespaces.map_ids(uid, gid))
    if "uts" not in refused:
        _attempt(notes, "namespace_uts", _namespaces.set_neutral_host_name)
    if "pid" not in refused:
        _become_first_process()
    after = _namespaces.namespace_links()
    entered = frozenset(name for name, link in after.items() if link != before.get(name))
    empty = "mount" in entered and _attempt(notes, "empty_root", _namespaces.enter_empty_root)
    if "mount" not in entered:
        notes["empty_root"] = "no mount namespace"
    return entered, empty


def _attempt(notes: dict[str, str], layer: str, step: Callable[[], object]) -> bool:
    """Run an optional step; record why it failed."""
    try:
        step()
    except OSError as error:
        notes[layer] = str(error)
        return False
    return True


def _become_first_process() -> None:
    """Fork into the new PID namespace. The parent becomes the shell and never returns."""
    shell = os.pidfd_open(os.getpid())
    child = os.fork()
    if child:
        _run_shell(child)
    _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)
    # getppid() is always 0 here: the pidfd shows if the shell died before the line above.
    if select.select([shell], [], [], 0)[0]:
        os._exit(1)
    os.close(shell)


def _run_shell(child: int) -> NoReturn:
    """Close everything, wait for the zygote, exit with its status. Runs no script or message."""
    try:
        # The control socket too: if it stayed open here, the host would not see the zygote die.
        _libc.close_range(0)
        # A step refused here is refused to the zygote too, which can report it.
        with contextlib.suppress(OSError):
            _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
            _libc.drop_capabilities()
            _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status if status >= 0 else 128 - status)
    finally:
        os._exit(1)


def set_limits(limits: dict[str, int]) -> None:
    """Set soft and hard limits to the same value, at most the current hard limit."""
    for name, value in limits.items():
        which = getattr(resource, name, None)  # not every system has every limit
        if which is None:
            continue
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _drop_privileges(notes: dict[str, str]) -> None:
    """Set no_new_privs and MDWE, drop all capabilities, make the process not dumpable."""
    if not _libc.LINUX:
        return
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    missed = _libc.drop_capabilities()
    if missed:
        notes["capabilities"] = ", ".join(missed)
    # Linux 6.3: writable memory never becomes executable, filter or not.
    mdwe = (_libc.PR_SET_MDWE, _libc.PR_MDWE_REFUSE_EXEC_GAIN)
    _attempt(notes, "code_memory", lambda: _libc.prctl(*mdwe))
    # After all changes of credentials: a change of user or capabilities resets both.
    _libc.prctl(_libc.PR_SET_DUMPABLE, 0)
    if os.getpid() == 1:
        _libc.prctl(_libc.PR_SET_PDEATHSIG, signal.SIGKILL)


def _restrict_files(
    notes: dict[str, str], *, closed: bool, required: bool
) -> tuple[int, tuple[int, int, int]]:
    """Apply Landlock; return its ABI, 0 for none, and the rights it denies.

    Args:
        notes: Receives the reason if it is off.
        closed: True if an empty root and a network namespace close the gaps of older ABIs.
        required: True: raise if a gap stays open.

    Raises:
        JailError: If it is required and leaves a gap.
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
