"""Documents in PostgreSQL: named JSON data with versions; see `.._documents`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..._core._clock import now_ms
from .._documents import (
    MAX_DOCUMENTS,
    VERSIONS_STORED,
    Document,
    decode_document,
    encode_document,
    too_many_documents,
    validate_name,
)
from ._server import Server

__all__ = ["PostgresDocuments"]

_LATEST: Final = (
    "SELECT version, body, changed_ms FROM documents WHERE name=$1 ORDER BY version DESC LIMIT 1"
)
_BY_KEY: Final = "SELECT version, body, changed_ms FROM documents WHERE name=$1 AND key=$2"
_INSERT: Final = (
    "INSERT INTO documents VALUES($1,$2,$3,$4,$5) ON CONFLICT DO NOTHING RETURNING version"
)


class PostgresDocuments:
    """As `Documents`. Its methods wait for the server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def names(self, prefix: str = "") -> list[str]:
        """As `Documents.names`."""
        sql = "SELECT DISTINCT name FROM documents WHERE starts_with(name, $1) ORDER BY name"
        return [row[0] for row in self._fetch(sql, prefix)]

    def read(self, name: str) -> Document | None:
        """As `Documents.read`."""
        rows = self._fetch(_LATEST, name)
        return decode_document(name, tuple(rows[0])) if rows else None

    def change(
        self, name: str, function: Callable[[Document | None], Any], *, key: str = ""
    ) -> Document:
        """As `Documents.change`, but other writers do not wait.

        If another change was made meanwhile, `function` is called again with its version.
        """
        validate_name(name)
        while True:
            if key and (made := self._fetch(_BY_KEY, name, key)):
                return decode_document(name, tuple(made[0]))
            before = self.read(name)
            if before is None:
                ((count,),) = self._fetch("SELECT count(DISTINCT name) FROM documents")
                if count >= MAX_DOCUMENTS:
                    raise too_many_documents(count)
            body = encode_document(name, function(before))
            version = 1 if before is None else before.version + 1
            stamp = now_ms()
            if self._fetch(_INSERT, name, version, body, stamp, key):
                oldest = version - VERSIONS_STORED
                self._fetch("DELETE FROM documents WHERE name=$1 AND version<=$2", name, oldest)
                return decode_document(name, (version, body, stamp))

    def _fetch(self, sql: str, *values: Any) -> list[Any]:
        async def fetch(connection: Any) -> list[Any]:
            rows: list[Any] = await connection.fetch(sql, *values)
            return rows

        return self._server.wait(self._server.run(fetch, "written"))
