# The OpenAI SDK and one program, sent as plain text. Run: python samples/frameworks/openai_sdk.py
import anyio
from openai.types.responses import Response

from ptc import Session, define_tool
from ptc_bindings.openai import as_tools

PRICES, STOCK = {"tea": 3.2, "coffee": 5.75, "sugar": 0.9}, {"tea": 12, "coffee": 0, "sugar": 40}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = define_tool("price", "Price of an item.", ITEM, lambda row: PRICES[row["item"]])
stock = define_tool("stock", "Number in stock.", ITEM, lambda row: STOCK[row["item"]])
PROGRAM = """items = [i for i in ("tea", "coffee", "sugar") if await ctx.stock(i)]
sorted([(i, await ctx.price(i)) for i in items], key=lambda row: row[1])"""
CALL = {"type": "custom_tool_call", "call_id": "1", "name": "program", "input": PROGRAM}


async def main() -> None:
    async with Session(tools=[price, stock], toolsets=()) as session:
        tools = as_tools(session, text=True)
        # With a key: await client.responses.create(model=..., input=items, tools=tools)
        response = Response.construct(output=[CALL])
        print((await tools.run_calls(response))[-1]["output"])


anyio.run(main)
