"""`logging` for a script: loggers, handlers and formatters as in the library, but no files.

The library's formatters walk attributes (`{}` style), its records carry tracebacks and its handlers
open files. Here a record is plain data (`_log_records`), and a record without a handler of the
script's own goes to standard error as a log (`RunEvent` of kind ``log``).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from ..._language import _policy as policy
from .._clock import Clock
from .._views import exact_text
from ._log_handlers import LAST_RESORT, Filterer, Handler, NullHandler, StreamHandler
from ._log_records import (
    BASIC_FORMATS,
    LEVELS,
    STATE,
    Filter,
    Formatter,
    LogRecord,
    info_of,
    level_name,
    level_of,
)
from ._warnings import script_place

__all__ = ["BASES", "logging_members"]

BASES: Final = "Filter Formatter Handler Logger LoggerAdapter NullHandler StreamHandler"
"""Classes that a script may extend."""


_loggers: dict[str, Logger] = {}
"""Loggers of the one run of a worker, by name; the root logger has the name ``""``."""


class Logger(Filterer):
    """A logger; one with dots in its name passes records on to its parents."""

    def __init__(self, name: str, level: Any = 0) -> None:
        super().__init__()
        self.name = name
        self.level = level_of(level)
        self.handlers: list[Any] = []
        self.propagate = True
        self.disabled = False

    @property
    def parent(self) -> Any:
        """The logger that receives the records, too; None for one that `getLogger` has not made."""
        name = self.name
        if not isinstance(name, str) or _loggers.get(name) is not self:
            return None
        while "." in name:
            name = name.rpartition(".")[0]
            if name in _loggers:
                return _loggers[name]
        return _root()

    @property
    def root(self) -> Any:
        """The root logger."""
        return _root()

    def setLevel(self, level: Any) -> None:  # the library's name
        """Log messages of `level` and above."""
        self.level = level_of(level)

    def getEffectiveLevel(self) -> Any:  # the library's name
        """Return its own level, or that of the nearest parent with one."""
        logger: Any = self
        while logger is not None:
            if logger.level:
                return logger.level
            logger = logger.parent
        return 0

    def isEnabledFor(self, level: int) -> bool:  # the library's name
        """Return True if a message of `level` would be logged."""
        return not self.disabled and level > STATE.disabled and level >= self.getEffectiveLevel()

    def log(self, level: Any, msg: Any, *args: Any, **options: Any) -> None:
        """Log `msg % args`."""
        if not isinstance(level, int):
            raise TypeError("level must be an integer")
        if self.isEnabledFor(level):
            self.handle(_record(self.name, level, msg, args, **options))

    def debug(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at DEBUG."""
        self.log(10, msg, *args, **options)

    def info(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at INFO."""
        self.log(20, msg, *args, **options)

    def warning(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at WARNING."""
        self.log(30, msg, *args, **options)

    warn = warning

    def error(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at ERROR."""
        self.log(40, msg, *args, **options)

    def exception(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at ERROR with the traceback."""
        self.log(40, msg, *args, **{"exc_info": True, **options})

    def critical(self, msg: Any, *args: Any, **options: Any) -> None:
        """Log at CRITICAL."""
        self.log(50, msg, *args, **options)

    fatal = critical

    def handle(self, record: Any) -> None:
        """Pass `record` to the handlers of this logger and of its parents."""
        if self.disabled:
            return
        passed = self.filter(record)
        if passed:
            self.callHandlers(passed if isinstance(passed, LogRecord) else record)

    def callHandlers(self, record: Any) -> None:  # the library's name
        """Pass `record` to the handlers of this logger and of its parents, without its filters."""
        found = False
        logger: Any = self
        while logger is not None:
            for handler in logger.handlers:
                found = True
                if record.levelno >= handler.level:
                    handler.handle(record)
            logger = logger.parent if logger.propagate else None
        if not found and record.levelno >= LAST_RESORT.level:
            LAST_RESORT.handle(record)

    def addHandler(self, hdlr: Any) -> None:  # the library's name
        """Add `hdlr` to the handlers."""
        if hdlr not in self.handlers:
            self.handlers.append(hdlr)

    def removeHandler(self, hdlr: Any) -> None:  # the library's name
        """Remove `hdlr` from the handlers."""
        if hdlr in self.handlers:
            self.handlers.remove(hdlr)

    def hasHandlers(self) -> bool:  # the library's name
        """Return True if a record would reach a handler."""
        logger: Any = self
        while logger is not None:
            if logger.handlers:
                return True
            logger = logger.parent if logger.propagate else None
        return False

    def getChild(self, suffix: str) -> Any:  # the library's name
        """Return the logger ``name.suffix``."""
        return get_logger(suffix if self is _root() else ".".join((self.name, suffix)))

    if sys.version_info >= (3, 12):

        def getChildren(self) -> set[Any]:  # the library's name
            """Return the loggers one level below."""
            level = 1 if self is _root() else self.name.count(".") + 1
            return {
                each for key, each in _loggers.items()
                if key and each.parent is self and key.count(".") + 1 == level
            }  # fmt: skip

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({level_name(self.getEffectiveLevel())})>"


class _RootLogger(Logger):
    """The logger that all others descend from."""

    __slots__ = ()


_RootLogger.__name__ = _RootLogger.__qualname__ = "RootLogger"
_RootLogger.__module__ = "logging"


class LoggerAdapter:
    """A logger that adds fields to its records."""

    merge_extra = False

    def __init__(self, logger: Any, extra: Any = None) -> None:
        self.logger, self.extra = logger, extra

    if sys.version_info >= (3, 13):

        def __init__(self, logger: Any, extra: Any = None, merge_extra: bool = False) -> None:
            self.logger, self.extra, self.merge_extra = logger, extra, merge_extra

    def process(self, msg: Any, kwargs: Any) -> Any:
        """Return the message and the options to log."""
        extra = self.extra
        if self.merge_extra and kwargs.get("extra"):
            extra = {**(extra or {}), **kwargs["extra"]}
        return msg, {**kwargs, "extra": extra}

    def log(self, level: Any, msg: Any, *args: Any, **options: Any) -> None:
        """Log the message after `process`."""
        if self.logger.isEnabledFor(level):
            msg, options = self.process(msg, options)
            self.logger.log(level, msg, *args, **options)

    debug, info, warning, error, exception, critical = (
        Logger.debug, Logger.info, Logger.warning, Logger.error, Logger.exception, Logger.critical,
    )  # fmt: skip

    if hasattr(logging.LoggerAdapter, "warn"):
        warn = Logger.warn

    @property
    def name(self) -> str:
        """Name of its logger."""
        return str(self.logger.name)

    def hasHandlers(self) -> bool:  # the library's name
        """As the logger's."""
        return bool(self.logger.hasHandlers())

    def __repr__(self) -> str:
        level = level_name(self.logger.getEffectiveLevel())
        return f"<{policy.demangle(type(self).__name__)} {self.logger.name} ({level})>"

    def setLevel(self, level: Any) -> None:  # the library's name
        """As the logger's."""
        self.logger.setLevel(level)

    def isEnabledFor(self, level: int) -> bool:  # the library's name
        """As the logger's."""
        return bool(self.logger.isEnabledFor(level))

    def getEffectiveLevel(self) -> int:  # the library's name
        """As the logger's."""
        return int(self.logger.getEffectiveLevel())


def _record(
    name: str,
    level: int,
    msg: Any,
    args: tuple[Any, ...],
    *,
    exc_info: Any = None,
    extra: Mapping[str, Any] | None = None,
    stack_info: bool = False,
    stacklevel: int = 1,
) -> LogRecord:
    line, function = script_place(max(1, stacklevel))
    record = LogRecord(name, level, "script.py", line, msg, args, info_of(exc_info), function)
    for key, value in (extra or {}).items():
        field = exact_text(key)
        if field in {"message", "asctime"} or field in vars(record) or policy.is_dunder(field):
            raise KeyError(f"Attempt to overwrite {field!r} in LogRecord")
        vars(record)[policy.rename(field)] = value
    return record


def get_logger(name: str | None = None) -> Logger:
    """`logging.getLogger`."""
    if not name or name == "root":
        return _root()
    if not isinstance(name, str):
        raise TypeError("A logger name must be a string")
    if name not in _loggers:
        _loggers[name] = Logger(name)
    return _loggers[name]


def _root() -> Logger:
    # Neither `getChild` nor a name with dots can refer to this key.
    if "" not in _loggers:
        _loggers[""] = _RootLogger("root", 30)
    return _loggers[""]


# ---------------------------------------------------------------------------------------------
# The module


def _basic_config(**options: Any) -> None:
    root = _root()
    take = options.pop
    for name in ("encoding", "errors"):
        take(name, None)
    if take("force", False):
        for each in [*root.handlers]:
            root.removeHandler(each)
            each.close()
    if root.handlers:
        return
    handlers = _take_handlers(options)
    datefmt, style = take("datefmt", None), take("style", "%")
    if style not in BASIC_FORMATS:
        raise ValueError("Style must be one of: %,{,$")
    formatter = Formatter(take("format", BASIC_FORMATS[style]), datefmt, style)
    for each in handlers:
        if each.formatter is None:
            each.setFormatter(formatter)
        root.addHandler(each)
    level = take("level", None)
    if level is not None:
        root.setLevel(level)
    if options:
        raise ValueError(f"Unrecognised argument(s): {', '.join(options)}")


def _take_handlers(options: dict[str, Any]) -> Any:
    """Remove the options of `basicConfig` for handlers; return the handlers."""
    if "handlers" in options and not options.keys().isdisjoint(("stream", "filename")):
        raise ValueError("'stream' or 'filename' should not be specified together with 'handlers'")
    if options.keys() >= {"stream", "filename"}:
        raise ValueError("'stream' and 'filename' should not be specified together")
    handlers = options.pop("handlers", None)
    if handlers is not None:
        return handlers
    options.pop("filemode", None)
    if options.pop("filename", None):
        _no_file()
    return [StreamHandler(options.pop("stream", None))]


def _no_file() -> NoReturn:
    raise PermissionError(
        "a log cannot go to a file: access files through ctx, and leave `filename` out"
    )


def _disable(level: Any = 50) -> None:
    STATE.disabled = level_of(level)


def _add_level_name(level: int, name: str) -> None:
    STATE.level_names[level] = name
    STATE.levels[name] = level


def _at(name: str) -> Callable[..., None]:
    def log(*args: Any, **options: Any) -> None:
        if not _root().handlers:
            _basic_config()
        getattr(_root(), name)(*args, **options)

    log.__name__ = log.__qualname__ = name
    return log


_CALLS: Final = [
    "critical", "debug", "error", "exception", "fatal", "info", "log", "warn", "warning",
]  # fmt: skip


def logging_members(clock: Clock) -> dict[str, Any]:
    """Return the members of `logging`.

    Args:
        clock: Clock for the time of records.
    """
    STATE.clock = clock
    return {
        **LEVELS,
        **{name: _at(name) for name in _CALLS},
        "BASIC_FORMAT": BASIC_FORMATS["%"],
        "Filter": Filter,
        "Formatter": Formatter,
        "Handler": Handler,
        "LogRecord": LogRecord,
        "Logger": Logger,
        "LoggerAdapter": LoggerAdapter,
        "NullHandler": NullHandler,
        "StreamHandler": StreamHandler,
        "addLevelName": _add_level_name,
        "basicConfig": _basic_config,
        "disable": _disable,
        "getLevelName": level_name,
        "getLevelNamesMapping": lambda: dict(STATE.levels),
        "getLogger": get_logger,
        "root": _root(),
        "shutdown": lambda: None,
    }
