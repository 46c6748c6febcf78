"""CrewAI: an agent with a model that requests one call."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import anyio.to_thread

import ptc

from ..contract import AGENT_IN_A_THREAD, Observed, Peer, World, fail_with


def model_that_calls(
    name: str, arguments: Mapping[str, Any], seen: list[str], times: int = 1
) -> Any:
    """Return a model that requests a call, keeps the results in `seen`, and ends."""
    os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
    from crewai import BaseLLM

    class Scripted(BaseLLM):
        def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
            found = [row["content"] for row in messages if row.get("role") == "tool"]
            if len(found) >= times:
                seen.extend(found)
                return "Final Answer: done"
            call = {"name": name, "arguments": json.dumps(dict(arguments))}
            return [{"id": "1", "type": "function", "function": call}]

        def supports_function_calling(self) -> bool:
            return True

    return Scripted(model="scripted")


class Tested(Peer):
    name = "CrewAI"
    distribution = "crewai"
    extra = "crewai"
    gaps: ClassVar = {
        ("in", "binary"): "CrewAI has no type for images of a tool",
        ("out", "cancel"): AGENT_IN_A_THREAD,
    }

    def tools(self, world: World) -> Mapping[str, Any]:
        from crewai.tools import tool

        async def fail(reason: str) -> str:
            """Fail."""
            return fail_with(reason)

        plain = [world.add, world.echo, world.big, world.send, world.wait, fail]
        return {function.__name__: tool(function) for function in plain}

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
        from crewai import Agent

        from ptc_bindings.crewai import as_tools

        seen: list[str] = []
        agent = Agent(
            role="tester",
            goal="test",
            backstory="A test.",
            tools=as_tools(session, allowed_tools=allowed_tools, direct=direct, limits=limits),
            llm=model_that_calls(tool, arguments, seen),
            verbose=False,
        )
        await anyio.to_thread.run_sync(agent.kickoff, "start", abandon_on_cancel=True)
        return Observed(seen[0])
