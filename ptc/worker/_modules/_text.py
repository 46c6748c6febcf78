"""pprint, shlex, sys and paths: modules that would reach outside of the script.

Each is rewritten to work on text alone: the originals open files or write to the process's own
streams.
"""

from __future__ import annotations

import calendar
import ntpath
import operator
import os
import pathlib
import posixpath
import pprint
import shlex
import sys
from typing import Any, Final, NoReturn

from ..._language import _policy as policy
from .._freeze import class_namespace, remove_attributes, replace_attribute
from .._views import exact_text
from ._console import CONSOLE
from ._facade import make_module
from ._traceback import exc_info, exception

__all__ = [
    "PATHS",
    "calendar_members",
    "confine_paths",
    "environment_members",
    "pprint_members",
    "relpath",
    "shlex_split",
    "sys_members",
]

# ---------------------------------------------------------------------------------------------
# pprint, shlex, sys


class PrettyPrinter(pprint.PrettyPrinter):
    """`pprint.PrettyPrinter`, which prints to the script's output."""

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

    def __init_subclass__(cls, **options: Any) -> None:
        if issubclass(cls, str):  # whose `format` reads any attribute
            raise TypeError("a printer may not be text")
        super().__init_subclass__(**options)

    # The methods of the library take any object as `self`.
    def isreadable(self, object: Any) -> bool:
        """Return True if the repr of `object` could be evaluated."""
        return super().isreadable(object)

    def isrecursive(self, object: Any) -> bool:
        """Return True if `object` contains itself."""
        return super().isrecursive(object)

    def pformat(self, object: Any) -> str:
        """Return the text of `object`."""
        return policy.demangle(super().pformat(object))

    def pprint(self, object: Any) -> None:
        """Print `object`."""
        self.__dict__["_stream"].write(self.pformat(object) + "\n")


def pprint_members() -> dict[str, Any]:
    """Return the members of `pprint`, which prints to the script's output."""

    def print_pretty(object: Any, stream: Any = None, *args: Any, **options: Any) -> None:
        text = policy.demangle(pprint.pformat(object, *args, **options))
        (CONSOLE.stdout if stream is None else stream).write(text + "\n")

    def pp(object: Any, *args: Any, sort_dicts: bool = False, **options: Any) -> None:
        print_pretty(object, *args, sort_dicts=sort_dicts, **options)

    def pformat(object: Any, *args: Any, **options: Any) -> str:
        return policy.demangle(pprint.pformat(object, *args, **options))

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

    # The methods that print, such as `TextCalendar.pryear`, find it before the builtin.
    calendar.__dict__["print"] = CONSOLE.show
    return {"prcal": prcal, "prmonth": prmonth}


def shlex_split(s: str, comments: bool = False, posix: bool = True) -> list[str]:
    """`shlex.split` of text only: the library's version reads standard input for None."""
    if s is None and sys.version_info >= (3, 12):
        raise ValueError("s argument must not be None")
    if s is not None and not isinstance(s, str):
        _ = s.read  # the library's error for an object that is not a stream
    return shlex.split(exact_text(s), comments, posix)


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
        exact = int.__index__(operator.index(limit))
        sys.setrecursionlimit(max(sys.getrecursionlimit(), min(exact, _RECURSION)))

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
        "exc_info": exc_info,
        "exception": exception,
        "exit": exit_,
        "setrecursionlimit": setrecursionlimit,
        "stdout": _stream_property("stdout"),
        "stderr": _stream_property("stderr"),
    }


# ---------------------------------------------------------------------------------------------
# os


class Environment(dict[str, str]):
    """`os.environ`: empty at first, and never passed to a process."""

    __module__ = "os"  # reprs and errors show it

    __slots__ = ()

    def __missing__(self, key: object) -> NoReturn:
        error = KeyError(key)
        error.add_note("a script has no environment; take values from `inputs`")
        raise error

    def __setitem__(self, key: str, value: str) -> None:
        for text in (key, value):
            if not isinstance(text, str):
                raise TypeError(f"str expected, not {type(text).__name__}")
        super().__setitem__(str.__str__(key), str.__str__(value))

    def __repr__(self) -> str:
        return f"environ({super().__repr__()})"


Environment.__name__ = Environment.__qualname__ = "_Environ"


def environment_members() -> dict[str, Any]:
    """Return the members of `os` that read the environment."""
    environment = Environment()

    def getenv(key: str, default: Any = None) -> Any:
        return environment.get(key, default)

    return {"environ": environment, "getenv": getenv}


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
Path.__doc__ = pathlib.PosixPath.__doc__
Path.__module__ = pathlib.PurePath.__module__  # `pathlib._local` on 3.13
if hasattr(pathlib.Path, "from_uri"):  # 3.13
    Path.from_uri = classmethod(pathlib.Path.__dict__["from_uri"].__func__)  # type: ignore[attr-defined]  # new

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
        old = hasattr(library, "_posix_flavour")  # 3.11
        for kind in (type(pure._flavour),) if old else (library.PurePath, pure):
            # 3.11: `pathmod`, and in its first releases `ntpath`; later `_flavour`; 3.13: `parser`;
            # from 3.14.10 on the name of the module, too.
            held = [name for name, value in class_namespace(kind).items() if value is module]
            for name in held:
                replace_attribute(kind, name, lexical)
        if not old:
            where = sys.modules[library.PurePath.__module__]  # `pathlib._local` on 3.13
            vars(where)[module.__name__] = lexical


# Deep enough for any intended number of ".."; no part of it can appear in a result.
_FOLDER: Final = "/" + "/".join(f"\0{depth}" for depth in range(200))


def relpath(path: Any, start: Any = None) -> Any:
    """`os.path.relpath` on text: a script has no current folder, so any can stand for it."""
    if not path:
        raise ValueError("no path specified")
    path, start = os.fspath(path), os.fspath("." if start is None else start)
    folder: Any = "/" if any(map(posixpath.isabs, (path, start))) else _FOLDER
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
    PATHS["UnsupportedOperation"] = pathlib.__dict__["UnsupportedOperation"]
