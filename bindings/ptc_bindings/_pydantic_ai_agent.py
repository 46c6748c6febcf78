"""Tools of a session for agents of pydantic-ai. Imports pydantic-ai: import it in functions only.

Rule 1: an approval of the framework decides about the calls that its request showed, and the run
    continues from there; a call that comes later asks again.
    tests/frameworks/test_pydantic_ai.py::test_second_gated_call_asks_again
Rule 2: a failure is `ToolFailed`, which does not end the agent's run.
    tests/frameworks/test_pydantic_ai.py::test_failed_script_does_not_end_the_agent
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic_ai import BinaryContent, RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema

import ptc
from ptc._core import _json
from ptc._runs._program_row import is_source_of
from ptc._runs._program_tool import PROGRAM
from ptc.journal._journal import RunRow

from ._export import ExportedTool, Exports
from ._pydantic_ai_tools import live_context
from ._reply import Reply

__all__ = ["agent_tool"]

_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
"""Validator of the arguments. The session validates each of them; another value than an object
would end the agent's run."""


def agent_tool(exports: Exports, item: ExportedTool) -> Tool[Any]:
    """Make a tool for an agent."""

    # Positional only, since the arguments of a tool may have any name.
    async def call(ctx: RunContext[Any], /, **arguments: Any) -> ToolReturn[Any]:
        with live_context(ctx):
            reply = await _reply(exports, item, ctx, arguments)
        ctx.usage.incr(RunUsage(**asdict(reply.model_usage)))
        if any(call.kind == "approval" for call in reply.pending):
            raise ApprovalRequired(metadata=_request(reply))
        if reply.is_error:
            raise ToolFailed(reply.text)
        return _tool_return(reply)

    made: Tool[Any] = Tool.from_schema(
        call, item.name, item.description, dict(item.parameters), takes_ctx=True
    )
    made.function_schema.validator = _OBJECT
    return made


async def _reply(
    exports: Exports, item: ExportedTool, ctx: RunContext[Any], arguments: dict[str, Any]
) -> Reply:
    run_id = _run_id(ctx)
    if (
        ctx.tool_call_approved
        and (paused := await _paused_run(exports.session, run_id)) is not None
    ):
        if item.source_name == PROGRAM and _is_edited(paused, arguments):
            msg = "an approved script cannot be changed: edit the arguments of its calls instead"
            raise ToolFailed(f"{msg} (metadata of the approval); the run is still paused")
        try:
            await _decide(exports, item, run_id, ctx.tool_call_metadata, arguments)
        except ptc.PtcError as error:
            raise ToolFailed(f"The approval was not recorded: {error}") from error
        return await exports.resume(run_id)
    return await exports.call(item.name, arguments, run_id=run_id)


# --- approvals ----------------------------------------------------------------------------------


def _run_id(ctx: RunContext[Any]) -> str:
    """Return the id of the run for a call of a model: the same when the framework repeats it."""
    call = f"{ctx.conversation_id or ctx.run_id} {ctx.tool_call_id}"
    return f"pydantic-ai-{hashlib.sha256(call.encode()).hexdigest()[:32]}"


async def _paused_run(session: ptc.Session, run_id: str) -> RunRow | None:
    """Return the row of a paused run; None if there is none.

    An approval may also be that of a toolset around this one, before the run starts.
    """
    row = await session.history.find(run_id)
    return row if row is not None and row.status == "paused" else None


def _is_edited(row: RunRow, arguments: Mapping[str, Any]) -> bool:
    source, inputs = arguments.get("source"), arguments.get("inputs") or {}
    is_same = isinstance(source, str) and is_source_of(row, source)
    return not is_same or _json.loads(row.inputs) != inputs


def _request(reply: Reply) -> dict[str, Any]:
    """Describe the calls that await approval, for `DeferredToolRequests.metadata`."""
    names = ("call", "tool", "arguments", "prompt", "line", "expires_ms")
    return {
        "run_id": reply.pending[0].run_id,
        "calls": [
            {name: getattr(call, name) for name in names}
            for call in reply.pending
            if call.kind == "approval"
        ],
    }


async def _decide(
    exports: Exports,
    item: ExportedTool,
    run_id: str,
    metadata: Any,
    arguments: Mapping[str, Any],
) -> None:
    """Record the decisions: those in the metadata of the approval, or else approve all calls.

    Raises:
        PtcError: If a decision or edited arguments are invalid.
    """
    found = metadata if isinstance(metadata, Mapping) else {}
    by = found.get("by") or "the application (pydantic-ai)"
    listed = found.get("calls")
    for call in await exports.session.pending(run_id):
        if call.kind != "approval":
            continue
        row = {} if listed is None else _row_of(call, listed)
        if row is None:
            continue  # not among the calls that were shown
        decision = row.get("decision", "approve")
        if decision not in ("approve", "reject"):
            raise ptc.UsageError(f"decision must be 'approve' or 'reject', not {decision!r:.80}")
        # The call of a tool that the model called by itself has the arguments of the approval.
        own = (call.call, call.tool) == ("1", item.source_name)
        edited = arguments if own else row.get("arguments")
        if edited == call.arguments or decision == "reject":
            edited = None
        comment = str(row.get("comment", ""))
        await exports.decide(call, decision, by=by, arguments=edited, comment=comment)


def _row_of(call: ptc.PendingCall, listed: Any) -> Mapping[str, Any] | None:
    """Return the row of a call in the metadata of an approval."""
    rows = [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []
    return next((row for row in rows if row.get("call") == call.call), None)


# --- results ------------------------------------------------------------------------------------


def _tool_return(reply: Reply) -> ToolReturn[Any]:
    images = [
        BinaryContent(base64.b64decode(image.data), media_type=image.media_type)
        for image in reply.images
    ]
    metadata = {"run_id": None if reply.run is None else reply.run.run_id}
    return ToolReturn([reply.text, *images] if images else reply.text, metadata=metadata)
