"""Anthropic's SDK: its tool runner, with a transport that answers as the Messages API does."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Literal

import ptc
from ptc_bindings.anthropic import as_tools

from ..contract import PICTURE, Observed, Peer, World


class Tested(Peer):
    name = "Anthropic SDK"
    distribution = "anthropic"
    extra = "anthropic"

    def tools(self, world: World) -> Mapping[str, Any]:
        from anthropic.lib.tools import ToolError, beta_async_tool, beta_tool

        def fail(reason: str) -> str:
            """Fail."""
            raise ToolError(reason)

        def picture() -> Any:
            """Return a picture."""
            data = base64.b64encode(PICTURE).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            return [{"type": "image", "source": source}]

        async def add(a: int, b: int) -> str:
            """Add two numbers."""
            return json.dumps(await world.add(a, b))

        methods: list[Any] = [add, world.echo, world.big, world.send, world.wait]
        made = [*map(beta_async_tool, methods), beta_tool(fail), beta_tool(picture)]
        return {tool.name: tool for tool in made}

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
        import httpx2
        from anthropic import AsyncAnthropic

        requests: list[Any] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            requests.append(json.loads(request.content))
            block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": dict(arguments)}
            ended = len(requests) > 1
            return httpx2.Response(
                200, json=message_of({"type": "text", "text": "done"} if ended else block)
            )

        transport = httpx2.MockTransport(answer)
        async with (
            httpx2.AsyncClient(transport=transport) as http,
            AsyncAnthropic(api_key="none", http_client=http) as client,
        ):
            runner = client.beta.messages.tool_runner(
                model="claude-fake",
                max_tokens=100,
                messages=[{"role": "user", "content": "go"}],
                tools=as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits),
            )
            await runner.until_done()
        [result] = requests[1]["messages"][-1]["content"]
        content = result["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        return Observed(
            "\n".join(texts),
            is_error=result.get("is_error", False),
            images=len(blocks) - len(texts),
        )


def message_of(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message as the API returns it."""
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-fake",
        "content": list(blocks),
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **more,
    }
