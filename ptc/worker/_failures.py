"""Exceptions of a script as the body of a FAILED frame."""

from __future__ import annotations

import types
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from .._wire._messages import FAILURE_LIMITS, MAX_FRAMES, MAX_MESSAGE, MAX_NAME
from ..errors import ToolError
from . import _values
from ._budget import LimitError
from ._context import PendingCall
from ._internals import frame_code, frame_locals, traceback_frame
from ._threads import DeadlockError
from ._values import shorten

__all__ = ["failure_body", "is_success", "minimal_failure", "script_variables"]

_GROUPS = 4
"""Levels of nested exception groups whose members are reported."""
_MINIMAL = (
    b'{"type":"","message":"the script failed, and its error has no text","frames":[],"code":"%b",'
    b'"tool":"","hint":""}'
)


_exit_code: Final = SystemExit.__dict__["code"].__get__


def is_success(stop: SystemExit) -> bool:
    """True if a `SystemExit` means success to a shell: ``sys.exit()`` and ``sys.exit(0)``."""
    code = _exit_code(stop)
    return code is None or (isinstance(code, int) and not int.__bool__(code))


def failure_body(
    error: BaseException,
    filename: str,
    tools: Container[str],
    place: list[Any] | None = None,
) -> bytes:
    """Build the body of FAILED for an exception that left the script.

    Args:
        error: The exception.
        filename: Name that the script was compiled under.
        tools: Names of the tools in the run.
        place: Row of the value that the script returned, for an error about that value.
    """
    leaf = _leaf(error)
    rows = _frames(error, filename) or _frames(leaf, filename) or _places(leaf)
    if not rows and place is not None:
        rows = [place]
    text = _text_of(leaf)
    hint = _hint(leaf, tools)
    # A function written in C met a call and named its type.
    if isinstance(leaf, TypeError) and PendingCall.__name__ in text:
        hint = _await_hint(leaf, filename)
    row = {
        "type": shorten(type(leaf).__name__, MAX_NAME),
        "message": shorten(text, MAX_MESSAGE),
        "frames": rows,
        "code": _code_of(leaf),
        "tool": shorten(leaf.tool, MAX_NAME) if isinstance(leaf, ToolError) else "",
        "hint": shorten(hint, MAX_MESSAGE),
    }
    return _values.dumps(row, "error")


def _frames(error: BaseException, filename: str) -> list[list[Any]]:
    rows: list[list[Any]] = []
    trace = error.__traceback__
    while trace is not None:
        code = frame_code(traceback_frame(trace))
        if code.co_filename == filename:
            rows.append(_position(trace, code))
            if len(rows) > 2 * MAX_FRAMES:
                del rows[MAX_FRAMES]
        trace = trace.tb_next
    return rows if len(rows) <= MAX_FRAMES else rows[: MAX_FRAMES // 2] + rows[-MAX_FRAMES // 2 :]


def _places(error: BaseException) -> list[list[Any]]:
    """Return the waiting frames of a deadlock among tasks, which no traceback has."""
    if not isinstance(error, DeadlockError):
        return []
    return [[line, line, 0, 0, shorten(name, 200)] for line, name in error.places[-MAX_FRAMES:]]


def script_variables(error: BaseException, filename: str) -> Iterator[Mapping[str, Any]]:
    """Yield the variables of the script's frames through which `error` was raised."""
    trace = error.__traceback__
    while trace is not None:
        frame = traceback_frame(trace)
        if frame_code(frame).co_filename == filename:
            yield frame_locals(frame)
        trace = trace.tb_next


def _hint(error: BaseException, tools: Container[str]) -> str:
    if isinstance(error, NameError) and error.name is not None and error.name in tools:
        return f"tools are methods of ctx: ctx.{error.name}(...)"
    if isinstance(error, ToolError) and error.code == "limit_exceeded":
        return "catch ToolError and return what the script has, or ask for a higher limit"
    if isinstance(error, LimitError):
        return f"do less at a time, or ask for a higher {error.limit}"
    if isinstance(error, SystemExit):
        return "sys.exit() without a code ends the run as completed"
    if isinstance(error, MemoryError):
        return "hold less data at a time, or ask for a higher limits.max_memory_bytes"
    return ""


def _await_hint(error: BaseException, filename: str) -> str:
    """Return the hint for a call that was used as a value, with the tool if it is known."""
    for variables in reversed(list(script_variables(error, filename))):
        tools = {call._tool for value in list(variables.values()) for call in _calls_in(value)}
        if len(tools) == 1:
            return (
                f"write `await ctx.{tools.pop()}(...)`; `await asyncio.gather(*calls)` for a list"
            )
        if tools:
            break
    return "write `await ctx.tool(...)`; `await asyncio.gather(*calls)` for a list of calls"


def _calls_in(value: object) -> Iterator[PendingCall]:
    """Yield the calls in the value of a variable: itself, or items of a plain container."""
    kind = type(value)
    items: list[object] = [value]
    if kind is list or kind is tuple:
        items = list(islice(cast("list[object]", value), _ITEMS))
    elif kind is dict:
        items = list(islice(cast("dict[object, object]", value).values(), _ITEMS))
    # The exact type: `isinstance` would read `__class__`, which may be code of the script.
    return (item for item in items if type(item) is PendingCall)


_ITEMS: Final = 100
"""Items of a container that are searched for calls."""


def minimal_failure(error: BaseException) -> bytes:
    """Build the body of FAILED with the kind of the error alone."""
    return _MINIMAL % _kind_of(error).encode()


def _position(trace: types.TracebackType, code: types.CodeType) -> list[Any]:
    positions = list(code.co_positions())
    index = trace.tb_lasti // 2
    line, end_line, column, end_column = (
        positions[index] if 0 <= index < len(positions) else (None, None, None, None)
    )
    line = trace.tb_lineno or line or 0
    name = shorten(code.co_qualname, 200)
    return [
        line,
        end_line or line,
        0 if column is None else column + 1,
        0 if end_column is None else end_column + 1,
        name,
    ]


def _leaf(error: BaseException) -> BaseException:
    """Unwrap groups of one, in which a TaskGroup raises a single failure."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _text_of(error: BaseException, level: int = 0) -> str:
    if isinstance(error, BaseExceptionGroup) and level < _GROUPS:
        inner = "; ".join(
            f"{type(e).__name__}: {_text_of(e, level + 1)}"[:500] for e in error.exceptions[:5]
        )
        return f"{error.message}: {inner}"
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a __str__ of the script that raises
        return "(its message cannot be shown)"


_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ToolError, "tool_error"),
    (MemoryError, "memory"),
    (RecursionError, "recursion"),
    (_values.ValueRefused, "not_json"),
    (SystemExit, "exit"),
)


def _code_of(error: BaseException) -> str:
    limit: object = error.limit if isinstance(error, LimitError) else None
    # A script can raise these too, with any values in them.
    if isinstance(error, ToolError) and isinstance(error.details, dict):
        limit = error.details.get("limit") if error.code == "limit_exceeded" else None
    if isinstance(limit, str) and limit in FAILURE_LIMITS:
        return f"limit_{limit}"
    return _kind_of(error)


def _kind_of(error: BaseException) -> str:
    for kind, code in _CODES:
        if issubclass(type(error), kind):
            return code
    return "exception"
