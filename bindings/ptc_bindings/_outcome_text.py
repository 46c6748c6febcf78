"""The data of `_outcome` as text, for a reader that gets no structured content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptc._core import _json as json_form

__all__ = ["outcome_texts", "value_text"]

_HEADS = {
    "failed": "The script failed",
    "rejected": "The script was rejected before it ran",
    "timed_out": "The run timed out",
    "limit_exceeded": "The run exceeded a limit",
    "cancelled": "The run was cancelled",
    "crashed": "The script's process crashed",
    "violation": "The sandbox stopped the run",
    "paused": "The run is paused",
    "dead": "Workers started the run too often",
}

_WITHOUT_SCRIPT = frozenset({"busy", "setup", "usage"})
"""Codes of errors of a call, which may be about a run or an argument rather than a script."""


def outcome_texts(row: Mapping[str, Any]) -> list[str]:
    """Convert an outcome to texts: the value of a completed run alone, then notes if any."""
    if "status" not in row:
        notes = "\n\n".join(_notes(row))
        return [value_text(row["value"]), *([notes] if notes else [])]
    error = row.get("error")
    status: str = row["status"]
    head = _HEADS.get(status, status)
    if error and error.get("code") in _WITHOUT_SCRIPT:
        head = "The call was rejected"
    parts = [_error_text(head, error) if error else f"{head}.", *_pending(row), *_calls(row)]
    if "partial" in row:
        count = f"last {len(row['partial'])} of {row.get('emitted', '?')}"
        values = "\n".join(f"  {value_text(value)}" for value in row["partial"])
        parts.append(f"Emitted values ({count}):\n{values}")
    parts += _notes(row)
    if "next" in row:
        parts.append(f"Next: {row['next']}")
    if "run_id" in row:
        parts.append(f"Run: {row['run_id']}")
    return ["\n".join(parts)]


def value_text(value: Any) -> str:
    """Format a value for a model: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json_form.dumps(value).decode()


def _error_text(head: str, error: Mapping[str, Any]) -> str:
    findings = error.get("findings")
    if findings:
        omitted = error.get("findings_omitted", 0)
        rows = [_location_text(finding) for finding in findings]
        rows += [f"... and {omitted} more"] if omitted else []
        return "\n".join([f"{head} ({len(findings) + omitted} findings):", *rows])
    if "traceback" in error:
        hint = f"\nSuggested fix: {error['hint']}" if "hint" in error else ""
        return f"{head}: {error.get('message', '')}\n{error['traceback']}{hint}"
    return f"{head}: {_location_text(error)}"


def _location_text(item: Mapping[str, Any]) -> str:
    rows = [item.get("message", "")]
    if "line" in item:
        column = f", column {item['column']}" if "column" in item else ""
        rows.append(f"line {item['line']}{column}:")
        rows += [f"    {row}" for row in item.get("excerpt", "").split("\n") if row]
    if "hint" in item:
        rows.append(f"Suggested fix: {item['hint']}")
    return "\n".join(rows)


_WHY = {
    "approval": "requires approval and has not started",
    "unknown": "was interrupted, and its outcome is unknown",
}


def _pending(row: Mapping[str, Any]) -> list[str]:
    rows = []
    for call in row.get("pending", ()):
        line = f" (line {call['line']})" if "line" in call else ""
        prompt = f": {call['prompt']}" if "prompt" in call else ""
        arguments = call.get("arguments", "")
        rows.append(
            f"Call {call['call']}, {call['tool']} {arguments}{line} {_WHY[call['kind']]}{prompt}"
        )
    if row.get("pending_omitted"):
        rows.append(f"... and {row['pending_omitted']} more")
    return rows


def _calls(row: Mapping[str, Any]) -> list[str]:
    rows = []
    if "failed_call" in row:
        call = row["failed_call"]
        code = f" [{call['error_code']}]" if "error_code" in call else ""
        line = f" (line {call['line']})" if "line" in call else ""
        rows.append(
            f"Call {call['call']}: {call['tool']} {call.get('arguments', '')}: "
            f"{call['status']}{code}{line}"
        )
    if "calls" in row:
        failed = row.get("failed_calls", {})
        counts = [
            f"{name} {count}" + (f" ({failed[name]} not succeeded)" if name in failed else "")
            for name, count in row["calls"].items()
        ]
        rows.append(f"Calls made: {', '.join(counts)}")
    return rows


def _notes(row: Mapping[str, Any]) -> list[str]:
    notes = []
    if "partial" not in row and row.get("emitted"):
        notes.append(f"The script emitted {row['emitted']} values; the log of the run has them.")
    for head, key in (("Printed", "stdout"), ("Printed to stderr", "stderr")):
        if key in row:
            notes.append(f"{head}:\n{row[key].rstrip()}")
    if "truncated" in row:
        cut = row["truncated"]
        where = cut.get("next") or f"The whole value: {cut.get('uri') or 'see the warnings'}"
        notes.append(
            f"The value has {cut['bytes']:,} bytes of JSON and was truncated; return less. {where}"
        )
    if "warnings" in row:
        notes.append("\n".join(["Warnings:", *(f"  {text}" for text in row["warnings"])]))
    for file in row.get("attachments", ()):
        notes.append(f"Attachment {file['name']!r}: {file['uri']}")
    if "status" not in row and "run_id" in row:
        notes.append(f"Run: {row['run_id']}")
    return notes
