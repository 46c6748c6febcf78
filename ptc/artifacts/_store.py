"""The interface of a store of artifacts.

Rule 1: a value is named by the SHA-256 of its contents; no name in a record is a path.
    tests/core/artifacts/test_stores.py::test_folder_keeps_its_promise[digest_is_never_a_path]
Rule 2: no byte of a value is returned before the whole value matches its digest, except into a file
    that the caller must discard after an error.
    tests/core/artifacts/test_stores.py::test_damaged_value_is_reported_and_never_returned
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from .._dataclass import dataclass
from .._records._artifacts import reference_of
from .._records._stored_file import digest_of_handle
from ..errors import ArtifactDamagedError, ArtifactError, ArtifactMissingError, UsageError

if TYPE_CHECKING:
    from mimetypes import MimeTypes

__all__ = [
    "CHUNK_BYTES",
    "MAX_BYTES",
    "ArtifactStore",
    "Source",
    "StoredArtifact",
    "copy_verified",
    "missing",
    "open_source",
    "read_part",
    "suffix_of",
    "type_of",
    "validate_digest",
    "validate_start",
]

CHUNK_BYTES: Final = 1 << 20
MAX_BYTES: Final = 4 << 30
"""Default maximum size of a value."""
_MAX_PART: Final = 64 << 20
"""Bytes that `get` returns at most."""
_DIGEST_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """A value in a store."""

    digest: str
    """SHA-256 of the value, 64 hexadecimal digits."""
    size: int
    """In bytes."""
    media_type: str
    """Such as ``application/json``. A folder and S3 store it as the end of a name: a type that
    Python's module `mimetypes` does not know becomes ``application/octet-stream``."""
    stored_ms: int
    """Time at which it was last stored, in milliseconds since 1970, by the clock of the store."""

    @property
    def reference(self) -> str:
        """Reference in a record: ``sha256:DIGEST``."""
        return reference_of(self.digest)


