"""smolagents: an agent in a thread, with a model that requests one call."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import anyio
import anyio.to_thread

import ptc

from ..contract import AGENT_IN_A_THREAD, PICTURE, Observed, Peer, World, fail_with


def model_that_calls(*calls: tuple[str, Mapping[str, Any]]) -> Any:
    """Return a model that requests the calls one after the other, and then ends."""
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
        Model,
    )

    requests = iter([*calls, ("final_answer", {"answer": "done"})])

    class Scripted(Model):
        def generate(self, messages: Any, **_: Any) -> Any:
            name, arguments = next(requests)
            call = ChatMessageToolCallFunction(arguments=dict(arguments), name=name)
            return ChatMessage(
                role=MessageRole.ASSISTANT,
                tool_calls=[ChatMessageToolCall(function=call, id=name, type="function")],
            )

    return Scripted()


class Tested(Peer):
    name = "smolagents"
    distribution = "smolagents"
    extra = "smolagents"
    gaps: ClassVar = {
        ("in", "cancel"): "a tool of smolagents runs in a thread, which cannot be cancelled",
        ("out", "cancel"): AGENT_IN_A_THREAD,
    }

    def tools(self, world: World) -> Mapping[str, Any]:
        from PIL import Image
        from smolagents import tool

        def add(a: int, b: int) -> dict[str, int]:
            """Add two numbers.

            Args:
                a: The first number.
                b: The second number.
            """
            return anyio.run(world.add, a, b)

        def echo(text: str) -> str:
            """Return the text.

            Args:
                text: Any text.
            """
            return anyio.run(world.echo, text)

        def big(size: int) -> str:
            """Return many letters.

            Args:
                size: Number of letters.
            """
            return anyio.run(world.big, size)

        def send(to: str) -> str:
            """Send a message.

            Args:
                to: Receiver.
            """
            return anyio.run(world.send, to)

        def fail(reason: str) -> str:
            """Fail.

            Args:
                reason: Text of the error.
            """
            return fail_with(reason)

        def picture() -> Any:
            """Return a picture."""
            return Image.open(io.BytesIO(PICTURE))

        return {f.__name__: tool(f) for f in (add, echo, big, send, fail, picture)}

    def is_picture(self, data: bytes) -> bool:
        from PIL import Image

        found, wanted = (Image.open(io.BytesIO(item)).convert("RGB") for item in (data, PICTURE))
        return bool(found.tobytes() == wanted.tobytes())

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
        from smolagents import ActionStep, LogLevel, ToolCallingAgent

        from ptc_bindings.smolagents import as_tools

        agent = ToolCallingAgent(
            tools=as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits),
            model=model_that_calls((tool, arguments)),
            verbosity_level=LogLevel.OFF,
        )
        await anyio.to_thread.run_sync(agent.run, "start", abandon_on_cancel=True)
        step = next(step for step in agent.memory.steps if isinstance(step, ActionStep))
        if step.error is not None:
            return Observed(step.error.message, is_error=True)
        return Observed(step.observations or "", is_error=False)
