"""Artifacts in a bucket of a service that is compatible with S3."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

from .._core._threads import complete_in_thread
from ..errors import ArtifactError, SetupError, UsageError
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

__all__ = ["S3Artifacts"]

_T = TypeVar("_T")
_REFRESH_MS: Final = 3_600_000
_PLAIN_HTTP: Final = "http://"


class S3Artifacts:
    """A store in a bucket. Implements `ArtifactStore`. Needs the extra ``ptc-host[s3]``.

    Address, region and credentials are those of the environment (``AWS_ENDPOINT_URL``,
    ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` and others) or of the machine's role, unless `options` has
    them. An upload that was interrupted is never visible, but may take space: give the bucket a
    lifecycle rule that aborts incomplete multipart uploads.
    """

    def __init__(
        self,
        url: str,
        *,
        options: Mapping[str, Any] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Configure the store. Nothing is connected.

        Args:
            url: As ``s3://bucket/prefix``.
            options: Configuration of the client, such as ``{"endpoint": "http://127.0.0.1:9000",
                "access_key_id": ..., "secret_access_key": ...}``.
            max_bytes: Maximum size of a value.

        Raises:
            UsageError: If `url` is no address of a bucket.
            SetupError: If the package for S3 is not installed.
        """
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            msg = f"an address of a bucket is like s3://bucket/prefix, unlike {url!r:.200}"
            raise UsageError(msg)
        if importlib.util.find_spec("obstore") is None:
            msg = "artifacts in S3 need obstore: pip install 'ptc-host[s3]'"
            raise SetupError(msg)
        from obstore.store import S3Store

        self.label: str = f"s3://{parts.netloc}{parts.path}"
        self._max_bytes = max_bytes
        chosen: Any = dict(options or {})
        endpoint = chosen.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
        client: Any = {"timeout": "60s", "connect_timeout": "5s"}
        if str(endpoint).startswith(_PLAIN_HTTP):
            client["allow_http"] = True
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            config=chosen,
            client_options=client,
            retry_config=_RETRIES,
        )

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        """As `ArtifactStore.put`."""
        from obstore import put

        def store() -> StoredArtifact:
            with open_source(data, self._max_bytes) as source:
                for found in self._find(source.digest, 1):
                    young = time.time() * 1000 - found.stored_ms < _REFRESH_MS
                    if young and found.size == source.size:
                        return found
                    kind = found.media_type
                    break
                else:
                    kind = media_type
                name = f"{source.digest}{suffix_of(kind)}"
                whole = source.size <= CHUNK_BYTES
                body: Any = b"".join(source.pieces()) if whole else source.pieces()
                put(self._store, name, body, attributes={"Content-Type": type_of(name)})
                return self._find(source.digest, 1)[0]

        return await self._call(store)

    async def get(self, digest: str, start: int = 0, stop: int | None = None) -> bytes:
        """As `ArtifactStore.get`."""
        plain = validate_digest(digest)
        return await self._call(
            lambda: read_part(self._pieces(plain), plain, self.label, start, stop)
        )

    async def copy(self, digest: str, file: BinaryIO) -> StoredArtifact:
        """As `ArtifactStore.copy`."""
        plain = validate_digest(digest)

        def copy() -> StoredArtifact:
            copy_verified(self._pieces(plain), plain, self.label, file)
            return self._stored(plain)

        return await self._call(copy)

    async def exists(self, digest: str) -> bool:
        """As `ArtifactStore.exists`."""
        return bool(await self.find(validate_digest(digest), 1))

    async def find(self, start: str, limit: int = 2) -> list[StoredArtifact]:
        """As `ArtifactStore.find`."""
        plain = validate_start(start)
        return await self._call(lambda: self._find(plain, limit))

    async def delete(self, digest: str, *, before_ms: int | None = None) -> bool:
        """As `ArtifactStore.delete`."""
        from obstore import delete

        plain = validate_digest(digest)

        def remove() -> bool:
            found = self._find(plain, 1)
            if not found or (before_ms is not None and found[0].stored_ms >= before_ms):
                return False
            delete(self._store, self._name(plain))
            return True

        return await self._call(remove)

    async def list_older(
        self, before_ms: int, *, after: str = "", limit: int = 1_000
    ) -> list[StoredArtifact]:
        """As `ArtifactStore.list_older`."""

        def older() -> list[StoredArtifact]:
            # A tilde follows every end of a name of `after`, and the dot precedes other digests.
            rows = (row for _, row in self._rows(f"{after}.~" if after else None))
            return list(islice((row for row in rows if row.stored_ms < before_ms), limit))

        return await self._call(older)

    async def close(self) -> None:
        """As `ArtifactStore.close`."""

    def _rows(self, offset: str | None) -> Iterator[tuple[str, StoredArtifact]]:
        """Yield the name and description of each value after a name, by digest."""
        from obstore import list as list_objects

        for batch in list_objects(self._store, offset=offset):
            for row in batch:
                name = str(row["path"])
                digest = name.partition(".")[0]
                try:
                    validate_digest(digest)
                except UsageError:
                    continue  # an object of somebody else
                stamp = int(row["last_modified"].timestamp() * 1000)
                yield name, StoredArtifact(digest, row["size"], type_of(name), stamp)

    def _named(self, start: str) -> Iterator[tuple[str, StoredArtifact]]:
        for name, row in self._rows(start):
            if not name.startswith(start):
                return
            yield name, row

    def _find(self, start: str, limit: int) -> list[StoredArtifact]:
        return list(islice((row for _, row in self._named(start)), limit))

    def _stored(self, digest: str) -> StoredArtifact:
        for row in self._find(digest, 1):
            return row
        raise missing(digest, self.label)

    def _name(self, digest: str) -> str:
        for name, _ in self._named(digest):
            return name
        raise missing(digest, self.label)

    def _pieces(self, digest: str) -> Iterator[bytes]:
        from obstore import get

        for piece in get(self._store, self._name(digest)).stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(piece)

    async def _call(self, work: Callable[[], _T]) -> _T:
        from obstore.exceptions import BaseError

        try:
            return await complete_in_thread(work)
        except (BaseError, OSError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ArtifactError(f"{self.label} cannot be used: {lines[0]:.300}") from error


_RETRIES: Final[Any] = {"max_retries": 4}
