"""Rows of an extraction's output file, indexed while the file grows.

The file is read and never locked: a lock would refuse the extraction that writes it.

Rule 1: a file that does not hold rows of an extraction is not shown, whatever names it.
    tests/ui/test_extractions.py::test_file_of_another_kind_is_not_shown
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .._core import _json
from .._core._folder import open_file, pread
from .._dataclass import dataclass
from ..errors import UsageError

__all__ = ["Row", "RowFile", "integer", "items", "mapping", "price"]

_MOST_ROWS: Final = 500_000
_MOST_LINE_BYTES: Final = 16 << 20
_READ_BYTES: Final = 4 << 20
_TEXT_CHARS: Final = 300
_MOST_PLACES: Final = 200
"""Fields of one row that are counted."""
_INDEX: Final = re.compile(r"/(0|[1-9]\d*)(?=/|$)")


@dataclass(frozen=True, slots=True)
class Row:
    """A row, as the list shows it, and its position in the file."""

    id: str
    status: str
    reason: str
    message: str
    model: str
    attempts: int
    repairs: int
    tokens: tuple[int, int]
    cost: float | None
    conflicts: tuple[str, ...]
    """Fields of which the parts of the document state different values; ``[]``: any item."""
    unsupported: tuple[str, ...]
    """Fields whose quote is not in the document."""
    offset: int
    size: int


class RowFile:
    """The rows of one file. Its methods wait for the disk, and may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None
        self._end = 0
        self._numbers: dict[str, int] = {}
        self.rows: list[Row] = []
        self.generation = 0
        """Counts the times that rows were replaced, so that their numbers or contents changed."""
        self.is_whole = True
        """False: the file has more rows than are indexed."""

    def refresh(self) -> None:
        """Index the lines that were added.

        Raises:
            UsageError: If the file cannot be read, or holds other data.
        """
        with self._lock, self._opened() as fd:
            self._follow(fd)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            fd = open_file(self._path, os.O_RDONLY)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(errno.EINVAL, "not a file")
                yield fd
            finally:
                os.close(fd)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            msg = f"{str(self._path)!r} cannot be read: {reason}"
            raise UsageError(msg) from None

    def _follow(self, fd: int) -> None:
        state = os.fstat(fd)
        file = (state.st_dev, state.st_ino)
        # The extraction replaces the file at its end, without rows that newer ones supersede.
        if file != self._file or state.st_size < self._end:
            self._file, self._end = file, 0
            self.rows, self._numbers = [], {}
            self.generation += 1
            self.is_whole = True
        rest = b""
        while self.is_whole and self._end + len(rest) < state.st_size:
            data = pread(fd, _READ_BYTES, self._end + len(rest))
            if not data:
                break
            rest = self._index(rest + data)
            if len(rest) > _MOST_LINE_BYTES:
                msg = f"{str(self._path)!r} has a line over {_MOST_LINE_BYTES:,} bytes"
                raise UsageError(msg)

    def _index(self, data: bytes) -> bytes:
        """Index whole lines of `data`, and return what is left."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            if len(self.rows) >= _MOST_ROWS:
                self.is_whole = False
                return b""
            self._add(_parse(line, self._path), len(line) + 1)
        return rest

    def _add(self, data: Mapping[str, Any], size: int) -> None:
        row = _row_of(data, self._end, size)
        self._end += size
        number = self._numbers.get(data["id"])
        if number is None:
            self._numbers[data["id"]] = len(self.rows)
            self.rows.append(row)
        else:
            self.rows[number] = row
            self.generation += 1

    def read(self, number: int) -> dict[str, Any]:
        """Return the row of a number in `rows`.

        Raises:
            UsageError: If there is no such row, or the file cannot be read.
        """
        with self._lock, self._opened() as fd:
            if not 0 <= number < len(self.rows):
                msg = f"there is no row {number:,}"
                raise UsageError(msg)
            row = self.rows[number]
            return _parse(pread(fd, row.size, row.offset), self._path)

    def objects(self, most_rows: int, most_bytes: int) -> Iterator[tuple[str, Any]]:
        """Yield id and object of rows, as many as the bounds allow. Raises as `refresh`."""
        with self._lock, self._opened() as fd:
            for row in self.rows[:most_rows]:
                most_bytes -= row.size
                if most_bytes < 0:
                    return
                data = _parse(pread(fd, row.size, row.offset), self._path)
                yield data["id"], data.get("object")


def _parse(line: bytes, path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = _json.loads(line)
        if not all(isinstance(data[name], str) for name in ("id", "status", "digest", "settings")):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        msg = f"{str(path)!r} holds other data than rows of an extraction"
        raise UsageError(msg) from None
    return data


def _row_of(data: Mapping[str, Any], offset: int, size: int) -> Row:
    error = mapping(data.get("error"))
    usage = mapping(data.get("usage"))
    return Row(
        id=data["id"][:_TEXT_CHARS],
        status=data["status"][:20],
        reason=_text(error.get("reason"), 40),
        message=_text(error.get("message"), _TEXT_CHARS),
        model=_text(data.get("model"), 100),
        attempts=integer(data.get("attempts")),
        repairs=len(items(data.get("repairs"))),
        tokens=(integer(usage.get("input_tokens")), integer(usage.get("output_tokens"))),
        cost=price(data.get("cost")),
        conflicts=_places(data.get("conflicts")),
        unsupported=_places(
            [item for item in items(data.get("evidence")) if not mapping(item).get("supported")]
        ),
        offset=offset,
        size=size,
    )


def _places(found: Any) -> tuple[str, ...]:
    """Return the fields of paths, without indices of items, each once."""
    paths = (mapping(item).get("path") for item in items(found)[:_MOST_PLACES])
    places = (_INDEX.sub("/[]", path[:_TEXT_CHARS]) for path in paths if isinstance(path, str))
    return tuple(dict.fromkeys(places))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of JSON data; an empty one for data of another type."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return a list of JSON data; an empty one for data of another type."""
    return value if isinstance(value, list) else []


def _text(value: Any, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def integer(value: Any) -> int:
    """Return an integer of JSON data; 0 for data of another type."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def price(value: Any) -> float | None:
    """Return a price of JSON data; None for data of another type."""
    return float(value) if isinstance(value, int | float) else None
