"""One program of an agent of the OpenAI Agents SDK. python samples/frameworks/openai_agents.py"""

import anyio
from agents import Agent, Runner
from agents.testing import ScriptedModel, function_call

from ptc import Session, define_tool
from ptc_bindings.openai_agents import as_tools

PRICES, STOCK = {"tea": 3.2, "coffee": 5.75, "sugar": 0.9}, {"tea": 12, "coffee": 0, "sugar": 40}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = define_tool("price", "Price of an item.", ITEM, lambda row: PRICES[row["item"]])
stock = define_tool("stock", "Number in stock.", ITEM, lambda row: STOCK[row["item"]])
PROGRAM = """items = [i for i in ("tea", "coffee", "sugar") if await ctx.stock(i)]
sorted([(i, await ctx.price(i)) for i in items], key=lambda row: row[1])"""
MODEL = ScriptedModel([[function_call("program", {"source": PROGRAM}, call_id="1")]])


async def main() -> None:
    async with Session(tools=[price, stock], toolsets=()) as shop:
        bot = Agent("a", model=MODEL, tools=as_tools(shop), tool_use_behavior="stop_on_first_tool")
        print((await Runner.run(bot, "?", run_config={"tracing_disabled": True})).final_output)


anyio.run(main)
