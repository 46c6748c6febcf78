"""What the kernel refuses to a command that a tool runs: network, other processes, other files.

Rule 1: A layer that is required is on, or the command does not run and the refusal names it.
    (test_a_kernel_without_landlock_refuses_and_names_the_way_out)
Rule 2: With the network off no socket reaches the host or beyond, whatever the program.
    (test_no_known_bypass_reaches_a_server_of_the_host)
Rule 3: Nothing outside the root and the private folder for temporary files is changed, in content
    or attributes, and nothing is read there but what programs need to run.
    (test_no_known_bypass_writes_outside_the_root, test_files_outside_the_root_cannot_be_read)
Rule 4: The same holds without namespaces, as in most containers.
    (the same tests, mode ``container``)
Rule 5: No process of the host can be signalled, traced or looked into.
    (test_processes_of_the_host_are_out_of_reach)
Rule 6: A brokered command changes nothing in the root by itself: what it asks for is done by its
    launcher, which knows what is protected there (`_broker`).
    (test_without_the_broker_a_command_changes_nothing_in_the_root)

Which layer carries what: seccomp sockets by family, io_uring and new namespaces; Landlock files,
and signals where there is no PID namespace; namespaces take away the network, the host's
processes, and (as read-only mounts) the attributes of files outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct

from ..kernel import _landlock, _libc, _namespaces
from . import _broker, _filter

TYPE_CHECKING = False  # As `typing` says, which takes 3 ms to import.
if TYPE_CHECKING:
    from _socket import socket

__all__ = ["Refused", "confine", "enter_namespaces", "isolate_process_tree", "problems", "settle"]

_TMP_OPTIONS = b"size=512m,nr_inodes=131072,mode=700"
"""Private temporary files are memory, so they have a bound, and vanish with the namespace."""
_SHM_OPTIONS = b"size=64m,nr_inodes=4096,mode=1777"

# include/uapi/linux/{landlock,mount,sockios,if}.h
_SIGNAL_SCOPE_ABI = 6
_TRUNCATE_ABI = 3
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_RECURSIVE, _OPEN_TREE_CLONE = -100, 0x8000, 1
_MOVE_MOUNT_F_EMPTY_PATH, _MOUNT_ATTR_RDONLY = 4, 1
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/etc/alternatives"),
)
_DATA = (
    *("/etc/" + name for name in (
        "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts",
        "gai.conf", "gitconfig", "group", "host.conf", "hostname", "hosts", "inputrc", "java",
        "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
        "lsb-release", "magic", "magic.mime", "mime.types", "networks", "nsswitch.conf",
        "os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs",
        "profile", "profile.d", "protocols", "python3", "resolv.conf", "rpc", "services",
        "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
        "bash.bashrc", "xdg",
    )),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
    *("/dev/random", "/dev/urandom"),
)  # fmt: skip
"""No keys, no password hashes: the rest of /etc and all homes stay closed."""
_PROC_FILES = tuple(
    "/proc/" + name
    for name in (
        *("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "swaps"),
        *("sys/kernel/osrelease", "sys/kernel/pid_max", "sys/vm/overcommit_memory"),
    )
)
"""Where no fresh /proc can be mounted: nothing about single processes."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")


class Refused(Exception):
    """Raised when a required layer cannot be had. Its text says which and why."""


def problems(*, brokered: bool) -> list[str]:
    """What this kernel lacks, whatever namespaces it allows; empty if it will do."""
    found = []
    reason = _filter.available()
    if reason:
        found.append(f"seccomp: {reason}")
    elif brokered and (reason := _filter.listening()):
        found.append(f"protected paths: {reason}")
    if _landlock.abi() < 1:
        found.append(
            "landlock: the kernel does not offer it; it needs Linux >= 5.13 with "
            "CONFIG_SECURITY_LANDLOCK=y, 'landlock' in its lsm= list, and a container profile that "
            "lets landlock_* through"
        )
    return found


