"""The outcome of a run as a model sees it: small JSON data and compact text, for all bindings.

`RunResult` is a record for an operator; a model's context is paid by the token. Here every part
has a bound, and empty parts are omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from ptc import CallRecord, Failure, Finding, PtcError, RunResult, UsageError
from ptc._core import _json as json_form
from ptc._records._result import Status

__all__ = ["OUTCOME_SCHEMA", "outcome", "outcome_of_error", "outcome_texts", "value_text"]

_MAX_CALLS = 50
"""Maximum number of calls listed, the last ones; the others are counted."""
_MAX_FINDINGS = 20
_MAX_WARNINGS = 20
_STDOUT_CHARS = 8_192
"""Characters of the output's tail. `print` is for notes; a script returns data."""
_MESSAGE_CHARS = 4_000
_ARGUMENT_CHARS = 100

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_LOCATION = {
    "code": _TEXT,
    "message": _TEXT,
    "line": {**_COUNT, "description": "Line of the script, from 1."},
    "column": {**_COUNT, "description": "Column, from 1."},
    "excerpt": {**_TEXT, "description": "The source line with a caret under the column."},
    "hint": {**_TEXT, "description": "Suggested fix."},
}


def _object(required: Sequence[str], properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


OUTCOME_SCHEMA: dict[str, Any] = _object(
    ["status"],
    {
        "status": {"enum": list(get_args(Status)), "type": "string"},
        "value": {"description": "Return value of the script, present if it completed."},
        "error": _object(
            ["code", "message"],
            {
                **_LOCATION,
                "type": {**_TEXT, "description": "Name of the exception."},
                "traceback": _TEXT,
                "tool": _TEXT,
                "findings": {
                    **_list(_object(["code", "message"], _LOCATION)),
                    "description": "All findings, if the script was rejected.",
                },
            },
        ),
        "partial": {"type": "array", "description": "Values of ctx.emit, the last ones."},
        "partial_omitted": _COUNT,
        "stdout": {**_TEXT, "description": "Tail of the printed output."},
        "stderr": {**_TEXT, "description": "Tail of the log and of output to sys.stderr."},
        "calls": _list(
            _object(
                ["seq", "tool", "status"],
                {
                    "seq": _COUNT,
                    "tool": _TEXT,
                    "status": _TEXT,
                    "arguments": {**_TEXT, "description": "JSON, truncated."},
                    "duration_ms": {"type": "number"},
                    "result_bytes": _COUNT,
                    "error_code": _TEXT,
                    "error": _TEXT,
                    "line": _COUNT,
                },
            )
        ),
        "calls_omitted": {**_COUNT, "description": "Number of earlier calls not listed."},
        "attachments": _list(
            _object(
                ["name", "media_type", "size_bytes", "path"],
                {"name": _TEXT, "media_type": _TEXT, "size_bytes": _COUNT, "path": _TEXT},
            )
        ),
        "usage": _object(
            ["duration_ms", "tool_calls"],
            {
                "duration_ms": {"type": "number"},
                "tool_calls": _COUNT,
                "output_bytes": _COUNT,
                "stdout_bytes": _COUNT,
                "stderr_bytes": _COUNT,
                "emit_bytes": _COUNT,
            },
        ),
        "warnings": _list(_TEXT),
        "cut": {
            **_object(["bytes"], {"bytes": _COUNT, "sha256": _TEXT, "artifact": _TEXT}),
            "description": "Present if the value was too large: it is truncated, and the artifact "
            "holds all of it.",
        },
        "run_id": _TEXT,
    },
)
"""JSON Schema of the results of `outcome` and `outcome_of_error`."""


def outcome(result: RunResult) -> dict[str, Any]:
    """Convert `result` to JSON data for a model, by `OUTCOME_SCHEMA`."""
    usage = result.usage
    shown, omitted = _tail_of_partial(result)
    row: dict[str, Any] = {"status": result.status}
    if result.ok:
        row["value"] = result.value
    if result.error is not None:
        row["error"] = _failure(result.error)
    row |= _present(
        partial=shown,
        partial_omitted=omitted,
        stdout=_tail(result.stdout),
        stderr=_tail(result.stderr),
        calls=[_call(call) for call in result.calls[-_MAX_CALLS:]],
        calls_omitted=max(0, len(result.calls) - _MAX_CALLS),
        attachments=[
            {
                "name": file.name,
                "media_type": file.media_type,
                "size_bytes": file.size_bytes,
                "path": file.path,
            }
            for file in result.attached
        ],
    )
    row["usage"] = {"duration_ms": usage.duration_ms, "tool_calls": usage.tool_calls} | _present(
        output_bytes=usage.output_bytes,
        stdout_bytes=usage.stdout_bytes,
        stderr_bytes=usage.stderr_bytes,
        emit_bytes=usage.emit_bytes,
    )
    row |= _present(warnings=[_truncate(str(w)) for w in result.warnings[:_MAX_WARNINGS]])
    if result.cut is not None:
        cut = result.cut
        row["cut"] = {"bytes": cut.bytes, "sha256": cut.sha256, "artifact": cut.artifact}
    return row | {"run_id": result.run_id}


def outcome_of_error(error: PtcError) -> dict[str, Any]:
    """Convert an error that prevented a run: an invalid argument or a missing jail."""
    code = "usage" if isinstance(error, UsageError) else "setup"
    return {"status": "rejected", "error": {"code": code, "message": _truncate(str(error))}}


def outcome_texts(result: RunResult) -> list[str]:
    """Convert `result` to texts: the value of a completed run alone, then notes if any."""
    if result.ok:
        notes = "\n\n".join(_notes(result))
        return [value_text(result.value), *([notes] if notes else [])]
    parts = [_failure_text(result), *_calls_text(result)]
    shown, omitted = _tail_of_partial(result)
    if shown:
        earlier = f", {omitted} earlier not shown" if omitted else ""
        rows = "\n".join(f"  {value_text(value)}" for value in shown)
        parts.append(f"Partial values ({len(result.partial)}{earlier}):\n{rows}")
    return ["\n\n".join([*parts, *_notes(result)])]


def value_text(value: Any) -> str:
    """Format a value for a model: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json_form.dumps(value).decode()


# --- data ---------------------------------------------------------------------------------------


def _present(**items: Any) -> dict[str, Any]:
    return {key: item for key, item in items.items() if item}


def _failure(error: Failure) -> dict[str, Any]:
    row = _location(error) | _present(type=error.type, tool=error.tool)
    if _has_call_chain(error):
        row["traceback"] = _tail(error.traceback)
    if len(error.findings) > 1:
        row["findings"] = [_location(finding) for finding in error.findings[:_MAX_FINDINGS]]
    return row


def _location(item: Failure | Finding) -> dict[str, Any]:
    return {"code": item.code, "message": _truncate(item.message)} | _present(
        line=item.line, column=item.column, excerpt=item.excerpt, hint=item.hint
    )


def _call(call: CallRecord) -> dict[str, Any]:
    row = {"seq": call.seq, "tool": call.tool, "status": call.status}
    return row | _present(
        arguments=_truncate(call.arguments, _ARGUMENT_CHARS),
        duration_ms=call.duration_ms,
        result_bytes=call.result_bytes,
        error_code=call.error_code,
        error=_truncate(call.error or "", 400),
        line=call.line,
    )


def _tail_of_partial(result: RunResult) -> tuple[list[Any], int]:
    """Return the last partial values that fit the limit of a returned value together."""
    room = result.limits.max_output_bytes
    shown: list[Any] = []
    for value in reversed(result.partial):
        room -= len(json_form.dumps(value))
        if room < 0:
            break
        shown.insert(0, value)
    return shown, len(result.partial) - len(shown)


# --- text ---------------------------------------------------------------------------------------

_HEADS = {
    "failed": "The script failed",
    "rejected": "The script was rejected before it ran",
    "timed_out": "The run timed out",
    "limit_exceeded": "The run exceeded a limit",
    "cancelled": "The run was cancelled",
    "crashed": "The script's process crashed",
    "violation": "The sandbox stopped the run",
}


def _failure_text(result: RunResult) -> str:
    head = _HEADS.get(result.status, result.status)
    error = result.error
    if error is None:
        return f"{head}."
    if len(error.findings) > 1:
        rows = [_location_text(finding) for finding in error.findings[:_MAX_FINDINGS]]
        more = len(error.findings) - len(rows)
        rows += [f"... and {more} more"] if more else []
        return "\n\n".join([f"{head} ({len(error.findings)} findings):", *rows])
    if _has_call_chain(error):
        hint = f"\nSuggested fix: {error.hint}" if error.hint else ""
        return f"{head}: {_truncate(error.message)}\n{_tail(error.traceback)}{hint}"
    return f"{head}: {_location_text(error)}"


def _has_call_chain(error: Failure) -> bool:
    """True if the traceback has more than one frame, so more than the location."""
    return error.traceback.count("\n  File ") > 1


def _location_text(item: Failure | Finding) -> str:
    rows = [_truncate(item.message)]
    if item.line:
        column = f", column {item.column}" if item.column else ""
        rows.append(f"line {item.line}{column}:")
        rows += [f"    {row}" for row in item.excerpt.split("\n") if row]
    if item.hint:
        rows.append(f"Suggested fix: {item.hint}")
    return "\n".join(rows)


def _calls_text(result: RunResult) -> list[str]:
    if not result.calls:
        return []
    shown = result.calls[-_MAX_CALLS:]
    omitted = len(result.calls) - len(shown)
    earlier = f", {omitted} earlier not shown" if omitted else ""
    rows = [_call_text(call) for call in shown]
    return ["\n".join([f"Tool calls made ({len(result.calls)}{earlier}):", *rows])]


def _call_text(call: CallRecord) -> str:
    why = f" [{call.error_code}]" if call.error_code else ""
    line = f" (line {call.line})" if call.line else ""
    arguments = _truncate(call.arguments, _ARGUMENT_CHARS)
    return f"  {call.seq}. {call.tool} {arguments}: {call.status}{why}{line}"


def _notes(result: RunResult) -> list[str]:
    notes = []
    if result.ok and result.partial:
        notes.append(f"The script also emitted {len(result.partial)} partial values.")
    for head, text in (("Printed", result.stdout), ("Printed to stderr", result.stderr)):
        if text:
            notes.append(f"{head}:\n{_tail(text).rstrip()}")
    if result.attached:
        rows = "\n".join(
            f"  {file.name} ({file.media_type}, {file.size_bytes:,} bytes): {file.path}"
            for file in result.attached
        )
        notes.append(f"Attached files:\n{rows}")
    if result.cut is not None:
        notes.append(
            f"The value has {result.cut.bytes:,} bytes of JSON and was truncated to fit "
            f"{result.limits.max_output_bytes:,}; return less. The whole value: "
            f"{result.cut.artifact or 'not stored, see the warnings'}"
        )
    if result.warnings:
        rows = "\n".join(f"  {_truncate(str(w))}" for w in result.warnings[:_MAX_WARNINGS])
        notes.append(f"Warnings:\n{rows}")
    return notes


def _truncate(text: str, max_chars: int = _MESSAGE_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def _tail(text: str) -> str:
    if len(text) <= _STDOUT_CHARS:
        return text
    return f"[{len(text) - _STDOUT_CHARS:,} earlier characters not shown]\n{text[-_STDOUT_CHARS:]}"
