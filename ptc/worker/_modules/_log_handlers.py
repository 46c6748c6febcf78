"""Handlers of `logging`: they write to the streams of the script, and to no file."""

from __future__ import annotations

import sys
from typing import Any, Final

from ..._language import _policy as policy
from .._attributes import attribute
from .._classes import open_type
from ._console import CONSOLE
from ._locks import RLock
from ._log_records import Formatter, LogRecord, level_name, level_of
from ._traceback import format_exc

__all__ = ["LAST_RESORT", "Filterer", "Handler", "NullHandler", "StreamHandler"]


class Filterer:
    """Has filters."""

    def __init__(self) -> None:
        self.filters: list[Any] = []

    def addFilter(self, filter: Any) -> None:  # the library's names
        """Apply `filter` to every record."""
        if filter not in self.filters:
            self.filters.append(filter)

    def removeFilter(self, filter: Any) -> None:  # the library's names
        """Stop applying `filter`."""
        if filter in self.filters:
            self.filters.remove(filter)

    def filter(self, record: Any) -> Any:
        """Return `record`, or a filter's replacement, if all filters accept it; otherwise False."""
        for each in self.filters:
            passed = each.filter(record) if hasattr(each, "filter") else each(record)
            if not passed:
                return False
            if isinstance(passed, LogRecord):
                record = passed
        return record if sys.version_info >= (3, 12) else True


@open_type
class Handler(Filterer):
    """Handles records; a script may extend it."""

    def __init__(self, level: Any = 0) -> None:
        super().__init__()
        self.level = level_of(level)
        self.formatter: Any = None
        self.name: str | None = None
        self.createLock()

    def createLock(self) -> None:  # the library's name
        """Make the lock of `acquire` and `release`."""
        self.lock: RLock | None = RLock()

    def __init_subclass__(cls, **options: Any) -> None:
        if issubclass(cls, str):  # whose `format` reads any attribute
            raise TypeError("a handler may not be text")
        super().__init_subclass__(**options)

    def acquire(self) -> None:
        """Take the lock."""
        if self.lock:
            self.lock.acquire()

    def release(self) -> None:
        """Free the lock."""
        if self.lock:
            self.lock.release()

    def get_name(self) -> str | None:
        """Return its name."""
        return self.name

    def set_name(self, name: str | None) -> None:
        """Set its name."""
        self.name = name
        if name:
            hash(name)  # the library's table of handlers refuses other names

    def setLevel(self, level: Any) -> None:  # the library's name
        """Handle records of `level` and above."""
        self.level = level_of(level)

    def setFormatter(self, fmt: Any) -> None:  # the library's name
        """Format records with `fmt`."""
        self.formatter = fmt

    def format(self, record: Any) -> str:
        """Return `record` as text."""
        formatter = self.formatter or _plain
        kind = type(formatter)
        if Formatter in kind.__mro__ and not issubclass(kind, str):
            return str(formatter.format(record))
        # Text, or a proxy for it, would read any attribute of the record.
        return str(attribute(formatter, "format")(record))

    def emit(self, record: Any) -> None:
        """Output `record`; a subclass defines how."""
        raise NotImplementedError("emit must be implemented by Handler subclasses")

    def handle(self, record: Any) -> Any:
        """Emit `record` if the filters accept it."""
        passed = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, LogRecord) else record)
        return passed

    def handleError(self, record: Any) -> None:  # the library's name
        """Report a record that could not be emitted, without raising, as the library does."""
        text = f"--- Logging error ---\n{format_exc()}Message: {record.msg!r}\n"
        CONSOLE.show(f"{text}Arguments: {record.args!r}", file=CONSOLE.log())

    def flush(self) -> None:
        """Do nothing."""

    close = flush

    def __repr__(self) -> str:
        return f"<{policy.demangle(type(self).__name__)} ({level_name(self.level)})>"


class NullHandler(Handler):
    """Drops every record."""

    def createLock(self) -> None:  # the library's name
        """Do nothing: it needs no lock."""
        self.lock = None

    def emit(self, record: Any) -> None:
        """Do nothing."""

    handle = emit


class StreamHandler(Handler):
    """Writes records to a stream; standard error by default."""

    terminator = "\n"

    def __init__(self, stream: Any = None) -> None:
        super().__init__()
        self.stream = CONSOLE.log() if stream is None else stream

    def __repr__(self) -> str:
        name = str(getattr(self.stream, "name", ""))
        name = f"{name} " if name else ""
        return f"<{policy.demangle(type(self).__name__)} {name}({level_name(self.level)})>"

    def setStream(self, stream: Any) -> Any:  # the library's name
        """Write to `stream` from now on; return the previous one."""
        before, self.stream = self.stream, stream
        return before

    def emit(self, record: Any) -> None:
        """Write one record."""
        if Handler not in type(self).__mro__:
            raise TypeError("emit() is called on a handler")
        try:
            self.stream.write(self.format(record) + self.terminator)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  # the library's promise: logging does not fail
            self.handleError(record)


class _LastResort(StreamHandler):
    """Handler of records without another: writes the message alone, from WARNING up."""

    def emit(self, record: Any) -> None:
        self.stream = CONSOLE.log()
        super().emit(record)


_plain = Formatter()
LAST_RESORT: Final = _LastResort()
LAST_RESORT.level = 30
