"""You learn: how a script calls a function of yours. Run: python samples/hello.py"""

import anyio

from ptc import Session, tool

STOCK = {"tea": 12, "coffee": 0, "sugar": 40}


@tool
async def stock(item: str) -> int:
    """Units of an item in stock."""
    return STOCK[item]


# What a model writes: its only powers are the tools on `ctx`, and it runs in a jailed process.
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
