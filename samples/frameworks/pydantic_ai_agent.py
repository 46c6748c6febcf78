"""An agent of pydantic-ai sends one program. Its model is a fake, without a network."""

import anyio
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.pydantic_ai import as_tools


def answer(messages, info):
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(last.model_response_str())])
    return ModelResponse([ToolCallPart("program", {"source": PROGRAM})])


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        agent = Agent(FunctionModel(answer), tools=as_tools(session))
        print((await agent.run("What is in stock, by price?")).output)


anyio.run(main)
