"""Builtins and globals of a script.

Rule 1: nothing in the tables runs text as code, opens a file or returns a real namespace
    (test_nothing_dangerous_can_be_reached_from_a_facade).
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from .._language import _policy as policy
from .._wire._messages import Output
from . import _views
from ._attributes import (
    MISSING,
    Attributes,
    RefusedError,
    attribute,
    has_named,
    held_method,
    method,
    read_named,
    refuse,
    store,
)
from ._classes import ScriptSuper, build_class, open_type
from ._identity import show_as_builtin, stable_id
from ._record import read_field
from ._types import ScriptType, type_of
from ._views import exact_text

__all__ = ["RefusedError", "get_attribute", "open_type", "script_builtins", "script_globals"]


def _check_arguments(name: str, args: tuple[Any, ...], options: object, *counts: int) -> None:
    """Raise the `TypeError` of the builtin `name` unless it takes these arguments."""
    if options:
        raise TypeError(f"{name}() takes no keyword arguments")
    if len(args) not in counts:
        least, most = min(counts), max(counts)
        bound = "" if least == most else "at least " if len(args) < least else "at most "
        expected = most if len(args) > most else least
        raise TypeError(f"{name} expected {bound}{expected} arguments, got {len(args)}")


def get_attribute(*args: Any, **options: Any) -> Any:
    """Stand in for `getattr`, with the rules of source."""
    _check_arguments("getattr", args, options, 2, 3)
    obj, name, *default = args
    try:
        return read_named(obj, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def _hasattr(*args: Any, **options: Any) -> bool:
    _check_arguments("hasattr", args, options, 2)
    return has_named(*args)


def _setattr(*args: Any, **options: Any) -> None:
    _check_arguments("setattr", args, options, 3)
    obj, name, value = args
    text = exact_text(name)
    kind = policy.kind_of(text)
    if kind in {"power", "dunder"}:
        store(obj, text, value)
    else:
        setattr(obj, policy.rename(text), value)


def _delattr(*args: Any, **options: Any) -> None:
    _check_arguments("delattr", args, options, 2)
    obj, name = args
    text = exact_text(name)
    if policy.kind_of(text) in {"power", "dunder"}:
        store(obj, text, MISSING)
    else:
        delattr(obj, policy.rename(text))


# The compiler refuses calls that certainly run; these are for the others. They fail as in a program
# without standard input, in an empty folder.


def _input(prompt: object = "", /) -> NoReturn:
    raise EOFError(f"input() is not available: {policy.BUILTIN_HINTS['input']}")


def _open(file: object, mode: object = "r", *_: object, **__: object) -> NoReturn:
    kind = FileNotFoundError if isinstance(mode, str) and mode[:1] == "r" else PermissionError
    raise kind(f"open() is not available: {policy.BUILTIN_HINTS['open']}")


def _exit(code: object = None, /) -> NoReturn:
    raise SystemExit(code)


def _quit(code: object = None, /) -> NoReturn:
    raise SystemExit(code)


# ---------------------------------------------------------------------------------------------
# Tables

_PLAIN_BUILTINS: Final = [
    "abs",
    "aiter",
    "all",
    "anext",
    "any",
    "ascii",
    "bin",
    "bool",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "complex",
    "dict",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "format",
    "frozenset",
    "hash",
    "hex",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "object",
    "oct",
    "ord",
    "pow",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "zip",
    "Ellipsis",
    "NotImplemented",
]

_GUARDED_BUILTINS: Final[dict[str, object]] = {
    "getattr": get_attribute,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "delattr": _delattr,
    "type": ScriptType,
    "id": stable_id,
    "input": _input,
    "open": _open,
    "exit": _exit,
    "quit": _quit,
    "vars": _views.show_vars,
    "dir": _views.show_dir,
    "locals": _views.show_locals,
    "globals": _views.show_globals,
}
for _name, _function in _GUARDED_BUILTINS.items():
    if isinstance(_function, types.FunctionType):
        _function.__name__ = _function.__qualname__ = _name
# The other guards stay recognizable beside the real `getattr` or `open`, which no script may hold.
for _name in ("hasattr", "id"):
    show_as_builtin(_GUARDED_BUILTINS[_name], _name)

# Modules that C code imports for itself, through the builtins of the running frame.
_C_IMPORTS: Final = frozenset(
    {"_io", "_pydecimal", "_strptime", "annotationlib", "asyncio.base_futures",
     "asyncio.events", "collections", "collections.abc", "copyreg", "datetime", "decimal",
     "enum", "functools", "json.decoder", "math", "numbers", "operator", "re", "time",
     "traceback", "types", "typing", "unicodedata", "warnings", "zoneinfo", "zoneinfo._common"}
)  # fmt: skip


def _c_import(name: str, *_: object) -> None:
    """`__import__` as C code finds it (`datetime.strptime`). No script can spell its name.

    It returns no module: `PyImport_Import` ignores the result and looks in `sys.modules` itself.
    """
    offered = name.partition(".")[0] in policy.TRUSTED_PACKAGES
    if not ((offered or name in _C_IMPORTS) and name in sys.modules):
        raise ImportError(f"import of {name!r} is not available in a script")


def script_builtins(
    *, extra: Mapping[str, object], write: Callable[[str, Output], None] | None = None
) -> dict[str, object]:
    """Return the builtins of a script.

    Args:
        extra: Further names, such as `ToolError`.
        write: Receives printed text and its destination; None: the streams of the process.
    """
    from ._modules._console import CONSOLE, Console

    if write is not None:
        CONSOLE.write = write
    show = CONSOLE.show
    Console.show.__name__ = Console.show.__qualname__ = "print"
    Console.show.__module__ = "builtins"  # errors show it
    show_as_builtin(show, "print")
    table: dict[str, object] = {name: getattr(builtins, name) for name in _PLAIN_BUILTINS}
    table.update(
        (name, value)
        for name, value in vars(builtins).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value is not BaseExceptionGroup
    )
    table |= _GUARDED_BUILTINS
    table |= {
        "None": None, "True": True, "False": False,
        "print": show, "__build_class__": build_class, "__import__": _c_import,
    }  # fmt: skip
    table.update(extra)
    return table


def _demangle_all(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Restore the script's spelling of names among positional arguments."""
    return tuple(_demangle(arg) for arg in args)


