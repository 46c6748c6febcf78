"""Local variables of a waiting script, for the inspection of a run in the past.

Rule 1: every value is shown as text of bounded length; a `__repr__` that fails is reported so.
    tests/core/runs/test_history.py::test_time_travel_shows_the_variables_at_a_call
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
from ._values import shorten

__all__ = ["answer", "waiting_places"]

_MOST_FRAMES = 50
_MOST_NAMES = 200
_MOST_CHARS = 300
_ALL_CHARS = 140_000
"""Characters of all names and texts: even with every character escaped they fit a frame."""
_FUNCTION = 0x02  # inspect.CO_NEWLOCALS: set for functions, whose variables are shown


def answer(filename: str, request: bytes) -> bytes:
    """Return the body of FRAMES for the body of INSPECT."""
    return frames(filename) if request == b"[]" else _places(filename)


def _places(filename: str) -> bytes:
    """Return the frames that wait, outermost first and without variables."""
    found: list[list[Any]] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame_code(frame).co_filename == filename:
            # f_lineno is None between instructions that belong to no line.
            line = frame_lineno(frame) or 0
            found.insert(0, [shorten(frame_code(frame).co_name, MAX_NAME), line, []])
        frame = frame_back(frame)
    if not found:
        try:
            waiting = waiting_places(filename)
        except RuntimeError:
            waiting = []  # no loop runs
        found = [[shorten(name, MAX_NAME), line, []] for line, name in waiting]
    return _values.dumps(found[-_MOST_FRAMES:], "frames")


def frames(filename: str) -> bytes:
    """Return the script's frames, outermost first: ``[[function, line, [[name, text]]], ...]``."""
    found: list[list[Any]] = []
    left = _ALL_CHARS
    for frame in islice(_frames(filename), _MOST_FRAMES):
        row = _row(frame)
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
    """Yield the frames of the script that are being executed: those of a script that blocks."""
    frame: FrameType | None = sys._getframe()
    found = []
    while frame is not None:
        if _is_script_code(frame_code(frame), filename):
            found.append(frame)
        frame = frame_back(frame)
    return reversed(found)


def waiting_places(filename: str) -> list[tuple[int, str]]:
    """Return line and function of the frames in which the script's first task waits."""
    tasks = sorted(asyncio.all_tasks(), key=_creation)
    found = _suspended(tasks[0].get_coro()) if tasks else ()
    return [
        (frame_lineno(frame) or 0, frame_code(frame).co_qualname)
        for frame in found
        if frame_code(frame).co_filename == filename
    ]


def _creation(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()
    return len(name), name


def _awaiting(coroutine: Any, filename: str) -> Iterator[FrameType]:
    """Yield the frames of the script's functions in which a task is suspended."""
    for frame in _suspended(coroutine):
        if _is_script_code(frame_code(frame), filename):
            yield frame


def _suspended(coroutine: Any) -> Iterator[FrameType]:
    while coroutine is not None:
        frame = coroutine_frame(coroutine)
        if frame is not None:
            yield frame
        coroutine = coroutine_await(coroutine)


def _is_script_code(code: CodeType, filename: str) -> bool:
    return code.co_filename == filename and bool(code.co_flags & _FUNCTION)


def _row(frame: FrameType) -> list[Any]:
    variables = frame_locals(frame)
    names = [name for name in variables if name.isidentifier()][:_MOST_NAMES]
    rows = [[shorten(name, MAX_NAME), _text(variables[name])] for name in names]
    return [shorten(frame_code(frame).co_name, MAX_NAME), frame_lineno(frame) or 0, rows]


def _text(value: object) -> str:
    try:
        return shorten(repr(value), _MOST_CHARS)
    except BaseException as error:  # noqa: BLE001  # a `__repr__` of the script's own
        why = shorten(type(error).__name__, MAX_NAME)
        return f"<{shorten(type(value).__name__, MAX_NAME)}: its repr failed: {why}>"
