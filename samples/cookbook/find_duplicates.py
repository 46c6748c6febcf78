"""Find files with the same content.

    ptc run samples/cookbook/find_duplicates.py --allow glob,read_files --input path=samples

Inputs: `path`, a folder.
"""

import asyncio
import hashlib
from collections import defaultdict
from typing import Any

AT_ONCE = 50


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Hash each file; an unreadable one does not stop the others."""
    paths = await ctx.glob("*", path=inputs.get("path", "."))
    parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
    answers = await asyncio.gather(*(ctx.read_files(part) for part in parts))
    same: defaultdict[str, list[str]] = defaultdict(list)
    for file in (file for answer in answers for file in answer):
        if file.text and file.error is None and file.rest is None:
            same[hashlib.sha256(file.text.encode()).hexdigest()].append(file.path)
    return {"files": len(paths), "groups": [group for group in same.values() if len(group) > 1]}
