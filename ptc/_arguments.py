"""Arguments of public functions, checked for their kind where they come in.

A value of the wrong kind is a `UsageError` that says which argument it was, and not an
`AttributeError` from the place, far inside, that happened to touch it first.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from .errors import UsageError

__all__ = [
    "caller_frame",
    "mapping_of",
    "nearest",
    "parts_of",
    "path_of",
    "require",
    "require_function",
    "words_of",
]


def require(name: str, value: object, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise `UsageError` unless `value` is one of `kinds`; `what` says what it should be."""
    if not isinstance(value, kinds):
        _refuse(name, value, what)


def require_function(name: str, value: object) -> None:
    """Raise `UsageError` unless `value` is None or can be called."""
    if value is not None and not callable(value):
        _refuse(name, value, "a function")


def parts_of(name: str, value: Iterable[Any], what: str) -> tuple[Any, ...]:
    """The parts of a list. Text is none: its parts would be letters.

    Raises:
        UsageError: If `value` is text, or has no parts.
    """
    if isinstance(value, str | bytes):
        msg = f"{name} is {what}, not the string {value!r:.80}"
        raise UsageError(msg)
    require(name, value, Iterable, what)
    return tuple(value)


def mapping_of(name: str, value: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """A copy of a dict with names as keys; None is an empty one. Raises `UsageError`."""
    if value is None:
        return {}
    require(name, value, Mapping, what)
    for key in value:
        require(f"{name}: the key {key!r:.80}", key, str, "text")
    return dict(value)


def path_of(name: str, value: str | Path) -> Path:
    """A path that the file system can be asked about. Raises `UsageError`."""
    require(name, value, (str, Path), "a path, as text or pathlib.Path")
    text = str(value)
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        # A name that is not UTF-8 comes from the file system with U+DC80 to U+DCFF in it.
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            _refuse(name, value, "a path, and no path has this character")
        if "\0" in text:
            _refuse(name, value, "a path, and no path has the character NUL")
    return Path(value)


def nearest(name: object, names: Iterable[str]) -> str:
    """`` (did you mean `x`?)`` for the closest of `names`, or ``""``."""
    close = []
    if isinstance(name, str):  # whatever was given where a name was asked for
        close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(f'`{c}`' for c in close)}?)" if close else ""


def words_of(error: BaseException) -> str:
    """Type and text of an exception, whatever it is: of a group those of its members."""
    try:
        if isinstance(error, BaseExceptionGroup):
            return "; ".join(words_of(member) for member in error.exceptions[:8])
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # its __str__ is its author's code
        return f"{type(error).__name__} (its text cannot be made)"


def caller_frame() -> tuple[FrameType | None, int]:
    """Return the nearest frame outside ptc, and the number of ptc's frames below it."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1
    return frame, level


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__package__")).partition(".")[0] == "ptc"


def _refuse(name: str, value: object, what: str) -> NoReturn:
    msg = f"{name} is {what}, not {value!r:.80}"
    raise UsageError(msg)
