"""The end of a run in words, for standard error: why it ended, what it had, the calls it made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._table import write_table
from ._terminal import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._records._result import CallRecord, Failure, Finding, RunResult

__all__ = ["counted_calls", "report_calls", "report_findings", "report_outcome"]

CALL_ROWS = 30
"""Calls in the table; the rest is a number."""
_FINDINGS = 50
_PARTIAL_ROWS = 20
_PARTIAL_CHARS = 200

_HEADS = {
    "failed": "the script failed",
    "rejected": "the script was refused before it ran",
    "timed_out": "the run timed out",
    "limit_exceeded": "the run went over a limit",
    "cancelled": "the run was cancelled",
    "crashed": "the worker crashed",
    "violation": "the script was stopped at the second fence",
    "paused": "the run is paused: a call waits for a decision",
}


def report_outcome(stream: Stream, result: RunResult, filename: str) -> None:
    """Warnings, and of a run that did not complete: why, where, the way out and what it emitted."""
    for warning in result.warnings:
        stream.line(f"warning: {warning}", "yellow")
    if result.ok:
        return
    if result.error is not None:
        _failure(stream, result.status, result.error, filename)
    for call in result.pending:
        what = "needs an approval" if call.kind == "approval" else "began, and its end is not known"
        shown = _short(_one_line_json(call.arguments), _PARTIAL_CHARS)
        stream.line(f"paused: call {call.call}, {call.tool}({shown}), {what}", "yellow")
    if result.partial:
        stream.line(f"partial values it had emitted: {len(result.partial)} (--json has them whole)")
        for value in result.partial[:_PARTIAL_ROWS]:
            stream.line(f"  {_short(_one_line_json(value), _PARTIAL_CHARS)}")
        if len(result.partial) > _PARTIAL_ROWS:
            stream.line(f"  and {len(result.partial) - _PARTIAL_ROWS} more")


def _failure(stream: Stream, status: str, error: Failure, filename: str) -> None:
    if status == "rejected":
        stream.line(f"Error: {_HEADS[status]}", "bold red")
        report_findings(stream, error.findings, filename)
        return
    line = f" in line {error.line}" if error.line else ""
    stream.line(f"Error: {_HEADS[status]}{line}: {error.message}", "bold red")
    if error.traceback:
        # The head has said the last line of it already.
        stream.line(error.traceback.removesuffix(error.message).rstrip("\n"))
    else:
        _indented(stream, error.excerpt)
    _hint(stream, error.hint)


def report_findings(stream: Stream, findings: Sequence[Finding], filename: str) -> None:
    """Each finding with its place, the source line and the way out."""
    for finding in findings[:_FINDINGS]:
        where = f"{filename}:{finding.line}:{finding.column}: " if finding.line else ""
        advice = ", advice" if finding.advisory else ""
        stream.line(f"{where}{finding.message} [{finding.code}{advice}]")
        _indented(stream, finding.excerpt)
        _hint(stream, finding.hint)
    if len(findings) > _FINDINGS:
        stream.line(f"and {len(findings) - _FINDINGS} more (--json has them all)")


def _indented(stream: Stream, excerpt: str) -> None:
    for row in excerpt.splitlines():
        stream.line(f"    {row}")


def _hint(stream: Stream, hint: str) -> None:
    if hint:
        stream.line(f"hint: {hint}", "green")


def report_calls(stream: Stream, result: RunResult) -> None:
    """One line about the run and a table of its calls."""
    usage = result.usage
    calls = counted_calls(usage.tool_calls)
    stream.line(f"{result.status} in {usage.duration_ms:,.0f} ms, {calls}", "dim")
    if not result.calls:
        return
    columns = (
        ("#", "number"),
        ("tool", ""),
        ("status", ""),
        ("ms", "number"),
        ("bytes", "number"),
        ("arguments", "cut"),
        ("error", "wrap"),
    )
    failed = any(call.error for call in result.calls[:CALL_ROWS])
    width = len(columns) if failed else len(columns) - 1
    write_table(stream, columns[:width], [_row(c)[:width] for c in result.calls[:CALL_ROWS]])
    if len(result.calls) > CALL_ROWS:
        stream.line(f"and {len(result.calls) - CALL_ROWS:,} more (--json has them all)")


def counted_calls(number: int) -> str:
    """``1 tool call``, ``2 tool calls``."""
    return f"{number:,} tool call{'' if number == 1 else 's'}"


def _row(call: CallRecord) -> tuple[str, ...]:
    return (
        str(call.seq),
        _short(call.tool, 24),
        call.status,
        f"{call.duration_ms:,.1f}",
        f"{call.result_bytes:,}",
        " ".join(call.arguments.split()),
        _short(f"{call.error_code}: {call.error}", 160) if call.error else "",
    )


def _one_line_json(value: Any) -> str:
    from .. import _json

    return _json.dumps(value).decode()


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
