"""`traceback`, and the tracebacks that a script may hold: text and line numbers.

A real traceback leads to frames, and from there to the globals of its callers. `SafeTraceback` and
what it refers to are copies of the names and lines of the script's own frames.

Rule 1: no file is opened for a line of source: the lines come from the script's own constant
    (test_traceback_shows_the_lines_of_the_script).
"""

from __future__ import annotations

import ast
import itertools
import sys
import traceback
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ..._language import _policy as policy
from ..._language._entry import SOURCE
from .._classes import open_type
from .._internals import (
    frame_code,
    frame_globals,
    frame_lineno,
    is_script_frame,
    traceback_frame,
)
from .._types import exact_text, type_of
from ._console import CONSOLE
from ._set_once import SetOnce, fill

__all__ = [
    "exc_info",
    "exception",
    "format_error",
    "format_exc",
    "format_exception",
    "safe_traceback",
    "traceback_members",
]

_FILE: Final = "script.py"


def _make(kind: Any, **values: Any) -> Any:
    made = kind.__new__(kind)
    fill(made, **values)
    return made


@open_type
class _SafeCode(SetOnce):
    __slots__ = ("co_filename", "co_firstlineno", "co_name", "co_qualname")


@open_type
class _SafeFrame(SetOnce):
    __slots__ = ("f_code", "f_lineno")


@open_type
class SafeTraceback(SetOnce):
    """Lines of the script in a traceback, outermost first."""

    __slots__ = ("_entry", "tb_frame", "tb_lasti", "tb_lineno", "tb_next")
    _entry: FrameSummary
    tb_frame: _SafeFrame
    tb_lasti: int
    tb_lineno: int
    tb_next: SafeTraceback | None


@open_type
class FrameSummary(SetOnce):
    """`traceback.FrameSummary`: one line of a traceback."""

    __slots__ = (
        "_text", "colno", "end_colno", "end_lineno", "filename", "line", "lineno", "locals", "name",
    )  # fmt: skip

    _text: str
    colno: int | None
    end_colno: int | None
    end_lineno: int | None
    filename: str
    line: str
    lineno: int
    name: str

    def __iter__(self) -> Iterator[Any]:
        return iter((self.filename, self.lineno, self.name, self.line))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: Any) -> Any:
        return (self.filename, self.lineno, self.name, self.line)[index]

    def __repr__(self) -> str:
        return f"<FrameSummary file {self.filename}, line {self.lineno} in {self.name}>"


@open_type
class StackSummary(list[Any]):
    """`traceback.StackSummary`: the lines of a traceback."""

    __slots__ = ()

    def format(self) -> list[str]:
        """Return the text of each line."""
        return _format_list(self)


for _kind, _name in (
    (_SafeCode, "TracebackCode"), (_SafeFrame, "TracebackFrame"), (SafeTraceback, "traceback"),
):  # fmt: skip
    _kind.__name__ = _kind.__qualname__ = _name
    _kind.__module__ = "builtins"
FrameSummary.__module__ = StackSummary.__module__ = "traceback"


def safe_traceback(error: BaseException) -> SafeTraceback | None:
    """Return the script's part of the traceback of `error`; None if it was never raised."""
    found: SafeTraceback | None = None
    for trace in reversed(list(_script_entries(error.__traceback__))):
        code = frame_code(traceback_frame(trace))
        shown = _make(
            _SafeCode,
            co_filename=_file_of(code),
            co_firstlineno=code.co_firstlineno,
            co_name=policy.demangle(code.co_name),
            co_qualname=policy.demangle(code.co_qualname),
        )
        line = frame_lineno(traceback_frame(trace))
        frame = _make(_SafeFrame, f_code=shown, f_lineno=line)
        found = _make(
            SafeTraceback,
            _entry=_summary(trace),
            tb_frame=frame,
            tb_lasti=trace.tb_lasti,
            tb_lineno=trace.tb_lineno,
            tb_next=found,
        )
    return found


