"""Find the rows of a CSV file with unusual values in one column.

    ptc run samples/cookbook/find_outliers.py --allow read \
        --input path=samples/data/orders.csv --input column=revenue --input fence=1.0

Inputs: `path`, `column`; `fence`, the distance from the quartiles in interquartile ranges
(default: 1.5).
"""

import csv
import io
import statistics
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rows outside of the fences, the most distant first."""
    rows = list(csv.DictReader(io.StringIO(await ctx.read(inputs["path"]))))
    values = [float(row[inputs["column"]]) for row in rows]
    first, median, third = statistics.quantiles(values, n=4)
    reach = (third - first) * inputs.get("fence", 1.5)
    low, high = first - reach, third + reach
    outside = [
        (row, value) for row, value in zip(rows, values, strict=True) if not low <= value <= high
    ]
    outside.sort(key=lambda pair: -abs(pair[1] - median))
    return {"range": [round(low, 2), round(high, 2)], "outliers": [row for row, _ in outside[:20]]}
