"""Function tools of the OpenAI Agents SDK as tools of ptc.

Rule 1: an exception is a failure; the tool's ``failure_error_function`` only words it.
    tests/frameworks/test_openai_agents.py::test_failure_function_never_makes_a_failure_a_result
Rule 2: guardrails, ``is_enabled`` and ``needs_approval`` of the tool apply to calls of scripts.
    tests/frameworks/test_openai_agents.py::test_guardrails_of_a_tool_apply
    tests/frameworks/test_openai_agents.py::test_approval_of_a_tool_pauses_a_script
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_type_hints

from agents import (
    Agent,
    FunctionTool,
    ModelBehaviorError,
    RunContextWrapper,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
)
from agents.agent_tool_state import consume_agent_tool_run_result
from agents.tool import (
    default_tool_error_function,
    resolve_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall

import ptc

from ._foreign import foreign_tool
from ._mcp_specs import identifier
from ._openai_results import read_output
from ._openai_schema import relaxed

__all__ = ["convert"]

_REJECTED = "Invalid JSON input for tool"
"""Start of the SDK's error for arguments that the tool's own types reject."""


def convert(
    tool: Any, *, context: Any = None, agent: Agent[Any] | None = None, given: bool = False
) -> ptc.Tool:
    """Convert a function tool.

    Args:
        tool: The tool.
        context: Context of the application, for the tool's function.
        agent: Agent that guardrails see.
        given: True: the caller passed a context.

    Raises:
        UsageError: If it cannot be called outside of an agent.
    """
    _check(tool, given=given)
    native = _Native(tool, context, agent or Agent(name="ptc"))
    side_effect, idempotent = _effects(tool)
    made = foreign_tool(
        ".".join(identifier(part) for part in tool.qualified_name.split(".")),
        tool.description,
        relaxed(tool.params_json_schema),
        native.call,
        side_effect=side_effect,
        idempotent=idempotent,
        result_schema=tool.output_json_schema,
    )
    timeout = tool.timeout_seconds
    return replace(
        made,
        needs_approval=native.approval(),
        timeout_ms=None if timeout is None else max(1, int(timeout * 1000)),
    )


def _check(tool: Any, *, given: bool) -> None:
    if isinstance(tool, Agent):
        msg = f"the agent {tool.name!r:.80} is not a tool; pass agent.as_tool(name, description)"
        raise ptc.UsageError(msg)
    name = getattr(tool, "name", type(tool).__name__)
    if not isinstance(tool, FunctionTool):
        msg = f"{name!r:.80} is a {type(tool).__name__}: only a FunctionTool can be called here"
        raise ptc.UsageError(msg)
    if tool.is_enabled is False:
        raise ptc.UsageError(f"the tool {name!r:.80} is disabled: is_enabled=False")
    if not given and _takes_context(tool):
        msg = (
            f"the function of {name!r:.80} takes the context of an agent's run; pass "
            "ptc_bindings.openai_agents.with_context([tool], context)"
        )
        raise ptc.UsageError(msg)


def _takes_context(tool: FunctionTool) -> bool:
    try:
        function = tool.__wrapped__
        first = next(iter(inspect.signature(function).parameters.values()), None)
        hint = None if first is None else get_type_hints(function).get(first.name)
    except (AttributeError, NameError, TypeError, ValueError):  # not made by `function_tool`
        return False
    kind: Any = getattr(hint, "__origin__", hint)
    return inspect.isclass(kind) and issubclass(kind, RunContextWrapper)


def _effects(tool: FunctionTool) -> tuple[bool, bool]:
    """Return whether a tool has a side effect, and whether its calls may be repeated."""
    hints = getattr(tool, "mcp_annotations", None)  # from 0.24
    reads = getattr(hints, "readOnlyHint", getattr(hints, "read_only_hint", None)) is True
    again = getattr(hints, "idempotentHint", getattr(hints, "idempotent_hint", None)) is True
    return not reads, reads or again


class _Native:
    """A function tool that raises its exceptions, and the context of its calls."""

    def __init__(self, tool: FunctionTool, context: Any, agent: Agent[Any]) -> None:
        self.tool = copy.copy(tool)
        self.words = resolve_function_tool_failure_error_function(tool)
        set_function_tool_failure_error_function(self.tool, None)
        self.context = context
        self.agent = agent

    async def call(self, arguments: dict[str, Any], ctx: ptc.ToolContext) -> ptc.ToolResult:
        """Call the tool."""
        call = ResponseFunctionToolCall(
            arguments=json.dumps(arguments, ensure_ascii=False),
            call_id=ctx.call_id,
            name=self.tool.name,
            type="function_call",
        )
        about = ToolContext(
            self.context,
            tool_name=call.name,
            tool_call_id=call.call_id,
            tool_arguments=call.arguments,
            tool_call=call,
            agent=self.agent,
        )
        await self._check_enabled(about)
        for guardrail in self.tool.tool_input_guardrails or ():
            data = ToolInputGuardrailData(context=about, agent=self.agent)
            _raise_rejection(await guardrail.run(data), guardrail.get_name())
        try:
            output = await self.tool.on_invoke_tool(about, call.arguments)
        except Exception as error:
            if isinstance(error, ModelBehaviorError) and str(error).startswith(_REJECTED):
                raise ptc.ToolError(str(error), code="invalid_arguments") from None
            text = await self._author_text(about, error)
            if text is None:
                raise
            raise ptc.ToolError(text) from error
        _refuse_interruption(call)
        for guard in self.tool.tool_output_guardrails or ():
            data = ToolOutputGuardrailData(context=about, agent=self.agent, output=output)
            _raise_rejection(await guard.run(data), guard.get_name())
        result = read_output(output, ctx)
        spent = about.usage
        if not spent.requests:
            return result
        # Of the models of an agent that is a tool.
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        return replace(result, metadata={"usage": {name: getattr(spent, name) for name in names}})

    def approval(self) -> Any:
        """Return the tool's approval rule as one of ptc."""
        rule = self.tool.needs_approval
        if not callable(rule):
            return bool(rule)

        async def requires(arguments: Mapping[str, Any]) -> bool:
            return bool(await _result(rule(RunContextWrapper(self.context), dict(arguments), "")))

        return requires

    async def _check_enabled(self, about: ToolContext[Any]) -> None:
        enabled = self.tool.is_enabled
        if callable(enabled) and not await _result(enabled(about, self.agent)):
            raise ptc.ToolError("the tool is disabled: its is_enabled returned False")

    async def _author_text(self, about: ToolContext[Any], error: Exception) -> str | None:
        """Return the text of the author for an error; None: there is none."""
        if self.words is None or self.words is default_tool_error_function:
            return None
        return str(await _result(self.words(about, error)))


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _raise_rejection(found: Any, guardrail: str) -> None:
    behavior = found.behavior
    if behavior["type"] == "reject_content":
        raise ptc.ToolError(behavior["message"], code="rejected")
    if behavior["type"] == "raise_exception":
        raise ptc.ToolError(f"the guardrail {guardrail!r:.80} was triggered", code="rejected")


def _refuse_interruption(call: ResponseFunctionToolCall) -> None:
    """Raise if an agent that is a tool awaits an approval: its result would be None."""
    nested = consume_agent_tool_run_result(call)
    waiting = [item.name for item in getattr(nested, "interruptions", None) or ()]
    if waiting:
        msg = (
            f"the agent behind this tool awaits approval of {', '.join(map(str, waiting))}, which "
            "cannot be given here; use tools that need none, or pass them to the session itself"
        )
        raise ptc.ToolError(msg, code="approval_required")
