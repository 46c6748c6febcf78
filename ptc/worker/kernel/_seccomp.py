"""System call filter of a worker: a short allow-list with arguments; any other call kills it.

A worker computes, allocates, reads a clock and talks on one socket. Each call below is listed
because CPython 3.11-3.13 on glibc fails without it, or for the reason beside it; the list was
found by removing calls one at a time. A call that is not listed is not made, and the process is
killed: a script that gets that far has broken the language layer, and the kill raises the alarm.

A filter kills in one of two modes:

* The kernel stops the worker in the call and notifies the zygote of the call
  (``SECCOMP_RET_USER_NOTIF``); the zygote never answers, and kills the worker. See `_listener`.
* The kernel kills the worker with SIGSYS (``SECCOMP_RET_KILL_PROCESS``) without reporting the call.
  This mode is for kernels and containers that refuse the first one, and in both modes for calls of
  another architecture, whose numbers would name the wrong call.

The program is classic BPF over ``struct seccomp_data`` (Linux
``Documentation/userspace-api/seccomp_filter.rst``). It is built once in the zygote; a worker only
writes its own process id into it and installs it.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import signal
import struct
from dataclasses import field
from itertools import chain
from typing import Final

from ..._dataclass import dataclass
from . import _libc

__all__ = ["MACHINES", "Filter", "Machine", "available", "build", "build_for_restorer", "machine"]

KILL = 0x80000000
NOTIFY = 0x7FC00000
ERRNO = 0x00050000
ALLOW = 0x7FFF0000
TRACE = 0x7FF00000
MARK = 24
"""Number of sched_yield on x86-64: the call at which a worker that can be restored stops for its
tracer. A script that makes it stays stopped until its run is over."""
MARK_MESSAGE = 1
"""Value that the filter reports to the tracer for `MARK`."""
MAPPING_MESSAGE = 2
"""The same for `_MAPPING`; 0 for any other call."""
_UNDETECTED = frozenset({"brk", "madvise", "mprotect", "mremap", "rt_sigreturn"})
"""Calls whose effects nobody could find in a worker afterwards; its tracer learns of them."""
_MAPPING = frozenset({"mmap", "munmap"})
"""Calls after which the mappings of a worker have to be compared."""

_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGS = 0, 4, 16

# x32 calls carry this bit under the x86-64 architecture value; aarch64 has no such numbers.
_X32_BIT = 0x40000000

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_FLAG_TSYNC, _FLAG_NEW_LISTENER, _FLAG_TSYNC_ESRCH = 1, 8, 16


@dataclass(frozen=True, slots=True)
class Machine:
    """System call numbers of a processor architecture."""

    name: str
    """Value of `platform.machine()`."""
    audit_arch: int
    """``AUDIT_ARCH_*`` of ``include/uapi/linux/audit.h``."""
    seccomp: int
    """Number of seccomp(2) itself."""
    numbers: dict[str, int]
    """Name of an allowed call -> its number."""


MACHINES = {
    # arch/x86/entry/syscalls/syscall_64.tbl
    "x86_64": Machine(
        name="x86_64",
        audit_arch=0xC000003E,
        seccomp=317,
        numbers={
            "write": 1, "close": 3, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
            "rt_sigprocmask": 14, "rt_sigreturn": 15, "writev": 20, "mremap": 25, "madvise": 28,
            "getpid": 39, "sendto": 44, "recvfrom": 45, "sendmsg": 46, "prctl": 157, "gettid": 186,
            "futex": 202, "clock_gettime": 228, "clock_getres": 229, "exit_group": 231,
            "tgkill": 234, "prlimit64": 302, "getrandom": 318,
        },
    ),
    # include/uapi/asm-generic/unistd.h
    "aarch64": Machine(
        name="aarch64",
        audit_arch=0xC00000B7,
        seccomp=277,
        numbers={
            "write": 64, "close": 57, "mmap": 222, "mprotect": 226, "munmap": 215, "brk": 214,
            "rt_sigprocmask": 135, "rt_sigreturn": 139, "writev": 66, "mremap": 216, "madvise": 233,
            "getpid": 172, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "prctl": 167,
            "gettid": 178, "futex": 98, "clock_gettime": 113, "clock_getres": 114, "exit_group": 94,
            "tgkill": 131, "prlimit64": 261, "getrandom": 278,
        },
    ),
}  # fmt: skip
"""Name of a machine -> its table. Both tables have the same names."""


@dataclass(frozen=True, slots=True)
class _Instruction:
    code: int
    constant: int
    if_true: int = 0
    if_false: int = 0
    is_pid: bool = False
    """The constant is the worker's process id, filled in when the filter is installed."""


