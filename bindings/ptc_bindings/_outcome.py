"""The outcome of a run as a model sees it: small JSON data, for all bindings.

`RunResult` is a record for an operator, while a model's context is paid by the token. A completed
run is its value, its output and its warnings. Any other run has at most `FAILURE_CHARS` characters:
the error, the call that failed, and the number of calls by tool. The rest is in the log of the run
(`_run_log`), which a model reads on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ptc import (
    AttachmentRef,
    CallRecord,
    Failure,
    Finding,
    PendingCall,
    PtcError,
    RunResult,
    UsageError,
)
from ptc._core import _json as json_form
from ptc._records._artifacts import shrink
from ptc._records._preview import Reader, address_of, recall_note
from ptc._records._result import Cut, Status

__all__ = [
    "FAILURE_CHARS",
    "OUTCOME_SCHEMA",
    "outcome",
    "outcome_of_busy",
    "outcome_of_error",
    "tail",
    "truncate",
    "warning_texts",
]

FAILURE_CHARS = 1_500
"""Maximum characters of the outcome of a run that did not complete, as JSON and as text."""
_JSON_ROOM = 1_300
"""JSON characters without spaces; the rest is for a client that writes them after ``:`` and
``,``."""
_STDOUT_CHARS = 2_000
"""Tail of the output of a completed run. `print` is for notes; a script returns data."""
_MAX_WARNINGS = 10
_WARNING_CHARS = 400
_MAX_ATTACHMENTS = 10
_LEAST_CHARS = 24
"""A field with less room is omitted."""

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


_COUNTS = {"type": "object", "additionalProperties": _COUNT}

OUTCOME_SCHEMA: dict[str, Any] = _object(
    [],
    {
        "value": {"description": "Return value of the script. Present only if it completed."},
        "status": {
            "enum": [status for status in get_args(Status) if status != "completed"],
            "type": "string",
            "description": "Absent if the script completed.",
        },
        "error": _object(
            ["code", "message"],
            {
                **_LOCATION,
                "type": {**_TEXT, "description": "Name of the exception."},
                "traceback": _TEXT,
                "tool": _TEXT,
                "findings": _list(_object(["code", "message"], _LOCATION)),
                "findings_omitted": _COUNT,
            },
        ),
        "failed_call": _object(
            ["call", "tool", "status"],
            {
                "call": _TEXT,
                "tool": _TEXT,
                "status": _TEXT,
                "arguments": {**_TEXT, "description": "JSON, truncated."},
                "decided_arguments": {
                    **_TEXT,
                    "description": "Arguments of the approver, which the tool received instead.",
                },
                "error_code": _TEXT,
                "line": _COUNT,
            },
        ),
        "calls": {**_COUNTS, "description": "Number of calls by tool, if the run failed."},
        "failed_calls": {**_COUNTS, "description": "Number of calls that did not succeed."},
        "pending": {
            **_list(
                _object(
                    ["call", "tool", "kind"],
                    {
                        "call": _TEXT,
                        "tool": _TEXT,
                        "kind": {"enum": ["approval", "unknown"], "type": "string"},
                        "arguments": {**_TEXT, "description": "JSON, truncated."},
                        "prompt": _TEXT,
                        "line": _COUNT,
                    },
                )
            ),
            "description": "Calls that await a decision, if the run is paused.",
        },
        "pending_omitted": _COUNT,
        "next": {**_TEXT, "description": "How to continue the run."},
        "stdout": {**_TEXT, "description": "Tail of the printed output."},
        "stderr": {**_TEXT, "description": "Tail of the log and of output to sys.stderr."},
        "partial": {"type": "array", "description": "Last values of ctx.emit, if it failed."},
        "emitted": {**_COUNT, "description": "Number of values of ctx.emit; the log has them."},
        "warnings": _list(_TEXT),
        "attachments": _list(
            _object(["name", "media_type", "uri"], {"name": _TEXT, "media_type": _TEXT})
        ),
        "truncated": {
            **_object(["bytes"], {"bytes": _COUNT, "uri": _TEXT, "next": _TEXT}),
            "description": "Present if the value was too large: how to read the rest.",
        },
        "run_id": {**_TEXT, "description": "Present if the log of the run has more."},
    },
)
"""JSON Schema of the results of `outcome` and `outcome_of_error`."""
OUTCOME_SCHEMA["properties"]["attachments"]["items"]["properties"]["uri"] = _TEXT


def outcome(
    result: RunResult, *, next_step: str = "", reader: Reader = "address"
) -> dict[str, Any]:
    """Convert `result` to JSON data for a model, by `OUTCOME_SCHEMA`.

    Args:
        result: The run.
        next_step: How the reader continues it; ``""`` if that is not possible.
        reader: How the reader gets the rest of a truncated value.
    """
    return _completed(result, reader) if result.ok else _unfinished(result, next_step)


def outcome_of_error(error: PtcError) -> dict[str, Any]:
    """Convert an error that prevented a run: an invalid argument or a missing jail."""
    code = "usage" if isinstance(error, UsageError) else "setup"
    message = _fit(str(error), _JSON_ROOM - 100)
    return {"status": "rejected", "error": {"code": code, "message": message}}


def outcome_of_busy(reason: str) -> dict[str, Any]:
    """Return the outcome of a call that the server has no room for now."""
    return {"status": "rejected", "error": {"code": "busy", "message": reason}}


def truncate(text: str, max_chars: int) -> str:
    """Return the start of `text`, with a mark if more follows."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def tail(text: str, max_chars: int) -> str:
    """Return the end of `text`, with a note if more precedes."""
    if len(text) <= max_chars:
        return text
    return f"[{len(text) - max_chars:,} earlier characters not shown]\n{text[-max_chars:]}"


