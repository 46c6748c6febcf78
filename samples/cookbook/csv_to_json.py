"""Convert a CSV file to JSON with numbers as numbers, as a file attached to the result.

    ptc run samples/cookbook/csv_to_json.py --allow read --input path=samples/data/orders.csv

Inputs: `path`, a CSV file.
"""

import csv
import io
import json
from contextlib import suppress
from typing import Any


def convert(text: str) -> int | float | str | None:
    """Return a number for the text of a number, and None for an empty one."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or None


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Convert, attach the whole, and return the first rows."""
    reader = csv.DictReader(io.StringIO(await ctx.read(inputs["path"])))
    rows = [{name: convert(value or "") for name, value in row.items()} for row in reader]
    ctx.attach("rows.json", json.dumps(rows, indent=1))
    return {"rows": len(rows), "columns": reader.fieldnames, "first": rows[:3]}
