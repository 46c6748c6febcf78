"""Report percentiles of the durations in a log, by request.

    ptc run samples/cookbook/slow_requests.py --allow grep --input path=samples/data/service.log

Inputs: `path`, a log with lines such as "GET /api/search took 1604 ms".
"""

import re
import statistics
from collections import defaultdict
from typing import Any

TOOK = re.compile(r"([A-Z]+ /\S*) took (\d+) ms")


async def run(ctx: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the tool find the lines, and compute here."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for hit in await ctx.grep(r"took \d+ ms", path=inputs["path"]):
        if found := TOOK.search(hit.text):
            times[found[1]].append(int(found[2]))
    return [
        {
            "request": name,
            "count": len(values),
            "median_ms": statistics.median(values),
            "p95_ms": sorted(values)[int(0.95 * (len(values) - 1))],
            "max_ms": max(values),
        }
        for name, values in sorted(times.items(), key=lambda item: -max(item[1]))
    ]