def enter_namespaces(*, network: bool) -> frozenset[str]:
    """Take what the kernel allows; return the names of what was entered.

    The PID namespace is for the next child. Users keep their numbers, so that files look as ever.
    """
    uid, gid = os.getuid(), os.getgid()
    kept = frozenset({"net"} if network else ())
    refused = _namespaces.unshare(kept)
    if "user" in refused:
        return frozenset()
    # Root without CAP_SETFCAP may not map itself; it is then 65534 inside, and as able as before.
    with contextlib.suppress(OSError):
        _namespaces.map_ids(uid, gid, inner=(uid, gid))
    if "uts" not in refused:
        with contextlib.suppress(OSError):
            _namespaces.neutral_host_name()
    return frozenset(_namespaces.CLONE_FLAGS) - refused.keys() - kept


def settle(entered: frozenset[str], root: bytes, tmp: bytes, *, writable: bool) -> frozenset[str]:
    """Arrange mounts and the private loopback, as first process of the PID namespace.

    Returns what was arranged: ``read_only``, ``shm``, ``proc``, ``loopback``.
    """
    done = set()
    if "mount" in entered:
        if _read_only_but(root, tmp, writable=writable):
            done.add("read_only")
        with contextlib.suppress(OSError):
            _mount(b"tmpfs", b"/dev/shm", _MS_NOSUID | _MS_NODEV, _SHM_OPTIONS, (root, tmp))
            done.add("shm")
        if "pid" in entered:
            with contextlib.suppress(OSError):
                flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
                _mount(b"proc", b"/proc", flags, None, (root, tmp))
                done.add("proc")
    if "net" in entered:
        with contextlib.suppress(OSError):
            _loopback_up()
            done.add("loopback")
    return frozenset(done)


def _read_only_but(root: bytes, tmp: bytes, *, writable: bool) -> bool:
    """Make every mount read-only, but the root's own if `writable`; hang memory at `tmp`.

    Returns False, with nothing changed, if the kernel cannot (before 5.12) or may not.
    """
    try:
        _libc.path_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        tree = _clone_tree(root)
    except OSError:
        return False
    try:
        if root != b"/" or not writable:
            try:
                _make_all_read_only()
            except OSError:
                return False
        if root != b"/" and writable:
            empty, there = ctypes.create_string_buffer(b""), ctypes.create_string_buffer(root)
            _libc.syscall(
                *(_MOVE_MOUNT, tree, ctypes.addressof(empty), _AT_FDCWD, ctypes.addressof(there)),
                _MOVE_MOUNT_F_EMPTY_PATH,
            )
        _libc.path_call("mount", b"tmpfs", tmp, b"tmpfs", _MS_NOSUID | _MS_NODEV, _TMP_OPTIONS)
    finally:
        os.close(tree)
    return True


