"""Sum up orders and revenue by month or region.

    ptc call Skill --skills samples/skills '{"skill_name": "summarise-orders",
        "script": "scripts/summarise.py", "inputs": {"path": "samples/data/orders.csv"}}'

Inputs: `path`, the CSV file; `by`, `month` or `region` (default: `region`).
"""

import csv
import io
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read the file, and add up its rows."""
    path, by = inputs["path"], inputs.get("by", "region")
    if by not in ("month", "region"):
        raise ValueError(f"by must be month or region, not {by!r}")
    orders: dict[str, int] = defaultdict(int)
    revenue: dict[str, Decimal] = defaultdict(Decimal)
    skipped = 0
    for row in csv.DictReader(io.StringIO(await ctx.read(path))):
        try:
            key, count, amount = row[by], int(row["orders"]), Decimal(row["revenue"])
        except (KeyError, TypeError, ValueError, InvalidOperation):
            skipped += 1
            continue
        orders[key] += count
        revenue[key] += amount
    rows = [
        {
            by: key,
            "orders": orders[key],
            "revenue": str(total),
            "revenue_per_order": str(round(total / orders[key], 2)) if orders[key] else None,
        }
        for key, total in sorted(revenue.items(), key=lambda item: -item[1])
    ]
    return {"path": path, "rows": rows, "skipped": skipped}
