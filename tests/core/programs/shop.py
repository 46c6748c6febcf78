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
    return session.save_program(done.run_id, name="order", **options)
