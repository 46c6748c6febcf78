"""Kernel confinement of a command that a tool runs: network, other processes, other files.

Rule 1: Every required layer is on, or the command does not run and the error names the layer.
    (test_command_without_landlock_is_refused_with_a_suggested_fix)
Rule 2: With the network off, no program can open a socket to the host or beyond.
    (test_known_network_bypasses_reach_no_host_server)
Rule 3: A command changes no content or attributes outside the root and its private folder for
    temporary files, and reads nothing there except files that programs need to run.
    (test_known_bypasses_write_nothing_outside_the_root, test_files_outside_the_root_cannot_be_read)
Rule 4: The same holds without namespaces, as in most containers.
    (the same tests, mode ``container``)
Rule 5: No process of the host can be signalled, traced or inspected.
    (test_command_cannot_affect_or_inspect_host_processes)
Rule 6: A brokered command changes nothing in the root by itself: its launcher makes the changes
    and enforces the protected paths (`_broker`).
    (test_without_the_broker_a_command_changes_nothing_in_the_root)

The layers: seccomp restricts sockets by family, io_uring and new namespaces. Landlock restricts
files, and signals if there is no PID namespace. Namespaces remove the network, the host's
processes and, through read-only mounts, changes of attributes outside the root.
"""

from __future__ import annotations

import contextlib
import errno
import os

from ..kernel import _landlock, _libc, _namespaces
from . import _broker, _filter

TYPE_CHECKING = False  # `typing` takes 3 ms to import.
if TYPE_CHECKING:
    from _socket import socket

__all__ = [
    "MissingLayerError",
    "confine",
    "enter_namespaces",
    "isolate_process_tree",
    "missing_layers",
]

# include/uapi/linux/landlock.h
_SIGNAL_SCOPE_ABI = 6
_TRUNCATE_ABI = 3

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
"""No keys or password hashes: the rest of /etc and all homes stay inaccessible."""
_PROC_FILES = tuple(
    "/proc/" + name
    for name in (
        *("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "swaps"),
        *("sys/kernel/osrelease", "sys/kernel/pid_max", "sys/vm/overcommit_memory"),
    )
)
"""Readable if no new /proc can be mounted: nothing about single processes."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")


class MissingLayerError(Exception):
    """Raised when a required layer is missing. The message names the layer and the reason."""


def missing_layers(*, brokered: bool) -> list[str]:
    """List the layers that this kernel lacks even with all namespaces; empty if none."""
    found = []
    reason = _filter.filter_problem()
    if reason:
        found.append(f"seccomp: {reason}")
    elif brokered and (reason := _filter.listener_problem()):
        found.append(f"protected paths: {reason}")
    if _landlock.abi() < 1:
        found.append(
            "landlock: the kernel does not offer it; it needs Linux >= 5.13 with "
            "CONFIG_SECURITY_LANDLOCK=y, 'landlock' in its lsm= list, and a container profile that "
            "allows landlock_*"
        )
    return found


def enter_namespaces(*, network: bool) -> frozenset[str]:
    """Enter the namespaces that the kernel allows; return their names.

    The PID namespace applies to the next child. User ids stay the same, so that files keep their
    visible owners.
    """
    uid, gid = os.getuid(), os.getgid()
    excluded = frozenset({"net"} if network else ())
    refused = _namespaces.unshare(excluded)
    if "user" in refused:
        return frozenset()
    # Root without CAP_SETFCAP may not map itself; it is then 65534 inside, with the same rights.
    with contextlib.suppress(OSError):
        _namespaces.map_ids(uid, gid, inner=(uid, gid))
    if "uts" not in refused:
        with contextlib.suppress(OSError):
            _namespaces.set_neutral_host_name()
    return frozenset(_namespaces.CLONE_FLAGS) - refused.keys() - excluded


def isolate_process_tree() -> None:
    """Adopt orphans of the command as children of this process, for lack of a PID namespace."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


_PR_SET_CHILD_SUBREAPER = 36


def confine(
    entered: frozenset[str],
    mounts: frozenset[str],
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
    """Apply the remaining layers permanently: capabilities, filter, Landlock. Then comes exec.

    Args:
        entered: Result of `enter_namespaces`.
        mounts: Result of `set_up_mounts`.
        root: Folder with the command's files.
        tmp: Folder for temporary files.
        readable: Further folders and files that may be read and executed.
        programs: If not empty: the only files that may be executed; files in the root may not.
        writable: True: the root's content may change.
        network: True: the host's network may be used.
        required: False: continue without layers that this kernel lacks.
        handover: Socket to the broker that makes changes in the root; None: no broker.

    Raises:
        MissingLayerError: If a required layer is missing.
        OSError: If the kernel refused a step that it should support.
    """
    abi = _landlock.abi()
    missing = _missing(entered, mounts, abi)
    if missing and required:
        raise MissingLayerError("; ".join(missing))
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    _libc.drop_capabilities()
    brokered = False
    if not _filter.filter_problem():
        scratch = [tmp, *([b"/dev/shm"] if "shm" in mounts else [])]
        brokered = _install_filter(
            *(handover if abi >= 1 else None, scratch),
            internet=network or "net" in entered,
            attributes="read_only" in mounts,
            required=required,
        )
    if abi >= 1:
        grants = _grants(
            *(root if writable and not brokered else None, tmp, [*readable, root], programs),
            own_proc="proc" in mounts,
            shm="shm" in mounts,
        )
        _landlock.restrict_except(abi, grants, network=network or "net" in entered)


def _missing(entered: frozenset[str], mounts: frozenset[str], abi: int) -> list[str]:
    missing = []
    if "pid" not in entered and abi < _SIGNAL_SCOPE_ABI:
        missing.append(
            "processes: there is no PID namespace, and Landlock restricts signals only from ABI 6 "
            f"on (Linux 6.12); this kernel has ABI {abi}"
        )
    if "read_only" not in mounts and abi < _TRUNCATE_ABI:
        missing.append(
            "files: there is no mount namespace, and Landlock covers truncate only from ABI 3 on "
            f"(Linux 6.2); this kernel has ABI {abi}"
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
    """Install the filter; return True if a broker makes the changes of files."""
    if handover is not None:
        code = _filter.build(internet=internet, attributes=attributes, brokered=True)
        try:
            listener = _filter.install_with_listener(code)
        except OSError as error:
            if required:
                reason = f"the kernel refuses this process a seccomp listener ({error})"
                if error.errno == errno.EBUSY:
                    reason = "a filter of this container already has the only seccomp listener"
                raise MissingLayerError(f"protected paths: {reason}") from None
        else:
            _broker.send_listener(handover, listener, scratch)
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
    """List paths with their rights. `root` is None if it may not be written."""
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