def _make_all_read_only() -> None:
    attributes = ctypes.create_string_buffer(struct.pack("=4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0))
    slash = ctypes.create_string_buffer(b"/")
    _libc.syscall(
        *(_MOUNT_SETATTR, _AT_FDCWD, ctypes.addressof(slash), _AT_RECURSIVE),
        *(ctypes.addressof(attributes), 32),
    )


def _clone_tree(path: bytes) -> int:
    name = ctypes.create_string_buffer(path)
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return _libc.syscall(_OPEN_TREE, _AT_FDCWD, ctypes.addressof(name), flags)


def _mount(
    kind: bytes, place: bytes, flags: int, options: bytes | None, kept: tuple[bytes, ...]
) -> None:
    """Mount over `place`, unless one of `kept` is there or beneath it."""
    if any(path == b"/" or path == place or path.startswith(place + b"/") for path in kept):
        raise OSError(f"{place!r} is in use")
    _libc.path_call("mount", kind, place, kind, flags, options)


def _loopback_up() -> None:
    # The C module: the Python one on top of it takes 8 ms to import.
    from _socket import AF_INET, SOCK_DGRAM, socket

    device = socket(AF_INET, SOCK_DGRAM)
    try:
        request = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(device.fileno(), _SIOCGIFFLAGS, request), 16)
        request = struct.pack("16sH22x", b"lo", flags | _IFF_UP)
        fcntl.ioctl(device.fileno(), _SIOCSIFFLAGS, request)
    finally:
        device.close()


def isolate_process_tree() -> None:
    """Where there is no PID namespace: orphans of the command become this process's children."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


_PR_SET_CHILD_SUBREAPER = 36


def confine(
    entered: frozenset[str],
    settled: frozenset[str],
    *,
    root: bytes,
    tmp: bytes,
    readable: list[bytes],
    programs: list[bytes],
    writable: bool,
    network: bool,
    required: bool,
    handover: socket | None,
) -> None:
    """Put the rest on this process for good: powers, filter, Landlock. The command is next.

    Args:
        entered: As `enter_namespaces` said.
        settled: As `settle` said.
        root: Folder whose content may change.
        tmp: Folder for temporary files.
        readable: Further folders and files that may be read and executed.
        programs: All that may be executed, if there are any; files in the root then may not.
        writable: Whether the root's content may change.
        network: Whether the host's network may be used.
        required: False: go without what this kernel does not have.
        handover: Socket to the broker that makes changes in the root; None: the command itself may.

    Raises:
        Refused: If a required layer is missing.
        OSError: If the kernel refused a step that it should not.
    """
    abi = _landlock.abi()
    missing = _missing(entered, settled, abi)
    if missing and required:
        raise Refused("; ".join(missing))
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    _libc.drop_capabilities()
    brokered = False
    if not _filter.available():
        scratch = [tmp, *([b"/dev/shm"] if "shm" in settled else [])]
        brokered = _install_filter(
            *(handover if abi >= 1 else None, scratch),
            internet=network or "net" in entered,
            attributes="read_only" in settled,
            required=required,
        )
    if abi >= 1:
        grants = _grants(
            *(root if writable and not brokered else None, tmp, [*readable, root], programs),
            own_proc="proc" in settled,
            shm="shm" in settled,
        )
        _landlock.restrict_but(abi, grants, network=network or "net" in entered)


def _missing(entered: frozenset[str], settled: frozenset[str], abi: int) -> list[str]:
    missing = []
    if "pid" not in entered and abi < _SIGNAL_SCOPE_ABI:
        missing.append(
            "processes: there is no PID namespace, and Landlock confines signals from ABI 6 on "
            f"(Linux 6.12); this kernel has {abi}"
        )
    if "read_only" not in settled and abi < _TRUNCATE_ABI:
        missing.append(
            "files: there is no mount namespace, and Landlock covers truncate from ABI 3 on "
            f"(Linux 6.2); this kernel has {abi}"
        )
    return missing


def _install_filter(
    handover: socket | None,
    scratch: list[bytes],
    *,
    internet: bool,
    attributes: bool,
    required: bool,
) -> bool:
    """Install the filter; return True if it puts changes of files to a broker."""
    if handover is not None:
        code = _filter.build(internet=internet, attributes=attributes, brokered=True)
        try:
            listener = _filter.listen(code)
        except OSError as error:
            if required:
                what = f"the kernel gives this process no seccomp listener ({error})"
                if error.errno == errno.EBUSY:
                    what = "a filter of this container has the one seccomp listener there can be"
                raise Refused(f"protected paths: {what}") from None
        else:
            _broker.hand_over(handover, listener, scratch)
            return True
    _filter.install(_filter.build(internet=internet, attributes=attributes))
    return False


def _grants(
    root: bytes | None,
    tmp: bytes,
    readable: list[bytes],
    programs: list[bytes],
    *,
    own_proc: bool,
    shm: bool,
) -> list[tuple[bytes, int]]:
    """Paths and rights. `root`: None if it may not be written."""
    data = [*map(os.fsencode, _DATA), *([b"/proc"] if own_proc else map(os.fsencode, _PROC_FILES))]
    change = _landlock.READ | _landlock.WRITE_FILE
    use = _landlock.READ if programs else _landlock.READ | _landlock.EXECUTE
    everything = ~_landlock.EXECUTE if programs else ~0
    grants = [
        (tmp, everything),
        *((path, use) for path in (*map(os.fsencode, _PROGRAMS), *readable)),
        *((path, _landlock.READ | _landlock.EXECUTE) for path in programs),
        *((path, _landlock.READ) for path in data),
        *((os.fsencode(path), change) for path in _DEVICES),
    ]
    if root is not None:
        grants.append((root, everything))
    if shm:
        grants.append((b"/dev/shm", everything))
    return grants
