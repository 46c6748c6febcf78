"""The record of a run for a model that requests it: as text in pages, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptc import RunResult
from ptc._core import _json
from ptc._records._artifacts import shrink
from ptc._records._preview import address_of
from ptc._runs._decided import find_edits
from ptc.journal._journal import CallRow, RunRecord

from ._outcome import tail, truncate, warning_texts

__all__ = ["run_log", "run_record"]

_PAGE_CHARS = 12_000
_OUTPUT_CHARS = 4_000
_ARGUMENT_CHARS = 200
_VALUE_BYTES = 4_000
"""JSON bytes of a call's value in the record; the script had all of it."""


def run_log(recorded: RunRecord, result: RunResult | None, first: int = 1) -> str:
    """Describe a run as text: its status, its calls, its output.

    Args:
        recorded: The run.
        result: Its result; None: it has none yet.
        first: Number of the first call to list, from 1.
    """
    run, calls = recorded.run, recorded.calls
    took = f", {result.usage.duration_ms:,.0f} ms" if result is not None else ""
    parts = [f"Run {run.run_id}: {run.status}, {len(calls)} calls{took}"]
    if result is not None and result.error is not None:
        parts.append(f"{result.error.message}\n{result.error.traceback}".strip())
    parts.append(_call_page(calls, first, find_edits(recorded)))
    if result is not None:
        parts += [
            f"{head}:\n{tail(text, _OUTPUT_CHARS).rstrip()}"
            for head, text in (("Printed", result.stdout), ("Printed to stderr", result.stderr))
            if text
        ]
        if result.partial:
            values = _json.dumps(shrink(list(result.partial), _OUTPUT_CHARS)).decode()
            parts.append(f"Emitted {len(result.partial)} values: {values}")
        if result.warnings:
            rows = "\n".join(warning_texts(result, 20))
            parts.append(f"Warnings:\n{rows}")
    return "\n\n".join(filter(None, parts))


def _call_page(calls: tuple[CallRow, ...], first: int, edits: Mapping[str, bytes]) -> str:
    rows: list[str] = []
    room = _PAGE_CHARS
    for row in calls[first - 1 :]:
        text = _call_line(row, edits.get(row.path))
        room -= len(text) + 1
        if room < 0:
            break
        rows.append(text)
    if not rows:
        return ""
    last = first + len(rows) - 1
    more = "" if last >= len(calls) else f"\nThe next page starts with first={last + 1}."
    return "\n".join([f"Calls {first} to {last} of {len(calls)}:", *rows]) + more


def _call_line(row: CallRow, edited: bytes | None) -> str:
    arguments = truncate(row.arguments.decode(errors="replace"), _ARGUMENT_CHARS)
    if edited is not None:
        decided = truncate(edited.decode(errors="replace"), _ARGUMENT_CHARS)
        arguments = f"{decided} (decided by the approver; the script requested {arguments})"
    line = f" (line {row.line})" if row.line else ""
    if row.end is None:
        return f"  {row.path}. {row.tool} {arguments}: started, outcome unknown{line}"
    took = f"{row.end.at_ms - row.at_ms} ms"
    if row.end.ok:
        return f"  {row.path}. {row.tool} {arguments}: {row.end.status}, {took}{line}"
    error = _error_of(row)
    why = f" [{error.get('code', '')}] {truncate(str(error.get('message', '')), 300)}"
    return f"  {row.path}. {row.tool} {arguments}: {row.end.status}{why}, {took}{line}"


def _error_of(row: CallRow) -> Mapping[str, Any]:
    assert row.end is not None  # noqa: S101  # the caller has checked
    error = _json.loads(row.end.body)[2]
    return error if isinstance(error, Mapping) else {}


def run_record(recorded: RunRecord, result: RunResult | None) -> bytes:
    """Encode the whole record of a run as JSON, without paths of the host."""
    run, edits = recorded.run, find_edits(recorded)
    record = {
        "run_id": run.run_id,
        "status": run.status,
        "created_ms": run.created_ms,
        "ended_ms": run.ended_ms,
        "source": run.source,
        "inputs": _json.loads(run.inputs),
        "calls": [_call_record(row, edits.get(row.path)) for row in recorded.calls],
        "decisions": [
            {"call": row.path, "action": row.action, "by": row.by, "comment": row.comment}
            for row in recorded.decisions
        ],
        "result": None if result is None else _result_record(result),
    }
    return _json.dumps_unchecked(record)


def _call_record(row: CallRow, edited: bytes | None) -> dict[str, Any]:
    record = {
        "call": row.path,
        "tool": row.tool,
        "arguments": _json.loads(row.arguments),
        "line": row.line,
        "attempt": row.attempt,
        "started_ms": row.at_ms,
        "status": "started",
    }
    if edited is not None:
        record["decided_arguments"] = _json.loads(edited)
    if row.end is not None:
        value = _json.loads(row.end.body)[2]
        key = "value" if row.end.ok else "error"
        record |= {
            "status": row.end.status,
            "ended_ms": row.end.at_ms,
            key: shrink(value, _VALUE_BYTES),
        }
    return record


def _result_record(result: RunResult) -> dict[str, Any]:
    record = result.to_dict()
    # The calls are listed above, and their records have paths of the host.
    del record["calls"]
    if result.cut is not None:
        record["cut"] = {"bytes": result.cut.bytes, "uri": address_of(result.cut.sha256)}
    record["warnings"] = warning_texts(result, len(result.warnings))
    record["attachments"] = [
        {"name": ref.name, "media_type": ref.media_type, "uri": address_of(ref.id)}
        for ref in result.attachments
    ]
    return record
