"""Namespaces and the empty root, as far as the kernel allows them to an unprivileged process.

No step is required. Every step returns its result; the probe reports it to the operator.
"""

from __future__ import annotations

import contextlib
import os

from . import _libc

__all__ = [
    "CLONE_FLAGS",
    "enter_empty_root",
    "map_ids",
    "namespace_links",
    "set_neutral_host_name",
    "unshare",
]

CLONE_FLAGS = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "pid": 0x20000000,
    "cgroup": 0x02000000,
}
"""Name of a namespace -> its flag in clone(2); ``user`` first, the others need its capabilities."""

INNER_ID = 65534
"""The only user and group inside: nobody, never 0."""

HOST_NAME = "sandbox"

_LINKS = {name: {"mount": "mnt"}.get(name, name) for name in CLONE_FLAGS}
# Any existing directory will do: the empty root is mounted there only briefly.
_MOUNT_POINTS = ("/mnt", "/tmp", "/proc", "/usr")  # noqa: S108 - nothing is written there
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_MNT_DETACH = 2


def namespace_links() -> dict[str, str]:
    """Return the kernel's names of this process's namespaces, by the names of `CLONE_FLAGS`."""
    found = {}
    for name, link in _LINKS.items():
        # A kernel built without a namespace has no link for it.
        with contextlib.suppress(FileNotFoundError):
            found[name] = os.readlink(f"/proc/self/ns/{link}")
    return found


def unshare(excluded: frozenset[str] = frozenset()) -> dict[str, str]:
    """Unshare every namespace that the kernel allows; return the refused ones with the reasons.

    The PID namespace takes effect for the next child only.

    Args:
        excluded: Names of namespaces not to unshare.
    """
    wanted = {name: flag for name, flag in CLONE_FLAGS.items() if name not in excluded}
    try:
        _libc.path_call("unshare", sum(wanted.values()))
    except OSError:
        return _unshare_one_by_one(wanted)
    return {}


def _unshare_one_by_one(wanted: dict[str, int]) -> dict[str, str]:
    """Unshare each namespace alone: a kernel or container may refuse one and allow another."""
    refused: dict[str, str] = {}
    for name, flag in wanted.items():
        if "user" in refused:
            refused[name] = refused["user"]
            continue
        try:
            _libc.path_call("unshare", flag)
        except OSError as error:
            refused[name] = str(error)
    return refused


def map_ids(uid: int, gid: int, inner: tuple[int, int] = (INNER_ID, INNER_ID)) -> None:
    """Make `uid` and `gid` of the parent namespace the only identities in the new one.

    Args:
        uid: The caller's own user.
        gid: The caller's own group.
        inner: Their ids in the new namespace.

    Raises:
        OSError: If the kernel refused; both ids are then the unmapped one, 65534.
    """
    # setgroups first: without "deny" an unprivileged process may not write gid_map (CVE-2014-8989)
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner[0]} {uid} 1"),
        ("gid_map", f"{inner[1]} {gid} 1"),
    ):
        descriptor = os.open(f"/proc/self/{file}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def set_neutral_host_name() -> None:
    """Hide the machine's name from a script that manages to call uname(2)."""
    _libc.path_call("sethostname", HOST_NAME.encode(), len(HOST_NAME))
    _libc.path_call("setdomainname", b"", 0)


def enter_empty_root() -> None:
    """Replace the root by an empty, read-only tmpfs and detach the old one.

    Call it in the new mount namespace. Afterwards no path exists: no /proc, no /dev.

    Raises:
        OSError: If the kernel refused a step, e.g. pivot_root on an initramfs (EINVAL).
    """
    locked = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _libc.path_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    spot = next((path for path in _MOUNT_POINTS if os.path.isdir(path)), "/")
    options = b"size=4k,nr_inodes=2,mode=555"
    _libc.path_call("mount", b"tmpfs", spot.encode(), b"tmpfs", locked, options)
    os.chdir(spot)
    # new and old root at the same path, see pivot_root(2): the old one is then stacked on top
    _libc.path_call("pivot_root", b".", b".")
    _libc.path_call("umount2", b".", _MNT_DETACH)
    _libc.path_call("mount", b"none", b"/", None, _MS_REMOUNT | _MS_RDONLY | locked, None)
    os.chdir("/")
