"""An agent of CrewAI sends one program. python samples/frameworks/crewai_agent.py"""

from crewai import Agent
from fake_models import crewai_model
from shop import TOOLS

from ptc import BlockingSession
from ptc_bindings.crewai import as_tools

with BlockingSession(tools=TOOLS, toolsets=()) as session:
    agent = Agent(
        role="Buyer",
        goal="Know the stock",
        backstory="Works in a shop.",
        tools=as_tools(session),
        llm=crewai_model(),
    )
    print(agent.kickoff("What is in stock, by price?").raw)
