"""Landlock with every right handled and no rule: whatever a right covers is refused.

Rights by ABI: Linux ``Documentation/userspace-api/landlock.rst``. What Landlock does *not* cover
(stat, chdir, chmod, O_PATH, UDP, unix sockets by path) is the business of the other layers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from . import _libc

__all__ = ["EXECUTE", "READ", "WRITE_FILE", "abi", "restrict", "restrict_but"]

# The numbers are the same on every architecture (the unified part of the table).
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PATH_BENEATH = 1
_VERSION_FLAG = 1

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ = 1 << 2 | 1 << 3
"""Files and the names in folders."""
_FOLDER_ONLY = (1 << 3) | ((1 << 14) - (1 << 4))
"""Rights that have no meaning for a file; the kernel refuses a rule that grants one to it."""

_NEWEST_KNOWN = 7
_WORD_BITS = 64


def abi() -> int:
    """The Landlock ABI of the running kernel, 0 if it is absent, off, or hidden by a filter."""
    try:
        return _libc.syscall(_CREATE_RULESET, 0, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(version: int) -> tuple[int, int, int]:
    """Refuse every right of `version` to this process and its children, for good.

    Needs no_new_privs. Returns the masks handled: file system, network, scope.

    Raises:
        OSError: If the kernel refused.
    """
    masks = _known(version)
    if version > _NEWEST_KNOWN:
        masks = _grown(masks)
    ruleset = _create(masks, _fields(version))
    try:
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return masks


def restrict_but(version: int, grants: list[tuple[bytes, int]], *, network: bool) -> None:
    """Refuse every right but `grants` to this process and its children, for good.

    Needs no_new_privs. Signals out of the domain and abstract unix sockets are refused where the
    version can.

    Args:
        version: As `abi` says.
        grants: Path and rights in it and beneath it; those the version does not know are left
            out, as is a path that does not exist.
        network: True: leave TCP alone.

    Raises:
        OSError: If the kernel refused.
    """
    files, net, scope = _known(version)
    ruleset = _create((files, 0 if network else net, scope), _fields(version))
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights & files)
        _libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: bytes, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
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


def _known(version: int) -> tuple[int, int, int]:
    """The rights documented for `version`."""
    files = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # REFER, TRUNCATE, IOCTL_DEV
    net = 0b11 if version >= 4 else 0  # bind and connect of TCP
    scope = 0b11 if version >= 6 else 0  # abstract unix sockets, signals out of the domain
    return (1 << files) - 1, net, scope


def _grown(masks: tuple[int, int, int]) -> tuple[int, int, int]:
    """`masks` and every further right a newer kernel accepts: unknown rights are refused too."""
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
    """How many words of `struct landlock_ruleset_attr` a kernel of `version` reads."""
    if version >= 6:
        return 3
    return 2 if version >= 4 else 1


def _create(masks: tuple[int, int, int], fields: int) -> int:
    words = masks[:fields]
    attributes = ctypes.create_string_buffer(struct.pack(f"={fields}Q", *words), 8 * fields)
    return _libc.syscall(_CREATE_RULESET, ctypes.addressof(attributes), 8 * fields, 0)
