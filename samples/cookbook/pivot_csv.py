"""Pivot a CSV file into a Markdown table: one row and one column for each value of two fields.

    ptc run samples/cookbook/pivot_csv.py --allow read --input path=samples/data/orders.csv \
        --input rows=month --input columns=region --input value=revenue

Inputs: `path`; `rows`, `columns` and `value`, names of columns.
"""

import csv
import io
from collections import defaultdict
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Add up the values of each pair."""
    cells: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in csv.DictReader(io.StringIO(await ctx.read(inputs["path"]))):
        cells[row[inputs["rows"]], row[inputs["columns"]]] += float(row[inputs["value"]])
    names = sorted({column for _, column in cells})
    table = [[inputs["rows"], *names], ["---"] * (len(names) + 1)]
    for first in sorted({row for row, _ in cells}):
        table.append([first, *(f"{cells[first, name]:,.2f}" for name in names)])
    totals = {name: round(sum(v for (_, c), v in cells.items() if c == name), 2) for name in names}
    return {"table": "\n".join(f"| {' | '.join(row)} |" for row in table), "totals": totals}
