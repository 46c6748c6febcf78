"""The open journal file, shared by the threads of a session."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ..errors import JournalError, UnknownRunError
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
        self.path = path
        self.lock: threading.RLock = threading.RLock()
        self._mode = ""
        with self.errors("opened"):
            self.connection: sqlite3.Connection = open_file(path, self.label)
            self._files = [] if path is None else [(name, _inode(name)) for name in _files(path)]

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

    def check_file(self) -> None:
        """Raise `JournalError` if the open file is no longer the one at its path.

        SQLite would write on into the deleted file, and another process into the new one. The files
        beside it exist as long as a connection is open.
        """
        for name, inode in self._files:
            if _inode(name) != inode:
                msg = (
                    f"{name} was deleted or replaced while runs are being recorded; put the file "
                    "back, or restart this process to record its next runs in a new file"
                )
                raise JournalError(msg)

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Execute the block as one write. If it raises, nothing is changed.

        Args:
            durable: True: it survives a failure of the machine, with all commits before it.
        """
        with self.errors("written"), self.lock:
            self.check_file()
            self.set_synchronous("FULL" if durable else "NORMAL")
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                raise

    def set_synchronous(self, mode: Literal["FULL", "NORMAL"]) -> None:
        """Set the durability of the next commits. The caller holds the lock."""
        if mode != self._mode:
            self.connection.execute(f"PRAGMA synchronous={mode}")
            self._mode = mode

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of the block see one state of the file, whatever others write."""
        with self.lock:
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                # Nothing was changed; after an error, the transaction may be closed already.
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")

    def fetch_one(self, sql: str, values: tuple[Any, ...]) -> Any:
        """Return the first row of a query, or None."""
        with self.lock:
            return self.connection.execute(sql, values).fetchone()

    def fetch_all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Return all rows of a query."""
        with self.lock:
            return self.connection.execute(sql, values).fetchall()

    def unknown_run(self, run_id: str) -> UnknownRunError:
        """Build the error for a run that is not in the file."""
        return UnknownRunError(f"there is no run {run_id!r} in {self.label}; `ptc runs` lists them")

    def close(self) -> None:
        """Close the file, after the operations of other threads: SQLite would crash the process."""
        with self.lock, suppress(sqlite3.Error):
            self.connection.close()


def _files(path: Path) -> list[str]:
    return [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
