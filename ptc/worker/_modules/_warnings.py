"""`warnings`: a warning is printed, recorded, raised or dropped, by the script's filters."""

from __future__ import annotations

import contextlib
import operator
import re
import sys
import types
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..._language import _policy as policy
from .._classes import is_script_class
from .._internals import (
    coroutine_line,
    frame_back,
    frame_code,
    frame_lineno,
    is_script_frame,
    is_unstarted,
)
from . import _own
from ._console import CONSOLE
from ._facade import is_facade

__all__ = ["script_place", "warn_forgotten", "warn_unawaited", "warnings_members"]

_FILE: Final = "script.py"
_ACTIONS: Final = frozenset({"always", "default", "error", "ignore", "module", "once"})
_SHOWN_ONCE: Final = 1_000
"""Positions that are remembered to show each once; beyond that, warnings are shown again."""


@dataclass(frozen=True, slots=True)
class _Filter:
    action: str
    category: type
    message: re.Pattern[str] | None = None
    line: int = 0


# As CPython's, for a script that is `__main__`.
_DEFAULTS: Final = tuple(
    _Filter("ignore", kind) for kind in (PendingDeprecationWarning, ImportWarning, ResourceWarning)
)


class WarningMessage:
    """A warning that `catch_warnings(record=True)` recorded."""

    def __init__(
        self,
        message: Any,
        category: Any,
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
        source: Any = None,
    ) -> None:
        self.message, self.category, self.filename, self.lineno = (
            message,
            category,
            filename,
            lineno,
        )
        self.file, self.line, self.source = file, line, source

    def __str__(self) -> str:
        kind = policy.demangle(self.category.__name__)
        return (
            f"{{message : {self.message!r}, category : {kind!r}, filename : {self.filename!r}, "
            f"lineno : {self.lineno}, line : {self.line!r}}}"
        )


class _State:
    __slots__ = ("filters", "kept", "seen")

    def __init__(self) -> None:
        self.filters: tuple[_Filter, ...] = _DEFAULTS
        self.kept: list[Any] | None = None
        self.seen: set[tuple[object, ...]] = set()


_state = _State()


def script_place(level: int = 1) -> tuple[int, str]:
    """Return line and function of the script's `level`-th frame, counted from the innermost."""
    location = (0, "<module>")
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and level > 0:
        if is_script_frame(frame):
            location = (frame_lineno(frame), policy.demangle(frame_code(frame).co_name))
            level -= 1
        frame = frame_back(frame)
    return location


class catch_warnings:  # the library's name
    """`warnings.catch_warnings`: restores the filters, and can record warnings."""

    __slots__ = ("__weakref__", "_before", "_filter", "_module", "_record")

    def __init__(
        self,
        *,
        record: bool = False,
        module: Any = None,
        action: Any = None,
        category: Any = Warning,
        lineno: int = 0,
        append: bool = False,
    ) -> None:
        self._record = record
        self._module = None if is_facade(type(module)) and module.__name__ == "warnings" else module
        self._filter = None if action is None else (action, category, lineno, append)
        self._before: Any = None

    def __repr__(self) -> str:
        shown = ["record=True"] if self._record else []
        shown += [] if self._module is None else ["module=%r" % self._module]  # noqa: UP031  # as the library
        return f"{policy.demangle(type(self).__name__)}({', '.join(shown)})"

    def __enter__(self) -> list[Any] | None:
        if self._before is not None:
            raise RuntimeError(f"Cannot enter {self!r} twice")
        if self._module is not None:
            raise AttributeError(
                f"{type(self._module).__name__!r} object has no attribute 'filters'"
            )
        self._before = (_state.filters, _state.kept, _state.seen)
        _state.seen = set()
        if self._record:
            _state.kept = []
        if self._filter is not None:
            _simplefilter(*self._filter)
        return _state.kept if self._record else None

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            raise RuntimeError(f"Cannot exit {self!r} without entering first")
        _state.filters, _state.kept, _state.seen = self._before


def _require(condition: bool, text: str, kind: type[Exception]) -> None:
    """Raise `kind`, or `AssertionError` as the library before Python 3.13."""
    if not condition:
        raise (kind if sys.version_info >= (3, 13) else AssertionError)(text)


def _check_action(action: Any) -> None:
    known: Any = _ACTIONS if sys.version_info >= (3, 13) else tuple(_ACTIONS)
    _require(action in known, f"invalid action: {action!r}", ValueError)


def _check_line(lineno: Any) -> None:
    _require(isinstance(lineno, int), "lineno must be an int", TypeError)
    _require(lineno >= 0, "lineno must be an int >= 0", ValueError)


def _add(new: _Filter, *, append: bool) -> None:
    rest = tuple(each for each in _state.filters if each != new)
    _state.filters = (*rest, new) if append else (new, *rest)
    _state.seen = set()


def _simplefilter(
    action: str, category: Any = Warning, lineno: int = 0, append: bool = False
) -> None:
    _check_action(action)
    _check_line(lineno)
    _add(_Filter(action, category, None, lineno), append=append)


def _filterwarnings(
    action: str,
    message: str = "",
    category: Any = Warning,
    module: str = "",
    lineno: int = 0,
    append: bool = False,
) -> None:
    _check_action(action)
    _require(isinstance(message, str), "message must be a string", TypeError)
    known = isinstance(category, type) and issubclass(category, Warning)
    _require(known, "category must be a Warning subclass", TypeError)
    _require(isinstance(module, str), "module must be a string", TypeError)
    _check_line(lineno)
    pattern = re.compile(message, re.IGNORECASE) if message else None
    if module and not re.match(module, "__main__"):
        return
    _add(_Filter(action, category, pattern, lineno), append=append)


