"""Recorded runs as JSON for the page: bounded, and redacted as they were recorded."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from .._calls._rows import pending_call
from .._calls._usage_record import decode_usage
from .._core import _json
from .._facts import ModelUsage
from .._runs._decided import find_edits
from .._runs._program_row import describe_source, limits_of_record, load_result, read_options
from ..errors import DamagedRunError

if TYPE_CHECKING:
    from .._records._result import RunResult
    from ..journal._journal import CallRow, DecisionRow, EventRow, RunRecord, RunRow
    from ..journal._run_lists import RunSummary

__all__ = [
    "MAX_CHARS",
    "bounded",
    "call_details",
    "call_row",
    "event_row",
    "record_head",
    "run_head",
    "schema_of",
    "summary_row",
]

_PREVIEW_CHARS: Final = 120
MAX_CHARS: Final = 65_536
"""Characters of one value."""


def summary_row(run: RunSummary) -> dict[str, Any]:
    """Return a row of a list of runs."""
    return {
        "id": run.run_id,
        "file": run.filename[:_PREVIEW_CHARS],
        "status": "rolled_back" if run.rolled_back_ms is not None else run.status,
        "start": run.created_ms,
        "end": run.ended_ms,
        "calls": run.calls,
        "tenant": run.tenant,
        "revision": run.revision,
        "bytes": run.size_bytes,
        "cost": run.cost_usd,
    }


def run_head(row: RunRow) -> dict[str, Any]:
    """Return the state of a run, without its calls and its result."""
    return {
        "id": row.run_id,
        "file": row.filename,
        "status": "rolled_back" if row.rolled_back_ms is not None else row.status,
        "start": row.created_ms,
        "end": row.ended_ms,
        "tenant": row.tenant,
        "revision": row.revision,
        "attempts": row.attempts,
        "bytes": row.size_bytes,
    }


def record_head(record: RunRecord) -> dict[str, Any]:
    """Return a run with its script, its result and what it waits for, without its calls."""
    row = record.run
    options = read_options(row)
    return {
        "run": run_head(row),
        "source": row.source,
        "source_note": describe_source(row),
        "inputs": bounded(row.inputs),
        "tools": list(_tools(options)),
        "limits": dataclasses.asdict(limits_of_record(options["limits"])),
        "engine": options.get("engine", ""),
        "result": _result(row),
        "pending": [_pending(record, item.path, item.kind) for item in _undecided(record)],
        "waits": [
            {"path": item.path, "start": item.at_ms, "tool": item.tool} for item in record.pending
        ],
        "decisions": [_decision(item) for item in record.decisions],
        "reverts": [dataclasses.asdict(item) for item in record.reverts],
        "deliveries": [d.path for d in record.deliveries if d.path is not None],
        "tokens": _tokens(record),
    }


def _tools(options: dict[str, Any]) -> dict[str, Any]:
    from .._tools._table import read_record

    return read_record(options["tools"])


def _tokens(record: RunRecord) -> dict[str, Any] | None:
    """Return the usage of models; the cost is None if the price of one is unknown."""
    usages = [call.end.usage for call in record.calls if call.end is not None and call.end.usage]
    if not usages:
        return None
    found = [decode_usage(usage) for usage in usages]
    costs = [cost for _, cost in found]
    total = sum((usage for usage, _ in found), ModelUsage())
    cost = None if None in costs else sum(cost or 0.0 for cost in costs)
    return {**dataclasses.asdict(total), "cost": cost}


def _undecided(record: RunRecord) -> list[Any]:
    if record.run.rolled_back_ms is not None:
        return []
    decided = {(item.path, item.kind) for item in record.decisions}
    return [item for item in record.pending if (item.path, item.kind) not in decided]


def _pending(record: RunRecord, path: str, kind: str) -> dict[str, Any]:
    (row,) = (item for item in record.pending if (item.path, item.kind) == (path, kind))
    call = pending_call(row, record.run.run_id)
    data = dataclasses.asdict(call)
    data["schema"] = schema_of(record, path, kind)
    data["file"] = record.run.filename
    lines = record.run.source.splitlines()
    inside = call.line is not None and 1 <= call.line <= len(lines)
    data["code"] = lines[call.line - 1].strip()[:400] if inside and call.line else ""
    return data


def schema_of(record: RunRecord, path: str, kind: str) -> dict[str, Any] | None:
    """Return the recorded schema of a pending call's arguments; None if it has none."""
    for row in record.pending:
        if (row.path, row.kind) == (path, kind):
            schema = _json.loads(row.details).get("schema")
            return schema if isinstance(schema, dict) else None
    return None


