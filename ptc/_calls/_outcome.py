"""Outcome of a call: conversion of values, redaction of errors, and JSON for a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from .._core import _json
from .._core._arguments import describe_error
from .._core._redact import SENT, Redactor, leads_to_secrets
from .._tools._result_formats import result_of
from .._tools._tool import Tool
from .._tools._tool_result import Render, ToolResult, redact_result
from ..errors import ToolError
from ._call import OpenCall
from ._rows import error_row
from ._scope import Scope

__all__ = [
    "bound_result",
    "convert_value",
    "encode_error",
    "encode_result",
    "failed_result",
    "internal_error",
]


def convert_value(scope: Scope, tool: Tool, call: OpenCall, value: Any) -> ToolResult:
    """Convert a function's return value to a result; raise a failure that it returned.

    Raises:
        ToolError: The returned failure, or ``result_not_json``.
    """
    redactor = scope.environment.redactor
    reply = result_of(value, tool.result_schema)
    if reply is None and not call.attached and not redactor:
        untrusted = tool.untrusted or call.untrusted
        return ToolResult(tool.name, value=value, untrusted=untrusted, _render=tool.render)
    render = tool.render
    reply = reply or ToolResult(value=value)
    original = reply.value
    try:
        reply = redact_result(reply, redactor)
    except _json.JsonError as refused:
        msg = f"the result of {tool.name} has no JSON form: {refused}"
        raise ToolError(msg, code="result_not_json") from None
    if render is not None and reply.value is not original:
        # A redacted value is plain data. The tool renders its own value; that text is redacted.
        render = partial(_render_redacted, render, original, redactor)
    stored = tuple(scope.store(item) for item in reply.attachments)
    reply = replace(
        reply,
        tool=tool.name,
        attachments=(*call.attached, *stored),
        untrusted=reply.untrusted or tool.untrusted or call.untrusted,
        _render=render,
    )
    call.take_reply(reply)
    if reply.error is not None:
        raise reply.error
    return reply


def _render_redacted(render: Render, value: Any, redactor: Redactor, _: Any) -> str:
    return redactor.text(render(value))


def failed_result(scope: Scope, call: OpenCall, error: Exception) -> ToolResult:
    """Return the result of a call that failed with `error`, redacted."""
    name = call.call.name
    if not isinstance(error, ToolError):
        return ToolResult(name, error=_redact_error(scope, internal_error(name, error)))
    error.tool = name
    safe = _redact_error(scope, error)
    reply = call.outcome.reply
    if reply is not None and reply.error is error:
        return replace(reply, error=safe)
    return ToolResult(name, error=safe)


def internal_error(tool: str, why: Exception | str) -> ToolError:
    """Wrap a failure in the code of a tool's author that is not a `ToolError`."""
    words = why if isinstance(why, str) else describe_error(why)
    error = ToolError(f"{tool} failed: {words}", code="internal", tool=tool)
    error.__cause__ = why if isinstance(why, Exception) else None
    return error


def _redact_error(scope: Scope, error: ToolError) -> ToolError:
    """Return `error`, or a copy without secrets and without references to errors that have some."""
    beside = (error.__cause__, error.__context__, getattr(error, "__notes__", None))
    alone = not any(beside)
    if not alone:
        SENT.failed(error)
    redactor = scope.environment.redactor
    message = redactor.error_text(error.message)
    details = redactor.error_data(error.details) if error.details else {}
    same = not redactor and (message, details) == (error.message, error.details)
    if same and (alone or not leads_to_secrets(error, redactor)):
        return error
    return ToolError(
        message,
        code=error.code,
        tool=error.tool,
        retryable=error.retryable,
        details=details,
    )


def encode_result(scope: Scope, call: OpenCall, result: ToolResult) -> tuple[bool, bytes]:
    """Encode the result of a call for a script: True if it is a value, and the message body."""
    if result.error is not None:
        return False, encode_error(result.error)
    data = _encode_value(scope, result)
    if isinstance(data, ToolError):
        call.fail_delivery(data)
        return False, encode_error(data)
    call.result_bytes = len(data)
    return True, b"[true,true,%b]" % data


def encode_error(error: ToolError) -> bytes:
    """Encode an error for a script."""
    row: Mapping[str, Any] = error_row(error)
    return b"[false,false,%b]" % _json.dumps(row)


def _encode_value(scope: Scope, result: ToolResult) -> bytes | ToolError:
    # The error is not raised: its traceback would hold the value.
    try:
        data = _json.dumps(result.value, what=result.tool)
    except _json.JsonError as refused:
        why = scope.environment.redactor.text(str(refused))
        msg = f"the result of {result.tool} cannot be sent to the script: {why}"
        return ToolError(msg, code="result_not_json", tool=result.tool)
    if len(data) > scope.limits.max_tool_result_bytes:
        return _too_large(scope, result.tool, len(data))
    return data


def bound_result(scope: Scope, call: OpenCall, result: ToolResult) -> ToolResult:
    """Return the result of a direct call, or the error of a value that is over its limit.

    A value without a JSON form, which only a direct call can have, has no size.
    """
    # An error from before the call is the host's own text.
    if result.untrusted is None and call.tool is not None and (result.ok or call.was_called):
        mode = call.tool.untrusted or call.untrusted or scope.shared.untrusted
        result = result if mode is None else replace(result, untrusted=mode)
    if result.error is not None or (scope.on_event is None and _is_small(scope, result.value)):
        return result
    try:
        size = len(_json.dumps(result.value, what=result.tool))
    except _json.JsonError:
        return result
    if scope.on_event is not None:
        call.result_bytes = size
    if size <= scope.limits.max_tool_result_bytes:
        return result
    error = _too_large(scope, result.tool, size)
    call.fail_delivery(error)
    return replace(result, value=None, content=(), error=error, untrusted=None, _render=None)


def _is_small(scope: Scope, value: object) -> bool:
    """True if a value is within the limit whatever its JSON form; found without writing that."""
    if type(value) is str:
        return len(value) * _JSON_CHAR_BYTES + 2 <= scope.limits.max_tool_result_bytes
    if type(value) is int:
        return value.bit_length() < 64
    return value is None or type(value) in (bool, float)


_JSON_CHAR_BYTES = 6
"""Most bytes of a character in JSON, as ``\\u001f``."""


def _too_large(scope: Scope, tool: str, size: int) -> ToolError:
    most = scope.limits.max_tool_result_bytes
    msg = (
        f"the result of {tool} has {size:,} bytes, over the limit of {most:,} "
        "(max_tool_result_bytes); request less at a time"
    )
    details: dict[str, object] = {"limit": "max_tool_result_bytes", "most": most, "used": size}
    return ToolError(msg, code="result_too_large", tool=tool, details=details)
