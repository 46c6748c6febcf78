"""Audit of the page: a row before each change that somebody requests, and one with its outcome.

The rows are documents of the journal, so every store has them. A change whose first row cannot be
written is not made.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import anyio

from .._core._clock import now_ms

if TYPE_CHECKING:
    from .._runs._history import History
    from ..journal._documents import Document

__all__ = ["Audit"]

_ROWS_OF_PART: Final = 40
_PREFIX: Final = "ptc/ui-audit/"


class Audit:
    """Writes rows, in parts of bounded size."""

    def __init__(self, history: History) -> None:
        """Use the documents of a journal."""
        self._history = history
        self._lock = anyio.Lock()
        self._part = ""
        self._rows = 0

    async def write(self, row: dict[str, Any]) -> None:
        """Append a row durably. Raises `JournalError` if it cannot be written."""
        row = {"at_ms": now_ms(), **row}
        await self._history.open()
        async with self._lock:
            if not self._part or self._rows >= _ROWS_OF_PART:
                day = time.strftime("%Y-%m-%d", time.gmtime())
                self._part, self._rows = f"{_PREFIX}{day}-{secrets.token_hex(6)}", 0
            await anyio.to_thread.run_sync(self._append, self._part, row)
            self._rows += 1

    def _append(self, name: str, row: dict[str, Any]) -> None:
        def append(document: Document | None) -> list[Any]:
            return [*(document.data if document is not None else []), row]

        self._history.documents.change(name, append)

    async def rows(self, limit: int = 500) -> list[dict[str, Any]]:
        """Read the newest rows, newest first."""
        await self._history.open()
        return await anyio.to_thread.run_sync(self._read, limit)

    def _read(self, limit: int) -> list[dict[str, Any]]:
        documents = self._history.documents
        found: list[dict[str, Any]] = []
        day = ""
        for name in reversed(documents.names(_PREFIX)):
            # Parts of one day have random names: read all of them.
            if len(found) >= limit and name[len(_PREFIX) :][:10] != day:
                break
            day = name[len(_PREFIX) :][:10]
            document = documents.read(name)
            found += document.data if document is not None else []
        return sorted(found, key=lambda row: -int(row["at_ms"]))[:limit]
