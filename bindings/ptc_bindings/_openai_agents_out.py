"""Tools of a session as function tools of the OpenAI Agents SDK, with its approvals.

The SDK asks for an approval before a call, but a script needs one in its middle. An agent that is a
tool may be interrupted at any time. So a tool that may pause is such an agent: its model makes the
calls of `Exports`, and requests each pending call as a tool that needs approval. The SDK saves and
restores it with the state of the run.

Rule 1: a call that awaits approval is decided by the SDK alone, each call on its own.
    tests/frameworks/test_openai_agents.py::test_each_call_of_a_script_is_decided_on_its_own
Rule 2: a decision survives the process.
    tests/frameworks/test_openai_agents.py::test_interrupted_run_continues_from_its_saved_state
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    RunConfig,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    get_current_span,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

import ptc
from ptc._tools._names import provider_names

from ._export import Exports
from ._openai_calls import data_url
from ._openai_offers import Offer
from ._reply import Reply, reply_of_error

if TYPE_CHECKING:
    _Model = object
else:
    from agents import Model as _Model

__all__ = ["function_tool"]

_MOST_ROUNDS = 10_000
"""Approvals of one script, one after the other."""


def function_tool(exports: Exports, offer: Offer, approved_by: str) -> FunctionTool:
    """Make a function tool.

    Args:
        exports: Makes the calls.
        offer: Definition of the tool.
        approved_by: Name of the approver in the record of a decision.
    """
    if offer.tool.needs_approval:
        return _pausing_tool(exports, offer, approved_by)
    facts: WeakKeyDictionary[Any, Reply] = WeakKeyDictionary()

    async def invoke(context: Any, arguments: str) -> Any:
        try:
            reply = await exports.call(offer.tool.name, offer.read(arguments))
        except ptc.UsageError as error:
            reply = reply_of_error(error)
        context.usage.add(_usage(reply))
        facts[context] = reply
        return _output(offer, reply)

    return FunctionTool(
        name=offer.tool.name,
        description=offer.description,
        params_json_schema=dict(offer.parameters or {}),
        on_invoke_tool=invoke,
        strict_json_schema=offer.strict,
        custom_data_extractor=lambda about: _custom_data(facts.pop(about.tool_context, None)),
    )


def _output(offer: Offer, reply: Reply) -> Any:
    """Convert a reply to the output of a tool, and mark the span of a failure."""
    if reply.is_error:
        span = get_current_span()
        if span is not None:
            data = {"tool_name": offer.tool.name, "error": reply.code}
            span.set_error({"message": "Error running tool", "data": data})
    text = reply.text.encode(errors="replace").decode()
    if not reply.images:
        return text
    images = [ToolOutputImage(image_url=data_url(image)) for image in reply.images]
    return [ToolOutputText(text=text), *images]


def _custom_data(reply: Reply | None) -> dict[str, Any] | None:
    if reply is None:
        return None
    about: dict[str, Any] = {"is_error": reply.is_error, "code": reply.code}
    if reply.run is not None:
        about |= {"run_id": reply.run.run_id, "status": reply.run.status}
    return {"ptc": about}


# --- calls that may pause -----------------------------------------------------------------------


def _pausing_tool(exports: Exports, offer: Offer, approved_by: str) -> FunctionTool:
    tools = exports.session.select_tools(exports.allowed_tools)
    names = provider_names(name for name, tool in tools.items() if tool.needs_approval is not False)
    replies: dict[str, Reply] = {}
    facts: WeakKeyDictionary[Any, Reply] = WeakKeyDictionary()

    async def extract(result: Any) -> Any:
        return replies.pop(_request(result.input)["run_id"])

    model: Any = _ScriptModel(exports, offer, approved_by, names, replies)
    asked: Any = [
        _approval_tool(exports, tools[name], public, approved_by) for name, public in names.items()
    ]
    agent: Agent[Any] = Agent(name=offer.tool.name, model=model, tools=asked)
    tool = agent.as_tool(
        offer.tool.name,
        offer.description,
        custom_output_extractor=extract,
        # Not that of the outer run: its `model` would replace this agent's. Arguments of nested
        # calls are in ptc's journal, and need not be in a trace.
        run_config=RunConfig(trace_include_sensitive_data=False),
        max_turns=_MOST_ROUNDS,
        failure_error_function=None,
    )
    run_agent = tool.on_invoke_tool

    async def invoke(context: Any, arguments: str) -> Any:
        try:
            # The input is part of a saved state: another process finds the run by its name. If the
            # agent was interrupted, it continues with its own input.
            run_id = f"agents-{uuid.uuid4().hex}"
            request = json.dumps({"run_id": run_id, "arguments": offer.read(arguments)})
            found = await run_agent(context, json.dumps({"input": request}))
        except ptc.UsageError as error:
            found = reply_of_error(error)
        if not isinstance(found, Reply):  # interrupted
            return found
        facts[context] = found
        return _output(offer, found)

    return replace(
        tool,
        params_json_schema=dict(offer.parameters or {}),
        on_invoke_tool=invoke,
        strict_json_schema=offer.strict,
        custom_data_extractor=lambda about: _custom_data(facts.pop(about.tool_context, None)),
    )


def _approval_tool(exports: Exports, tool: ptc.Tool, public: str, approved_by: str) -> FunctionTool:
    """Make a tool that approves a pending call of `tool`."""

    async def approve(context: Any, _arguments: str) -> str:
        run_id, _, call = context.tool_call_id.partition(".")
        for pending in await exports.session.pending(run_id):
            if pending.call == call:
                try:
                    await exports.decide(pending, "approve", by=approved_by)
                except ptc.UsageError as error:  # expired, or decided elsewhere
                    return str(error)
        return "approved"

    return FunctionTool(
        name=public,
        description=tool.description,
        params_json_schema=dict(tool.parameters),
        on_invoke_tool=approve,
        strict_json_schema=False,
        needs_approval=True,
    )


class _ScriptModel(_Model):
    """Model of an agent that is a tool: runs the call, and requests approvals as calls."""

    def __init__(
        self,
        exports: Exports,
        offer: Offer,
        approved_by: str,
        names: Mapping[str, str],
        replies: dict[str, Reply],
    ) -> None:
        self._exports = exports
        self._offer = offer
        self._approved_by = approved_by
        self._names = names
        self._replies = replies

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        request = _request(input)
        run_id = request["run_id"]
        outputs = {
            item["call_id"]: item["output"]
            for item in (input if isinstance(input, list) else ())
            if item.get("type") == "function_call_output"
        }
        if outputs:
            await self._reject(run_id, outputs)
            reply = await self._exports.resume(run_id)
        else:
            name, arguments = self._offer.tool.name, request["arguments"]
            reply = await self._exports.call(name, arguments, run_id=run_id)
        asked = [call for call in reply.pending if _call_id(call) not in outputs]
        if asked and len(asked) == len(reply.pending) and all(map(self._can_ask, asked)):
            return _response([self._request_approval(call) for call in asked], reply)
        self._replies[run_id] = reply
        return _response([_message(reply.text)], reply)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("an agent that is a tool is not streamed")

    def _can_ask(self, pending: ptc.PendingCall) -> bool:
        return pending.kind == "approval" and pending.tool in self._names

    def _request_approval(self, pending: ptc.PendingCall) -> Any:
        return ResponseFunctionToolCall(
            arguments=json.dumps(pending.arguments),
            call_id=_call_id(pending),
            name=self._names[pending.tool],
            type="function_call",
        )

    async def _reject(self, run_id: str, outputs: Mapping[str, Any]) -> None:
        """Reject the calls that the SDK answered although nobody approved them."""
        for pending in await self._exports.session.pending(run_id):
            if (text := outputs.get(_call_id(pending))) is not None:
                # It may have expired meanwhile: the run reports that.
                with contextlib.suppress(ptc.UsageError):
                    by = self._approved_by
                    await self._exports.decide(pending, "reject", by=by, comment=str(text))


def _call_id(pending: ptc.PendingCall) -> str:
    return f"{pending.run_id}.{pending.call}"


def _request(sent: Any) -> dict[str, Any]:
    """Read the input of the agent."""
    text = sent if isinstance(sent, str) else sent[0]["content"]
    request: dict[str, Any] = json.loads(text)
    return request


def _response(output: list[Any], reply: Reply) -> Any:
    return ModelResponse(output=output, usage=_usage(reply), response_id=None)


def _usage(reply: Reply) -> Any:
    """Return the usage of models that tools called, for the usage of the agent's run."""
    spent = reply.model_usage
    return Usage(
        requests=spent.requests,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        total_tokens=spent.input_tokens + spent.output_tokens,
    )


def _message(text: str) -> Any:
    return ResponseOutputMessage(
        id="message",
        content=[ResponseOutputText(annotations=[], text=text, type="output_text")],
        role="assistant",
        status="completed",
        type="message",
    )
