"""The OpenAI SDK: Chat Completions API on a server on loopback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc
from ptc_bindings.openai import as_tools

from ..contract import Observed, Peer
from ..openai_server import chat_called, completion, serve


class Tested(Peer):
    name = "OpenAI SDK, chat"
    distribution = "openai"
    extra = "openai"
    gaps: ClassVar = {("in", "*"): "the SDK runs functions for the Responses API only"}

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
        tools = as_tools(
            session, allowed_tools=allowed_tools, direct=direct, limits=limits, api="chat"
        )
        messages: list[Any] = [{"role": "user", "content": "Do it."}]
        with serve(completion(chat_called(tool, arguments)), completion(text="done")) as server:
            async with server.client() as client:
                while True:
                    answer = await client.chat.completions.create(
                        model="m", messages=messages, tools=tools
                    )
                    more = await tools.run_calls(answer)
                    if not more:
                        break
                    messages += more
        sent = server.requests[-1]["messages"]
        text = next(item["content"] for item in sent if item["role"] == "tool")
        images = [
            part
            for item in sent
            if item["role"] == "user" and isinstance(item["content"], list)
            for part in item["content"]
            if part["type"] == "image_url"
        ]
        return Observed(text, images=len(images))