def _script_entries(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    """Yield the entries of the script's frames: those of the worker and the library are hidden."""
    while trace is not None:
        if is_script_frame(traceback_frame(trace)):
            yield trace
        trace = trace.tb_next


def _file_of(code: types.CodeType) -> str:
    # The runtime's file name for the script cannot be a path, and is not shown.
    return code.co_filename if code.co_filename.isprintable() else _FILE


def exc_info() -> tuple[Any, ...]:
    """`sys.exc_info`."""
    error = sys.exc_info()[1]
    return (None, None, None) if error is None else (type_of(error), error, safe_traceback(error))


def exception() -> BaseException | None:
    """`sys.exception`."""
    return sys.exc_info()[1]


# ---------------------------------------------------------------------------------------------
# Formatting


def _summary(trace: types.TracebackType) -> FrameSummary:
    frame = traceback_frame(trace)
    code = frame_code(frame)
    lines = str(frame_globals(frame).get(SOURCE, "")).split("\n")
    positions = list(code.co_positions())
    at = trace.tb_lasti // 2
    line, end_line, column, end_column = positions[at] if 0 <= at < len(positions) else (None,) * 4
    line = trace.tb_lineno or line or 0
    text = lines[line - 1 : end_line or line] or [""]
    made: FrameSummary = _make(
        FrameSummary, filename=_file_of(code), lineno=line, name=policy.demangle(code.co_name),
        line=text[0].strip(), locals=None, end_lineno=end_line, colno=column, end_colno=end_column,
        _text="\n".join(text),
    )  # fmt: skip
    return made


def _library_summary(entry: Any) -> traceback.FrameSummary:
    """Return the library's summary, with its line of source so that it reads no file."""
    if not isinstance(entry, FrameSummary):  # (filename, line number, name, line)
        file, line, name, text = entry
        text = "" if text is None else exact_text(text)
        return traceback.FrameSummary(
            exact_text(file), int(line), exact_text(name), lookup_line=False, line=text
        )
    text = entry._text
    if sys.version_info < (3, 13):  # from 3.13 on, every line of the expression is shown
        text = text.partition("\n")[0]
    text = f"{text}\n" if text else ""
    return traceback.FrameSummary(
        entry.filename, entry.lineno, entry.name, lookup_line=False, line=text,
        end_lineno=entry.end_lineno, colno=entry.colno, end_colno=entry.end_colno,
    )  # fmt: skip


def _is_valid(source: str) -> bool:
    """True if `source` parses.

    CPython opens the file of invalid source to quote from it, which the system call filter would
    report as an attack: the library may parse valid source only.
    """
    try:
        compile(source, "\ud800segment", "exec", ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_find_anchors: Any = traceback.__dict__["_extract_caret_anchors_from_line_segment"]


def _find_valid_anchors(segment: str) -> Any:
    """Look for an operator to underline in a valid expression only."""
    valid = _is_valid(segment) and _is_valid(f"(\n{segment}\n)")
    return _find_anchors(segment) if valid else None


traceback.__dict__["_extract_caret_anchors_from_line_segment"] = _find_valid_anchors

# From Python 3.13 on.
_show_carets: Any = vars(traceback.StackSummary).get("_should_show_carets")


def _show_valid_carets(self: Any, start: Any, end: Any, lines: list[str], anchors: Any) -> bool:
    """Decide if carets are needed; the lines are parsed if they are valid by themselves."""
    if not _is_valid("\n".join(lines)):
        # As the library does after a SyntaxError.
        return bool(anchors or lines[0][:start].lstrip() or lines[-1][end:].rstrip())
    shown: bool = _show_carets(self, start, end, lines, anchors)
    return shown


if _show_carets is not None:
    traceback.StackSummary._should_show_carets = _show_valid_carets  # type: ignore[attr-defined]  # private


def _format_list(extracted_list: Iterable[Any]) -> list[str]:
    found = [_library_summary(each) for each in extracted_list]
    return traceback.StackSummary.from_list(found).format()


def _check_traceback(tb: Any) -> None:
    if tb is not None and not isinstance(tb, SafeTraceback):
        raise AttributeError(f"{type(tb).__name__!r} object has no attribute 'tb_frame'")


def _check_limit(limit: Any) -> None:
    """Raise the library's error of an invalid limit, also where there is nothing to limit."""
    if limit is not None:
        _ = itertools.islice((), limit) if limit >= 0 else deque(maxlen=-limit)


def _walk_tb(tb: Any) -> Iterator[tuple[Any, int]]:
    _check_traceback(tb)
    while isinstance(tb, SafeTraceback):
        yield tb.tb_frame, tb.tb_lineno
        tb = tb.tb_next


def _extract_tb(tb: Any, limit: int | None = None) -> StackSummary:
    _check_limit(limit)
    _check_traceback(tb)
    found = []
    while isinstance(tb, SafeTraceback):
        found.append(tb._entry)
        tb = tb.tb_next
    return StackSummary(_limited(found, limit))


def _format_tb(tb: Any, limit: int | None = None) -> list[str]:
    return _format_list(_extract_tb(tb, limit))


def _print_tb(tb: Any, limit: int | None = None, file: Any = None) -> None:
    _check_limit(limit)
    _check_traceback(tb)
    text = "".join(_format_tb(tb, limit))
    _to_stderr(f"Traceback (most recent call last):\n{text}" if text else "", file)


def _lines(
    error: BaseException,
    seen: set[int],
    limit: int | None = None,
    *,
    chain: bool = True,
    located: bool = True,
) -> Iterator[str]:
    seen.add(id(error))
    cause, context = error.__cause__, error.__context__
    if not chain:
        pass
    elif cause is not None and id(cause) not in seen:
        yield from _lines(cause, seen, limit)
        yield "\nThe above exception was the direct cause of the following exception:\n\n"
    elif cause is None and (
        context is not None and not error.__suppress_context__ and id(context) not in seen
    ):
        yield from _lines(context, seen, limit)
        yield "\nDuring handling of the above exception, another exception occurred:\n\n"
    found = _summaries(error.__traceback__) if located else []
    if found:  # none for an error that was caught inside the library
        yield "Traceback (most recent call last):\n"
        yield from _format_list(_limited(found, limit))
    yield from _last_lines(error)


def _summaries(trace: types.TracebackType | None) -> list[FrameSummary]:
    return [_summary(each) for each in _script_entries(trace)]


def _limited(entries: list[FrameSummary], limit: int | None) -> list[FrameSummary]:
    """Return the first `limit` entries; the last ones if it is negative."""
    if limit is None:
        return entries
    return entries[:limit] if limit >= 0 else entries[limit:]


def _last_lines(error: BaseException) -> Iterator[str]:
    """Yield the line with type and message, and the notes of an exception."""
    kind = type(error)
    module = kind.__module__
    name = (
        kind.__qualname__ if module in {"builtins", "__main__"} else f"{module}.{kind.__qualname__}"
    )
    if isinstance(error, SyntaxError):
        yield from _syntax_lines(error, policy.demangle(name))
        return
    try:
        text = policy.demangle(str(error))
    except Exception:  # noqa: BLE001  # a script's __str__ may raise anything
        text = "<exception str() failed>"
    yield f"{policy.demangle(name)}: {text}\n" if text else f"{policy.demangle(name)}\n"
    yield from _notes(error)


def _syntax_lines(error: SyntaxError, name: str) -> Iterator[str]:
    """Yield the file, line and position of an error in source, its message and notes.

    The library's own `__init__` would follow the causes of the error to their frames.
    """
    made: Any = traceback.TracebackException.__new__(traceback.TracebackException)
    made.filename, made.text, made.msg = error.filename, error.text, error.msg
    made.lineno = None if error.lineno is None else str(error.lineno)
    made.end_lineno = None if error.end_lineno is None else str(error.end_lineno)
    made.offset, made.end_offset = error.offset, error.end_offset
    try:
        lines = list(made._format_syntax_error(name))
    except Exception:  # noqa: BLE001  # attributes that the script has set to other types
        lines = [f"{name}: {policy.demangle(str(error))}\n"]
    yield from lines
    yield from _notes(error)


def _notes(error: BaseException) -> Iterator[str]:
    notes = getattr(error, "__notes__", None)
    for note in notes if isinstance(notes, list) else ():
        if isinstance(note, str):
            yield f"{str.__str__(note)}\n"


def format_error(error: BaseException) -> str:
    """Format the traceback of `error`, with the frames of the script only."""
    return "".join(_lines(error, set()))


def format_exc(limit: int | None = None, chain: bool = True) -> str:
    """`traceback.format_exc`, with the frames of the script only."""
    return "".join(_format(sys.exc_info()[1], _OWN, limit, chain=chain))


_OWN: Final[Any] = object()
"""Stands for the traceback of the exception itself."""


def _format(error: Any, tb: Any, limit: int | None, *, chain: bool) -> list[str]:
    _check_limit(limit)
    if error is None:
        return ["NoneType: None\n"]
    located = tb is _OWN or isinstance(tb, SafeTraceback)
    return list(_lines(error, set(), limit, chain=chain, located=located))


def format_exception(
    exc: Any,
    /,
    value: Any = _OWN,
    tb: Any = _OWN,
    limit: int | None = None,
    chain: bool = True,
    **more: Any,
) -> list[str]:
    _check_more(more)
    if (value is _OWN) is not (tb is _OWN):
        raise ValueError("Both or neither of value and tb must be given")
    if value is _OWN:
        return _format(_checked(exc), tb, limit, chain=chain)
    _check_limit(limit)
    _check_traceback(tb)
    if value is not None:
        _check_error(value)
    return _format(value, tb, limit, chain=chain)


def _format_exception_only(exc: Any, /, value: Any = _OWN, **more: Any) -> list[str]:
    _check_more(more)
    error = exc if value is _OWN else value
    if error is None:
        return ["NoneType: None\n"]
    _check_error(error)
    return list(_last_lines(error))


def _check_more(more: dict[str, Any]) -> None:
    """Refuse unknown arguments, which the library ignores from Python 3.13 on."""
    if more and sys.version_info < (3, 13):
        raise TypeError(f"got an unexpected keyword argument {next(iter(more))!r}")


def _check_error(error: Any) -> None:
    if not isinstance(error, BaseException):
        name = type(error).__name__
        raise AttributeError(f"{name!r} object has no attribute '__suppress_context__'")


def _checked(error: Any) -> BaseException | None:
    if error is None or isinstance(error, BaseException):
        return error
    raise TypeError(f"Exception expected for value, {type(error).__name__} found")


def _print_exc(limit: int | None = None, file: Any = None, chain: bool = True) -> None:
    _to_stderr(format_exc(limit, chain), file)


def _print_exception(
    exc: Any,
    /,
    value: Any = _OWN,
    tb: Any = _OWN,
    limit: int | None = None,
    file: Any = None,
    chain: bool = True,
    **more: Any,
) -> None:
    _check_more(more)
    _to_stderr("".join(format_exception(exc, value, tb, limit, chain)), file)


def _to_stderr(text: str, file: Any = None) -> None:
    CONSOLE.show(text, end="", file=CONSOLE.stderr if file is None else file)


def traceback_members() -> dict[str, Any]:
    """Return the members of `traceback`."""
    return {
        "extract_tb": _extract_tb,
        "format_exc": format_exc,
        "format_list": _format_list,
        "format_tb": _format_tb,
        "print_tb": _print_tb,
        "walk_tb": _walk_tb,
        "print_exc": _print_exc,
        "print_exception": _print_exception,
        "format_exception": format_exception,
        "format_exception_only": _format_exception_only,
    }
