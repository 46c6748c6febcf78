"""Artifacts in PostgreSQL, in the schema of a journal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypeVar

from .._core._threads import complete_in_thread
from ..errors import ArtifactError, JournalError
from ._store import (
    Source,
    StoredArtifact,
    copy_verified,
    missing,
    open_source,
    read_part,
    validate_digest,
    validate_start,
)

if TYPE_CHECKING:
    from ..journal._postgres._journal import PostgresJournal
    from ..journal._postgres._server import Server

__all__ = ["PostgresArtifacts"]

_T = TypeVar("_T")
_MAX_BYTES: Final = 1 << 30
_COLUMNS: Final = "digest, size, media_type, stored_ms"
_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_FIND: Final = (
    f"SELECT {_COLUMNS} FROM artifacts WHERE digest>=$1 AND digest<$1 || 'g'"  # noqa: S608
    " ORDER BY digest LIMIT $2"
)
_OLDER: Final = (
    f"SELECT {_COLUMNS} FROM artifacts WHERE stored_ms<$1 AND digest>$2"  # noqa: S608
    " ORDER BY digest LIMIT $3"
)
_REFRESH: Final = f"UPDATE artifacts SET stored_ms={_NOW} WHERE digest=$1 RETURNING {_COLUMNS}"  # noqa: S608
_INSERT: Final = (
    f"INSERT INTO artifacts VALUES($1,$2,$3,$4,{_NOW}) ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"
)
_INSERT_PART: Final = "INSERT INTO artifact_parts VALUES($1,$2,$3)"
_DELETE: Final = (
    "WITH gone AS (DELETE FROM artifacts WHERE digest=$1 AND ($2::bigint IS NULL OR stored_ms<$2)"
    " RETURNING upload), parts AS (DELETE FROM artifact_parts USING gone"
    " WHERE artifact_parts.upload=gone.upload) SELECT count(*) FROM gone"
)
_UPLOAD: Final = "SELECT upload FROM artifacts WHERE digest=$1"
_PART: Final = "SELECT data FROM artifact_parts WHERE upload=$1 AND part=$2"


class _StoredMeanwhileError(Exception):
    """Another transaction stored the same value; this one is rolled back."""


class PostgresArtifacts:
    """A store in a schema of a PostgreSQL database. Implements `ArtifactStore`.

    A value is stored as rows of 1 MiB, in one transaction.
    """

    def __init__(self, url: str, *, schema: str = "ptc", max_bytes: int = _MAX_BYTES) -> None:
        """Connect, and create the tables if they are missing. Waits for the server.

        Args:
            url: Address, as for a journal.
            schema: Schema of the tables.
            max_bytes: Maximum size of a value.

        Raises:
            SetupError: If the package for PostgreSQL is not installed.
            ArtifactError: If the server cannot be reached.
        """
        from ..journal._open import open_journal

        try:
            journal: Any = open_journal(url, schema=schema)
        except JournalError as error:
            raise ArtifactError(str(error)) from error
        self._use(journal, max_bytes)
        self._own: Any = journal

    @classmethod
    def beside(cls, journal: PostgresJournal, *, max_bytes: int = _MAX_BYTES) -> Self:
        """Create the store in the schema of an open journal, which uses its connections."""
        made = cls.__new__(cls)
        made._use(journal, max_bytes)
        made._own = None
        return made

    def _use(self, journal: PostgresJournal, max_bytes: int) -> None:
        self._server: Server = journal.server
        self._max_bytes = max_bytes
        self.label: str = self._server.label

    async def put(
        self, data: bytes | BinaryIO, media_type: str = "application/octet-stream"
    ) -> StoredArtifact:
        """As `ArtifactStore.put`."""

        def put() -> StoredArtifact:
            with open_source(data, self._max_bytes) as source:

                async def store(connection: Any) -> StoredArtifact:
                    return await _store(connection, source, media_type)

                return self._wait(store, "written")

        return await self._call(put)

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
            rows = self._fetch(_FIND, plain, 1)
            if not rows:
                raise missing(plain, self.label)
            copy_verified(self._pieces(plain), plain, self.label, file)
            return StoredArtifact(*rows[0])

        return await self._call(copy)

    async def exists(self, digest: str) -> bool:
        """As `ArtifactStore.exists`."""
        return bool(await self.find(validate_digest(digest), 1))

    async def find(self, start: str, limit: int = 2) -> list[StoredArtifact]:
        """As `ArtifactStore.find`."""
        plain = validate_start(start)
        rows = await self._call(lambda: self._fetch(_FIND, plain, limit))
        return [StoredArtifact(*row) for row in rows]

    async def delete(self, digest: str, *, before_ms: int | None = None) -> bool:
        """As `ArtifactStore.delete`."""
        plain = validate_digest(digest)
        rows = await self._call(lambda: self._fetch(_DELETE, plain, before_ms))
        return bool(rows[0][0])

    async def list_older(
        self, before_ms: int, *, after: str = "", limit: int = 1_000
    ) -> list[StoredArtifact]:
        """As `ArtifactStore.list_older`."""
        rows = await self._call(lambda: self._fetch(_OLDER, before_ms, after, limit))
        return [StoredArtifact(*row) for row in rows]

    async def close(self) -> None:
        """As `ArtifactStore.close`."""
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    def _pieces(self, digest: str) -> Iterator[bytes]:
        """Yield the parts of a value, one in memory at a time."""
        found = self._fetch(_UPLOAD, digest)
        if not found:
            raise missing(digest, self.label)
        part = 0
        while rows := self._fetch(_PART, found[0][0], part):
            yield rows[0][0]
            part += 1

    def _fetch(self, sql: str, *values: Any) -> list[Any]:
        async def fetch(connection: Any) -> list[Any]:
            rows: list[Any] = await connection.fetch(sql, *values)
            return rows

        return self._wait(fetch, "read")

    def _wait(self, use: Callable[[Any], Awaitable[_T]], action: str) -> _T:
        return self._server.wait(self._server.run(use, action))

    async def _call(self, work: Callable[[], _T]) -> _T:
        try:
            return await complete_in_thread(work)
        except JournalError as error:
            raise ArtifactError(str(error)) from error


async def _store(connection: Any, source: Source, media_type: str) -> StoredArtifact:
    """Store a value, or make the stored one young again."""
    while True:
        row = await connection.fetchrow(_REFRESH, source.digest)
        if row is not None:
            return StoredArtifact(*row)
        try:
            # Rows of a transaction that did not commit are never visible.
            async with connection.transaction():
                upload = uuid.uuid4()
                pieces, part = source.pieces(), 0
                while piece := await asyncio.to_thread(next, pieces, None):
                    await connection.execute(_INSERT_PART, upload, part, piece)
                    part += 1
                values = (source.digest, source.size, media_type, upload)
                row = await connection.fetchrow(_INSERT, *values)
                if row is None:
                    raise _StoredMeanwhileError
                return StoredArtifact(*row)
        except _StoredMeanwhileError:
            continue