def _decision(row: DecisionRow) -> dict[str, Any]:
    return {
        "path": row.path,
        "kind": row.kind,
        "action": row.action,
        "by": row.by,
        "comment": row.comment,
        "at": row.at_ms,
        "value": bounded(row.value),
    }


def _result(row: RunRow) -> dict[str, Any] | None:
    result = load_result(row)
    if result is None:
        return None
    return {
        "status": result.status,
        "value": bounded(_json.dumps_unchecked(result.value)),
        "error": None if result.error is None else dataclasses.asdict(result.error),
        "warnings": [dataclasses.asdict(warning) for warning in result.warnings[:200]],
        "cut": None if result.cut is None else dataclasses.asdict(result.cut),
        "usage": dataclasses.asdict(result.usage),
        "stdout": result.stdout[-MAX_CHARS:],
        "stderr": result.stderr[-MAX_CHARS:],
        "progress": result.progress,
        "files": _files(result),
    }


def _files(result: RunResult) -> list[dict[str, Any]]:
    return [dataclasses.asdict(ref) for ref in result.attachments[:500]]


def call_row(row: CallRow) -> list[Any]:
    """Return a call as a short list; the page names the columns in ``CALL``."""
    end = row.end
    error = ""
    if end is not None and not end.ok:
        error = str(_json.loads(end.body)[2].get("code", ""))
    return [
        row.path,
        row.tool,
        row.line,
        "running" if end is None else end.status,
        row.at_ms,
        None if end is None else end.at_ms,
        row.attempt,
        row.side_effect,
        row.arguments[: 4 * _PREVIEW_CHARS].decode(errors="replace")[:_PREVIEW_CHARS],
        error,
    ]


def call_details(record: RunRecord, path: str) -> dict[str, Any] | None:
    """Return all that is recorded of a call, bounded; None if there is no such call."""
    row = next((call for call in record.calls if call.path == path), None)
    if row is None:
        return None
    end = row.end
    value: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    if end is not None:
        body = _json.loads(end.body)[2]
        if end.ok:
            value = bounded(_json.dumps_unchecked(body))
        else:
            error = {**body, "details": bounded(_json.dumps_unchecked(body.get("details")))}
    result, edited = load_result(record.run), find_edits(record).get(path)
    return {
        "row": call_row(row),
        "arguments": bounded(edited or row.arguments),
        "requested": None if edited is None else bounded(row.arguments),
        "value": value,
        "error": error,
        "key": row.key,
        "usage": _json.loads(end.usage) if end is not None and end.usage else None,
        "decisions": [_decision(item) for item in record.decisions if item.path == path],
        "files": [] if result is None else _files_of(result, path),
    }


def _files_of(result: RunResult, path: str) -> list[dict[str, Any]]:
    for call in result.calls:
        own = f"{call.parent}.{call.seq}" if call.parent else str(call.seq)
        if own == path:
            return [dataclasses.asdict(ref) for ref in call.attachments]
    return []


def event_row(run_id: str, row: EventRow) -> dict[str, Any]:
    """Return a recorded event. Raises `DamagedRunError`."""
    try:
        body = _json.loads(row.body)
    except ValueError as error:
        msg = f"run {run_id!r} is damaged: the body of event {row.number} is not JSON: {error}"
        raise DamagedRunError(msg) from error
    if isinstance(body, str) and row.kind != "emitted":
        text = body
    else:
        text = _json.dumps_unchecked(body).decode(errors="replace")
    more = max(0, len(text) - MAX_CHARS)
    return {
        "n": row.number,
        "kind": row.kind,
        "at": row.at_ms,
        "text": text[:MAX_CHARS],
        "more": more,
    }


def bounded(data: bytes) -> dict[str, Any]:
    """Return JSON as text, with the number of bytes that are not in it."""
    text = data[: 4 * MAX_CHARS].decode(errors="replace")
    if len(data) <= MAX_CHARS:
        return {"text": text, "bytes": len(data), "whole": True}
    return {"text": text[:MAX_CHARS], "bytes": len(data), "whole": False}
