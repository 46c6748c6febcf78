"""System call filter of a command: denies the calls that would escape its confinement.

A command is any program, so this is a deny-list, unlike a worker's filter (`_seccomp`), and a
denied call returns an error instead of killing the process: programs probe for features. It denies
the calls that the other layers cannot see: sockets by family, new namespaces and mounts, io_uring
(no filter sees its requests), other processes' memory, and administration of the kernel.

Not built on `_seccomp`, whose imports would cost every command 10 ms. Classic BPF over ``struct
seccomp_data``, see Linux ``Documentation/userspace-api/seccomp_filter.rst``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from ..kernel import _libc

__all__ = [
    "build",
    "filter_problem",
    "install",
    "install_with_listener",
    "listener_problem",
    "numbers",
]

_ALLOW, _KILL, _ERRNO, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_LOAD, _RETURN, _AND, _EQUAL, _AT_LEAST, _ANY_BIT = 0x20, 0x06, 0x54, 0x15, 0x35, 0x45
_NUMBER, _ARCH, _ARGS = 0, 4, 16
_X32_BIT = 0x40000000
_SET_MODE_FILTER, _GET_ACTION_AVAIL, _GET_NOTIF_SIZES = 1, 2, 3
_FLAG_TSYNC, _FLAG_NEW_LISTENER, _FLAG_WAIT_KILLABLE = 1, 8, 32

# Name of a machine -> its AUDIT_ARCH_*, the number of seccomp(2), and those of the calls below.
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h
_X86_64 = {
    "open": 2, "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "truncate": 76,
    "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101,
    "syslog": 103, "utime": 132, "mknod": 133, "uselib": 134, "modify_ldt": 154, "pivot_root": 155,
    "_sysctl": 156, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "nfsservctl": 180, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "lookup_dcookie": 212, "clock_settime": 227, "utimes": 235,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257,
    "mkdirat": 258, "mknodat": 259, "fchownat": 260, "futimesat": 261, "unlinkat": 263,
    "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268, "unshare": 272,
    "utimensat": 280, "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "finit_module": 313, "renameat2": 316, "kexec_file_load": 320, "bpf": 321,
    "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
    "fremovexattr": 16, "lookup_dcookie": 18, "ioctl": 29, "mknodat": 33, "mkdirat": 34,
    "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "umount2": 39, "mount": 40,
    "pivot_root": 41, "nfsservctl": 42, "truncate": 45, "chroot": 51, "fchmod": 52, "fchmodat": 53,
    "fchownat": 54, "fchown": 55, "openat": 56, "quotactl": 60, "utimensat": 88, "acct": 89,
    "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "settimeofday": 170,
    "adjtimex": 171, "socket": 198, "socketpair": 199, "add_key": 217, "request_key": 218,
    "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225, "perf_event_open": 241,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "renameat2": 276, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
_BOTH = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip
_MACHINES = {
    "x86_64": (0xC000003E, 317, _X86_64 | _BOTH),
    "aarch64": (0xC00000B7, 277, _AARCH64 | _BOTH),
}

_REFUSED = frozenset({
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "perf_event_open",
    # namespaces, mounts and roots
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr",
    "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    # a file by its handle, bypassing every path check
    "name_to_handle_at", "open_by_handle_at",
    # the kernel itself
    "bpf", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "delete_module", "reboot", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm", "uselib",
    "_sysctl", "nfsservctl", "lookup_dcookie", "modify_ldt",
    # a user's keys are shared by all processes of the user
    "add_key", "request_key", "keyctl",
})  # fmt: skip

_ABSENT = frozenset({"io_uring_setup", "io_uring_enter", "io_uring_register", "clone3"})
"""Answered with ENOSYS, so that programs fall back to older calls. clone3 has its flags in memory,
which a filter cannot read; glibc then uses clone."""

_ATTRIBUTES = frozenset({
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime",
    "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat",
    "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
})  # fmt: skip
"""Changes of a file's attributes, which Landlock does not cover: denied unless read-only mounts
protect the files outside the root. Also by descriptor: one opened for reading is enough."""

_BROKERED = frozenset({
    "creat", "mkdir", "mkdirat", "mknod", "mknodat", "link", "linkat", "symlink", "symlinkat",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "truncate",
})  # fmt: skip
"""Calls that change names; the broker makes them for a brokered command (`_broker_calls`)."""
_BROKERED_MODES = frozenset({"chmod", "fchmod", "fchmodat", "fchmodat2"})
"""Calls that change permissions; brokered if attributes may be changed at all."""
_BROKERED_OPENS = {"open": 1, "openat": 2}
"""Calls that open files, brokered if they could change anything: name -> index of their flags."""
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_TMPFILE & ~os.O_DIRECTORY

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET of include/uapi/linux/sched.h
_NEW_NAMESPACE = 0x7E020000
# TIOCSTI and TIOCLINUX inject input into the controlling terminal.
_TERMINAL_INPUT = (0x5412, 0x541C)
# btrfs and bcachefs create folders by ioctl, which no other layer sees. FICLONE, FICLONERANGE and
# FIDEDUPERANGE, which have btrfs's letter, copy between open files.
_REQUEST_LETTER, _VOLUME_LETTERS = 0xFF00, (0x9400, 0xBC00)
_COPY_REQUESTS = (0x40049409, 0x4020940D, 0xC0189436)
_TYPE_MASK, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 2, 10, 16, 0


def filter_problem() -> str:
    """Return why this machine cannot have a filter, or ``""`` if it can."""
    if os.uname().machine not in _MACHINES or struct.calcsize("P") != 8:
        return f"the filter supports only 64-bit {' and '.join(_MACHINES)}"
    action = ctypes.create_string_buffer(struct.pack("=I", _ERRNO), 4)
    try:
        number = _MACHINES[os.uname().machine][1]
        _libc.syscall(number, _GET_ACTION_AVAIL, 0, ctypes.addressof(action))
    except OSError as error:
        return (
            f"the kernel refuses it ({error}); it needs Linux >= 4.14, and a container profile "
            "that allows seccomp(2)"
        )
    return ""


def listener_problem() -> str:
    """Return why a filter cannot notify a broker on this machine, or ``""`` if it can."""
    sizes = ctypes.create_string_buffer(6)
    try:
        number = _MACHINES[os.uname().machine][1]
        _libc.syscall(number, _GET_NOTIF_SIZES, 0, ctypes.addressof(sizes))
    except OSError as error:
        return f"the kernel has no seccomp listeners ({error}); it needs Linux >= 5.9"
    if struct.unpack("=3H", sizes.raw) != (80, 24, 64):
        return f"the kernel's seccomp listeners have unknown message sizes: {sizes.raw.hex()}"
    return ""


def numbers() -> dict[str, int]:
    """Return the system call numbers of this machine by name."""
    return _MACHINES[os.uname().machine][2]


def build(*, internet: bool, attributes: bool, brokered: bool = False) -> bytes:
    """Assemble the filter for this machine.

    Unix sockets are always denied: with one a command could reach daemons of the host (Docker,
    D-Bus, a key agent), and neither a network namespace nor Landlock stops a connection by path.
    socketpair is allowed for types that cannot be redirected to another address; a datagram socket
    of a pair can (connect(2), sendto(2)).

    Args:
        internet: True: sockets of the internet families may be created.
        attributes: True: attributes of files may be changed.
        brokered: True: changes of files notify a listener, see `install_with_listener`.
    """
    arch, _, numbers = _MACHINES[os.uname().machine]
    # int 0x80 and 32-bit arm have another architecture value, x32 has a bit set: other numbers.
    steps = [
        *((_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL)),
        *((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)),
    ]
    refused = _REFUSED if attributes else _REFUSED | _ATTRIBUTES
    # openat2, like clone3, has its flags in memory, which a filter cannot read.
    absent = _ABSENT | {"openat2"} if brokered else _ABSENT
    asked = _BROKERED | _BROKERED_MODES if brokered else frozenset[str]()
    for name, number in numbers.items():
        if name in refused:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        elif name in absent:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
        elif name in asked:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
        elif brokered and name in _BROKERED_OPENS:
            test = [(_LOAD, 0, 0, _ARGS + 8 * _BROKERED_OPENS[name]), (_ANY_BIT, 0, 1, _CHANGING)]
            steps += _block(number, test, _NOTIFY)
    steps += _block(numbers["socket"], _sockets(internet=internet))
    pair = [
        *((_LOAD, 0, 0, _ARGS + 8), (_AND, 0, 0, _TYPE_MASK)),
        *((_EQUAL, 2, 0, _SOCK_STREAM), (_EQUAL, 1, 0, _SOCK_SEQPACKET)),
    ]
    steps += _block(numbers["socketpair"], pair)
    steps += _block(numbers["clone"], [(_LOAD, 0, 0, _ARGS), (_ANY_BIT, 0, 1, _NEW_NAMESPACE)])
    steps += _block(numbers["ioctl"], _requests())
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", code, yes, no, k) for code, yes, no, k in steps)


_Steps = list[tuple[int, int, int, int]]


def _block(number: int, test: _Steps, answer: int = _ERRNO | errno.EPERM) -> _Steps:
    """Build the steps of one call: `test` falls through to `answer`, or jumps over it to ALLOW."""
    ends = [(_RETURN, 0, 0, answer), (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(test) + len(ends), number), *test, *ends]


def _sockets(*, internet: bool) -> _Steps:
    if not internet:
        return []
    return [
        (_LOAD, 0, 0, _ARGS),
        (_EQUAL, 5, 0, _AF_INET),
        (_EQUAL, 4, 0, _AF_INET6),
        (_EQUAL, 0, 2, _AF_NETLINK),
        (_LOAD, 0, 0, _ARGS + 16),
        # NETLINK_ROUTE lists the interfaces; other families load tables into the kernel.
        (_EQUAL, 1, 0, _NETLINK_ROUTE),
    ]


def _requests() -> _Steps:
    allowed = [
        (_EQUAL, yes, 0, request) for yes, request in zip((8, 7, 6), _COPY_REQUESTS, strict=True)
    ]
    first, second = _TERMINAL_INPUT
    volumes, others = _VOLUME_LETTERS
    return [
        (_LOAD, 0, 0, _ARGS + 8),
        *allowed,
        *((_EQUAL, 4, 0, first), (_EQUAL, 3, 0, second)),
        (_AND, 0, 0, _REQUEST_LETTER),
        *((_EQUAL, 1, 0, volumes), (_EQUAL, 0, 1, others)),
    ]


def install(code: bytes) -> None:
    """Install a filter on this process permanently. Requires no_new_privs.

    Raises:
        OSError: If the kernel refused.
    """
    _install(code, _FLAG_TSYNC)


def install_with_listener(code: bytes) -> int:
    """Install a filter on this process, which has one thread, and return its listener.

    Raises:
        OSError: If the kernel refused; with EBUSY if another filter already has a listener.
    """
    try:
        # Linux 5.19: a signal does not restart a call that is being answered.
        return _install(code, _FLAG_NEW_LISTENER | _FLAG_WAIT_KILLABLE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _install(code, _FLAG_NEW_LISTENER)


def _install(code: bytes, flags: int) -> int:
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("=H6xQ", len(code) // 8, ctypes.addressof(buffer))
    held = ctypes.create_string_buffer(header, len(header))
    number = _MACHINES[os.uname().machine][1]
    return _libc.syscall(number, _SET_MODE_FILTER, flags, ctypes.addressof(held))
