"""Summarise the recent history of a git repository: authors, and the files that change most.

    ptc run samples/cookbook/recent_changes.py --allow git --input commits=20

Inputs: `commits`, the number of commits (default: 50).
"""

import asyncio
from collections import Counter
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read the log, then the files of every commit concurrently."""
    log = await ctx.git("log", limit=min(90, inputs.get("commits", 50)))
    shown = await asyncio.gather(*(ctx.git("show", ref=c["commit"], patch=False) for c in log))
    files = Counter(file["path"] for (commit,) in shown for file in commit["files"])
    return {
        "commits": len(log),
        "authors": dict(Counter(commit["author"] for commit in log)),
        "changed_most": dict(files.most_common(10)),
        "subjects": [commit["subject"] for commit in log[:10]],
    }
