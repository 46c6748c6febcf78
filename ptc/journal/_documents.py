"""Documents in the file of a journal: named JSON data with versions.

Rule 1: a change is one transaction, so that of two changes one sees the result of the other.
    tests/core/journal/test_documents.py::test_concurrent_changes_are_applied_one_after_another
Rule 2: a change is made once for each key, and its repetition returns the version that it made.
    tests/core/journal/test_documents.py::test_repeated_change_returns_its_own_version
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from .._core import _json
from .._core._clock import now_ms
from .._dataclass import dataclass
from ..errors import JournalError, UsageError
from ._database import Database

__all__ = ["CallDocuments", "Document", "Documents", "SqliteDocuments"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
VERSIONS_STORED: Final = 100
"""Versions of a document, so that a repeated change finds its own."""
_MAX_BYTES: Final = 1_048_576
MAX_DOCUMENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a document."""

    name: str
    version: int
    """Counts the changes, from 1."""
    data: Any
    """JSON data."""
    changed_ms: int
    """Time of the change, in ms since 1970."""


class Documents(Protocol):
    """The documents of one journal. The methods wait for the store: call them in a thread."""

    def names(self, prefix: str = "") -> list[str]:
        """List the documents whose name starts with `prefix`, sorted."""
        ...

    def read(self, name: str) -> Document | None:
        """Return the latest version of a document; None if there is none.

        Raises:
            JournalError: If it cannot be read.
        """
        ...

    def change(
        self, name: str, function: Callable[[Document | None], Any], *, key: str = ""
    ) -> Document:
        """Replace the data of a document by what `function` returns for its latest version.

        Args:
            name: Name of the document, which need not exist.
            function: Receives the latest version, or None, and returns the new JSON data. It may be
                called again if somebody else makes a change meanwhile. If it raises, nothing is
                changed.
            key: Identifies the change: if it was made before, the version that it made is returned,
                and `function` is not called. Empty: none.

        Raises:
            UsageError: If the name is invalid, or the data are no JSON or too large.
            JournalError: If the store cannot be written.
        """
        ...


class SqliteDocuments:
    """The documents of one file. Other writers wait during `change`."""

    def __init__(self, database: Database) -> None:
        """Use an open file."""
        self._db = database

    def names(self, prefix: str = "") -> list[str]:
        """As `Documents.names`."""
        with self._db.errors("read"):
            rows = self._db.fetch_all(
                "SELECT DISTINCT name FROM documents WHERE substr(name, 1, ?)=? ORDER BY name",
                (len(prefix), prefix),
            )
        return [name for (name,) in rows]

    def read(self, name: str) -> Document | None:
        """As `Documents.read`."""
        with self._db.errors("read"):
            row = self._db.fetch_one(_LATEST, (name,))
        return None if row is None else decode_document(name, row)

    def change(
        self, name: str, function: Callable[[Document | None], Any], *, key: str = ""
    ) -> Document:
        """As `Documents.change`."""
        validate_name(name)
        connection = self._db.connection
        with self._db.errors("written"), self._db.lock:
            self._db.set_synchronous("FULL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                document = self._change(name, function, key)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        return document

    def _change(self, name: str, function: Callable[[Document | None], Any], key: str) -> Document:
        execute = self._db.connection.execute
        if key and (made := execute(_BY_KEY, (name, key)).fetchone()):
            return decode_document(name, made)
        row = execute(_LATEST, (name,)).fetchone()
        if row is None:
            (count,) = execute("SELECT count(DISTINCT name) FROM documents").fetchone()
            if count >= MAX_DOCUMENTS:
                raise too_many_documents(count)
        before = None if row is None else decode_document(name, row)
        body = encode_document(name, function(before))
        version = 1 if row is None else row[0] + 1
        made = (version, body, now_ms())
        execute("INSERT INTO documents VALUES(?,?,?,?,?)", (name, *made, key))
        execute(
            "DELETE FROM documents WHERE name=? AND version<=?", (name, version - VERSIONS_STORED)
        )
        return decode_document(name, made)


@dataclass(frozen=True, slots=True)
class CallDocuments:
    """The documents of a journal, for one tool call. The methods wait for a disk."""

    _documents: Documents
    _key: str

    def read(self, name: str) -> Document | None:
        """As `Documents.read`."""
        return self._documents.read(name)

    def change(self, name: str, function: Callable[[Document | None], Any]) -> Document:
        """As `Documents.change`; the idempotency key of the call identifies the change.

        When the call is repeated after a crash, the version that it made is returned. So a call
        changes a document once.
        """
        return self._documents.change(name, function, key=self._key)


_LATEST: Final = (
    "SELECT version, body, changed_ms FROM documents WHERE name=? ORDER BY version DESC LIMIT 1"
)
_BY_KEY: Final = "SELECT version, body, changed_ms FROM documents WHERE name=? AND key=?"


def validate_name(name: str) -> None:
    """Raise `UsageError` if `name` is not a name of a document."""
    if not _NAME.fullmatch(name):
        msg = f"a document's name has letters, digits and _./-, at most 128, not {name!r:.80}"
        raise UsageError(msg)


def too_many_documents(count: int) -> UsageError:
    """Build the error for one document too many."""
    return UsageError(f"the journal has {count:,} documents, the most allowed; reuse a name")


def encode_document(name: str, data: Any) -> bytes:
    """Return the body of a version. Raises `UsageError` if `data` is not JSON or too large."""
    try:
        body = _json.dumps(data, what=name)
    except _json.JsonError as error:
        raise UsageError(f"document {name!r}: {error}") from None
    if len(body) > _MAX_BYTES:
        msg = f"document {name!r} has {len(body):,} bytes; at most {_MAX_BYTES:,} are stored"
        raise UsageError(msg)
    return body


def decode_document(name: str, row: tuple[int, bytes, int]) -> Document:
    """Return a version from its row. Raises `JournalError` if it is damaged."""
    version, body, changed_ms = row
    try:
        return Document(name, version, _json.loads(body), changed_ms)
    except (ValueError, TypeError) as error:
        msg = f"document {name!r}, version {version}, is damaged: {error}"
        raise JournalError(msg) from None
