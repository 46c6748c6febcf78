"""Conversions between calls, their rows in the journal, and their public forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core import _json
from .._records._result import PendingCall
from .._schema._copy import copy_data
from .._tools._approval import ApprovalRequest, Decision
from .._tools._tool import ToolCall
from .._tools._tool_result import ToolResult
from ..errors import DamagedRunError, ToolError
from ..journal._journal import CallEnd, CallRow, PendingRow, RunRecord
from ._call import OpenCall
from ._record_filter import truncate_arguments

__all__ = [
    "encode_arguments",
    "error_of",
    "error_row",
    "pending_call",
    "read_call",
    "read_error",
    "read_outcome",
    "redact_decision",
    "redact_request",
    "request_details",
    "require_intact",
]

_MESSAGE_CHARS = 65_536
_CODE_CHARS = 256
_SCHEMA_BYTES = 1 << 16
"""JSON bytes of a schema beside a pending call."""
_DETAILS_BYTES = 1 << 20
"""JSON bytes of the details of one error."""


def request_details(call: OpenCall, request: ApprovalRequest) -> dict[str, Any]:
    """Return the record of a request, with the schema to which edited arguments must conform."""
    shown = redact_request(call, request)
    schema = None if call.tool is None else dict(call.tool.parameters)
    small = schema is not None and len(_json.dumps(schema, what="schema")) <= _SCHEMA_BYTES
    return {
        **({"schema": schema} if small else {}),
        "arguments": shown.arguments,
        "prompt": shown.prompt,
        "defaults": dict(shown.defaults),
    }


def redact_request(call: OpenCall, request: ApprovalRequest) -> ApprovalRequest:
    """Redact a request for subscribers, who do not decide on it: no secrets, no content."""
    arguments = _json.loads(encode_arguments(call, request.arguments))
    # The prompt may contain arguments.
    prompt = call.record_filter.redact_text(request.prompt)
    defaults = copy_data(dict(request.defaults))
    return replace(request, arguments=arguments, prompt=prompt, defaults=defaults)


def redact_decision(call: OpenCall, decision: Decision) -> Decision:
    """Redact a decision for subscribers."""
    if not isinstance(decision.arguments, Mapping):
        # Arguments that are not a mapping are rejected next.
        return replace(decision, arguments=None)
    arguments = _json.loads(encode_arguments(call, decision.arguments))
    return replace(decision, arguments=arguments)


def read_outcome(tool: str, end: CallEnd) -> ToolResult:
    """Return a recorded value as data. Raises the `ToolError` if the call failed."""
    _, _, value = _json.loads(end.body)
    if end.ok:
        return ToolResult(tool, value=value)
    raise error_of(value, tool)


def error_row(error: ToolError) -> dict[str, Any]:
    """Convert an error to JSON data, for the script and the record.

    Every error can be converted: parts are truncated, and converted to text if they are not JSON.
    """
    details: Any = error.details
    try:
        size = len(_json.dumps(details, what="details"))
        if size > _DETAILS_BYTES:
            details = {"left_out": f"details has {size:,} bytes, over {_DETAILS_BYTES:,}"}
    except _json.JsonError as refused:
        details = {"left_out": _json.plain_text(refused, _MESSAGE_CHARS)}
    return {
        "message": _json.plain_text(error.message, _MESSAGE_CHARS),
        "code": _json.plain_text(error.code, _CODE_CHARS),
        "tool": error.tool,
        "retryable": bool(error.retryable),
        "details": details,
    }


def error_of(row: Mapping[str, Any], tool: str) -> ToolError:
    """Convert the data of `error_row` back to an error."""
    return ToolError(
        row["message"],
        code=row["code"],
        tool=row.get("tool") or tool,
        retryable=row["retryable"],
        details=row["details"],
    )


def pending_call(row: PendingRow, run_id: str) -> PendingCall:
    """Convert a recorded `PendingRow` of a run to its public form."""
    try:
        details = dict(_json.loads(row.details))
    except (ValueError, TypeError) as error:
        msg = f"run {run_id!r} is damaged: the request of pending call {row.path}: {error}"
        raise DamagedRunError(msg) from error
    age_ms = details.get("expire_ms")
    return PendingCall(
        call=row.path,
        kind=row.kind,
        tool=row.tool,
        arguments=details.get("arguments"),
        fingerprint=row.fingerprint,
        idempotency_key=details.get("key"),
        prompt=details.get("prompt", ""),
        defaults=details.get("defaults"),
        run_id=run_id,
        line=details.get("line"),
        requested_ms=row.at_ms,
        expires_ms=None if age_ms is None else row.at_ms + age_ms,
    )


def require_intact(recorded: RunRecord) -> None:
    """Raise `DamagedRunError` if a decision or a pending call of a run cannot be decoded.

    Otherwise the damage would be found while the run executes, as an error of the host.
    """
    run_id = recorded.run.run_id
    for pending in recorded.pending:
        pending_call(pending, run_id)
    for decision in recorded.decisions:
        try:
            _json.loads(decision.value)
        except ValueError as error:
            msg = f"run {run_id!r} is damaged: the decision about call {decision.path}: {error}"
            raise DamagedRunError(msg) from error


def read_call(row: CallRow, run_id: str | None) -> OpenCall:
    """Build a call from an earlier host's record, for the list of calls."""
    try:
        arguments = _json.loads(row.arguments)
    except ValueError as error:
        msg = f"run {run_id!r} is damaged: the arguments of call {row.path}: {error}"
        raise DamagedRunError(msg) from error
    call = OpenCall(ToolCall(row.tool, arguments, seq=0, run_id=run_id))
    call.restore(row, read_error(row))
    return call


def read_error(row: CallRow) -> ToolError | None:
    """Return the recorded error of a call; None if it has none."""
    if row.end is None or row.end.ok:
        return None
    return error_of(_json.loads(row.end.body)[2], row.tool)


def encode_arguments(call: OpenCall, arguments: Mapping[str, Any] | None = None) -> bytes:
    """Encode arguments for the record: sorted JSON, truncated with size and digest if too long.

    Args:
        call: The call.
        arguments: Arguments to encode instead of its own.
    """
    try:
        data = (
            call.encode_arguments() if arguments is None else call.record_filter.encode(arguments)
        )
    except _json.JsonError as error:
        return _json.dumps({"not_json": str(error)})
    return truncate_arguments(data)
