"""Landlock with every right handled and no rule: everything that a right covers is denied.

Rights by ABI: Linux ``Documentation/userspace-api/landlock.rst``. Landlock does *not* cover stat,
chdir, chmod, O_PATH, UDP and unix sockets by path; other layers do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence

from . import _libc

__all__ = ["EXECUTE", "READ", "WRITE_FILE", "abi", "restrict", "restrict_except"]

# These numbers are the same on every architecture (the unified part of the table).
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PATH_BENEATH = 1
_VERSION_FLAG = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ = 1 << 2 | 1 << 3
"""Read files and list folders."""
_FOLDER_ONLY = (1 << 3) | ((1 << 14) - (1 << 4))
"""Rights that apply to folders only; the kernel rejects a rule that grants one to a file."""

_NEWEST_KNOWN = 7
_WORD_BITS = 64


def abi() -> int:
    """Return the Landlock ABI of this kernel; 0 if it is absent, off, or hidden by a filter."""
    try:
        return _libc.syscall(_CREATE_RULESET, 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(version: int) -> tuple[int, int, int]:
    """Deny every right of `version` to this process and its children, permanently.

    Requires no_new_privs. Returns the denied masks: file system, network, scope.

    Raises:
        OSError: If the kernel refused.
    """
    masks = _rights_of(version)
    if version > _NEWEST_KNOWN:
        masks = _with_unknown_rights(masks)
    ruleset = _create(masks, _fields(version))
    try:
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return masks


def restrict_except(
    version: int, grants: Sequence[tuple[bytes | int, int]], *, network: bool
) -> None:
    """Deny every right except `grants` to this process and its children, permanently.

    Requires no_new_privs. Signals to processes outside the domain and abstract unix sockets are
    denied if the version supports it.

    Args:
        version: Result of `abi`.
        grants: Paths or descriptors, each with the rights to it and everything beneath it. Rights
            that the version does not know, and paths that do not exist, are ignored.
        network: True: do not restrict TCP.

    Raises:
        OSError: If the kernel refused.
    """
    files, net, scope = _rights_of(version)
    ruleset = _create((files, 0 if network else net, scope), _fields(version))
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights & files)
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: bytes | int, rights: int) -> None:
    try:
        beneath = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= ~_FOLDER_ONLY
        # packed: the structure has no padding
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, beneath), 12)
        _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(beneath)


def _rights_of(version: int) -> tuple[int, int, int]:
    """Return the masks of the rights documented for `version`."""
    files = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # REFER, TRUNCATE, IOCTL_DEV
    net = 0b11 if version >= 4 else 0  # bind and connect of TCP
    scope = 0b11 if version >= 6 else 0  # abstract unix sockets, signals outside the domain
    return (1 << files) - 1, net, scope


def _with_unknown_rights(masks: tuple[int, int, int]) -> tuple[int, int, int]:
    """Extend `masks` by every right that a newer kernel accepts, to deny unknown rights too."""
    found = list(masks)
    for field in range(3):
        for bit in range(found[field].bit_length(), _WORD_BITS):
            trial = list(found)
            trial[field] |= 1 << bit
            try:
                os.close(_create((trial[0], trial[1], trial[2]), 3))
            except OSError as error:
                if error.errno == errno.EINVAL:
                    break
                raise
            found = trial
    return found[0], found[1], found[2]


def _fields(version: int) -> int:
    """Return how many words of `struct landlock_ruleset_attr` a kernel of `version` reads."""
    if version >= 6:
        return 3
    return 2 if version >= 4 else 1


def _create(masks: tuple[int, int, int], fields: int) -> int:
    words = masks[:fields]
    attributes = ctypes.create_string_buffer(struct.pack(f"={fields}Q", *words), 8 * fields)
    return _libc.syscall(_CREATE_RULESET, ctypes.addressof(attributes), 8 * fields, 0)
