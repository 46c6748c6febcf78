"""LlamaIndex: `ptc_bindings.llama_index`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc
from ptc_bindings.llama_index import as_tools

from ..contract import PICTURE, Observed, Peer, World, fail_with


def scripted_agent(tools: list[Any], *turns: list[tuple[str, Mapping[str, Any]]]) -> Any:
    """Return an agent whose mock model makes these calls, those of a turn at the same time."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    messages = [
        ChatMessage(
            role="assistant",
            blocks=[
                ToolCallBlock(
                    tool_call_id=f"{name}-{n}", tool_name=name, tool_kwargs=dict(arguments)
                )
                for n, (name, arguments) in enumerate(calls)
            ],
        )
        for calls in turns
    ]
    answers = iter([*messages, ChatMessage(role="assistant", content="done")])
    model: Any = MockFunctionCallingLLM(response_generator=lambda *_, **__: next(answers))
    return FunctionAgent(tools=tools, llm=model)


async def finish(agent: Any, answer: Any = None) -> list[Any]:
    """Run an agent, answer its questions, and return the outputs of its tools."""
    from llama_index.core.agent.workflow import ToolCallResult
    from llama_index.core.workflow import HumanResponseEvent, InputRequiredEvent

    handler = agent.run(user_msg="Do it.")
    outputs = []
    try:
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(**answer(event)))
            if isinstance(event, ToolCallResult):
                outputs.append(event.tool_output)
        await handler
    except asyncio.CancelledError:
        await asyncio.shield(handler.cancel_run())
        raise
    return outputs


class Tested(Peer):
    name = "LlamaIndex"
    distribution = "llama-index-core"
    extra = "llama-index"
    own_approvals: ClassVar = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from llama_index.core.base.llms.types import ImageBlock
        from llama_index.core.tools import FunctionTool

        def fail(reason: str) -> str:
            """Fail."""
            return fail_with(reason)

        def picture() -> Any:
            """Return a picture."""
            return ImageBlock(image=PICTURE)

        wrap: Any = FunctionTool.from_defaults
        methods = [world.add, world.echo, world.big, world.send, world.wait]
        made = [wrap(fail), wrap(picture), *(wrap(async_fn=one) for one in methods)]
        return {tool.metadata.get_name(): tool for tool in made}

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
        tools = as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits)

        def answer(event: Any) -> dict[str, Any]:
            return {"run_id": event.run_id, "call": event.call, "response": decision}

        agent = scripted_agent([*tools], [(tool, arguments)])
        [output] = await finish(agent, answer)
        images = [block for block in output.blocks if block.block_type == "image"]
        return Observed(output.content, output.is_error, len(images))
