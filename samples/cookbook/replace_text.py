"""Replace a text in many files: a dry run first, the changes on request.

    ptc run samples/cookbook/replace_text.py --allow grep,edit \
        --input old=Okafor --input new=Okonkwo --input 'glob="*.txt"'

Inputs: `old`, `new`, `glob`; `apply`, true to change the files (default: false).
"""

import asyncio
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Find the files, then edit all of them concurrently."""
    found = await ctx.grep(
        inputs["old"], glob=inputs.get("glob"), literal=True, output="count", limit=90
    )
    dry = not inputs.get("apply", False)
    changes = await asyncio.gather(
        *(
            ctx.edit(row.path, inputs["old"], inputs["new"], replace_all=True, dry_run=dry)
            for row in found
        )
    )
    files = [{"path": change.path, "replacements": change.replacements} for change in changes]
    return {"applied": not dry, "files": files}
