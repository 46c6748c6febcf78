"""traceback, pprint, sys and paths: modules that would reach outside of the script.

Each is rewritten to work on text alone: the originals read source files, walk frames or write to
the process's own streams.
"""

from __future__ import annotations

import calendar
import ntpath
import os
import pathlib
import posixpath
import pprint
import sys
import types
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from ..._language import _policy as policy
from .._freeze import class_namespace, remove_attributes, replace_attribute
from .._internals import frame_code, frame_globals, traceback_frame
from ._console import CONSOLE
from ._facade import make_module

__all__ = [
    "PATHS",
    "calendar_members",
    "confine_paths",
    "format_error",
    "format_exc",
    "pprint_members",
    "relpath",
    "sys_members",
    "traceback_members",
]

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
        # Frames of the worker and of the library are hidden from scripts.
        if "@getattr" in frame_globals(traceback_frame(frame)):
            code = frame_code(traceback_frame(frame))
            where = policy.demangle(code.co_name)
            # The runtime's file name for the script cannot be a path, and is not shown.
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


def format_error(error: BaseException) -> str:
    """Format the traceback of `error`: frames of the script only, without source lines."""
    return "".join(_lines(error, set()))


def format_exc(*_: Any, **__: Any) -> str:
    """`traceback.format_exc`: frames of the script only, without source lines."""
    error = sys.exc_info()[1]
    return "".join(_lines(error, set())) if error is not None else "NoneType: None\n"


def _to_stderr(text: str, file: Any = None) -> None:
    CONSOLE.show(text, end="", file=CONSOLE.stderr if file is None else file)


def traceback_members() -> dict[str, Any]:
    """Return the members of `traceback`."""

    def print_exc(limit: Any = None, file: Any = None, chain: bool = True) -> None:
        _to_stderr(format_exc(), file)

    def print_exception(*args: Any, file: Any = None, **options: Any) -> None:
        files = [arg for arg in args[3:] if hasattr(arg, "write")]  # (type, value, tb, limit, file)
        _to_stderr("".join(_format(*args, **options)), file or (files[0] if files else None))

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
# pprint, sys


def pprint_members() -> dict[str, Any]:
    """Return the members of `pprint`, which prints to the script's output."""

    class PrettyPrinter(pprint.PrettyPrinter):
        def __init__(
            self,
            indent: int = 1,
            width: int = 80,
            depth: Any = None,
            stream: Any = None,
            **more: Any,
        ) -> None:
            target: Any = CONSOLE.stdout if stream is None else stream
            super().__init__(indent, width, depth, target, **more)

    def print_pretty(obj: Any, stream: Any = None, *args: Any, **options: Any) -> None:
        text = policy.demangle(pprint.pformat(obj, *args, **options))
        (CONSOLE.stdout if stream is None else stream).write(text + "\n")

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


def calendar_members() -> dict[str, Any]:
    """Return the functions of `calendar` that print to the script's output."""

    def prmonth(*args: Any, **options: Any) -> None:
        CONSOLE.show(calendar.month(*args, **options), end="")

    def prcal(*args: Any, **options: Any) -> None:
        CONSOLE.show(calendar.calendar(*args, **options), end="")

    return {"prcal": prcal, "prmonth": prmonth}


# Each call from Python through C and back takes up to 2 KB of a stack of 8 MB; `sorted` on 3.13
# takes more and crashes at about 1,800. Calls of plain functions take none.
_RECURSION: Final = 3_000


def _stream_property(name: str) -> property:
    """`sys.stdout` or `sys.stderr`, which a script may set to an object of its own."""
    return property(
        lambda _: getattr(CONSOLE, name), lambda _, value: setattr(CONSOLE, name, value)
    )


