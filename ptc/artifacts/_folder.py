"""Artifacts in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from .._core._clock import now_ms
from .._core._threads import complete_in_thread
from .._records._artifacts import LocalArtifacts
from .._records._result import Cut
from .._records._stored_file import StoredFile
from ..errors import ArtifactDamagedError, ArtifactError
from ._store import (
    CHUNK_BYTES,
    MAX_BYTES,
    StoredArtifact,
    copy_verified,
    missing,
    open_source,
    read_part,
    suffix_of,
    type_of,
    validate_digest,
    validate_start,
)

__all__ = ["FolderArtifacts"]

_T = TypeVar("_T")


class FolderArtifacts:
    """A store in a folder, which several machines may share. Implements `ArtifactStore`.

    A file is readable by its owner alone, lies in one of 256 folders, and is replaced atomically.
    Links are not followed.
    """

    def __init__(self, folder: str | Path | LocalArtifacts, *, max_bytes: int = MAX_BYTES) -> None:
        """Choose the folder, which is created on first use.

        Args:
            folder: The folder.
            max_bytes: Maximum size of a value.
        """
        if not isinstance(folder, LocalArtifacts):
            folder = LocalArtifacts(Path(folder).absolute())
        self._files = folder
        self._max_bytes = max_bytes

    @property
    def label(self) -> str:
        """As `ArtifactStore.label`."""
        return f"the folder {self._files.folder}"

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        """As `ArtifactStore.put`."""

        def put() -> StoredArtifact:
            with open_source(data, self._max_bytes) as source:
                found = self._find(source.digest)
                suffix = suffix_of(found[0].media_type if found else media_type)
                cut = Cut(source.size, source.digest, "")
                # Replaced, not removed: other tasks may store and read the same value.
                damaged = bool(found) and self._files.is_damaged(source.digest)
                self._files.store(cut, source.pieces, suffix, again=damaged)
                # Not read back: a listing may miss a file that another task replaces meanwhile.
                kind = type_of(f"{source.digest}{suffix}")
                return StoredArtifact(source.digest, source.size, kind, now_ms())

        return await self._call(put)

    async def get(self, digest: str, start: int = 0, stop: int | None = None) -> bytes:
        """As `ArtifactStore.get`."""
        plain = validate_digest(digest)

        def get() -> bytes:
            with self._open(plain) as file:
                return read_part(_pieces(file), plain, self.label, start, stop)

        return await self._call(get)

    async def copy(self, digest: str, file: BinaryIO) -> StoredArtifact:
        """As `ArtifactStore.copy`."""
        plain = validate_digest(digest)

        def copy() -> StoredArtifact:
            with self._open(plain) as found:
                copy_verified(_pieces(found), plain, self.label, file)
                return StoredArtifact(plain, found.size, type_of(found.name), found.changed_ms)

        return await self._call(copy)

    async def exists(self, digest: str) -> bool:
        """As `ArtifactStore.exists`."""
        return bool(await self.find(validate_digest(digest), 1))

    async def find(self, start: str, limit: int = 2) -> list[StoredArtifact]:
        """As `ArtifactStore.find`."""
        plain = validate_start(start)
        return await self._call(lambda: self._find(plain)[:limit])

    async def delete(self, digest: str, *, before_ms: int | None = None) -> bool:
        """As `ArtifactStore.delete`."""
        plain = validate_digest(digest)
        before = None if before_ms is None else before_ms / 1000
        return await self._call(lambda: self._files.remove(plain, before))

    async def list_older(
        self, before_ms: int, *, after: str = "", limit: int = 1_000
    ) -> list[StoredArtifact]:
        """As `ArtifactStore.list_older`."""

        def older() -> Iterator[StoredArtifact]:
            for name, status in self._files.files(after):
                found = StoredArtifact(
                    name.partition(".")[0],
                    status.st_size,
                    type_of(name),
                    status.st_mtime_ns // 1_000_000,
                )
                if found.stored_ms < before_ms:
                    yield found

        return await self._call(lambda: list(islice(older(), limit)))

    async def close(self) -> None:
        """As `ArtifactStore.close`."""

    def _find(self, start: str) -> list[StoredArtifact]:
        found = {
            name.partition(".")[0]: StoredArtifact(
                name.partition(".")[0],
                status.st_size,
                type_of(name),
                status.st_mtime_ns // 1_000_000,
            )
            for name, status in self._files.named(start)
        }
        return [found[digest] for digest in sorted(found)]

    def _open(self, digest: str) -> StoredFile:
        file = self._files.open(digest)
        if file is not None:
            return file
        if self._files.is_damaged(digest):
            msg = f"the value sha256:{digest} in {self.label} is damaged: its digest does not match"
            raise ArtifactDamagedError(msg)
        raise missing(digest, self.label)

    async def _call(self, work: Callable[[], _T]) -> _T:
        try:
            return await complete_in_thread(work)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ArtifactError(f"{self.label} cannot be used: {why}") from error


def _pieces(file: StoredFile) -> Iterator[bytes]:
    position = 0
    while piece := file.read(position, CHUNK_BYTES):
        yield piece
        position += len(piece)
