"""An agent of smolagents sends one program. python samples/frameworks/smolagents_agent.py"""

from fake_models import smolagents_model
from shop import TOOLS
from smolagents import ToolCallingAgent

from ptc import BlockingSession
from ptc_bindings.smolagents import as_tools

with BlockingSession(tools=TOOLS, toolsets=()) as session:
    agent = ToolCallingAgent(as_tools(session), model=smolagents_model(), verbosity_level=0)
    print(agent.run("What is in stock, by price?"))
