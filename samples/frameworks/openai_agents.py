"""An agent of the OpenAI Agents SDK sends one program. Its model is a fake, without a network."""

import anyio
from agents import Agent, Runner
from agents.testing import ScriptedModel, function_call
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.openai_agents import as_tools

MODEL = ScriptedModel([[function_call("program", {"source": PROGRAM}, call_id="1")]])


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        agent = Agent(
            "shop", model=MODEL, tools=as_tools(session), tool_use_behavior="stop_on_first_tool"
        )
        offline = {"tracing_disabled": True}
        result = await Runner.run(agent, "What is in stock, by price?", run_config=offline)
        print(result.final_output)


anyio.run(main)
