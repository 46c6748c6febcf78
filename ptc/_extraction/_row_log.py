"""Append-only JSONL file of rows: the result of an extraction and its journal in one.

A second store could disagree with the output; this file is all that a resumed extraction needs, and
it can be moved to another machine. The last line of an id counts.

Rule 1: `append` returns after the row is on the disk; rows of concurrent callers share one fsync.
    tests/core/extraction/test_row_log.py::test_rows_survive_a_kill_at_any_byte
Rule 2: A line that a crash left incomplete is removed, and nothing else of a file ever is.
    tests/core/extraction/test_row_log.py::test_file_of_another_kind_is_refused_and_left_alone
Rule 3: One process at a time writes the file.
    tests/core/extraction/test_row_log.py::test_second_writer_is_refused
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from .._core import _json
from .._core._folder import lock_file, open_file, open_folder, pread, pwrite, sync_folder
from .._dataclass import dataclass
from ..errors import SetupError, UsageError

__all__ = ["RowEntry", "RowLog", "write_error"]

_START = b'{"id":"'
"""Every line starts with it, which distinguishes a torn first line from another kind of file."""


@dataclass(frozen=True, slots=True)
class RowEntry:
    """Position and key of a recorded row."""

    offset: int
    size: int
    status: str
    digest: str
    settings: str
    model: str


class RowLog:
    """The rows of one output file, locked for this process. Close it after use."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            UsageError: If it cannot be opened, another process writes it, or it holds other data.
        """
        # A link stays one when the file behind it is replaced.
        self._path = path = path.resolve()
        self._queue: list[tuple[bytes, Mapping[str, Any]]] = []
        self._queued = self._written = 0
        self._turn = anyio.Lock()
        self._superseded = 0
        self.entries: dict[str, RowEntry] = {}
        try:
            self._fd = _open_locked(path)
        except BlockingIOError:
            msg = f"output {str(path)!r} is being written by another process; wait until it ends"
            raise UsageError(msg) from None
        except OSError as error:
            msg = f"output {str(path)!r} cannot be opened: {error.strerror or error}"
            raise UsageError(msg) from None
        try:
            self._end = self._load()
        except BaseException:
            os.close(self._fd)
            raise

    def _load(self) -> int:
        """Index the rows, remove a torn last line, and return the end of the file."""
        offset, ended = 0, True
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n") and _is_torn(line):
                    break
                if number > 1 and line.startswith(b"\0"):
                    break  # lost in a power failure: the file grew, its blocks were not written
                self._index(offset, line, self._parse(line, number))
                offset += len(line)
                ended = line.endswith(b"\n")
        if offset < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, offset)
        if not ended:
            os.pwrite(self._fd, b"\n", offset)
            offset += 1
        return offset

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = _json.loads(line)
            texts = [row[key] for key in ("id", "status", "digest", "settings", "model")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            msg = (
                f"output {str(self._path)!r} holds other data than rows of an extraction (line "
                f"{number}); choose another file"
            )
            raise UsageError(msg) from None
        found: dict[str, Any] = row
        return found

    def _index(self, offset: int, line: bytes, row: Mapping[str, Any]) -> None:
        self._superseded += row["id"] in self.entries
        # Interned: a million rows have few different ones.
        status, settings, model = (sys.intern(row[key]) for key in ("status", "settings", "model"))
        self.entries[row["id"]] = RowEntry(
            offset, len(line), status, row["digest"], settings, model
        )

    def read(self, name: str) -> dict[str, Any]:
        """Return the recorded row of the id `name`."""
        entry = self.entries[name]
        row: dict[str, Any] = _json.loads(pread(self._fd, entry.size, entry.offset))
        return row

    def read_all(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows in the order of the file, the last one of each id."""
        for entry in sorted(self.entries.values(), key=lambda entry: entry.offset):
            yield _json.loads(pread(self._fd, entry.size, entry.offset))

    async def append(self, row: Mapping[str, Any]) -> None:
        """Write a row; it is on the disk when this returns.

        Raises:
            SetupError: If the disk is full or fails. The row may be lost, earlier ones are not.
        """
        line = _json.dumps_unchecked(dict(row)) + b"\n"
        self._queue.append((line, row))
        self._queued += 1
        number = self._queued
        # Not cancelled between write and index: both happen or neither.
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self._written >= number:
                    return  # an earlier caller wrote this row along with its own
                # After a failure the queue stays, so that every later caller fails as well.
                lines = list(self._queue)
                try:
                    data = b"".join(line for line, _ in lines)
                    await anyio.to_thread.run_sync(self._write, data)
                except OSError as error:
                    raise write_error(self._path, error) from None
                del self._queue[: len(lines)]
                for written, indexed in lines:
                    self._index(self._end, written, indexed)
                    self._end += len(written)
                self._written += len(lines)

    def _write(self, data: bytes) -> None:
        rest, offset = memoryview(data), self._end
        while rest:
            count = pwrite(self._fd, rest, offset)
            rest, offset = rest[count:], offset + count
        os.fsync(self._fd)

    def compact(self) -> None:
        """Rewrite the file without superseded rows, atomically; do nothing if there are none."""
        if not self._superseded:
            return
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        # O_EXCL: in a shared folder, somebody may have put a link there.
        fd = open_file(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            lock_file(fd)
            if os.name != "nt":  # There, a file has the permissions of its folder.
                # Rows that only their owner may read stay so.
                os.fchmod(fd, stat.S_IMODE(os.fstat(self._fd).st_mode))
            with open(fd, "wb", closefd=False) as file:
                for entry in sorted(self.entries.values(), key=lambda entry: entry.offset):
                    line = pread(self._fd, entry.size, entry.offset)
                    file.write(line.rstrip(b"\n") + b"\n")
            os.fsync(fd)
            with open_folder(self._path.parent) as folder:
                folder.replace(draft.name, self._path.name)
                folder.flush()
        except BaseException:
            os.close(fd)
            draft.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = fd
        self._superseded, self.entries = 0, {}
        self._end = self._load()

    def close(self) -> None:
        """Close the file and release its lock."""
        os.close(self._fd)


def _is_torn(line: bytes) -> bool:
    """True if `line` is the beginning of a row, and no JSON by itself."""
    if not _START.startswith(line[: len(_START)]):
        return False
    try:
        _json.loads(line)
    except ValueError:
        return True
    return False


def write_error(path: Path, error: OSError) -> SetupError:
    """Return the error of an output file that cannot be written."""
    return SetupError(f"output {str(path)!r} cannot be written: {error.strerror or error}")


def _open_locked(path: Path) -> int:
    while True:
        created = not path.exists()
        fd = open_file(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(None, "it is not a regular file; rows are read again to continue")
            lock_file(fd)
            # A compaction replaces the file: a lock on the replaced one locks nothing.
            if os.path.samestat(os.fstat(fd), path.stat()):
                if created:
                    # The entry in the folder is flushed apart from the file (fsync(2)).
                    sync_folder(path.parent)
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