class ArtifactStore(Protocol):
    """Interface of a store of values. Implement it to store them elsewhere.

    Methods may be called in any event loop, by several tasks at once. A digest is 64 hexadecimal
    digits, with or without ``sha256:`` before them; other text raises `UsageError`. A failure
    raises `ArtifactError`. `ptc.testing.ARTIFACT_CHECKS` checks these promises.
    """

    @property
    def label(self) -> str:
        """Location of the store for error messages, without secrets."""
        ...

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        """Store a value, and return once it is durable. An equal value is stored once.

        It is visible as a whole or not at all, whatever stops this process. Storing an existing
        value again makes it young again for `list_older`, after an hour at the latest.

        Args:
            data: The value, or a binary file that is read to its end, in pieces.
            media_type: Type of the value.
        """
        ...

    async def get(self, digest: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return a value or a range of it, up to 64 MiB; `copy` takes larger ones.

        Raises:
            ArtifactMissingError: If it is not in the store.
            ArtifactDamagedError: If the whole value does not match its digest.
        """
        ...

    async def copy(self, digest: str, file: BinaryIO) -> StoredArtifact:
        """Write a whole value to a file, in pieces. Discard the file after an error.

        Raises:
            ArtifactMissingError: If it is not in the store.
            ArtifactDamagedError: If it does not match its digest.
        """
        ...

    async def exists(self, digest: str) -> bool:
        """True if the value is in the store; its contents are not verified."""
        ...

    async def find(self, start: str, limit: int = 2) -> Sequence[StoredArtifact]:
        """List values whose digest starts with `start`, of at least 16 digits."""
        ...

    async def delete(self, digest: str, *, before_ms: int | None = None) -> bool:
        """Delete a value; False if it is not in the store.

        Args:
            digest: The value.
            before_ms: Delete it only if it was last stored before this time.
        """
        ...

    async def list_older(
        self, before_ms: int, *, after: str = "", limit: int = 1_000
    ) -> Sequence[StoredArtifact]:
        """List values last stored before a time, by digest, beginning after digest `after`."""
        ...

    async def close(self) -> None:
        """Close connections. Closing again does nothing."""
        ...


class Source:
    """A value to be stored: its digest and size, and its contents in pieces."""

    def __init__(self, data: bytes | BinaryIO, max_bytes: int) -> None:
        self._data = data
        self._start = 0 if isinstance(data, bytes) else data.tell()
        found = hashlib.sha256()
        self.size = 0
        for piece in self.pieces():
            self.size += len(piece)
            if self.size > max_bytes:
                msg = f"the value has more than {max_bytes:,} bytes, the maximum of the store"
                raise ArtifactError(msg)
            found.update(piece)
        self.digest = found.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield the contents, from the start."""
        if isinstance(self._data, bytes):
            yield self._data
            return
        self._data.seek(self._start)
        while piece := self._data.read(CHUNK_BYTES):
            yield piece


@contextmanager
def open_source(data: bytes | BinaryIO, max_bytes: int) -> Iterator[Source]:
    """Open a value to be stored. A file that cannot be read twice is copied to disk first.

    Raises:
        ArtifactError: If it is larger than `max_bytes`.
    """
    if isinstance(data, bytes) or data.seekable():
        yield Source(data, max_bytes)
        return
    import tempfile

    with tempfile.TemporaryFile() as copy:
        while piece := data.read(CHUNK_BYTES):
            if copy.tell() > max_bytes:
                break
            copy.write(piece)
        copy.seek(0)
        yield Source(copy, max_bytes)


def validate_digest(digest: str) -> str:
    """Return the 64 digits of a digest. Raises `UsageError` for other text, such as a path."""
    found = digest_of_handle(digest) if isinstance(digest, str) else None
    if found is None or len(found) != _DIGEST_CHARS:
        msg = f"a digest is sha256: and 64 hexadecimal digits, not {digest!r:.80}"
        raise UsageError(msg)
    return found


def validate_start(start: str) -> str:
    """Return the digits of the start of a digest. Raises `UsageError` for other text."""
    found = digest_of_handle(start) if isinstance(start, str) else None
    if found is None:
        msg = f"the start of a digest has 16 to 64 hexadecimal digits, unlike {start!r:.80}"
        raise UsageError(msg)
    return found


def missing(digest: str, label: str) -> ArtifactMissingError:
    """Build the error for a value that is not in the store."""
    return ArtifactMissingError(f"{label} has no value {reference_of(digest)}")


def _verified(pieces: Iterable[bytes], digest: str, label: str) -> Iterator[bytes]:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
        yield piece
    if found.hexdigest() != digest:
        msg = f"the value {reference_of(digest)} in {label} is damaged: its digest does not match"
        raise ArtifactDamagedError(msg)


def read_part(
    pieces: Iterable[bytes], digest: str, label: str, start: int, stop: int | None
) -> bytes:
    """Return a range of a value once all of its pieces match the digest."""
    if start < 0 or (stop is not None and stop < start):
        msg = f"a range has 0 <= start <= stop, unlike {start} and {stop}"
        raise UsageError(msg)
    part = bytearray()
    position = 0
    for piece in _verified(pieces, digest, label):
        end = None if stop is None else max(0, stop - position)
        part += piece[max(0, start - position) : end]
        position += len(piece)
        if len(part) > _MAX_PART:
            msg = f"get() returns up to {_MAX_PART:,} bytes: pass a range, or use copy()"
            raise UsageError(msg)
    return bytes(part)


def copy_verified(pieces: Iterable[bytes], digest: str, label: str, file: BinaryIO) -> None:
    """Write a value to a file. Raises `ArtifactDamagedError` if it does not match its digest."""
    for piece in _verified(pieces, digest, label):
        file.write(piece)


@cache
def _types() -> MimeTypes:
    """Return the table of Python alone: the files of a system differ among machines."""
    from mimetypes import MimeTypes

    return MimeTypes()


def suffix_of(media_type: str, name: str = "") -> str:
    """Return the end of the name of a file of a type; `name` decides for an unknown type."""
    known = _types().guess_extension(media_type, strict=True)
    if known is not None:
        return known
    own = PurePath(name).suffix.lower()
    return own if own[1:].isascii() and own[1:].isalnum() and len(own) <= 9 else ".bin"


def type_of(name: str) -> str:
    """Return the media type of a file by the end of its name."""
    return _types().guess_type(f"file{PurePath(name).suffix}")[0] or "application/octet-stream"
