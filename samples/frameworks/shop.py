"""The shop of the samples beside this file: two tools, and the program that a model sends."""

from ptc import tool

PRICES = {"tea": 3.20, "coffee": 5.75, "sugar": 0.90}
STOCK = {"tea": 12, "coffee": 0, "sugar": 40}


@tool
def price(item: str) -> float:
    """Return the price of an item."""
    return PRICES[item]


@tool
def stock(item: str) -> int:
    """Return the number of an item in stock."""
    return STOCK[item]


TOOLS = [price, stock]
PROGRAM = """
items = [item for item in ("tea", "coffee", "sugar") if await ctx.stock(item)]
sorted([(item, await ctx.price(item)) for item in items], key=lambda row: row[1])
"""
