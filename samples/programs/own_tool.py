"""Define a tool with an error of its own; call it directly and from a script. Runs offline."""

import anyio

from ptc import Session, ToolError, tool

RATES = {"EUR": 1.0, "USD": 1.08, "CHF": 0.95}


@tool
async def convert(amount: float, currency: str) -> float:
    """Convert an amount of euros.

    Args:
        amount: Euros.
        currency: Code of the target currency, such as USD.
    """
    if currency not in RATES:
        msg = f"no rate for {currency!r}; available: {', '.join(RATES)}"
        raise ToolError(msg, code="unknown_currency", details={"known": list(RATES)})
    return round(amount * RATES[currency], 2)


SCRIPT = """async def run(ctx, inputs):
    try:
        return await ctx.convert(100, inputs["currency"])
    except ToolError as error:      # available without an import
        return {"why": error.code, "instead": await ctx.convert(100, error.details["known"][1])}
"""


async def main() -> None:
    async with Session(tools=[convert], toolsets=()) as session:
        print("direct:", await session.call(convert, 100, "USD"))
        print("wrong:", (await session.tool("convert", {"amount": 1})).text)
        result = await session.program(source=SCRIPT, inputs={"currency": "XYZ"})
        print("from a script:", result.unwrap())


anyio.run(main)
