"""A LlamaIndex agent sends one program. Run: python samples/frameworks/llama_index_agent.py"""

import anyio
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM as Mock

from ptc import Session, define_tool
from ptc_bindings.llama_index import as_tools

SHOP = {"tea": (3.20, 12), "coffee": (5.75, 0), "sugar": (0.90, 40)}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = define_tool("price", "Price of an item.", ITEM, lambda row: SHOP[row["item"]][0])
stock = define_tool("stock", "Number in stock.", ITEM, lambda row: SHOP[row["item"]][1])
CODE = "sorted([(i, await ctx.price(i)) for i in inputs if await ctx.stock(i)], key=lambda r: r[1])"
CALL = ToolCallBlock(tool_name="program", tool_kwargs={"source": CODE, "inputs": SHOP})
MODEL = Mock(response_generator=lambda m, **_: m[-1] if m[1:] else ChatMessage(blocks=[CALL]))


async def main() -> None:
    async with Session(tools=[price, stock], toolsets=()) as session:
        print(await FunctionAgent(tools=[*as_tools(session)], llm=MODEL).run("In stock?"))


anyio.run(main)
