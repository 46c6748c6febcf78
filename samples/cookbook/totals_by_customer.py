"""Join two files by id and add up: what each customer spent, and in which cities.

    ptc run samples/cookbook/totals_by_customer.py --allow read \
        --input orders=samples/data/orders/gold.jsonl \
        --input letters=samples/data/orders/letters.jsonl

Reported: customers by total, and orders without a letter.
"""

import asyncio
import json
from collections import defaultdict
from decimal import Decimal
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read both files at once, join them in memory, return the five best customers."""
    texts = await asyncio.gather(ctx.read(inputs["orders"]), ctx.read(inputs["letters"]))
    orders, letters = ([json.loads(line) for line in text.splitlines()] for text in texts)
    written = {row["id"] for row in letters}
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    cities: defaultdict[str, set[str]] = defaultdict(set)
    for row in orders:
        order = row["object"]
        totals[order["customer"]] += Decimal(order["total"])
        cities[order["customer"]].add(order["city"])
    best = sorted(totals, key=lambda name: -totals[name])[:5]
    return {
        "orders": len(orders),
        "without_letter": [row["id"] for row in orders if row["id"] not in written],
        "best": [{"customer": n, "total": totals[n], "cities": sorted(cities[n])} for n in best],
    }
