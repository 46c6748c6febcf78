"""A LangChain agent sends one program. Its model is a fake, without a network."""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from shop import PROGRAM, TOOLS

from ptc import BlockingSession
from ptc_bindings.langchain import as_tools


class Fake(FakeMessagesListChatModel):
    def bind_tools(self, tools, **options):
        return self


CALL = {"name": "program", "args": {"source": PROGRAM}, "id": "1"}
model = Fake(responses=[AIMessage("", tool_calls=[CALL]), AIMessage("Done.")])
with BlockingSession(tools=TOOLS, toolsets=()) as session:
    agent = create_agent(model, as_tools(session))
    state = agent.invoke({"messages": [("user", "What is in stock, by price?")]})
print(state["messages"][2].content)
