"""Validation of the arguments of public functions.

An argument of the wrong type is a `UsageError` that names it, rather than an `AttributeError` from
the code, far inside, that happens to use it first.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ..errors import UsageError

__all__ = [
    "caller_frame",
    "describe_error",
    "folder_of",
    "mapping_of",
    "nearest",
    "parts_of",
    "path_of",
    "require",
    "require_function",
    "require_range",
]


def require(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise `UsageError` unless `value` is one of `kinds`; `expected` describes them."""
    if not isinstance(value, kinds):
        _refuse(name, value, expected)


def require_function(name: str, value: object) -> None:
    """Raise `UsageError` unless `value` is None or callable."""
    if value is not None and not callable(value):
        _refuse(name, value, "a function")


def require_range(name: str, value: int, most: int) -> None:
    """Raise `UsageError` unless `value` is an integer from 1 to `most`."""
    if type(value) is not int or not 1 <= value <= most:
        _refuse(name, value, f"an integer from 1 to {most}")


def parts_of(name: str, value: Iterable[Any], expected: str) -> tuple[Any, ...]:
    """Return the items of a list. Text is rejected: its items would be letters.

    Raises:
        UsageError: If `value` is text, or not iterable.
    """
    if isinstance(value, str | bytes):
        msg = f"{name} must be {expected}, not the string {value!r:.80}"
        raise UsageError(msg)
    require(name, value, Iterable, expected)
    return tuple(value)


def mapping_of(name: str, value: Mapping[str, Any] | None, expected: str) -> dict[str, Any]:
    """Copy a dict with text keys; None is an empty one. Raises `UsageError`."""
    if value is None:
        return {}
    require(name, value, Mapping, expected)
    for key in value:
        if not isinstance(key, str):
            _refuse(f"{name}: the key {key!r:.80}", key, "text")
    return dict(value)


def path_of(name: str, value: str | Path) -> Path:
    """Convert to a path that the file system accepts. Raises `UsageError`."""
    require(name, value, (str, Path), "a path, as text or pathlib.Path")
    text = str(value)
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        # The file system returns names that are not UTF-8 with U+DC80 to U+DCFF in them.
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            _refuse(name, value, "a path without lone surrogates")
        if "\0" in text:
            _refuse(name, value, "a path without the character NUL")
    return Path(value)


def folder_of(name: str, value: str | Path) -> Path:
    """Convert to the absolute path of an existing folder, without links. Raises `UsageError`."""
    path = path_of(name, value)
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        msg = f"{name} {str(value)!r}: {error.strerror or error}"
        raise UsageError(msg) from None
    if not resolved.is_dir():
        msg = f"{name} {str(value)!r} is not a folder"
        raise UsageError(msg)
    return resolved


def nearest(name: object, names: Iterable[str]) -> str:
    """Return `` (did you mean `x`?)`` for the closest of `names`, or ``""``."""
    close = []
    if isinstance(name, str):  # a caller may pass any object
        close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(f'`{c}`' for c in close)}?)" if close else ""


def describe_error(error: BaseException) -> str:
    """Return the type and text of an exception, or of the members of a group. Never raises."""
    try:
        if isinstance(error, BaseExceptionGroup):
            return "; ".join(describe_error(member) for member in error.exceptions[:8])
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # `__str__` is the author's code
        return f"{type(error).__name__} (its __str__ raised an exception)"


def caller_frame() -> tuple[FrameType | None, int]:
    """Return the nearest frame outside ptc, and the number of ptc's frames below it."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1
    return frame, level


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__package__")).partition(".")[0] == "ptc"


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    msg = f"{name} must be {expected}, not {value!r:.80}"
    raise UsageError(msg)
