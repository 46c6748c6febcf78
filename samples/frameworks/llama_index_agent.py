"""A LlamaIndex agent sends one program. Its model is a fake, without a network."""

import anyio
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.llama_index import as_tools

CALL = ChatMessage(blocks=[ToolCallBlock(tool_name="program", tool_kwargs={"source": PROGRAM})])


def answer(messages, **_):
    return messages[-1] if len(messages) > 1 else CALL


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        model = MockFunctionCallingLLM(response_generator=answer)
        print(await FunctionAgent(tools=[*as_tools(session)], llm=model).run("What is in stock?"))


anyio.run(main)
