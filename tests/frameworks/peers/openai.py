"""The OpenAI SDK: Responses API on a server on loopback; its registered functions as tools."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal

import ptc
from ptc_bindings.openai import as_tools

from ..contract import PICTURE, Observed, Peer, World, fail_with
from ..openai_server import called, response, said, serve

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def registered(
    name: str, execute: Callable[[dict[str, Any]], Awaitable[Any]], **properties: Any
) -> Any:
    from openai.lib.responses_tool_runner import AsyncRegisteredFunction

    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return AsyncRegisteredFunction(
        {
            "type": "function",
            "name": name,
            "description": f"Do {name}.",
            "parameters": {**schema, "additionalProperties": False},
            "strict": True,
        },
        execute,
    )


class Tested(Peer):
    name = "OpenAI SDK"
    distribution = "openai"
    extra = "openai"
    api: ClassVar[Literal["responses", "chat"]] = "responses"

    def tools(self, world: World) -> Mapping[str, Any]:
        async def add(sent: dict[str, Any]) -> str:
            return json.dumps(await world.add(sent["a"], sent["b"]))

        async def echo(sent: dict[str, Any]) -> str:
            return await world.echo(sent["text"])

        async def big(sent: dict[str, Any]) -> str:
            return await world.big(sent["size"])

        async def send(sent: dict[str, Any]) -> str:
            return await world.send(sent["to"])

        async def wait(sent: dict[str, Any]) -> str:
            return await world.wait()

        async def fail(sent: dict[str, Any]) -> str:
            return fail_with(sent["reason"])

        async def picture(sent: dict[str, Any]) -> Any:
            url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
            return [{"type": "input_image", "image_url": url, "detail": "auto"}]

        return {
            "add": registered("add", add, a=NUMBER, b=NUMBER),
            "echo": registered("echo", echo, text=TEXT),
            "big": registered("big", big, size=NUMBER),
            "send": registered("send", send, to=TEXT),
            "wait": registered("wait", wait),
            "fail": registered("fail", fail, reason=TEXT),
            "picture": registered("picture", picture),
        }

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
        items: list[Any] = [{"role": "user", "content": "Do it."}]
        with serve(response(called(tool, arguments)), response(said())) as server:
            async with server.client() as client:
                while True:
                    answer = await client.responses.create(model="m", input=items, tools=tools)
                    more = await tools.run_calls(answer)
                    if not more:
                        break
                    items += more
        output = server.requests[-1]["input"][-1]["output"]
        if isinstance(output, str):
            return Observed(output)
        texts = [part["text"] for part in output if part["type"] == "input_text"]
        return Observed("".join(texts), images=len(output) - len(texts))
