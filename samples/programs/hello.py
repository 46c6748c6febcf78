"""Call your own function from a script. Run: python samples/programs/hello.py"""

import anyio

from ptc import Session, tool

STOCK = {"tea": 12, "coffee": 0, "sugar": 40}


@tool
async def stock(item: str) -> int:
    """Units of an item in stock."""
    return STOCK[item]


# A script from a model. It runs in a sandboxed process, and can use only the tools on `ctx`.
SCRIPT = """
import asyncio

async def run(ctx, inputs):
    counts = await asyncio.gather(*(ctx.stock(item) for item in inputs["items"]))
    return [item for item, count in zip(inputs["items"], counts) if count < inputs["least"]]
"""


async def main() -> None:
    async with Session(tools=[stock], toolsets=()) as session:
        result = await session.program(
            source=SCRIPT,
            inputs={"items": list(STOCK), "least": 15},
            allowed_tools=["stock"],
        )
    print("to order:", result.unwrap())
    for call in result.calls:
        print(f"  {call.tool} {call.arguments} {call.status}")


anyio.run(main)
