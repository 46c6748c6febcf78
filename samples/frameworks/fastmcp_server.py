"""A client of a FastMCP server sends one program. python samples/frameworks/fastmcp_server.py"""

import asyncio

from fastmcp import Client, FastMCP

from ptc import Session, define_tool
from ptc_bindings.fastmcp import as_tools

PRICES, STOCK = {"tea": 3.2, "coffee": 5.75, "sugar": 0.9}, {"tea": 12, "coffee": 0, "sugar": 40}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = define_tool("price", "Price of an item.", ITEM, lambda row: PRICES[row["item"]])
stock = define_tool("stock", "Number in stock.", ITEM, lambda row: STOCK[row["item"]])
PROGRAM = """items = [i for i in ("tea", "coffee", "sugar") if await ctx.stock(i)]
sorted([(i, await ctx.price(i)) for i in items], key=lambda row: row[1])"""


async def main() -> None:
    async with Session(tools=[price, stock], toolsets=()) as session:
        server = FastMCP("shop", tools=as_tools(session))
        async with Client(server) as client:  # a model behind a client sends the program
            print((await client.call_tool("program", {"source": PROGRAM})).content[0].text)


asyncio.run(main())
