"""An agent of pydantic-ai runs one script over tools of pydantic-ai. Runs offline."""

import anyio
from pydantic_ai import Agent, ModelResponse, TextPart, Tool, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from ptc import Session
from ptc_bindings.pydantic_ai import as_tools

SHOP = {"tea": (3.20, 12), "coffee": (5.75, 0), "sugar": (0.90, 40)}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = Tool.from_schema(lambda item: SHOP[item][0], "price", "Look up a price.", ITEM)
stock = Tool.from_schema(lambda item: SHOP[item][1], "stock", "Count the items in stock.", ITEM)
CODE = "sorted([(i, await ctx.price(i)) for i in inputs if await ctx.stock(i)], key=lambda r: r[1])"
CALL = ModelResponse([ToolCallPart("program", {"source": CODE, "inputs": SHOP})])


async def main() -> None:
    model = FunctionModel(lambda seen, _: ModelResponse([TextPart("OK")]) if seen[1:] else CALL)
    async with Session(tools=[price, stock], toolsets=()) as session:
        agent = Agent(model, tools=as_tools(session, allowed_tools=["price", "stock"]))
        print(vars((await agent.run("What is in stock?")).all_messages()[2].parts[0])["content"])


anyio.run(main)
