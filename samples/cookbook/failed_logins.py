"""Find users with many failed logins in a short time.

    ptc run samples/cookbook/failed_logins.py --allow grep --input path=samples/data/service.log

Inputs: `path`; `minutes`, the window (default: 60); `most`, the number of failures
in it (default: 3).
"""

import re
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

FAILED = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d).* wrong password for user (\w+)")


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Slide a window over the failures of each user."""
    window = timedelta(minutes=inputs.get("minutes", 60))
    times: defaultdict[str, list[datetime]] = defaultdict(list)
    for hit in await ctx.grep("wrong password", path=inputs["path"]):
        if found := FAILED.match(hit.text):
            times[found[2]].append(datetime.fromisoformat(found[1]))
    worst = {}
    for user, moments in times.items():
        most = max(sum(start <= other < start + window for other in moments) for start in moments)
        if most >= inputs.get("most", 3):
            worst[user] = most
    return {"users": len(times), "suspicious": worst}
