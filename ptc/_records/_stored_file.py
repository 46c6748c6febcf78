"""Reading of a stored file in parts, once its contents are known to match its digest.

Rule 1: a handle is a digest, never a path, and only regular files of the store are opened.
    tests/core/records/test_stored_file.py::test_handle_is_never_a_path
Rule 2: a file is read only while it is as it was when its digest was verified.
    tests/core/records/test_stored_file.py::test_changed_file_is_not_read
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import time
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, TypeAlias

from .._core._folder import Folder, pread

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["HANDLE_CHARS", "Signature", "StoredFile", "digest_of_handle", "handle_of"]

HANDLE_CHARS = 16
"""Hexadecimal digits of a handle: 64 bits, which a model copies in a quarter of the tokens."""
_HANDLE = re.compile(rf"[0-9a-f]{{{HANDLE_CHARS},64}}")
_PREFIX = "ptc://artifacts/"

_CHUNK_BYTES = 1 << 20
_SETTLED_NS = 1_000_000_000
"""Age at which a file's time of change proves that a later change has another time: the clock of a
file system is coarse."""

Signature: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size, and times of change of a verified file."""


def handle_of(digest: str) -> str:
    """Return the handle of a stored file: the start of its digest."""
    return digest[:HANDLE_CHARS]


def digest_of_handle(handle: str) -> str | None:
    """Return the digest, or its start, of a handle, address or reference; None for other text."""
    digest = handle.removeprefix(_PREFIX).removeprefix("sha256:")
    return digest if _HANDLE.fullmatch(digest) else None


class StoredFile:
    """A stored file, open for reading. A context manager that closes it."""

    def __init__(self, name: str, digest: str, file: int, folder: Folder) -> None:
        """Take over a descriptor and a folder; `verify` before reading.

        Args:
            name: Name in the folder.
            digest: SHA-256 of its contents, as its name says.
            file: Descriptor of the file.
            folder: The folder.
        """
        self.name = name
        self.digest = digest
        self.folder = folder
        self._file = file
        self._signature = self._sign()
        self.on_read: Callable[[], None] | None = None
        """Called before each read; an exception of it stops a long operation."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and its folder."""
        os.close(self._file)
        self.folder.close()

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._signature[2]

    @property
    def changed_ms(self) -> int:
        """Time of its last change, in milliseconds since 1970."""
        return self._signature[3] // 1_000_000

    @property
    def suffix(self) -> str:
        """End of its name, such as ``.json``."""
        return PurePath(self.name).suffix

    @property
    def signature(self) -> Signature | None:
        """Identity of the verified state; None if the file is too new to tell a later change."""
        changed = max(self._signature[3:])
        return self._signature if time.time_ns() - changed > _SETTLED_NS else None

    def verify(self, known: Signature | None) -> bool:
        """True if the contents match the digest.

        Args:
            known: `signature` of an earlier success; equal to the current one, it spares the work.
        """
        if known == self._signature:
            return True
        found = hashlib.sha256()
        position = 0
        while chunk := self._read(position, _CHUNK_BYTES):
            found.update(chunk)
            position += len(chunk)
        return found.hexdigest() == self.digest and self.is_unchanged()

    def is_unchanged(self) -> bool:
        """True if nobody has changed the file since it was opened."""
        return self._sign() == self._signature

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes; fewer only at the end.

        Raises:
            OSError: If the file has changed.
        """
        if self.on_read is not None:
            self.on_read()
        data = self._read(offset, count)
        if not self.is_unchanged():
            msg = "the stored file has changed while it was read"
            raise OSError(msg)
        return data

    def reader(self) -> BinaryIO:
        """Open the contents as a file of its own, to be read from the start."""
        return io.BufferedReader(_Reader(self))

    def _read(self, offset: int, count: int) -> bytes:
        data = pread(self._file, count, offset)
        if len(data) == count or not data:
            return data
        parts = [data]
        size = len(data)
        while size < count and (data := pread(self._file, count - size, offset + size)):
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _sign(self) -> Signature:
        found = os.fstat(self._file)
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Reader(io.RawIOBase):
    """A stored file with a position of its own; it ends when the file is closed."""

    def __init__(self, file: StoredFile) -> None:
        super().__init__()
        self._stored = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._stored.size}
        self._position = max(0, start[whence] + offset)
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stored._read(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
