"""Levels, records and formatters of `logging`, all plain data.

Rule 1: a format reads the fields of the record and follows the rules of source
    (test_log_format_cannot_reach_attributes_that_source_cannot).
"""

from __future__ import annotations

import posixpath
import string
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from ..._language import _policy as policy
from .._attributes import format_map
from .._classes import open_type
from .._clock import Clock
from .._views import exact_text
from ._traceback import format_error

__all__ = [
    "BASIC_FORMATS",
    "LEVELS",
    "STATE",
    "Filter",
    "Formatter",
    "LogRecord",
    "error_in",
    "level_name",
    "level_of",
]

LEVELS: Final = {
    "CRITICAL": 50, "FATAL": 50, "ERROR": 40, "WARN": 30, "WARNING": 30, "INFO": 20, "DEBUG": 10,
    "NOTSET": 0,
}  # fmt: skip


class _State:
    """State of `logging` in the one run of a worker."""

    __slots__ = ("clock", "disabled", "level_names", "levels")

    def __init__(self) -> None:
        self.disabled = 0
        self.levels = dict(LEVELS)
        self.level_names = {50: "CRITICAL", 40: "ERROR", 30: "WARNING", 20: "INFO", 10: "DEBUG"}
        self.level_names[0] = "NOTSET"
        self.clock = Clock()


STATE: Final = _State()


def level_of(level: Any) -> int:
    """Return the number of a level, from its number or name."""
    if isinstance(level, int):
        return level if type(level) is bool else int(level)
    if isinstance(level, str):
        if level in STATE.levels:
            return STATE.levels[level]
        raise ValueError(f"Unknown level: {level!r}")
    raise TypeError(f"Level not an integer or a valid string: {level!r}")


def level_name(level: Any) -> Any:
    """`logging.getLevelName`."""
    if isinstance(level, str):
        return STATE.levels.get(level, f"Level {level}")
    return STATE.level_names.get(level, f"Level {level}")


# ---------------------------------------------------------------------------------------------
# Records and formatters


@open_type
class LogRecord:
    """A log record: plain data, without frames or tracebacks."""

    def __init__(
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: Any,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
        **_: Any,
    ) -> None:
        now = STATE.clock.epoch + STATE.clock.peek()
        error = error_in(exc_info)
        args = () if args is None else args
        if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
            args = args[0]
        self.name, self.msg, self.args = name, msg, args
        self.levelname, self.levelno = level_name(level), level
        self.pathname = str(pathname)
        self.filename = posixpath.basename(self.pathname)
        self.module = posixpath.splitext(self.filename)[0]
        self.lineno, self.funcName = lineno, func
        self.exc_info = None if error is None else (type(error), error, None)
        self.exc_text = None if error is None else format_error(error).rstrip("\n")
        self.stack_info = sinfo
        self.created, self.msecs = now, float(int(now % 1 * 1000))
        self.relativeCreated = STATE.clock.peek() * 1000
        self.thread, self.threadName = 0, "MainThread"
        self.process, self.processName, self.taskName = 0, "MainProcess", None

    def getMessage(self) -> str:  # the library's name
        """Return the message with its arguments."""
        text = str(self.msg)
        return text % self.args if self.args else text

    def __repr__(self) -> str:
        place = f"{self.pathname}, {self.lineno}"
        return f'<LogRecord: {self.name}, {self.levelno}, {place}, "{self.msg}">'


_DEFAULT_FORMATS: Final = {"%": "%(message)s", "{": "{message}", "$": "${message}"}
BASIC_FORMATS: Final = {
    "%": "%(levelname)s:%(name)s:%(message)s",
    "{": "{levelname}:{name}:{message}",
    "$": "${levelname}:${name}:${message}",
}


@open_type
class Formatter:
    """Formats a record as text."""

    default_time_format = "%Y-%m-%d %H:%M:%S"
    default_msec_format = "%s,%03d"

    def __init__(
        self,
        fmt: str | None = None,
        datefmt: str | None = None,
        style: str = "%",
        validate: bool = True,
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        if style not in _DEFAULT_FORMATS:
            raise ValueError("Style must be one of: %, {, $")
        self.template = exact_text(_DEFAULT_FORMATS[style] if fmt is None else fmt)
        self.datefmt = datefmt
        self.style = style
        self.defaults = dict(defaults or {})

    def usesTime(self) -> bool:  # the library's name
        """True if the format shows the time."""
        return "asctime" in self.template

    def formatTime(self, record: Any, datefmt: str | None = None) -> str:  # the library's name
        """Format the time of `record`."""
        moment = time.gmtime(record.created)
        if datefmt:
            return time.strftime(datefmt, moment)
        text = time.strftime(self.default_time_format, moment)
        return self.default_msec_format % (text, record.msecs) if self.default_msec_format else text

    def formatException(self, ei: Any) -> str:  # the library's name
        """Format the traceback of an exception."""
        if not isinstance(ei, BaseException | tuple):
            raise TypeError(f"{type(ei).__name__!r} object is not subscriptable")
        error = error_in(ei)
        return "NoneType: None" if error is None else format_error(error).rstrip("\n")

    def formatMessage(self, record: Any) -> str:  # the library's name
        """Format the line of `record`."""
        if not isinstance(record, LogRecord):  # `vars` of another object shows its private names
            raise AttributeError(f"{type(record).__name__!r} object has no attribute '__dict__'")
        template = exact_text(self.template)  # a script's `__mod__` would receive all fields
        fields = {policy.demangle(name): value for name, value in vars(record).items()}
        values = {**self.defaults, **fields}
        if self.style == "{":
            return format_map(template, values)
        if self.style == "$":
            return string.Template(template).substitute(values)
        return template % values

    def format(self, record: Any) -> str:
        """Format all of `record`."""
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        text = self.formatMessage(record)
        return f"{text}\n{record.exc_text}" if record.exc_text else text


class Filter:
    """Accepts the records of one logger and of those below it."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def filter(self, record: Any) -> Any:
        """Return True if `record` passes."""
        return not self.name or f"{record.name}.".startswith(f"{self.name}.")


def error_in(exc_info: Any) -> BaseException | None:
    """Return the exception that `exc_info` means: itself, in a triple, or the one being handled."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        error = exc_info[1] if len(exc_info) > 1 else None
        return error if isinstance(error, BaseException) else None
    return sys.exc_info()[1] if exc_info else None
