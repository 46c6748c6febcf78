"""What went wrong in a script, in words: the worker's claims put beside the source."""

from __future__ import annotations

import re
from functools import lru_cache

from .._records._result import Failure, Finding, Status
from .._wire import _protocol

__all__ = ["excerpt_of", "failure_of", "finding_of"]

_LINE_CHARS = 160


def excerpt_of(source: str, line: int, column: int = 0, end_column: int = 0) -> str:
    """The source line with carets under columns `column` to `end_column` (1-based, exclusive)."""
    lines = _lines(source)
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip()
    if not 1 <= column <= len(text) + 1:
        return text[:_LINE_CHARS].replace("\t", " ")
    # A long line is shown around the place, so that the caret is always in sight.
    start = max(0, column - 1 - _LINE_CHARS // 2) if len(text) > _LINE_CHARS else 0
    shown = text[start : start + _LINE_CHARS].replace("\t", " ")
    width = max(1, min(end_column - column, start + len(shown) - column + 1))
    return f"{shown}\n{' ' * (column - 1 - start)}{'^' * width}"


@lru_cache(1)  # a worker may report a hundred places of one source
def _lines(source: str) -> list[str]:
    """Lines as Python counts them; `str.splitlines` also ends one at a form feed, for example."""
    return re.split(r"\r\n|\r|\n", source)


def finding_of(finding: _protocol.Finding, source: str) -> Finding:
    """A worker's finding with the source beside it."""
    end = finding.end_column if finding.end_line == finding.line else finding.column + 1
    return Finding(
        code=finding.code,
        message=finding.message,
        line=finding.line,
        column=finding.column,
        hint=finding.hint,
        excerpt=excerpt_of(source, finding.line, finding.column, end),
        advisory=finding.advisory,
    )


_LIMIT_CODES = {
    "limit_max_tool_calls",
    "limit_max_calls_by_tool",
    "limit_max_executions_per_run",
    "limit_max_tasks",
    "limit_max_output_bytes",
    "limit_max_emit_bytes",
    "memory",
    "recursion",
}
"""What a worker may say of limits; each is the script's own end, so a lie harms nobody else."""


_HINTS = {"memory": "hold less data at a time, or ask for a higher limits.max_memory_bytes"}
"""Where a worker had no room to say it."""


def failure_of(failure: _protocol.Failure, source: str, filename: str) -> tuple[Status, Failure]:
    """A worker's failure as a status and a `Failure` with excerpt and traceback."""
    # Columns of CPython count UTF-8 bytes; the excerpt counts characters.
    places = [(f, *_columns(source, f)) for f in failure.frames]
    blocks = []
    for frame, column, end_column in places:
        block = f'  File "{filename}", line {frame.line}, in {frame.name}'
        shown = excerpt_of(source, frame.line, column, end_column)
        if shown:
            block += "\n" + "\n".join(f"    {row}" for row in shown.split("\n"))
        blocks.append(block)
    last = f"{failure.type}: {failure.message}" if failure.message else failure.type
    head = ["Traceback (most recent call last):"] if blocks else []
    line, column, excerpt = 0, 0, ""
    if places:
        frame, column, end_column = places[-1]
        line = frame.line
        excerpt = excerpt_of(source, line, column, end_column)
    status: Status = "limit_exceeded" if failure.code in _LIMIT_CODES else "failed"
    message = {
        "memory": "the script ran out of memory",
        "recursion": "the script recursed too deeply",
    }.get(failure.code, last)
    return status, Failure(
        code=failure.code,
        message=message,
        type=failure.type,
        line=line,
        column=column,
        excerpt=excerpt,
        hint=failure.hint or _HINTS.get(failure.code, ""),
        traceback="\n".join([*head, *blocks, last]),
        tool=failure.tool,
    )


def _columns(source: str, frame: _protocol.Frame) -> tuple[int, int]:
    lines = _lines(source)
    if not 1 <= frame.line <= len(lines) or not frame.column:
        return 0, 0
    raw = lines[frame.line - 1].encode()
    column = len(raw[: frame.column - 1].decode(errors="ignore")) + 1
    if frame.end_line != frame.line:
        return column, len(lines[frame.line - 1]) + 1
    return column, len(raw[: frame.end_column - 1].decode(errors="ignore")) + 1
