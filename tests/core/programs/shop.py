"""Tools with effects that are counted, and scripts that call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptc import RunResult, SavedProgram, Session, Tool, ToolContext, tool

ORDER = '''
async def run(ctx, inputs):
    """Order an item: look its price up, and pay."""
    price = await ctx.price(item=inputs["item"])
    paid = await ctx.pay(amount=price * inputs["count"])
    return {"item": inputs["item"], "paid": paid, "note": None}
'''
QUOTE = """
async def run(ctx, inputs):
    return [await ctx.price(item=item) for item in inputs["items"]]
"""


class Shop:
    """The tools `price` and `pay`; the calls of each are listed."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.keys: list[str | None] = []
        self.priced: list[str] = []

    def tools(self) -> list[Tool]:
        @tool
        async def price(item: str) -> int:
            """Return the price of an item."""
            self.priced.append(item)
            return len(item)

        @tool(side_effect=True, idempotent=False)
        async def pay(ctx: ToolContext, amount: int) -> int:
            """Pay."""
            self.paid.append(amount)
            self.keys.append(ctx.idempotency_key)
            return amount

        return [price, pay]

    def session(self, root: Path, *more: Any, **options: Any) -> Session:
        return Session(root, tools=[*self.tools(), *more], toolsets=(), **options)


async def run(
    session: Session, source: str, inputs: dict[str, Any], allowed: list[Any], **options: Any
) -> RunResult:
    """Run a script that must complete."""
    result = await session.program(source=source, inputs=inputs, allowed_tools=allowed, **options)
    assert result.ok, result.error
    return result


async def save_order(session: Session, **options: Any) -> SavedProgram:
    """Save `ORDER` as the program ``order``."""
    done = await run(session, ORDER, {"item": "tea", "count": 2}, ["price", "pay"])
    return await session.save_program(done.run_id, name="order", **options)


BUY = """
import random
async def run(ctx, inputs):
    drawn = random.randrange(10**9)
    await ctx.pay(amount=inputs["amount"])
    await ctx.pay(amount=drawn)
    return [drawn, await ctx.sign(text="v1")]
"""
CALL_BUY = """
async def run(ctx, inputs):
    try:
        return await ctx.buy(amount=7)
    except ToolError as error:
        return [error.code, str(error)]
"""
BUYING = ["buy", "pay", "sign"]


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def sign(text: str) -> str:
    """Sign a text."""
    return f"signed {text}"


def buying_session(root: Path, shop: Shop, *tools: Tool) -> Session:
    return shop.session(root, *(tools or (sign,)))


async def save_buy(session: Session, source: str = BUY) -> None:
    paused = await session.program(
        source=source, inputs={"amount": 1}, allowed_tools=["pay", "sign"]
    )
    assert paused.status == "paused", paused.error
    done = await session.approve(paused.run_id, by="ann", resume=True)
    assert done.ok
    await session.save_program(done.run_id, name="buy", description="Buy.")


async def start_buying(root: Path, shop: Shop) -> RunResult:
    """Save `BUY`, and start a run of it that pauses after its payments."""
    async with buying_session(root, shop) as session:
        await save_buy(session)
        shop.paid.clear()
        shop.keys.clear()
        paused = await session.program(source=CALL_BUY, allowed_tools=BUYING, run_id="r")
    assert paused.status == "paused"
    assert [(call.tool, call.arguments) for call in paused.pending] == [("sign", {"text": "v1"})]
    return paused
