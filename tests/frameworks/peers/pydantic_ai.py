"""pydantic-ai, with its `FunctionModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import ptc
from ptc_bindings.pydantic_ai import as_tools

from ..contract import PICTURE, Observed, Peer, World


class Tested(Peer):
    name = "pydantic-ai"
    distribution = "pydantic-ai-slim"
    extra = "pydantic-ai"
    own_approvals = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from pydantic_ai import BinaryContent, ModelRetry, Tool

        def fail(reason: str) -> str:
            """Fail."""
            raise ModelRetry(reason)

        def picture() -> Any:
            """Return a picture."""
            return BinaryContent(PICTURE, media_type="image/png")

        plain: list[Any] = [world.add, world.echo, world.big, world.wait, fail, picture]
        made = [Tool(function) for function in plain]
        send = Tool(world.send, requires_approval=True)
        return {tool.name: tool for tool in [*made, send]}

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
        from pydantic_ai import Agent, DeferredToolRequests
        from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        seen: list[Any] = []

        def answer(messages: list[Any], info: Any) -> ModelResponse:
            seen[:] = [p for p in messages[-1].parts if p.part_kind == "tool-return"]
            part = TextPart("done") if seen else ToolCallPart(tool, dict(arguments))
            return ModelResponse([part])

        tools = as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits)
        agent: Any = Agent(
            FunctionModel(answer), tools=tools, output_type=[str, DeferredToolRequests]
        )
        result = await agent.run("go")
        if isinstance(result.output, DeferredToolRequests):
            approve = decision == "approve"
            approvals = {call.tool_call_id: approve for call in result.output.approvals}
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=result.output.build_results(approvals=approvals),
            )
        [part] = seen
        content = part.content if isinstance(part.content, list) else [part.content]
        images = [item for item in content if isinstance(item, BinaryContent)]
        texts = [str(item) for item in content if not isinstance(item, BinaryContent)]
        return Observed("\n".join(texts), is_error=part.outcome != "success", images=len(images))
