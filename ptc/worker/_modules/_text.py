"""logging, traceback, pprint, sys, warnings and paths: modules that would reach outside.

Each is written anew over text: the originals read source files, walk frames or write to the
process's own streams.
"""

from __future__ import annotations

import pathlib
import pprint
import sys
import types
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from ... import _policy as policy
from ._console import CONSOLE, STDERR, STDOUT

__all__ = ["PATHS", "logging_members", "pprint_members", "sys_members", "traceback_members"]

# ---------------------------------------------------------------------------------------------
# logging

_LEVELS: Final = {
    "CRITICAL": 50, "FATAL": 50, "ERROR": 40, "WARNING": 30, "WARN": 30, "INFO": 20, "DEBUG": 10,
    "NOTSET": 0,
}  # fmt: skip
_LEVEL_NAMES: Final = {50: "CRITICAL", 40: "ERROR", 30: "WARNING", 20: "INFO", 10: "DEBUG"}


class Logger:
    """A logger that prints. Levels and names work as in the library; handlers do nothing."""

    __slots__ = ("_level", "disabled", "handlers", "name", "propagate")
    registry: dict[str, Logger] = {}  # noqa: RUF012  # a worker serves one run

    def __init__(self, name: str, level: Any = 0) -> None:
        self.name = name
        self.handlers: list[Any] = []
        self.propagate = True
        self.disabled = False
        self._level = _level(level)

    @property
    def level(self) -> int:
        """The level that was set; 0 if none was."""
        return self._level

    def setLevel(self, level: Any) -> None:  # the library's name
        """Print messages of `level` and above."""
        self._level = _level(level)

    def getEffectiveLevel(self) -> int:  # the library's name
        """The level that decides."""
        return self._level or _root()._level or 30

    def isEnabledFor(self, level: int) -> bool:  # the library's name
        """True if a message of `level` would be printed."""
        return not self.disabled and level >= max(self.getEffectiveLevel(), 0)

    def log(self, level: Any, message: Any, *args: Any, **options: Any) -> None:
        """Print `message % args`."""
        number = _level(level)
        if not self.isEnabledFor(number):
            return
        text = str(message)
        if args:
            only = args[0] if len(args) == 1 and isinstance(args[0], dict) and args[0] else args
            text = text % only
        if options.get("exc_info"):
            text = f"{text}\n{format_exc()}".rstrip("\n")
        CONSOLE.show(f"{_LEVEL_NAMES.get(number, f'Level {number}')}:{self.name}:{text}")

    def debug(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at DEBUG."""
        self.log(10, message, *args, **options)

    def info(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at INFO."""
        self.log(20, message, *args, **options)

    def warning(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at WARNING."""
        self.log(30, message, *args, **options)

    warn = warning

    def error(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at ERROR."""
        self.log(40, message, *args, **options)

    def exception(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at ERROR with the traceback."""
        self.log(40, message, *args, **{"exc_info": True, **options})

    def critical(self, message: Any, *args: Any, **options: Any) -> None:
        """Log at CRITICAL."""
        self.log(50, message, *args, **options)

    fatal = critical

    def addHandler(self, handler: Any) -> None:  # the library's name
        """Remember `handler`; messages are printed in any case."""
        self.handlers.append(handler)

    def removeHandler(self, handler: Any) -> None:  # the library's name
        """Forget `handler`."""
        if handler in self.handlers:
            self.handlers.remove(handler)

    def hasHandlers(self) -> bool:  # the library's name
        """True if a handler was added."""
        return bool(self.handlers)

    def getChild(self, suffix: str) -> Logger:  # the library's name
        """The logger ``name.suffix``."""
        return get_logger(f"{self.name}.{suffix}")

    def __repr__(self) -> str:
        level = _LEVEL_NAMES.get(self.getEffectiveLevel(), "NOTSET")
        return f"<Logger {self.name} ({level})>"


class Handler:
    """A handler that is accepted and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.level = 0

    def setLevel(self, level: Any) -> None:  # the library's name
        """Remember `level`."""
        self.level = _level(level)

    def setFormatter(self, formatter: Any) -> None:  # the library's name
        """Accept a formatter; messages have one form here."""


def _level(level: Any) -> int:
    if isinstance(level, int):
        return int(level)
    if level in _LEVELS:
        return _LEVELS[level]
    raise ValueError(f"Unknown level: {level!r}")


def get_logger(name: str | None = None) -> Logger:
    """`logging.getLogger`."""
    key = name or "root"
    if key not in Logger.registry:
        Logger.registry[key] = Logger(key)
    return Logger.registry[key]


def _root() -> Logger:
    return get_logger()


def logging_members() -> dict[str, Any]:
    """Members of `logging`."""

    def basic_config(*, level: Any = None, force: bool = False, **_: Any) -> None:
        if level is not None:
            _root().setLevel(level)

    def disable(level: Any = 50) -> None:
        _root().setLevel(_level(level) + 1)

    def at(name: str) -> Any:
        return lambda *args, **options: getattr(_root(), name)(*args, **options)

    names = ["critical", "debug", "error", "exception", "info", "log", "warn", "warning"]
    return {
        **_LEVELS,
        **{name: at(name) for name in names},
        "Logger": Logger,
        "NullHandler": Handler,
        "StreamHandler": Handler,
        "basicConfig": basic_config,
        "disable": disable,
        "getLevelName": lambda level: _LEVEL_NAMES.get(level, _LEVELS.get(level, f"Level {level}")),
        "getLogger": get_logger,
    }


# ---------------------------------------------------------------------------------------------
# traceback


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen:
        yield from _lines(cause, seen)
        yield "\nThe above exception was the direct cause of the following exception:\n\n"
    elif context is not None and not error.__suppress_context__ and id(context) not in seen:
        yield from _lines(context, seen)
        yield "\nDuring handling of the above exception, another exception occurred:\n\n"
    yield "Traceback (most recent call last):\n"
    frame: types.TracebackType | None = error.__traceback__
    while frame is not None:
        # Frames of the worker and of the library tell nothing that a script may know.
        if "@getattr" in frame.tb_frame.f_globals:
            code = frame.tb_frame.f_code
            where = policy.demangle(code.co_name)
            # The runtime's name for the script is one that cannot be a path: not to be shown.
            file = code.co_filename if code.co_filename.isprintable() else "script.py"
            yield f'  File "{file}", line {frame.tb_lineno}, in {where}\n'
        frame = frame.tb_next
    yield _last_line(error)


def _last_line(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    name = (
        kind.__qualname__ if module in {"builtins", "__main__"} else f"{module}.{kind.__qualname__}"
    )
    try:
        text = policy.demangle(str(error))
    except Exception:  # noqa: BLE001  # a script's __str__ may raise anything
        text = "<exception str() failed>"
    return f"{policy.demangle(name)}: {text}\n" if text else f"{policy.demangle(name)}\n"


def _format(*args: Any, **options: Any) -> list[str]:
    errors = [arg for arg in (*args, options.get("value")) if isinstance(arg, BaseException)]
    return list(_lines(errors[0], set())) if errors else ["NoneType: None\n"]


def format_exc(*_: Any, **__: Any) -> str:
    """`traceback.format_exc`: the frames of the script only, without source lines."""
    error = sys.exc_info()[1]
    return "".join(_lines(error, set())) if error is not None else "NoneType: None\n"


def traceback_members() -> dict[str, Any]:
    """Members of `traceback`."""

    def print_exc(*args: Any, **options: Any) -> None:
        CONSOLE.show(format_exc(), end="")

    def print_exception(*args: Any, **options: Any) -> None:
        CONSOLE.show("".join(_format(*args, **options)), end="")

    def format_exception_only(*args: Any) -> list[str]:
        errors = [arg for arg in args if isinstance(arg, BaseException)]
        return [_last_line(errors[0])] if errors else ["NoneType: None\n"]

    return {
        "format_exc": format_exc,
        "print_exc": print_exc,
        "print_exception": print_exception,
        "format_exception": _format,
        "format_exception_only": format_exception_only,
    }


# ---------------------------------------------------------------------------------------------
# pprint, sys, warnings


def pprint_members() -> dict[str, Any]:
    """Members of `pprint`, which prints where the script prints."""

    class PrettyPrinter(pprint.PrettyPrinter):
        def __init__(
            self,
            indent: int = 1,
            width: int = 80,
            depth: Any = None,
            stream: Any = None,
            **more: Any,
        ) -> None:
            target: Any = stream or STDOUT
            super().__init__(indent, width, depth, target, **more)

    def print_pretty(obj: Any, stream: Any = None, *args: Any, **options: Any) -> None:
        text = policy.demangle(pprint.pformat(obj, *args, **options))
        (stream or STDOUT).write(text + "\n")

    def pp(obj: Any, *args: Any, sort_dicts: bool = False, **options: Any) -> None:
        print_pretty(obj, *args, sort_dicts=sort_dicts, **options)

    def pformat(obj: Any, *args: Any, **options: Any) -> str:
        return policy.demangle(pprint.pformat(obj, *args, **options))

    return {
        "PrettyPrinter": PrettyPrinter,
        "pformat": pformat,
        "pp": pp,
        "pprint": print_pretty,
        "isreadable": pprint.isreadable,
        "isrecursive": pprint.isrecursive,
        "saferepr": pprint.saferepr,
    }


# Calls from Python through C and back take up to 2 KB each of a stack of 8 MB (3.11).
_RECURSION: Final = 3_000


def sys_members() -> dict[str, Any]:
    """Members of `sys`: numbers about the interpreter, and two streams."""

    def exit_(code: Any = None, /) -> NoReturn:
        raise SystemExit(code)

    def setrecursionlimit(limit: int, /) -> None:
        """Raise the limit, as far as the stack of a worker allows; never lower it."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), min(limit, _RECURSION)))

    return {
        **{
            name: getattr(sys, name)
            for name in [
                "byteorder",
                "float_info",
                "getdefaultencoding",
                "getrecursionlimit",
                "getsizeof",
                "hash_info",
                "int_info",
                "intern",
                "maxsize",
                "maxunicode",
                "platform",
                "version",
                "version_info",
            ]
        },
        "exit": exit_,
        "setrecursionlimit": setrecursionlimit,
        "stdout": STDOUT,
        "stderr": STDERR,
    }


class catch_warnings:  # the library's name
    """`warnings.catch_warnings`: puts the filter back, and can keep what was warned of."""

    __slots__ = ("_before", "_record")

    def __init__(self, *, record: bool = False, **_: Any) -> None:
        self._record = record

    def __enter__(self) -> list[Any] | None:
        self._before = (_filter.muted, _filter.kept)
        _filter.kept = [] if self._record else _filter.kept
        return _filter.kept if self._record else None

    def __exit__(self, *_: object) -> None:
        _filter.muted, _filter.kept = self._before


class _Filter:
    __slots__ = ("kept", "muted")

    def __init__(self) -> None:
        self.muted = False
        self.kept: list[Any] | None = None


_filter = _Filter()


def _simplefilter(action: str, *_: Any, **__: Any) -> None:
    if action == "error":
        raise ValueError("warnings are not raised here; raise an exception")
    _filter.muted = action == "ignore"


def _filterwarnings(action: str, message: str = "", category: Any = Warning, *_: Any) -> None:
    if not message and category is Warning:
        _simplefilter(action)


def _warn(message: Any, category: Any = None, *_: Any, **__: Any) -> None:
    kind = type(message) if isinstance(message, Warning) else category or UserWarning
    if _filter.kept is not None:
        _filter.kept.append(types.SimpleNamespace(message=message, category=kind))
    elif not _filter.muted:
        CONSOLE.show(f"{policy.demangle(kind.__name__)}: {message}", file=STDERR)


def warnings_members() -> dict[str, Any]:
    """Members of `warnings`: a warning is printed, kept or dropped."""
    return {
        "catch_warnings": catch_warnings,
        "filterwarnings": _filterwarnings,
        "resetwarnings": lambda: _simplefilter("default"),
        "simplefilter": _simplefilter,
        "warn": _warn,
    }


# ---------------------------------------------------------------------------------------------
# pathlib

_WAYS: Final = {
    **dict.fromkeys(["read_text", "read_bytes", "open", "readlink"], "`await ctx.read(path)`"),
    **dict.fromkeys(["write_text", "write_bytes", "touch"], "`await ctx.write(path, text)`"),
    **dict.fromkeys(
        ["exists", "is_file", "is_dir", "iterdir", "glob", "rglob", "stat", "walk"],
        "`await ctx.glob(pattern)`",
    ),
    **dict.fromkeys(
        [
            "mkdir",
            "unlink",
            "rmdir",
            "rename",
            "replace",
            "absolute",
            "resolve",
            "expanduser",
            "chmod",
            "home",
            "cwd",
        ],
        "the tools on ctx",
    ),
}


def _refused(name: str, way: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError(f"Path.{name}() is not available: files are reached through ctx; use {way}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class Path(pathlib.PurePosixPath):
    """A path as text: everything that touches a file says what to use instead."""

    __slots__ = ()


for _name, _way in _WAYS.items():
    setattr(Path, _name, _refused(_name, _way))
Path.__name__ = Path.__qualname__ = "PosixPath"
Path.__module__ = "pathlib"

PATHS: Final[dict[str, Any]] = {
    "Path": Path,
    "PosixPath": Path,
    "PurePath": pathlib.PurePosixPath,
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}
