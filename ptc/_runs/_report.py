"""Failures of scripts: the worker's report combined with the source."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Final

from .._core import _json
from .._core._redact import safe_text
from .._records._result import Failure, Finding, Status
from .._wire import _protocol
from .._wire._messages import FAILURE_LIMITS
from ._breaches import MORE_MEMORY, complete_breach
from ._intake import ReturnValue
from ._program import Program

__all__ = ["build_rejection", "check_schema", "convert_failure", "convert_finding", "quote_line"]

_log = logging.getLogger("ptc")
_LINE_CHARS = 160
_MESSAGE_CHARS: Final = 4_000
_MAX_VIOLATIONS_SHOWN: Final = 8


def quote_line(source: str, line: int, column: int = 0, end_column: int = 0) -> str:
    """Quote a line with carets under columns `column` to `end_column` (1-based, exclusive)."""
    lines = _lines(source)
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip()
    if not 1 <= column <= len(text) + 1:
        return text[:_LINE_CHARS].replace("\t", " ")
    # Of a long line, the part around the column is quoted, so that the caret is always visible.
    start = max(0, column - 1 - _LINE_CHARS // 2) if len(text) > _LINE_CHARS else 0
    shown = text[start : start + _LINE_CHARS].replace("\t", " ")
    width = max(1, min(end_column - column, start + len(shown) - column + 1))
    return f"{shown}\n{' ' * (column - 1 - start)}{'^' * width}"


@lru_cache(1)  # a worker may report a hundred positions in one source
def _lines(source: str) -> list[str]:
    """Split into lines as Python does; `str.splitlines` also splits at a form feed, for example."""
    return re.split(r"\r\n|\r|\n", source)


def convert_finding(finding: _protocol.Finding, source: str) -> Finding:
    """Add an excerpt of the source to a worker's finding."""
    end = finding.end_column if finding.end_line == finding.line else finding.column + 1
    return Finding(
        code=finding.code,
        message=finding.message,
        line=finding.line,
        column=finding.column,
        hint=finding.hint,
        excerpt=quote_line(source, finding.line, finding.column, end),
        advisory=finding.advisory,
    )


def build_rejection(findings: tuple[_protocol.Finding, ...], source: str) -> Failure:
    """Build the failure of a script that was rejected: its first finding, and the list of all."""
    rows = tuple(convert_finding(f, source) for f in findings)
    first = rows[0]
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    return Failure(
        code=first.code,
        message=f"{first.message}{more}",
        line=first.line,
        column=first.column,
        excerpt=first.excerpt,
        hint=first.hint,
        findings=rows,
    )


_LIMIT_CODES = {"memory", "recursion"} | {f"limit_{name}" for name in FAILURE_LIMITS}


_HINTS = {"memory": MORE_MEMORY}
"""Hints for failures that leave a worker no memory to send one."""


def convert_failure(failure: _protocol.Failure, program: Program) -> tuple[Status, Failure]:
    """Convert a worker's failure to a status and a `Failure` with excerpt and traceback."""
    source = program.source
    # Columns of CPython count UTF-8 bytes; the excerpt counts characters.
    located = [(f, *_columns(source, f)) for f in failure.frames]
    blocks = []
    for frame, column, end_column in located:
        block = f'  File "{program.filename}", line {frame.line}, in {frame.name}'
        shown = quote_line(source, frame.line, column, end_column)
        if shown:
            block += "\n" + "\n".join(f"    {row}" for row in shown.split("\n"))
        blocks.append(block)
    last = f"{failure.type}: {failure.message}" if failure.message else failure.type
    head = ["Traceback (most recent call last):"] if blocks else []
    line, column, excerpt = 0, 0, ""
    if located:
        frame, column, end_column = located[-1]
        line = frame.line
        excerpt = quote_line(source, line, column, end_column)
    message = {
        "memory": "the script ran out of memory",
        "recursion": "the script recursed too deeply",
    }.get(failure.code, last)
    report = Failure(
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
    if failure.code in _LIMIT_CODES:
        return "limit_exceeded", complete_breach(program.limits, report)
    return "failed", report


def _columns(source: str, frame: _protocol.Frame) -> tuple[int, int]:
    lines = _lines(source)
    if not 1 <= frame.line <= len(lines) or not frame.column:
        return 0, 0
    raw = lines[frame.line - 1].encode()
    column = len(raw[: frame.column - 1].decode(errors="ignore")) + 1
    if frame.end_line != frame.line:
        return column, len(lines[frame.line - 1]) + 1
    return column, len(raw[: frame.end_column - 1].decode(errors="ignore")) + 1


def check_schema(program: Program, returned: ReturnValue) -> Failure | None:
    """Build the failure of a return value that does not conform; None if it conforms."""
    wrong = _schema_violations(program, returned)
    if not wrong:
        return None
    more = len(wrong) - _MAX_VIOLATIONS_SHOWN
    shown = "; ".join(wrong[:_MAX_VIOLATIONS_SHOWN]) + (f" (and {more} more)" if more > 0 else "")
    return Failure(
        code="output_schema",
        message=f"the value does not conform to output_schema: {shown}"[:_MESSAGE_CHARS],
        hint="return data of the requested shape",
    )


def _schema_violations(program: Program, returned: ReturnValue) -> list[str]:
    if program.check_value is None:
        return []
    if returned.large is not None:
        # Truncated, it would not conform; whole, it is not decoded here.
        return [f"it has {returned.excess}, and is too large to be checked"]
    try:
        return program.check_value(returned.value)
    except Exception as error:  # noqa: BLE001  # a model's validators are arbitrary code
        _log.exception("run %s: output_schema failed", program.run_id)
        why = _json.plain_text(safe_text(str(error)), _MESSAGE_CHARS)
        return [f"its check raised {type(error).__name__}: {why}"]
