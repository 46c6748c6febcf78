"""Report of a run for standard error: its outcome, partial values and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._table import write_table
from ._terminal import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._records._result import CallRecord, Failure, Finding, RunResult

__all__ = ["format_call_count", "report_calls", "report_findings", "report_outcome"]

CALL_ROWS = 30
"""Maximum number of calls in the table; the rest is counted."""
_FINDINGS = 50
_PARTIAL_ROWS = 20
_PARTIAL_CHARS = 200

_HEADS = {
    "failed": "the script failed",
    "rejected": "the script was rejected before it ran",
    "timed_out": "the run timed out",
    "limit_exceeded": "the run exceeded a limit",
    "cancelled": "the run was cancelled",
    "crashed": "the worker crashed",
    "violation": "the kernel layer stopped the script",
    "paused": "the run is paused: a call is awaiting a decision",
    "dead": "workers started the run too often",
}


def report_outcome(stream: Stream, result: RunResult, filename: str) -> None:
    """Write the warnings of a run and, if it did not complete, its error and partial values."""
    for warning in result.warnings:
        stream.line(f"warning: {warning}", "yellow")
    for file in result.attached:
        stream.line(f"attached: {file.name} ({file.size_bytes:,} bytes): {file.path}")
    if result.ok:
        return
    if result.error is not None:
        _failure(stream, result.status, result.error, filename)
    for call in result.pending:
        approval = call.kind == "approval"
        reason = "requires approval" if approval else "started, and its outcome is unknown"
        shown = _truncate(_one_line_json(call.arguments), _PARTIAL_CHARS)
        stream.line(f"paused: call {call.call}, {call.tool}({shown}), {reason}", "yellow")
    if result.partial:
        stream.line(f"partial values emitted: {len(result.partial)} (--json shows them in full)")
        for value in result.partial[:_PARTIAL_ROWS]:
            stream.line(f"  {_truncate(_one_line_json(value), _PARTIAL_CHARS)}")
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
        # The heading already has its last line.
        stream.line(error.traceback.removesuffix(error.message).rstrip("\n"))
    else:
        _indented(stream, error.excerpt)
    _hint(stream, error.hint)


def report_findings(stream: Stream, findings: Sequence[Finding], filename: str) -> None:
    """Write each finding with its location, source line and suggested fix."""
    for finding in findings[:_FINDINGS]:
        where = f"{filename}:{finding.line}:{finding.column}: " if finding.line else ""
        advice = ", advice" if finding.advisory else ""
        stream.line(f"{where}{finding.message} [{finding.code}{advice}]")
        _indented(stream, finding.excerpt)
        _hint(stream, finding.hint)
    if len(findings) > _FINDINGS:
        stream.line(f"and {len(findings) - _FINDINGS} more (--json shows all)")


def _indented(stream: Stream, excerpt: str) -> None:
    for row in excerpt.splitlines():
        stream.line(f"    {row}")


def _hint(stream: Stream, hint: str) -> None:
    if hint:
        stream.line(f"hint: {hint}", "green")


def report_calls(stream: Stream, result: RunResult) -> None:
    """Write one line about the run and a table of its calls."""
    usage = result.usage
    calls = format_call_count(usage.tool_calls)
    stream.line(f"{result.status} in {usage.duration_ms:,.0f} ms, {calls}", "dim")
    if not result.calls:
        return
    columns = (
        ("#", "number"),
        ("tool", ""),
        ("status", ""),
        ("ms", "number"),
        ("bytes", "number"),
        ("arguments", "truncate"),
        ("error", "wrap"),
    )
    failed = any(call.error for call in result.calls[:CALL_ROWS])
    width = len(columns) if failed else len(columns) - 1
    write_table(stream, columns[:width], [_row(c)[:width] for c in result.calls[:CALL_ROWS]])
    if len(result.calls) > CALL_ROWS:
        stream.line(f"and {len(result.calls) - CALL_ROWS:,} more (--json shows all)")


def format_call_count(number: int) -> str:
    """Format a number of calls: ``1 tool call``, ``2 tool calls``."""
    return f"{number:,} tool call{'' if number == 1 else 's'}"


def _row(call: CallRecord) -> tuple[str, ...]:
    return (
        str(call.seq),
        _truncate(call.tool, 24),
        call.status,
        f"{call.duration_ms:,.1f}",
        f"{call.result_bytes:,}",
        _describe_arguments(call),
        _truncate(f"{call.error_code}: {call.error}", 160) if call.error else "",
    )


def _describe_arguments(call: CallRecord) -> str:
    """Return the arguments that the tool received; if they were edited, those of the script too."""
    requested = " ".join(call.arguments.split())
    if call.decided_arguments is None:
        return requested
    return f"{' '.join(call.decided_arguments.split())}, the script requested {requested}"


def _one_line_json(value: Any) -> str:
    from .._core import _json

    return _json.dumps(value).decode()


def _truncate(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