_FAIL = -1
"""In a check: jump to the block's refusal."""

_Check = list[_Instruction]


def _low(argument: int) -> _Instruction:
    return _Instruction(_LOAD, _OFFSET_ARGS + 8 * argument)


def _high(argument: int) -> _Instruction:
    return _Instruction(_LOAD, _OFFSET_ARGS + 8 * argument + 4)


def _is(argument: int, value: int) -> _Check:
    """Check that a 32-bit argument has this value (the kernel ignores the upper half of an int)."""
    return [_low(argument), _Instruction(_EQUAL, value, 0, _FAIL)]


def _is_pid(argument: int) -> _Check:
    return [_low(argument), _Instruction(_EQUAL, 0, 0, _FAIL, is_pid=True)]


def _is_one_of(argument: int, *values: int) -> _Check:
    tests = [
        _Instruction(_EQUAL, value, len(values) - 1 - position, 0)
        for position, value in enumerate(values[:-1])
    ]
    return [_low(argument), *tests, _Instruction(_EQUAL, values[-1], 0, _FAIL)]


def _is_null(argument: int) -> _Check:
    """Check that a pointer is NULL in both halves."""
    return [*_is(argument, 0), _high(argument), _Instruction(_EQUAL, 0, 0, _FAIL)]


def _below(argument: int, limit: int) -> _Check:
    return [_low(argument), _Instruction(_AT_LEAST, limit, _FAIL, 0)]


def _only_bits(argument: int, mask: int) -> _Check:
    return [_low(argument), _Instruction(_ANY_BIT, ~mask & 0xFFFFFFFF, _FAIL, 0)]


def _all_bits(argument: int, mask: int) -> _Check:
    return [
        _low(argument),
        _Instruction(_AND, mask),
        _Instruction(_EQUAL, mask, 0, _FAIL),
    ]


# Values from include/uapi/asm-generic/{mman,socket}.h and futex.h, equal on both machines.
_PROT_READ_WRITE = 0b11
_MAP_PRIVATE_ANONYMOUS = 0x22
_MAP_NORESERVE_STACK = 0x4000 | 0x20000
_MREMAP_MAYMOVE = 1
_MADV_DONTNEED, _MADV_FREE = 4, 8
_MSG_NOSIGNAL, _MSG_WAITALL, _MSG_DONTWAIT = 0x4000, 0x100, 0x40
_FUTEX_PRIVATE, _FUTEX_CLOCK_REALTIME = 128, 256
_FUTEX_WAIT, _FUTEX_WAKE, _FUTEX_WAIT_BITSET = 0, 1, 9
_GRND_NONBLOCK = 1
_CLOCKS = 12
_RLIMIT_NOFILE = 7
_PR_GET_NAME = 16  # include/uapi/linux/prctl.h

_Rule = tuple[str, int, list[_Check]]