# --- a completed run ----------------------------------------------------------------------------


def _completed(result: RunResult, reader: Reader) -> dict[str, Any]:
    row: dict[str, Any] = {"value": result.value}
    row |= _present(
        stdout=tail(result.stdout, _STDOUT_CHARS),
        stderr=tail(result.stderr, _STDOUT_CHARS),
        emitted=len(result.partial),
        attachments=[_attachment(ref) for ref in result.attachments[:_MAX_ATTACHMENTS]],
        warnings=warning_texts(result),
    )
    if result.cut is not None:
        row["truncated"] = {"bytes": result.cut.bytes} | _where(result.cut, reader)
    long = len(result.stdout) > _STDOUT_CHARS or len(result.stderr) > _STDOUT_CHARS
    if long or result.partial or len(result.warnings) > _MAX_WARNINGS:
        row["run_id"] = result.run_id
    return row


def _where(cut: Cut, reader: Reader) -> dict[str, Any]:
    if not cut.artifact:
        return {}
    following = "" if reader == "address" else recall_note(cut, reader)
    return {"uri": address_of(cut.sha256)} | _present(next=following)


def _attachment(ref: AttachmentRef) -> dict[str, Any]:
    return {"name": ref.name, "media_type": ref.media_type, "uri": address_of(ref.id)}


def warning_texts(result: RunResult, most: int = _MAX_WARNINGS) -> list[str]:
    """Return the first warnings, truncated, without paths of the host."""
    shown = [
        warning
        for warning in result.warnings
        # The outcome itself says so, with the way to the rest.
        if warning.code != "value_truncated" or result.cut is None or not result.cut.artifact
    ]
    return [truncate(_portable(str(row), result), _WARNING_CHARS) for row in shown[:most]]


def _portable(text: str, result: RunResult) -> str:
    """Replace the path of the stored value by its address: a model has no use for the host's."""
    cut = result.cut
    return text.replace(cut.artifact, address_of(cut.sha256)) if cut and cut.artifact else text


def _present(**items: Any) -> dict[str, Any]:
    return {key: item for key, item in items.items() if item}


# --- a run that did not complete ----------------------------------------------------------------


class _Row:
    """An object of at most `room` JSON characters; what is added first has precedence."""

    def __init__(self, room: int) -> None:
        self.data: dict[str, Any] = {}
        self.room = room - 2

    def add(self, **items: Any) -> None:
        """Add the items that are not empty and fit."""
        for key, item in items.items():
            size = _size(key) + _size(item) + 2
            if item and size <= self.room:
                self.data[key] = item
                self.room -= size

    def text(self, key: str, text: str, most: int, *, end: bool = False) -> None:
        """Add a text, truncated to `most` characters and to the room that is left.

        Args:
            key: Its name.
            text: The text.
            most: Maximum JSON characters.
            end: True: retain its end, not its start.
        """
        short = _fit(text, min(most, self.room - _size(key) - 2), end=end)
        if short:
            self.add(**{key: short})


def _size(value: Any) -> int:
    return len(json_form.dumps(value).decode())