def _resetwarnings() -> None:
    _state.filters, _state.seen = (), set()


def _action(text: Any, category: type, line: int) -> str:
    for each in _state.filters:
        if (
            issubclass(category, each.category)
            and (each.message is None or each.message.match(text))
            and each.line in {0, line}
        ):
            return each.action
    return "default"


def _warn(
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
) -> None:
    level = operator.index(stacklevel)
    if not -sys.maxsize <= level <= sys.maxsize:
        raise OverflowError("Python int too large to convert to C ssize_t")
    _issue(message, category, level, source)


def _warn_skipping(
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    *,
    skip_file_prefixes: tuple[str, ...] = (),
) -> None:
    """`warnings.warn` from Python 3.12 on; a script has one file."""
    if not isinstance(skip_file_prefixes, tuple):
        raise TypeError(
            "warn() argument 'skip_file_prefixes' must be tuple, "
            f"not {type(skip_file_prefixes).__name__}"
        )
    _warn(message, category, stacklevel, source)


def _issue(message: Any, category: Any, stacklevel: int, source: Any = None, line: int = 0) -> None:
    own = isinstance(message, Warning)
    kind: Any = type(message) if own else UserWarning if category is None else category
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        raise TypeError(f"category must be a Warning subclass, not {type(category).__name__!r}")
    text = str(message) if own else message
    warning = message if own else kind(message)
    line = script_place(max(1, stacklevel))[0] or line
    action = _action(text, kind, line)
    if action == "error":
        raise warning
    if action == "ignore" or not _is_new(action, text, kind, line):
        return
    if _state.kept is not None:
        _state.kept.append(WarningMessage(warning, kind, _FILE, line, source=source))
        return
    CONSOLE.show(
        f"{_FILE}:{line}: {policy.demangle(kind.__name__)}: {policy.demangle(str(warning))}",
        file=CONSOLE.stderr,
    )


_OWN_COROUTINES: Final = frozenset({"_Run._finish_calls", "_Run._main", "_wait_for"})


def warn_unawaited(coroutine: Any) -> None:
    """Warn of a coroutine that was never awaited; CPython calls it when one is dropped.

    It never raises: CPython would print that to the standard error of the process.
    """
    if coroutine.__qualname__ in _OWN_COROUTINES:
        return
    text = f"coroutine '{policy.demangle(coroutine.__qualname__)}' was never awaited"
    with contextlib.suppress(Exception):
        _issue(text, RuntimeWarning, 1, line=coroutine_line(coroutine))


def warn_forgotten(namespace: Mapping[str, Any]) -> None:
    """Warn of coroutines in the variables of a script that has ended."""
    for value in list(namespace.values()):
        if type(value) is types.CoroutineType and is_unstarted(value):
            warn_unawaited(value)


def _is_new(action: str, text: Any, kind: type, line: int) -> bool:
    if action == "always":
        return True
    location = {"default": line, "module": -1}.get(action, -2)
    seen = (text, kind, location)
    if seen in _state.seen:
        return False
    if len(_state.seen) < _SHOWN_ONCE:
        _state.seen.add(seen)
    return True


class deprecated:  # the library's name
    """`warnings.deprecated` of 3.13: a call of the function or class warns."""

    def __init__(
        self,
        message: str,
        /,
        *,
        category: type[Warning] | None = DeprecationWarning,
        stacklevel: int = 1,
    ) -> None:
        if not isinstance(message, str):
            raise TypeError(
                f"Expected an object of type str for 'message', not {type(message).__name__!r}"
            )
        self.message = message
        self.category = category
        self.stacklevel = stacklevel

    def __call__(self, arg: Any, /) -> Any:
        if self.category is None:
            return arg
        if isinstance(arg, type):
            return self._decorate_class(arg)
        if not callable(arg):
            raise TypeError(
                "@deprecated decorator with non-None category must be applied to a class or "
                f"callable, not {arg!r}"
            )

        def call(*args: Any, **options: Any) -> Any:
            self._warn()
            return arg(*args, **options)

        return _own.update_wrapper(call, arg)

    def _decorate_class(self, kind: Any) -> Any:
        if not is_script_class(kind):
            raise TypeError("@deprecated works on the script's own classes only")
        original = kind.__init__

        def init(instance: Any, *args: Any, **options: Any) -> None:
            if type(instance) is kind:
                self._warn()
            original(instance, *args, **options)

        kind.__init__ = init
        return kind

    def _warn(self) -> None:
        _warn(self.message, self.category, self.stacklevel)


def warnings_members() -> dict[str, Any]:
    """Return the members of `warnings`; the interpreter's own warning goes there, too."""
    warnings.__dict__["_warn_unawaited_coroutine"] = warn_unawaited
    later = {"deprecated": deprecated} if "deprecated" in policy.MODULES["warnings"] else {}
    return {
        **later,
        "catch_warnings": catch_warnings,
        "filterwarnings": _filterwarnings,
        "resetwarnings": _resetwarnings,
        "simplefilter": _simplefilter,
        "warn": _warn_skipping if sys.version_info >= (3, 12) else _warn,
    }