def _rules(wire_fd: int) -> list[_Rule]:
    """List the calls that a worker may make: name, result and checks; most frequent first."""
    return [
        # Flags have an allow-list too: MSG_OOB on a unix socket was an escape from Chrome's
        # renderer sandbox (CVE-2025-38236).
        ("recvfrom", ALLOW, [_is(0, wire_fd), _only_bits(3, _MSG_WAITALL | _MSG_DONTWAIT),
                             _is_null(4)]),
        ("sendto", ALLOW, [_is(0, wire_fd), _only_bits(3, _MSG_NOSIGNAL), _is_null(4)]),
        # Never executable, never a file, never at an address chosen by the caller.
        ("mmap", ALLOW, [_only_bits(2, _PROT_READ_WRITE), _all_bits(3, _MAP_PRIVATE_ANONYMOUS),
                         _only_bits(3, _MAP_PRIVATE_ANONYMOUS | _MAP_NORESERVE_STACK),
                         _is(4, 0xFFFFFFFF)]),
        ("munmap", ALLOW, []),
        ("brk", ALLOW, []),
        ("mremap", ALLOW, [_only_bits(3, _MREMAP_MAYMOVE)]),
        # musl's and mimalloc's heaps commit pages with it; glibc's main arena does not.
        ("mprotect", ALLOW, [_only_bits(2, _PROT_READ_WRITE)]),
        # Returns pages, for the same heaps. Not MERGEABLE: same-page merging is a side channel.
        ("madvise", ALLOW, [_is_one_of(2, _MADV_DONTNEED, _MADV_FREE)]),
        # The vDSO handles most clocks; CPU clocks, and all on some virtual machines, use the
        # kernel. No negative ids: those are the CPU clocks of other processes.
        ("clock_gettime", ALLOW, [_below(0, _CLOCKS)]),
        ("clock_getres", ALLOW, [_below(0, _CLOCKS)]),
        # Not GRND_RANDOM: the blocking pool was shared by the whole machine.
        ("getrandom", ALLOW, [_only_bits(2, _GRND_NONBLOCK)]),
        # A held lock must block, not raise the alarm. Plain private waits and wakes only:
        # requeue and the priority-inheritance operations were CVE-2014-3153.
        ("futex", ALLOW, [_is_one_of(
            1,
            _FUTEX_PRIVATE | _FUTEX_WAIT_BITSET,
            _FUTEX_PRIVATE | _FUTEX_WAIT_BITSET | _FUTEX_CLOCK_REALTIME,
            _FUTEX_PRIVATE | _FUTEX_WAKE,
            _FUTEX_PRIVATE | _FUTEX_WAIT,
        )]),
        ("exit_group", ALLOW, []),
        # Finalizers close descriptors that are already closed. Closing gains nothing.
        ("close", ALLOW, []),
        # abort() of the interpreter or the C library is a crash, not an attack: it must end in
        # SIGABRT. Only that signal, and only to itself.
        ("rt_sigprocmask", ALLOW, []),
        # The end of the handler by which the host learns the line that computes.
        ("rt_sigreturn", ALLOW, []),
        ("getpid", ALLOW, []),
        ("gettid", ALLOW, []),
        ("tgkill", ALLOW, [_is_pid(0), _is_pid(1), _is(2, int(signal.SIGABRT))]),
        # Both write a message to stderr first. There is no stderr.
        ("write", ERRNO | errno.EBADF, [_is_one_of(0, 1, 2)]),
        ("writev", ERRNO | errno.EBADF, [_is_one_of(0, 1, 2)]),
        # From 3.14 on, the interpreter that aborts also asks for the name of its thread.
        ("prctl", ERRNO | errno.EPERM, [_is(0, _PR_GET_NAME)]),
    ]  # fmt: skip


def _send_listener_rules(notice_fd: int) -> list[_Rule]:
    """List the calls that a worker makes between installing its filter and its first script.

    The first works while `notice_fd` is open. It is closed before a script runs, and no other
    descriptor can get its number, so the call then always fails with EBADF. The second can only
    lower the worker's own limits (raising a hard limit requires CAP_SYS_RESOURCE).
    """
    return [
        ("sendmsg", ALLOW, [_is(0, notice_fd), _is(2, 0)]),
        ("prlimit64", ALLOW, [_is(0, 0), _is(1, _RLIMIT_NOFILE)]),
    ]


