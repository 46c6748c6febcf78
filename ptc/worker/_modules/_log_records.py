"""Levels, records and formatters of `logging`, all plain data.

Rule 1: a format reads the fields of the record and follows the rules of source
    (test_log_format_cannot_reach_attributes_that_source_cannot).
"""

from __future__ import annotations

import logging
import posixpath
import string
import time
import types
from collections.abc import Mapping
from typing import Any, Final

from ..._language import _policy as policy
from .._attributes import format_map
from .._classes import is_open, open_type
from .._clock import Clock
from .._identity import is_shown_as_builtin
from .._internals import bound_function
from .._types import type_of
from .._views import exact_text
from ._traceback import exc_info, format_exception, safe_traceback

__all__ = [
    "BASIC_FORMATS",
    "LEVELS",
    "STATE",
    "Filter",
    "Formatter",
    "LogRecord",
    "info_of",
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
    return STATE.level_names.get(level, "Level %s" % level)  # noqa: UP031  # as the library


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
        args = () if args is None else args
        if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
            args = args[0]
        self.name, self.msg, self.args = name, msg, args
        self.levelname, self.levelno = level_name(level), level
        self.pathname = str(pathname)
        self.filename = posixpath.basename(self.pathname)
        self.module = posixpath.splitext(self.filename)[0]
        self.lineno, self.funcName = lineno, func
        self.exc_info, self.exc_text, self.stack_info = exc_info, None, sinfo
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


#: Classes of the library by style, which check a format.
_STYLES: Final[Any] = vars(logging)["_STYLES"]
_NEWLINE: Final = "\n"
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

    @staticmethod
    def converter(seconds: float | None = None, /) -> time.struct_time:
        """Convert the time of a record to UTC, as `time.gmtime`."""
        clock = STATE.clock
        return time.gmtime(clock.epoch + clock.peek() if seconds is None else seconds)

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
            raise ValueError("Style must be one of: %,{,$")
        self.template = exact_text(fmt or _DEFAULT_FORMATS[style])
        self.datefmt = datefmt
        self.style = style
        self.defaults = dict(defaults or {})
        if validate:
            self._library_style().validate()

    def _library_style(self) -> Any:
        """Return the library's object for the format: it inspects the text of it only."""
        return _STYLES[self.style][0](exact_text(self.template))

    def usesTime(self) -> bool:  # the library's name
        """True if the format shows the time."""
        return bool(self._library_style().usesTime())

    def formatTime(self, record: Any, datefmt: str | None = None) -> str:  # the library's name
        """Format the time of `record`."""
        convert: Any = self.converter
        if type(convert) is types.MethodType and is_shown_as_builtin(bound_function(convert)):
            convert = bound_function(convert)  # `converter = time.gmtime` in a class
        moment = convert(record.created)
        if datefmt:
            return time.strftime(datefmt, moment)
        text = time.strftime(self.default_time_format, moment)
        return self.default_msec_format % (text, record.msecs) if self.default_msec_format else text

    def formatException(self, ei: Any) -> str:  # the library's name
        """Format the traceback of an exception."""
        trace = ei[2]
        return "".join(format_exception(ei[0], ei[1], trace)).removesuffix("\n")

    def formatStack(self, stack_info: Any) -> Any:  # the library's name
        """Return the text of a stack as it is."""
        return stack_info

    def formatMessage(self, record: Any) -> str:  # the library's name
        """Format the line of `record`."""
        kind = type(record)
        if not (kind.__dictoffset__ or is_open(kind)):
            raise AttributeError(f"{kind.__name__!r} object has no attribute '__dict__'")
        template = exact_text(self.template)  # a script's `__mod__` would receive all fields
        # `vars` of another object shows its private names.
        own = vars(record) if isinstance(record, LogRecord) else {}
        fields = {policy.demangle(name): value for name, value in own.items()}
        values = {**self.defaults, **fields}
        try:
            if self.style == "{":
                return format_map(template, values)
            if self.style == "$":
                return string.Template(template).substitute(values)
            return template % values
        except KeyError as error:
            raise ValueError(f"Formatting field not found in record: {error}") from None

    def format(self, record: Any) -> str:
        """Format all of `record`."""
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        text = self.formatMessage(record)
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        for more in (record.exc_text, record.stack_info and self.formatStack(record.stack_info)):
            if more:
                text = f"{text}{'' if text.endswith(_NEWLINE) else _NEWLINE}{more}"
        return text


class Filter:
    """Accepts the records of one logger and of those below it."""

    def __init__(self, name: str = "") -> None:
        self.name, self.nlen = name, len(name)

    def filter(self, record: Any) -> Any:
        """Return True if `record` passes."""
        return not self.nlen or f"{record.name}.".startswith(f"{self.name}.")


def info_of(given: Any) -> Any:
    """Return the triple that the argument `exc_info` of a logging call means."""
    if isinstance(given, BaseException):
        return type_of(given), given, safe_traceback(given)
    return given if not given or isinstance(given, tuple) else exc_info()
