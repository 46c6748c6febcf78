"""The OpenAI Agents SDK, with its own scripted model."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc
from ptc_bindings.openai_agents import as_tools

from ..contract import PICTURE, Observed, Peer, World, fail_with


class Tested(Peer):
    name = "OpenAI Agents SDK"
    distribution = "openai-agents"
    extra = "openai-agents"
    own_approvals: ClassVar[bool] = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from agents import ToolOutputImage, function_tool

        def fail(reason: str) -> str:
            """Fail."""
            return fail_with(reason)

        def picture() -> Any:
            """Return a picture."""
            data = base64.b64encode(PICTURE).decode()
            return ToolOutputImage(image_url=f"data:image/png;base64,{data}")

        plain: list[Any] = [world.add, world.echo, world.big, world.wait, fail, picture]
        send = function_tool(world.send, needs_approval=True)
        return {"send": send, **{f.__name__: function_tool(f) for f in plain}}

    async def ask(
        self,
        session: ptc.Session,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        allowed_tools: list[str],
        direct: bool = False,
        decision: Literal["approve", "reject"] = "approve",
        limits: ptc.Limits | None = None,
    ) -> Observed:
        from agents import Agent, RunConfig, Runner
        from agents.testing import ScriptedModel, assistant_message, function_call

        tools = as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits)
        steps = [
            [function_call(tool, dict(arguments), call_id="call_1")],
            [assistant_message("done")],
        ]
        model = ScriptedModel(steps)
        agent = Agent(name="tester", model=model, tools=tools)
        quiet = RunConfig(tracing_disabled=True)
        result: Any = await Runner.run(agent, "Do it.", run_config=quiet)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                state.approve(item) if decision == "approve" else state.reject(item)
            result = await Runner.run(agent, state, run_config=quiet)
        [item] = [item for item in result.new_items if item.type == "tool_call_output_item"]
        assert model.last_call is not None
        output = model.last_call.input[-1]["output"]
        is_error = item.custom_data["ptc"]["is_error"]
        if isinstance(output, str):
            return Observed(output, is_error=is_error)
        texts = [part["text"] for part in output if part["type"] == "input_text"]
        return Observed("".join(texts), is_error, images=len(output) - len(texts))
