"""Landlock with every right handled and no rule: whatever a right covers is refused.

Rights by ABI: Linux ``Documentation/userspace-api/landlock.rst``. What Landlock does *not* cover
(stat, chdir, chmod, O_PATH, UDP, unix sockets by path) is the business of the other layers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from . import _libc

__all__ = ["abi", "restrict"]

# The numbers are the same on every architecture (the unified part of the table).
_CREATE_RULESET = 444
_RESTRICT_SELF = 446
_VERSION_FLAG = 1

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
