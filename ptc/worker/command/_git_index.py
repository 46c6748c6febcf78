"""What may become the index of a git repository.

git believes its index: a name in it such as ``.git/hooks/post-checkout`` or ``../x`` is written by
the next ``git checkout .``, with the rights of whoever types that. Trees and commits are checked
when they are read, an index is not. So an index that a command makes is read here, and what becomes
the index is a copy with what was read and nothing else.

Rule 1: A name that git itself would not put into an index is refused.
    (test_an_index_with_a_name_that_git_would_refuse_is_refused)
Rule 2: What git needs and could not know is kept; what says where in the file to look is not, as it
    could show git other names than were read here. (test_an_index_of_git_stays_what_it_was)

The format: git's Documentation/gitformat-index.txt.
"""

from __future__ import annotations

import hashlib
import struct

from ..._protected import Protection

__all__ = ["MAX_INDEX_BYTES", "checked_index"]

MAX_INDEX_BYTES = 256 << 20
"""A repository of two million files."""

_HEAD = struct.Struct(">4s2I")
_STATUS_BYTES = 40
"""Times, device and the like, in front of an entry's digest; the mode is in bytes 24 to 28."""
_FLAGS = struct.Struct(">H")
_EXTENDED = 0x4000
_SYMLINK = 0o120000
_KEPT = (b"TREE", b"REUC", b"UNTR", b"FSMN", b"sdir")
_DROPPED = (b"EOIE", b"IEOT")
"""Offsets into the file."""


def checked_index(data: bytes) -> bytes:
    """The same index, safe.

    Raises:
        ValueError: If it has a name that it must not have, or is none that is known here.
    """
    for digest in (hashlib.sha1, hashlib.sha256):
        size = digest(usedforsecurity=False).digest_size
        body, trailer = data[:-size], data[-size:]
        if digest(body, usedforsecurity=False).digest() == trailer:
            safe = _checked(body, size)
            return safe + digest(safe, usedforsecurity=False).digest()
    # index.skipHash: no digest. It says nothing of the size of digests, so the names decide.
    for size in (20, 32):
        if not any(data[-size:]):
            try:
                return _checked(data[:-size], size) + bytes(size)
            except (ValueError, struct.error):
                if size == 32:
                    raise
    msg = "its digest is not that of its content"
    raise ValueError(msg)


def _checked(body: bytes, size: int) -> bytes:
    signature, version, count = _HEAD.unpack_from(body)
    if signature != b"DIRC" or version not in (2, 3, 4):
        msg = f"version {version} of the format is not known"
        raise ValueError(msg)
    at = _HEAD.size
    name = b""
    names = _Names()
    for _ in range(count):
        mode = int.from_bytes(body[at + 24 : at + 28], "big")
        place = at + _STATUS_BYTES + size
        (flags,) = _FLAGS.unpack_from(body, place)
        place += 4 if version > 2 and flags & _EXTENDED else 2
        if version == 4:
            removed, place = _number(body, place)
            if removed > len(name):
                raise ValueError("a name continues more than there is")
            end = body.index(b"\0", place)
            name = name[: len(name) - removed] + body[place:end]
            at = end + 1
        else:
            end = body.index(b"\0", place)
            name = body[place:end]
            at += (end - at + 8) & ~7
        names.add(name, mode)
    return body[:at] + _extensions(body, at)


def _number(body: bytes, at: int) -> tuple[int, int]:
    """Git's variable width number (offset encoding of packs), and where it ends."""
    value = body[at] & 127
    while body[at] & 128:
        at += 1
        value = (value + 1 << 7) | body[at] & 127
    return value, at + 1


def _extensions(body: bytes, at: int) -> bytes:
    kept = []
    while at < len(body):
        name, size = struct.unpack_from(">4sI", body, at)
        end = at + 8 + size
        if end > len(body):
            raise ValueError("an extension is longer than the file")
        if name in _KEPT:
            kept.append(body[at:end])
        elif name not in _DROPPED and not name[:1].isupper():
            # git, too, refuses those in small letters that it does not know.
            msg = f"it has the extension {name.decode('ascii', 'backslashreplace')}"
            raise ValueError(msg)
        at = end
    return b"".join(kept)


class _Names:
    """The names of an index, looked at one by one."""

    def __init__(self) -> None:
        self._only_git = Protection()
        self._folders: dict[bytes, None] = {}
        """Folders that were found to have names that may be."""
        self._links: set[bytes] = set()

    def add(self, name: bytes, mode: int) -> None:
        """Look at a name. Raises `ValueError` if git would not put it into an index."""
        # The entry of a folder, in a sparse index, ends in a slash.
        folder, _, last = name.removesuffix(b"/").rpartition(b"/")
        if folder and folder not in self._folders:
            for part in folder.split(b"/"):
                self._check(part, name)
            self._folders[folder] = None
        self._check(last, name)
        if mode & 0o170000 == _SYMLINK:
            self._links.add(name)
        if self._links:
            parts = name.split(b"/")
            if any(b"/".join(parts[:depth]) in self._links for depth in range(1, len(parts))):
                msg = f"{_shown(name)} lies beneath a link"
                raise ValueError(msg)

    def _check(self, part: bytes, name: bytes) -> None:
        if part in (b"", b".", b"..") or self._only_git.is_git(part.decode("utf-8", "replace")):
            msg = f"git would not put {_shown(name)} into an index"
            raise ValueError(msg)


def _shown(name: bytes) -> str:
    return repr(name[:200].decode("utf-8", "backslashreplace"))
