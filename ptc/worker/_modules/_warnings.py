"""`warnings`: a warning is printed, recorded, raised or dropped, by the script's filters."""

from __future__ import annotations

import re
import sys
import types
from dataclasses import dataclass
from typing import Any, Final

from ..._language import _policy as policy
from .._internals import frame_back, frame_code, frame_globals, frame_lineno
from ._console import CONSOLE

__all__ = ["script_place", "warnings_members"]

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
        if "@getattr" in frame_globals(frame):
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
        raise ValueError(f"invalid action: {new.action!r}")
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


def _action(text: str, category: type, line: int) -> str:
    for each in _state.filters:
        if (
            issubclass(category, each.category)
            and (each.message is None or each.message.match(text))
            and each.line in {0, line}
        ):
            return each.action
    return "default"


def _warn(
    message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **_: Any
) -> None:
    own = isinstance(message, Warning)
    kind: Any = type(message) if own else category or UserWarning
    if not (isinstance(kind, type) and issubclass(kind, Warning)):
        raise TypeError(f"category must be a Warning subclass, not {type(category).__name__!r}")
    text = str(message)
    warning = message if own else kind(message)
    line, _function = script_place(max(1, stacklevel))
    action = _action(text, kind, line)
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


def warnings_members() -> dict[str, Any]:
    """Return the members of `warnings`."""
    return {
        "catch_warnings": catch_warnings,
        "filterwarnings": _filterwarnings,
        "resetwarnings": _resetwarnings,
        "simplefilter": _simplefilter,
        "warn": _warn,
    }
