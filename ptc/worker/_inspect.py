"""The local variables of a script that waits, for whoever looks back at a run.

Rule 1: what is shown is text of bounded length; a `__repr__` that fails is told as such.
    tests/core/test_looking_back.py::test_time_travel_shows_the_variables_at_a_call
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from .._wire._messages import MAX_NAME
from . import _values
from ._internals import (
    coroutine_await,
    coroutine_frame,
    frame_back,
    frame_code,
    frame_lineno,
    frame_locals,
)
from ._values import shown

__all__ = ["frames"]

_MOST_FRAMES = 50
_MOST_NAMES = 200
_MOST_CHARS = 300
_ALL_CHARS = 140_000
"""Characters of all names and texts: as JSON they fit a frame, whatever they are."""
_FUNCTION = 0x02  # inspect.CO_NEWLOCALS: a module's variables are those of its functions


def frames(filename: str) -> bytes:
    """JSON of the script's frames, outermost first: ``[[function, line, [[name, text]]], ...]``."""
    found: list[list[Any]] = []
    left = _ALL_CHARS
    for frame in islice(_frames(filename), _MOST_FRAMES):
        row = _shown(frame)
        size = len(row[0]) + sum(len(name) + len(text) for name, text in row[2])
        if size > left:
            break
        left -= size
        found.append(row)
    return _values.dumps(found, "frames")


def _frames(filename: str) -> Iterator[FrameType]:
    yield from _stack(filename)
    try:
        tasks = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    except RuntimeError:
        return  # no loop runs: the script blocks
    for task in tasks:
        yield from _awaiting(task.get_coro(), filename)


def _stack(filename: str) -> Iterator[FrameType]:
    """Frames of the script that are being executed: those of a script that blocks."""
    frame: FrameType | None = sys._getframe()
    found = []
    while frame is not None:
        if _is_the_scripts(frame_code(frame), filename):
            found.append(frame)
        frame = frame_back(frame)
    return reversed(found)


def _awaiting(coroutine: Any, filename: str) -> Iterator[FrameType]:
    """Frames of the script that a task is suspended in."""
    while coroutine is not None:
        frame = coroutine_frame(coroutine)
        if frame is not None and _is_the_scripts(frame_code(frame), filename):
            yield frame
        coroutine = coroutine_await(coroutine)


def _is_the_scripts(code: CodeType, filename: str) -> bool:
    return code.co_filename == filename and bool(code.co_flags & _FUNCTION)


def _shown(frame: FrameType) -> list[Any]:
    variables = frame_locals(frame)
    names = [name for name in variables if name.isidentifier()][:_MOST_NAMES]
    rows = [[shown(name, MAX_NAME), _text(variables[name])] for name in names]
    return [shown(frame_code(frame).co_name, MAX_NAME), frame_lineno(frame) or 0, rows]


def _text(value: object) -> str:
    try:
        return shown(repr(value), _MOST_CHARS)
    except BaseException as error:  # noqa: BLE001  # a `__repr__` of the script's own
        why = shown(type(error).__name__, MAX_NAME)
        return f"<{shown(type(value).__name__, MAX_NAME)}: its repr failed: {why}>"
