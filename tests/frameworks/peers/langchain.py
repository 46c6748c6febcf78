"""LangChain and LangGraph: `ptc_bindings.langchain`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import ptc
from ptc import Session
from ptc_bindings.langchain import as_tools

from ..contract import PICTURE, Observed, Peer, World


def scripted_model(*calls: tuple[str, Mapping[str, Any]]) -> Any:
    """Return LangChain's fake model, which makes these calls one after the other."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class FakeModel(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    messages = [
        AIMessage("", tool_calls=[{"name": name, "args": dict(arguments), "id": f"call-{number}"}])
        for number, (name, arguments) in enumerate(calls)
    ]
    return FakeModel(messages=iter([*messages, AIMessage("done")]))


CONFIG: Any = {"configurable": {"thread_id": "thread"}}


class Sender:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> ptc.Tool:
        def send(to: str) -> str:
            """Send a message."""
            self.sent.append(to)
            return f"sent to {to}"

        return ptc.tool(side_effect=True, idempotent=True, needs_approval=True)(send)


def open_session(root: Path, *tools: Any, **options: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), **{"workers": 1, **options})


def agent_of(session: Any, saver: Any, *calls: tuple[str, dict[str, Any]], **options: Any) -> Any:
    from langchain.agents import create_agent

    tools = as_tools(session, allowed_tools=session.tool_names(), **options)
    return create_agent(scripted_model(*calls), tools, checkpointer=saver)


def tool_messages(state: dict[str, Any]) -> list[Any]:
    return [message for message in state["messages"] if message.type == "tool"]


class Tested(Peer):
    name = "LangChain"
    distribution = "langchain"
    extra = "langchain"
    own_approvals: ClassVar = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from langchain_core.tools import StructuredTool, ToolException

        def fail(reason: str) -> str:
            """Fail."""
            raise ToolException(reason)

        def picture() -> list[dict[str, str]]:
            """Return a picture."""
            data = base64.b64encode(PICTURE).decode()
            return [{"type": "image", "base64": data, "mime_type": "image/png"}]

        wrap: Any = partial(StructuredTool.from_function, handle_tool_error=True)
        plain = [wrap(fail), wrap(picture)]
        methods = [world.add, world.echo, world.big, world.send, world.wait]
        return {tool.name: tool for tool in [*plain, *(wrap(coroutine=one) for one in methods)]}

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
        from langchain.agents import create_agent
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.types import Command

        tools = as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits)
        model = scripted_model((tool, arguments))
        agent: Any = create_agent(model, tools, checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "test"}}
        state = await agent.ainvoke({"messages": [("user", "Do it.")]}, config)
        while "__interrupt__" in state:
            answer: Any = Command(resume={"decisions": [{"type": decision}]})
            state = await agent.ainvoke(answer, config)
        [message] = [message for message in state["messages"] if message.type == "tool"]
        images = [part for part in message.content_blocks if part["type"] == "image"]
        return Observed(message.text, message.status == "error", len(images))
