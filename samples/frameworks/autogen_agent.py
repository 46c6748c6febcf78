"""An agent of AutoGen sends one program. python samples/frameworks/autogen_agent.py"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from fake_models import autogen_model
from shop import TOOLS

from ptc import Session
from ptc_bindings.autogen import as_tools


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        agent = AssistantAgent("shop", model_client=autogen_model(), tools=as_tools(session))
        result = await agent.run(task="What is in stock, by price?")
    print(result.messages[-1].content)


asyncio.run(main())
