"""An agent of Google ADK sends one program. python samples/frameworks/google_adk_agent.py"""

import asyncio

from fake_models import google_adk_model
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from shop import TOOLS

from ptc import Session
from ptc_bindings.google_adk import as_tools


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        agent = LlmAgent(name="shop", model=google_adk_model(), tools=as_tools(session))
        events = await InMemoryRunner(agent).run_debug("What is in stock?", quiet=True)
    print(events[-1].content.parts[0].text)


asyncio.run(main())
