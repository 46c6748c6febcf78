"""A LangChain agent sends one program. Run: python samples/frameworks/langchain_agent.py"""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import Tool

from ptc import BlockingSession
from ptc_bindings.langchain import as_tools

SHOP = {"tea": (3.20, 12), "coffee": (5.75, 0), "sugar": (0.90, 40)}
price: Any = Tool("price", lambda item: SHOP[item][0], "Price of an item.")
stock: Any = Tool("stock", lambda item: SHOP[item][1], "Number in stock.")
SCRIPT = """items = [i for i in ("tea", "coffee", "sugar") if await ctx.stock(i)]
sorted([(i, await ctx.price(i)) for i in items], key=lambda row: row[1])"""
SEND = AIMessage("", tool_calls=[{"name": "program", "args": {"source": SCRIPT}, "id": "1"}])
MODEL = type("Fake", (FakeMessagesListChatModel,), {"bind_tools": lambda self, *_, **__: self})
with BlockingSession(tools=[price, stock], toolsets=()) as session:
    tools: Any = as_tools(session, allowed_tools=["price", "stock"])
    agent: Any = create_agent(MODEL(responses=[SEND, AIMessage("Done.")]), tools)
    state = agent.invoke({"messages": [("user", "What is in stock?")]})
print(state["messages"][2].content)
