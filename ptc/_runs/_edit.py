"""Validation of edited arguments, with or without the tool that will receive them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._core import _json
from .._records._result import PendingCall
from .._schema._check import raw_validator
from .._tools._tool import Tool
from ..errors import ToolError, UsageError
from ..journal._journal import RunRecord

__all__ = ["validate_edit"]


def validate_edit(
    pending: PendingCall, value: Any, tools: Mapping[str, Tool], recorded: RunRecord
) -> None:
    """Validate edited arguments with the tool, or with its recorded schema if it is not here.

    The session that makes the call validates them again, with the tool.

    Args:
        pending: The call.
        value: Its edited arguments.
        tools: Tools of this session.
        recorded: Record of the run, which has the schema of each tool that requires approval.

    Raises:
        UsageError: If they are not valid, or nothing is known that they can be validated with.
    """
    if not isinstance(value, Mapping):
        msg = f"edited arguments must be a dict, not {type(value).__name__}"
        raise UsageError(msg)
    tool = tools.get(pending.tool)
    schema = _recorded_schema(pending, recorded)
    if tool is not None:
        validate = tool.validate
    elif schema is not None:
        validate = raw_validator(pending.tool, schema)
    else:
        msg = (
            f"{pending.tool} is not a tool of this session, and the run has no record of its "
            "schema: its arguments cannot be validated. Approve the call where its tools are, or "
            "without edited arguments"
        )
        raise UsageError(msg)
    try:
        validate(value)
    except ToolError as error:
        msg = f"the edited arguments are not valid: {error.message}; no decision was recorded"
        raise UsageError(msg) from None


def _recorded_schema(pending: PendingCall, recorded: RunRecord) -> Mapping[str, Any] | None:
    for row in recorded.pending:
        if (row.path, row.kind) == (pending.call, pending.kind):
            schema = _json.loads(row.details).get("schema")
            return schema if isinstance(schema, Mapping) else None
    return None
