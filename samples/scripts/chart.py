r"""Draw a chart from a CSV file: revenue by month and region, as a PNG attached to the result.

    pip install 'ptc-host[data]'
    ptc run samples/scripts/chart.py --package data --allow read \
        --input path=samples/data/orders.csv

Inputs: `path`, a CSV file with the columns month, region and revenue.

The command prints the summary and, on standard error, the path of the stored chart.
"""

import io
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Draw `chart.png` and return the revenue of each region."""
    text = await ctx.read(path=inputs["path"])
    orders = pd.read_csv(io.StringIO(text), parse_dates=["month"])
    table = orders.pivot_table(index="month", columns="region", values="revenue", aggfunc="sum")
    ctx.progress(1, 2, "drawing")

    _, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    table.plot.area(ax=axes, stacked=True, alpha=0.8, linewidth=0)
    axes.set_title("Revenue by region, 2025")
    axes.set_xlabel("")
    axes.set_ylabel("EUR")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(title="Region", loc="upper right", ncols=3)
    axes.margins(x=0)
    plt.savefig("chart.png", dpi=120)
    ctx.progress(2, 2, "done")

    totals = table.sum().round(2)
    best = table.sum(axis=1).idxmax()
    return {
        "revenue": {region: float(total) for region, total in totals.items()},
        "best_month": best.strftime("%Y-%m"),
    }
