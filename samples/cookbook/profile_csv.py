"""Profile an unknown CSV file: columns, types, empty and distinct values, ranges.

    ptc run samples/cookbook/profile_csv.py --allow read --input path=samples/data/orders.csv

Inputs: `path`, a CSV file.
"""

import csv
import io
import statistics
from collections import Counter
from contextlib import suppress
from typing import Any


def profile(values: list[str]) -> dict[str, Any]:
    """Describe one column."""
    full = [value for value in values if value.strip()]
    found: dict[str, Any] = {"empty": len(values) - len(full), "distinct": len(set(full))}
    with suppress(ValueError):
        numbers = [float(value) for value in full]
        low, high = min(numbers), max(numbers)
        return found | {
            "type": "number",
            "min": low,
            "max": high,
            "mean": statistics.fmean(numbers),
        }
    most = dict(Counter(full).most_common(3))
    return found | {"type": "text", "most_frequent": most}


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read the file once and describe each column."""
    rows = list(csv.DictReader(io.StringIO(await ctx.read(inputs["path"]))))
    names = list(rows[0]) if rows else []
    return {
        "rows": len(rows),
        "columns": {name: profile([row[name] or "" for row in rows]) for name in names},
    }