def _fit(text: str, room: int, *, end: bool = False) -> str:
    """Return the start or the end of `text` with at most `room` characters of JSON."""
    if not text or room < _LEAST_CHARS:
        return ""
    # A lone surrogate has no JSON form, and this text may quote anything.
    text = text.encode(errors="replace").decode()
    count = len(text)
    while _size(short := text if count == len(text) else _part(text, count, end=end)) > room:
        # Escapes make JSON longer than its text.
        count = min(count - 1, max(0, count * room // _size(short) - 4))
        if count < 1:
            return ""
    return short


def _part(text: str, count: int, *, end: bool) -> str:
    return f"...{text[-count:]}" if end else f"{text[:count]}..."


def _unfinished(result: RunResult, next_step: str) -> dict[str, Any]:
    row = _Row(_JSON_ROOM)
    row.add(status=result.status, run_id=result.run_id)
    # The next step is added first: without it, the reader cannot continue.
    row.text("next", next_step, 500)
    if result.status == "paused":
        _add_pending(row, result.pending)
    if result.error is not None:
        error = _failure(result.error, min(row.room - 12, 900))
        row.add(error=error)
        row.add(failed_call=_failed_call(result))
    calls = Counter(call.tool for call in result.calls)
    failed = Counter(call.tool for call in result.calls if call.status != "succeeded")
    row.add(calls=_most(calls), failed_calls=_most(failed) if not result.pending else {})
    row.text("stdout", result.stdout, 250, end=True)
    row.text("stderr", result.stderr, 150, end=True)
    _add_partial(row, result.partial)
    row.add(warnings=[truncate(text, 150) for text in warning_texts(result, 2)])
    row.add(attachments=[_attachment(ref) for ref in result.attachments[:2]])
    return row.data


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent tools, since a script can call any number of names."""
    return {truncate(name, 64): count for name, count in Counter(counts).most_common(8)}


def _failure(error: Failure, room: int) -> dict[str, Any]:
    row = _Row(room)
    _add_location(row, error, 450)
    row.add(type=truncate(error.type, 64), tool=truncate(error.tool, 64))
    if error.traceback.count("\n  File ") > 1:
        # More than one frame, so more than the location.
        row.text("traceback", error.traceback, 300, end=True)
    if len(error.findings) > 1:
        shown: list[dict[str, Any]] = []
        for finding in error.findings:
            one = _Row(min(250, row.room - 50))
            _add_location(one, finding, 120)
            if "message" not in one.data or row.room - _size([*shown, one.data]) < 50:
                break
            shown.append(one.data)
        row.add(findings=shown, findings_omitted=len(error.findings) - len(shown))
    return row.data


def _add_location(row: _Row, item: Failure | Finding, most: int) -> None:
    row.add(code=item.code)
    row.text("message", item.message, most)
    row.add(line=item.line, column=item.column)
    row.text("excerpt", item.excerpt, most // 2)
    row.text("hint", item.hint, most // 2)


def _failed_call(result: RunResult) -> dict[str, Any]:
    """Return the call that the error is about; empty if it is about none."""
    error = result.error
    about = error.tool if error is not None else ""
    for call in reversed(result.calls):
        if call.status != "succeeded" and about in ("", call.tool):
            return _call(call) if about or result.status in _INTERRUPTED else {}
    return {}


_INTERRUPTED = ("timed_out", "limit_exceeded", "cancelled", "crashed")
"""Statuses of runs whose last unfinished call says where the script was."""


def _call(call: CallRecord) -> dict[str, Any]:
    path = f"{call.parent}.{call.seq}" if call.parent else str(call.seq)
    row = {"call": path, "tool": truncate(call.tool, 64), "status": call.status}
    decided = call.decided_arguments
    return row | _present(
        arguments=truncate(call.arguments, 100),
        decided_arguments=None if decided is None else truncate(decided, 100),
        error_code=call.error_code,
        line=call.line,
    )


def _add_pending(row: _Row, pending: Sequence[PendingCall]) -> None:
    shown: list[dict[str, Any]] = []
    for call in pending:
        one = _Row(min(450, row.room - 60))
        one.add(call=call.call, tool=call.tool, kind=call.kind)
        one.add(line=call.line)
        one.text("prompt", call.prompt, 150)
        arguments = json_form.dumps(call.arguments, what="arguments").decode()
        one.text("arguments", arguments, 200)
        if "kind" not in one.data or row.room - _size([*shown, one.data]) < 60:
            break
        shown.append(one.data)
    row.add(pending=shown, pending_omitted=len(pending) - len(shown))


def _add_partial(row: _Row, partial: Sequence[Any]) -> None:
    """Add the last emitted values that fit, and the number of all."""
    row.add(emitted=len(partial))
    room = min(400, row.room - 20)
    shown: list[Any] = []
    for value in reversed(partial):
        size = _size(value) + 1
        if size > room:
            if not shown and room >= 2 * _LEAST_CHARS:
                shown = [shrink(value, room)]
            break
        shown.insert(0, value)
        room -= size
    row.add(partial=shown)
