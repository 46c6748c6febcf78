"""`warnings`: a warning is printed, recorded, raised or dropped, by the script's filters."""

from __future__ import annotations

import contextlib
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

    __slots__ = ("_action", "_before", "_category", "_record")

    def __init__(
        self, *, record: bool = False, action: Any = None, category: Any = Warning, **_: Any
    ) -> None:
        self._record = record
        self._action = action
        self._category = category

    def __repr__(self) -> str:
        return f"{policy.demangle(type(self).__name__)}({'record=True' if self._record else ''})"

    def __enter__(self) -> list[Any] | None:
        self._before = (_state.filters, _state.kept, _state.seen)
        _state.seen = set()
        if self._record:
            _state.kept = []
        if self._action is not None:
            _simplefilter(self._action, self._category)
        return _state.kept if self._record else None

    def __exit__(self, *_: object) -> None:
        _state.filters, _state.kept, _state.seen = self._before


def _add(new: _Filter, *, append: bool) -> None:
    if new.action not in _ACTIONS:
        # The library asserts it before Python 3.13.
        kind = ValueError if sys.version_info >= (3, 13) else AssertionError
        raise kind(f"invalid action: {new.action!r}")
    rest = tuple(each for each in _state.filters if each != new)
    _state.filters = (*rest, new) if append else (new, *rest)
    _state.seen = set()


def _simplefilter(
    action: str, category: Any = Warning, lineno: int = 0, append: bool = False
) -> None:
    _add(_Filter(action, category, None, lineno), append=append)


def _filterwarnings(
    action: str,
    message: str = "",
    category: Any = Warning,
    module: str = "",
    lineno: int = 0,
    append: bool = False,
) -> None:
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
    *,
    line: int = 0,
    **_: Any,
) -> None:
    own = isinstance(message, Warning)
    kind: Any = type(message) if own else category or UserWarning
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        raise TypeError(f"category must be a Warning subclass, not {type(category).__name__!r}")
    text = str(message)
    warning = message if own else kind(message)
    line = script_place(max(1, stacklevel))[0] or line
    action = _action(text if own else message, kind, line)
    if action == "error":
        raise warning
    if action == "ignore" or not _is_new(action, text, kind, line):
        return
    if _state.kept is not None:
        _state.kept.append(WarningMessage(warning, kind, _FILE, line, source=source))
        return
    CONSOLE.show(
        f"{_FILE}:{line}: {policy.demangle(kind.__name__)}: {policy.demangle(text)}",
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
        _warn(text, RuntimeWarning, line=coroutine_line(coroutine))


def warn_forgotten(namespace: Mapping[str, Any]) -> None:
    """Warn of coroutines in the variables of a script that has ended."""
    for value in list(namespace.values()):
        if type(value) is types.CoroutineType and is_unstarted(value):
            warn_unawaited(value)


def _is_new(action: str, text: str, kind: type, line: int) -> bool:
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
        "warn": _warn,
    }
