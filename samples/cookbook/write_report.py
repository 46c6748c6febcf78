"""Write a Markdown report from a CSV file, and return only its path and size.

    ptc run samples/cookbook/write_report.py --allow read,write \
        --input path=samples/data/orders.csv --input to=report.md

Inputs: `path`; `to`, the file to write.
"""

import csv
import io
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Compute first, write last: a script that fails has changed nothing."""
    rows = list(csv.DictReader(io.StringIO(await ctx.read(inputs["path"]))))
    total = sum(float(row["revenue"]) for row in rows)
    best = max(rows, key=lambda row: float(row["revenue"]))
    text = "\n".join(
        [
            "# Revenue",
            "",
            f"{len(rows)} rows, {total:,.2f} EUR in total.",
            f"Best: {best['region']} in {best['month']} with {float(best['revenue']):,.2f} EUR.",
            "",
        ]
    )
    change = await ctx.write(inputs["to"], text)
    return {"path": change.path, "action": change.action, "size_bytes": change.size_bytes}
