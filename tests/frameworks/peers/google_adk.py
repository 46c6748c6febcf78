"""Google ADK, with a model that sends one function call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, Literal

import ptc

from ..contract import PICTURE, Observed, Peer, World, fail_with


def model_that_calls(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return a model that requests a call, and again while the result asks for that."""
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):
        model: str = "scripted"

        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncIterator[Any]:
            last = llm_request.contents[-1].parts[-1]
            part = types.Part.from_text(text="done")
            response = last.function_response and last.function_response.response
            if response is None or "Call this tool again" in response.get("next", ""):
                part = types.Part.from_function_call(name=name, args=dict(arguments))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    return Scripted()


async def converse(model: Any, tools: list[Any], *, confirmed: bool) -> list[Any]:
    """Run an agent; answer its requests for confirmation; return the results of its tools."""
    from google.adk.agents import LlmAgent
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = LlmAgent(name="agent", model=model, tools=tools)
    runner = InMemoryRunner(agent, app_name="test")
    await runner.session_service.create_session(app_name="test", user_id="ann", session_id="s")
    results = []
    parts = [types.Part.from_text(text="start")]
    while parts:
        message = types.Content(role="user", parts=parts)
        parts = []
        async for event in runner.run_async(user_id="ann", session_id="s", new_message=message):
            results += event.get_function_responses()
            for call in event.get_function_calls():
                if call.name == "adk_request_confirmation":
                    answer = types.FunctionResponse(
                        id=call.id, name=call.name, response={"confirmed": confirmed}
                    )
                    parts.append(types.Part(function_response=answer))
    await runner.close()
    return results


class Tested(Peer):
    name = "Google ADK"
    distribution = "google-adk"
    extra = "google-adk"
    own_approvals: ClassVar = True

    def tools(self, world: World) -> Mapping[str, Any]:
        from google.adk.tools import FunctionTool
        from google.genai import types

        async def fail(reason: str) -> str:
            """Fail."""
            return fail_with(reason)

        async def picture() -> Any:
            """Return a picture."""
            return types.Part.from_bytes(data=PICTURE, mime_type="image/png")

        plain = [world.add, world.echo, world.big, world.wait, fail, picture]
        send = FunctionTool(world.send, require_confirmation=True)
        return {**{f.__name__: FunctionTool(f) for f in plain}, "send": send}

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
        from ptc_bindings.google_adk import as_tools

        tools = as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits)
        results = await converse(
            model_that_calls(tool, arguments), tools, confirmed=decision == "approve"
        )
        last = results[-1]
        text = json.dumps(last.response, ensure_ascii=False)
        texts = last.response.get("error") or last.response.get("result") or text
        return Observed(
            texts if isinstance(texts, str) else text,
            "error" in last.response,
            len(last.parts or ()),
        )
