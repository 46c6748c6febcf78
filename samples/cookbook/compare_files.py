"""Compare two text files and return the differences as a unified diff.

    ptc run samples/cookbook/compare_files.py --allow read \
        --input old=samples/data/invoices/harbour.txt --input new=samples/data/invoices/okafor.txt

Inputs: `old` and `new`. A long diff is attached as a file.
"""

import asyncio
import difflib
from typing import Any

MOST_LINES = 200


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read both at once and compare."""
    old, new = await asyncio.gather(ctx.read(inputs["old"]), ctx.read(inputs["new"]))
    rows = list(
        difflib.unified_diff(
            old.splitlines(), new.splitlines(), inputs["old"], inputs["new"], lineterm=""
        )
    )
    added = sum(row.startswith("+") for row in rows[2:])
    removed = sum(row.startswith("-") for row in rows[2:])
    if len(rows) > MOST_LINES:
        ctx.attach("changes.diff", "\n".join(rows))
    return {"added": added, "removed": removed, "diff": rows[:MOST_LINES]}
