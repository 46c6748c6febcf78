"""The open journal file, shared by the threads of a session."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ..errors import JournalError
from ._tables import open_file

__all__ = ["Database"]


class Database:
    """A SQLite connection, and the lock that each of its users holds."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or create it.

        Args:
            path: The file; None: in memory, lost with the session.

        Raises:
            JournalError: If it cannot be opened, is damaged, or was made by a later version.
        """
        self.label: str = str(path) if path is not None else "the journal in memory"
        """Name of the file in errors."""
        self.lock: threading.Lock = threading.Lock()
        self._mode = ""
        with self.errors("opened"):
            self.connection: sqlite3.Connection = open_file(path, self.label)

    @contextmanager
    def errors(self, action: Literal["opened", "read", "written"]) -> Iterator[None]:
        """Convert errors of SQLite, of the file system and of values to `JournalError`.

        A text with a lone surrogate, such as a comment of an approver, has no form in SQLite.
        """
        try:
            yield
        except (sqlite3.Error, OSError, UnicodeEncodeError, OverflowError) as error:
            msg = f"{self.label} cannot be {action}: {error}"
            raise JournalError(msg) from error

    def set_synchronous(self, mode: Literal["FULL", "NORMAL"]) -> None:
        """Set the durability of the next commits. The caller holds the lock."""
        if mode != self._mode:
            self.connection.execute(f"PRAGMA synchronous={mode}")
            self._mode = mode

    def fetch_one(self, sql: str, values: tuple[Any, ...]) -> Any:
        """Return the first row of a query, or None."""
        with self.lock:
            return self.connection.execute(sql, values).fetchone()

    def fetch_all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Return all rows of a query."""
        with self.lock:
            return self.connection.execute(sql, values).fetchall()

    def unknown_run(self, run_id: str) -> JournalError:
        """Build the error for a run that is not in the file."""
        return JournalError(f"there is no run {run_id!r} in {self.label}; `ptc runs` lists them")

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self.connection.close()
