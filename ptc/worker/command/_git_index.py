"""Validation of a file that is to become the index of a git repository.

git trusts its index: a name in it such as ``.git/hooks/post-checkout`` or ``../x`` is written by
the next ``git checkout .``, with the rights of the user who runs that. git validates trees and
commits when it reads them, but not an index. So an index that a command makes is parsed here, and
the repository gets a copy that contains the parsed data and nothing else.

Rule 1: A name that git itself would not put into an index is refused.
    (test_git_index_with_an_invalid_name_is_refused)
Rule 2: Data that git needs and cannot derive is retained. Offsets into the file are not, as they
    could show git other names than were parsed here.
    (test_checked_git_index_is_equivalent_to_the_original)

The format: git's Documentation/gitformat-index.txt.
"""

from __future__ import annotations

import hashlib
import struct

from ..._protected import Protection

__all__ = ["MAX_INDEX_BYTES", "sanitize_index"]

MAX_INDEX_BYTES = 256 << 20
"""A repository of two million files."""

_HEAD = struct.Struct(">4s2I")
_STATUS_BYTES = 40
"""File status before an entry's digest: times, device and so on; the mode is in bytes 24 to 28."""
_FLAGS = struct.Struct(">H")
_EXTENDED = 0x4000
_SYMLINK = 0o120000
_RETAINED = (b"TREE", b"REUC", b"UNTR", b"FSMN", b"sdir")
_DROPPED = (b"EOIE", b"IEOT")
"""Offsets into the file."""


def sanitize_index(data: bytes) -> bytes:
    """Return a safe copy of an index.

    Raises:
        ValueError: If it contains a forbidden name, or has an unknown format.
    """
    for digest in (hashlib.sha1, hashlib.sha256):
        size = digest(usedforsecurity=False).digest_size
        body, trailer = data[:-size], data[-size:]
        if digest(body, usedforsecurity=False).digest() == trailer:
            safe = _sanitize(body, size)
            return safe + digest(safe, usedforsecurity=False).digest()
    # index.skipHash: no digest, so the size of digests is unknown; try which one parses.
    for size in (20, 32):
        if not any(data[-size:]):
            try:
                return _sanitize(data[:-size], size) + bytes(size)
            except (ValueError, struct.error):
                if size == 32:
                    raise
    msg = "its digest does not match its content"
    raise ValueError(msg)


def _sanitize(body: bytes, size: int) -> bytes:
    signature, version, count = _HEAD.unpack_from(body)
    if signature != b"DIRC" or version not in (2, 3, 4):
        msg = f"version {version} of the format is unknown"
        raise ValueError(msg)
    at = _HEAD.size
    name = b""
    names = _Names()
    for _ in range(count):
        mode = int.from_bytes(body[at + 24 : at + 28], "big")
        position = at + _STATUS_BYTES + size
        (flags,) = _FLAGS.unpack_from(body, position)
        position += 4 if version > 2 and flags & _EXTENDED else 2
        if version == 4:
            removed, position = _read_number(body, position)
            if removed > len(name):
                raise ValueError("a name shares more bytes than the previous name has")
            end = body.index(b"\0", position)
            name = name[: len(name) - removed] + body[position:end]
            at = end + 1
        else:
            end = body.index(b"\0", position)
            name = body[position:end]
            at += (end - at + 8) & ~7
        names.add(name, mode)
    return body[:at] + _extensions(body, at)


def _read_number(body: bytes, at: int) -> tuple[int, int]:
    """Decode git's variable width number (offset encoding of packs); return it and its end."""
    value = body[at] & 127
    while body[at] & 128:
        at += 1
        value = (value + 1 << 7) | body[at] & 127
    return value, at + 1


def _extensions(body: bytes, at: int) -> bytes:
    retained = []
    while at < len(body):
        name, size = struct.unpack_from(">4sI", body, at)
        end = at + 8 + size
        if end > len(body):
            raise ValueError("an extension is longer than the file")
        if name in _RETAINED:
            retained.append(body[at:end])
        elif name not in _DROPPED and not name[:1].isupper():
            # git, too, rejects unknown extensions in lower case.
            msg = f"it has the unknown extension {name.decode('ascii', 'backslashreplace')}"
            raise ValueError(msg)
        at = end
    return b"".join(retained)


class _Names:
    """Validator of the names of an index, one by one."""

    def __init__(self) -> None:
        self._only_git = Protection()
        self._folders: dict[bytes, None] = {}
        """Folders with valid names."""
        self._links: set[bytes] = set()

    def add(self, name: bytes, mode: int) -> None:
        """Validate a name.

        Raises:
            ValueError: If git would not put it into an index.
        """
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
                msg = f"{_show(name)} lies beneath a link"
                raise ValueError(msg)

    def _check(self, part: bytes, name: bytes) -> None:
        if part in (b"", b".", b"..") or self._only_git.is_git(part.decode("utf-8", "replace")):
            msg = f"git would not put {_show(name)} into an index"
            raise ValueError(msg)


def _show(name: bytes) -> str:
    return repr(name[:200].decode("utf-8", "backslashreplace"))
