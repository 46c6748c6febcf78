"""A client of a FastMCP server sends one program. python samples/frameworks/fastmcp_server.py"""

import asyncio

from fastmcp import Client, FastMCP
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.fastmcp import as_tools


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        server = FastMCP("shop", tools=as_tools(session))
        async with Client(server) as client:  # a model behind a client sends the program
            result = await client.call_tool("program", {"source": PROGRAM})
    print(result.structured_content["value"])


asyncio.run(main())