def _traced_rule(rule: _Rule) -> _Rule:
    """Change a rule for a worker that can be restored."""
    name, answer, checks = rule
    if name in _UNDETECTED:
        return name, TRACE, checks
    if name in _MAPPING:
        return name, TRACE | MAPPING_MESSAGE, checks
    if name == "clock_gettime":
        # Not the clocks of the process and its thread: they count earlier runs.
        return name, answer, [*checks, [_low(0), _Instruction(_EQUAL, 2, _FAIL, 0)],
                              [_low(0), _Instruction(_EQUAL, 3, _FAIL, 0)]]  # fmt: skip
    return rule


_RESTORER: Final = {
    "read": 0, "fstat": 5, "poll": 7, "lseek": 8, "ioctl": 16, "pread64": 17, "pwrite64": 18,
    "recvmsg": 47, "getsockname": 51, "getsockopt": 55, "wait4": 61, "kill": 62, "fcntl": 72,
    "ptrace": 101, "getdents64": 217, "restart_syscall": 219, "openat": 257, "newfstatat": 262,
    "pidfd_open": 434,
}  # fmt: skip
"""Calls that the restorer makes besides those of a worker, on x86-64. Landlock confines `openat`,
and `ptrace` and `kill` reach workers only."""
_RESTORER_CHECKS: Final = {
    "mmap": [_only_bits(2, _PROT_READ_WRITE), _all_bits(3, _MAP_PRIVATE_ANONYMOUS)],
    "mprotect": [_only_bits(2, _PROT_READ_WRITE)],
    # FIONREAD and TIOCOUTQ of the wire, UFFDIO_REGISTER and PAGEMAP_SCAN of `_written`.
    "ioctl": [_is_one_of(1, 0x541B, 0x5411, 0xC020AA00, 0xC0606610)],
    # The requests of `_trace`.
    "ptrace": [_is_one_of(
        0, 7, 12, 13, 0x4201, 0x4204, 0x4205, 0x4206, 0x4209, 0x420A, 0x420B,
    )],
    "kill": [_is(1, int(getattr(signal, "SIGKILL", 9)))],
    "prlimit64": [_is(1, 0)],  # RLIMIT_CPU
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter program, ready to be installed."""

    machine: Machine = field(repr=False)
    code: bytes = field(repr=False)
    """The instructions, eight bytes each, with 0 where the process id goes."""
    pid_offsets: tuple[int, ...]
    """Offsets in `code` of the process id."""
    notifies: bool
    """True if the kernel notifies a listener of the calls it stops."""
    _buffer: ctypes.Array[ctypes.c_char] = field(repr=False)
    _header: ctypes.Array[ctypes.c_char] = field(repr=False)

    def install(self, pid: int) -> int:
        """Install the filter on this process permanently. Requires no_new_privs.

        Args:
            pid: The caller's own process id in its PID namespace.

        Returns:
            The listener if the filter `notifies`, with the lowest free number; otherwise 0.

        Raises:
            OSError: If the kernel refused.
        """
        for offset in self.pid_offsets:
            struct.pack_into("=I", self._buffer, offset, pid)
        # TSYNC: should there ever be a second thread, it is filtered too.
        flags = _FLAG_TSYNC
        if self.notifies:
            flags |= _FLAG_NEW_LISTENER | _FLAG_TSYNC_ESRCH
        address = ctypes.addressof(self._header)
        answer = _libc.syscall(self.machine.seccomp, _SET_MODE_FILTER, flags, address)
        if answer and not self.notifies:
            msg = "a thread could not be filtered"
            raise OSError(errno.EBUSY, msg)
        return answer


def machine() -> Machine | None:
    """Return the table of this machine, or None if it is unknown (then there is no filter)."""
    # A 32-bit interpreter on a 64-bit kernel uses other system call numbers.
    return MACHINES.get(platform.machine()) if struct.calcsize("P") == 8 else None


def available(table: Machine) -> str:
    """Return why the kernel cannot kill by filter, or ``""`` if it can."""
    action = ctypes.create_string_buffer(struct.pack("=I", KILL), 4)
    try:
        _libc.syscall(table.seccomp, _GET_ACTION_AVAIL, 0, ctypes.addressof(action))
    except OSError as error:
        return str(error)
    return ""


def build(
    table: Machine, wire_fd: int, notice_fd: int | None = None, *, traced: bool = False
) -> Filter:
    """Assemble the filter of a worker whose only socket is `wire_fd`.

    Args:
        table: The machine to build for.
        wire_fd: Descriptor number of the wire.
        notice_fd: Descriptor number of the socket on which the worker sends its listener; None for
            the filter that kills without reporting the call.
        traced: True for a worker that can be restored: its tracer learns of some calls.
    """
    notifies = notice_fd is not None
    refusal = NOTIFY if notifies else KILL
    rules = _rules(wire_fd) + (_send_listener_rules(notice_fd) if notice_fd is not None else [])
    if traced:
        rules = [_traced_rule(rule) for rule in rules]
    blocks = [
        _block(table.numbers[name], answer, checks, refusal) for name, answer, checks in rules
    ]
    if traced:
        blocks.append(_block(MARK, TRACE | MARK_MESSAGE, [], refusal))
    return _assemble(table, blocks, refusal, notifies=notifies)


def build_for_restorer(table: Machine) -> Filter:
    """Assemble the filter of the restorer, for x86-64: other calls fail with EPERM.

    It has no effect on files, network or processes but those of `_RESTORER`.
    """
    refusal = ERRNO | errno.EPERM
    numbers = {**table.numbers, **_RESTORER}
    blocks = [
        _block(number, ALLOW, _RESTORER_CHECKS.get(name, []), refusal)
        for name, number in numbers.items()
    ]
    return _assemble(table, blocks, refusal, notifies=False)


def _assemble(
    table: Machine, blocks: list[list[_Instruction]], refusal: int, *, notifies: bool
) -> Filter:
    """Join the blocks of all calls; any other gets the refusal."""
    program = [
        _Instruction(_LOAD, _OFFSET_ARCH),
        # int 0x80 and 32-bit arm have another architecture value and other numbers.
        _Instruction(_EQUAL, table.audit_arch, 1, 0),
        _Instruction(_RETURN, KILL),
        _Instruction(_LOAD, _OFFSET_NUMBER),
        _Instruction(_AT_LEAST, _X32_BIT, 0, 1),
        _Instruction(_RETURN, KILL),
        *chain.from_iterable(blocks),
        _Instruction(_RETURN, refusal),
    ]
    code = b"".join(
        struct.pack("=HBBI", step.code, step.if_true, step.if_false, step.constant)
        for step in program
    )
    offsets = tuple(8 * position + 4 for position, step in enumerate(program) if step.is_pid)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=H6xQ", len(program), ctypes.addressof(buffer))
    held = ctypes.create_string_buffer(header, len(header))
    return Filter(table, code, offsets, notifies, buffer, held)


def _block(number: int, answer: int, checks: list[_Check], refusal: int) -> list[_Instruction]:
    """Build the block of one call: `answer` if all checks pass, otherwise `refusal`."""
    steps = [step for check in checks for step in check]
    size = len(steps) + 1 + bool(steps)
    resolved = [
        _Instruction(
            step.code,
            step.constant,
            _distance(step.if_true, position, len(steps)),
            _distance(step.if_false, position, len(steps)),
            step.is_pid,
        )
        for position, step in enumerate(steps)
    ]
    block = [_Instruction(_EQUAL, number, 0, size), *resolved, _Instruction(_RETURN, answer)]
    return [*block, _Instruction(_RETURN, refusal)] if steps else block


def _distance(jump: int, position: int, steps: int) -> int:
    """Return the offset of a jump; a failed check jumps to the refusal after the answer."""
    return steps - position if jump == _FAIL else jump
