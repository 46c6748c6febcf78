"""Mounts of a command's namespaces, and their private loopback."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct

from ..kernel import _libc

__all__ = ["set_up_mounts"]

_TMP_OPTIONS = b"size=512m,nr_inodes=131072,mode=700"
"""Private temporary files use memory: they are bounded, and vanish with the namespace."""
_SHM_OPTIONS = b"size=64m,nr_inodes=4096,mode=1777"

# include/uapi/linux/{mount,sockios,if}.h
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_RECURSIVE, _OPEN_TREE_CLONE = -100, 0x8000, 1
_MOVE_MOUNT_F_EMPTY_PATH, _MOUNT_ATTR_RDONLY = 4, 1
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def set_up_mounts(
    entered: frozenset[str], root: bytes, tmp: bytes, *, writable: bool
) -> frozenset[str]:
    """Set up mounts and the private loopback, as first process of the PID namespace.

    Returns the steps that succeeded: ``read_only``, ``shm``, ``proc``, ``loopback``.
    """
    done = set()
    if "mount" in entered:
        if _make_read_only_except(root, tmp, writable=writable):
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


def _make_read_only_except(root: bytes, tmp: bytes, *, writable: bool) -> bool:
    """Make every mount read-only, except the root if `writable`; mount a tmpfs at `tmp`.

    Returns False, with nothing changed, if the kernel does not support it (before 5.12) or a
    container forbids it.
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
    """Mount over `place`, unless one of `kept` is there or beneath it.

    Raises:
        OSError: If it is, or the kernel refused.
    """
    if any(path == b"/" or path == place or path.startswith(place + b"/") for path in kept):
        raise OSError(f"{place!r} is in use")
    _libc.path_call("mount", kind, place, kind, flags, options)


def _loopback_up() -> None:
    # The C module: the Python module on top of it takes 8 ms to import.
    from _socket import AF_INET, SOCK_DGRAM, socket

    device = socket(AF_INET, SOCK_DGRAM)
    try:
        request = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(device.fileno(), _SIOCGIFFLAGS, request), 16)
        request = struct.pack("16sH22x", b"lo", flags | _IFF_UP)
        fcntl.ioctl(device.fileno(), _SIOCSIFFLAGS, request)
    finally:
        device.close()
