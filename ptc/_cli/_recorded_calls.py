"""The calls of a recorded run, for ``ptc show``: as text beside the script, and as JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._core import _json
from .._runs._decided import describe_action, find_edits
from ._pending_call import one_line

if TYPE_CHECKING:
    from .._records._result import RunResult
    from ..journal._journal import CallEnd, CallRow, RunRecord
    from ._terminal import Stream

__all__ = ["add_outcomes", "show_calls", "without_decided"]

_CHARS = 120
"""Characters of the arguments, the result and a comment."""


def show_calls(output: Stream, recorded: RunRecord) -> None:
    """Write the script of a run with its calls beside the lines, then each call."""
    from .._runs._program_row import describe_source

    for line in _annotated(recorded):
        output.line(line)
    not_stored = describe_source(recorded.run)
    if not_stored:
        output.line(not_stored)
    output.line("")
    edits = find_edits(recorded)
    for row in recorded.calls:
        head = _head(row.path, row.tool, edits.get(row.path, row.arguments))
        output.line(f"{head}  {_describe_end(row)}{_describe_decisions(recorded, row.path)}")
    made = {row.path for row in recorded.calls}
    decided = {row.path for row in recorded.decisions} - made
    for pending in recorded.pending:
        if pending.path in decided:
            arguments = edits.get(pending.path) or _requested(recorded, pending.path)
            head = _head(pending.path, pending.tool, arguments)
            output.line(f"{head}  not resumed yet{_describe_decisions(recorded, pending.path)}")


def _annotated(recorded: RunRecord) -> list[str]:
    at: dict[int, list[str]] = {}
    for row in recorded.calls:
        if row.line is not None:
            at.setdefault(row.line, []).append(row.path)
    lines = recorded.run.source.splitlines()
    width = len(str(len(lines)))
    shown = []
    for number, line in enumerate(lines, 1):
        calls = at.get(number, [])
        more = f", {len(calls) - 8} more" if len(calls) > 8 else ""
        note = f"   # call {', '.join(calls[:8])}{more}" if calls else ""
        shown.append(f"{number:>{width}} | {line}{note}")
    return shown


def _head(path: str, tool: str, arguments: bytes) -> str:
    return f"{path:>4}  {tool}({_short(arguments)})"


def _short(data: bytes) -> str:
    return one_line(data.decode(errors="replace"), _CHARS)


def _requested(recorded: RunRecord, path: str) -> bytes:
    """Return JSON of the arguments that the script passed to a call."""
    for row in recorded.calls:
        if row.path == path:
            return row.arguments
    for pending in recorded.pending:
        if pending.path == path:
            return _json.dumps(_json.loads(pending.details).get("arguments"), sort_keys=True)
    return b"{}"


def _describe_end(row: CallRow) -> str:
    from ._events import describe_usage

    end = row.end
    if end is None:
        return "started; its outcome is unknown"
    took = f"{end.at_ms - row.at_ms} ms"
    if row.attempt > 1:
        took += f", {row.attempt} attempts"
    return f"{end.status}, {took}{describe_usage(end)}: {_describe_outcome(end)}"


def _describe_outcome(end: CallEnd) -> str:
    value = _outcome(end)
    if end.ok:
        return _short(_json.dumps(value))
    return one_line(f"{value['code']}: {value['message']}", _CHARS)


def _outcome(end: CallEnd) -> Any:
    """Return the value, or the error as data, of the message that the script received."""
    _, _, value = _json.loads(end.body)
    return value


def _describe_decisions(recorded: RunRecord, path: str) -> str:
    """Describe the revert of a call and the decisions about it."""
    note = ""
    for revert in recorded.reverts:
        if revert.path == path:
            note = f"  [revert: {revert.status}]"
    for decision in recorded.decisions:
        if decision.path == path:
            comment = f": {one_line(decision.comment, _CHARS)}" if decision.comment else ""
            edited = ""
            if decision.edited is not None:
                edited = f"; the script requested {_short(_requested(recorded, path))}"
            note += f"  [{describe_action(decision)}{comment}{edited}]"
    return note


def without_decided(result: RunResult, recorded: RunRecord) -> RunResult:
    """Return a result without the pending calls that were decided after it was recorded."""
    decided = {(row.path, row.kind) for row in recorded.decisions}
    pending = tuple(call for call in result.pending if (call.call, call.kind) not in decided)
    return replace(result, pending=pending)


def add_outcomes(data: dict[str, Any], recorded: RunRecord) -> None:
    """Add its outcome, and the arguments of its approver, to each call of a record.

    Args:
        data: JSON data of the record.
        recorded: The record.
    """
    edits = find_edits(recorded)
    for call, row in zip(data["calls"], recorded.calls, strict=True):
        outcome = None if row.end is None else _outcome(row.end)
        is_value = row.end is not None and row.end.ok
        call["value"] = outcome if is_value else None
        call["error"] = None if is_value else outcome
        edited = edits.get(row.path)
        call["decided_arguments"] = None if edited is None else _json.loads(edited)