def _demangle(name: Any) -> Any:
    return policy.demangle(name) if type(name) is str else name


def _instance_dict(obj: Any) -> Any:
    """`x.__dict__`, used in place."""
    try:
        return _views.show_vars(obj)
    except TypeError:
        refuse(obj, "__dict__")


def _no_module(module: str, modules: Mapping[str, object]) -> ModuleNotFoundError:
    """Return CPython's error for a module that is not there."""
    parts = module.split(".")
    paths = [".".join(parts[: at + 1]) for at in range(len(parts))]
    missing = next(path for path in paths if path not in modules)
    parent = missing.rpartition(".")[0]
    text = f"No module named {missing!r}"
    if parent and not hasattr(sys.modules.get(parent), "__path__"):
        text += f"; {parent!r} is not a package"
    return ModuleNotFoundError(text, name=missing)


def script_globals(
    builtins: dict[str, object], modules: Mapping[str, object], name: str = "__main__"
) -> dict[str, object]:
    """Return new globals for one script, with the guards that compiled code calls."""

    def import_module(module: str, bound: str) -> object:
        if module not in modules:
            raise _no_module(module, modules)
        return modules[bound or module]

    def import_from(module: str, wanted: str) -> object:
        found = import_module(module, "")
        if f"{module}.{wanted}" in modules:
            return modules[f"{module}.{wanted}"]
        known = policy.MODULES.get(module)
        try:
            # In a `try` the compiler has not checked the name.
            if (known is not None and wanted not in known) or wanted.startswith("_"):
                raise AttributeError(wanted)
            return getattr(found, wanted)
        except AttributeError:
            message = f"cannot import name {wanted!r} from {module!r}"
            raise ImportError(message, name=module) from None

    return {
        "__name__": name,
        "__builtins__": builtins,
        "@getattr": attribute,
        "@field": read_field,
        "@method": method,
        "@held": held_method,
        "@attributes": Attributes,
        "@class": type_of,
        "@super": ScriptSuper,
        "@dict": _instance_dict,
        "@demangle": _demangle,
        "@demangle_all": _demangle_all,
        "@import": import_module,
        "@import_from": import_from,
    }
