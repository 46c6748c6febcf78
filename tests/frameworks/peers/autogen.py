"""AutoGen: its assistant agent, with the client that replays answers of a model."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import ptc

from ..contract import PICTURE, Observed, Peer, World, fail_with


class Tested(Peer):
    name = "AutoGen"
    distribution = "autogen-agentchat"
    extra = "autogen"
    gaps: ClassVar = {}

    def tools(self, world: World) -> Mapping[str, Any]:
        from autogen_core import Image
        from autogen_core.tools import FunctionTool
        from PIL import Image as Pillow

        async def fail(reason: str) -> str:
            return fail_with(reason)

        def picture() -> Any:
            return Image(Pillow.open(io.BytesIO(PICTURE)))

        plain = [world.add, world.echo, world.big, world.send, world.wait, fail, picture]
        return {f.__name__: FunctionTool(f, description="A tool.") for f in plain}

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
        from autogen_agentchat.agents import AssistantAgent
        from autogen_core import FunctionCall
        from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
        from autogen_ext.models.replay import ReplayChatCompletionClient

        from ptc_bindings.autogen import as_tools

        call = FunctionCall(id="1", name=tool, arguments=json.dumps(dict(arguments)))
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        answers = [
            CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False),
            "done",
        ]
        info = ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )
        agent = AssistantAgent(
            "agent",
            model_client=ReplayChatCompletionClient(answers, model_info=info),
            tools=as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits),
        )
        result = await agent.run(task="start")
        [found] = next(
            message.content
            for message in result.messages
            if message.type == "ToolCallExecutionEvent"
        )
        return Observed(found.content, found.is_error)