def sys_members() -> dict[str, Any]:
    """Return the members of `sys`: facts about the interpreter, and two streams."""

    def exit_(code: Any = None, /) -> NoReturn:
        raise SystemExit(code)

    def setrecursionlimit(limit: int, /) -> None:
        """Raise the limit up to the depth that a worker's stack allows; never lower it."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), min(limit, _RECURSION)))

    return {
        **{
            name: getattr(sys, name)
            for name in [
                "byteorder",
                "float_info",
                "float_repr_style",
                "get_int_max_str_digits",
                "getdefaultencoding",
                "getrecursionlimit",
                "getsizeof",
                "hash_info",
                "hexversion",
                "int_info",
                "intern",
                "maxsize",
                "maxunicode",
                "platform",
                "set_int_max_str_digits",
                "version",
                "version_info",
            ]
        },
        "exit": exit_,
        "setrecursionlimit": setrecursionlimit,
        "stdout": _stream_property("stdout"),
        "stderr": _stream_property("stderr"),
    }


# ---------------------------------------------------------------------------------------------
# pathlib

_ALTERNATIVES: Final = {
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


def _refuser(name: str, alternative: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise OSError(
            f"Path.{name}() is not available: access files through ctx; use {alternative}"
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class Path(pathlib.PurePosixPath):
    """A path as text: methods that access a file raise, with an alternative in the message."""

    __slots__ = ()


for _name, _alternative in _ALTERNATIVES.items():
    setattr(Path, _name, _refuser(_name, _alternative))
Path.__name__ = Path.__qualname__ = "PosixPath"
Path.__module__ = "pathlib"

_PURE: Final = [
    "altsep", "basename", "curdir", "dirname", "isabs", "isreserved", "join", "normcase",
    "normpath", "pardir", "sep", "split", "splitdrive", "splitext", "splitroot",
]  # fmt: skip


def confine_paths() -> None:
    """Remove the modules `posixpath` and `ntpath`, which lead to `os`, from the classes of paths.

    Facades with the text functions that the classes use replace them.
    """
    library: Any = pathlib
    if hasattr(library.PurePath, "_globber"):  # 3.13
        for kind in library.PurePath._globber.__mro__[:-1]:
            remove_attributes(kind, ["lstat", "scandir"])
    for module, pure in ((posixpath, library.PurePosixPath), (ntpath, library.PureWindowsPath)):
        functions = {name: getattr(module, name) for name in _PURE if hasattr(module, name)}
        lexical = make_module(module.__name__, functions)
        if hasattr(library, "_posix_flavour"):  # 3.11
            replace_attribute(type(pure._flavour), "pathmod", lexical)
            continue
        attribute = "parser" if hasattr(library.PurePath, "parser") else "_flavour"
        for kind in (library.PurePath, pure):
            if class_namespace(kind).get(attribute) is module:
                replace_attribute(kind, attribute, lexical)
        where = sys.modules[library.PurePath.__module__]  # `pathlib._local` on 3.13
        vars(where)[module.__name__] = lexical


# Deep enough for any intended number of ".."; no part of it can appear in a result.
_FOLDER: Final = "/" + "/".join(f"\0{depth}" for depth in range(200))


def relpath(path: Any, start: Any = None) -> Any:
    """`os.path.relpath` on text: a script has no current folder, so any can stand for it."""
    if not path:
        raise ValueError("no path specified")
    path, start = os.fspath(path), os.fspath("." if start is None else start)
    folder: Any = _FOLDER
    if isinstance(path, bytes):
        folder, start = (
            os.fsencode(folder),
            start if isinstance(start, bytes) else os.fsencode(start),
        )
    return posixpath.relpath(posixpath.join(folder, path), posixpath.join(folder, start))


PATHS: Final[dict[str, Any]] = {
    "Path": Path,
    "PosixPath": Path,
    "PurePath": pathlib.PurePosixPath,
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}
if hasattr(pathlib, "UnsupportedOperation"):  # 3.13
    PATHS["UnsupportedOperation"] = pathlib.UnsupportedOperation
