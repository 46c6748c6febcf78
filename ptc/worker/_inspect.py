"""The local variables of a script that waits, for whoever looks back at a run.

Rule 1: what is shown is text of bounded length; a `__repr__` that fails is told as such.
    tests/core/test_looking_back.py::test_time_travel_shows_the_variables_at_a_call
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from .._compiler import demangle
from . import _values
from ._internals import (
    coroutine_await,
    coroutine_frame,
    frame_back,
    frame_code,
    frame_lineno,
    frame_locals,
)

__all__ = ["frames"]

_MOST_FRAMES = 50
_MOST_NAMES = 200
_MOST_CHARS = 300
_FUNCTION = 0x02  # inspect.CO_NEWLOCALS: a module's variables are those of its functions


def frames(filename: str) -> bytes:
    """JSON of the script's frames, outermost first: ``[[function, line, [[name, text]]], ...]``."""
    found = [_shown(frame) for frame in _stack(filename)]
    try:
        tasks = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    except RuntimeError:
        tasks = []  # no loop runs: the script blocks
    for task in tasks:
        found += [_shown(frame) for frame in _awaiting(task.get_coro(), filename)]
    return _values.dumps(found[:_MOST_FRAMES], "frames")


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
    rows = [[demangle(name), _text(variables[name])] for name in names]
    return [demangle(frame_code(frame).co_name), frame_lineno(frame), rows]


def _text(value: object) -> str:
    try:
        text = demangle(repr(value))
    except Exception as error:  # noqa: BLE001  # a `__repr__` of the script's own
        return f"<{type(value).__name__}: its repr failed: {type(error).__name__}>"
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
