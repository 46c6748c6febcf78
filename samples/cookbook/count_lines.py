"""Count files, lines and words by type of file.

    ptc run samples/cookbook/count_lines.py --allow glob,read_files --input path=samples/data

Inputs: `path`, a folder. Files are read 100 at a time; unreadable ones are counted apart.
"""

import asyncio
from collections import Counter
from typing import Any

AT_ONCE = 100


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read all files in few calls and count."""
    paths = await ctx.glob("*", path=inputs.get("path", "."))
    parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
    answers = await asyncio.gather(*(ctx.read_files(part) for part in parts))
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    words: Counter[str] = Counter()
    unread = 0
    for file in (file for answer in answers for file in answer):
        if file.error is not None:
            unread += 1
            continue
        kind = file.path.rpartition(".")[2] if "." in file.path else ""
        files[kind] += 1
        lines[kind] += len(file.text.splitlines())
        words[kind] += len(file.text.split())
    rows = [{"type": k, "files": n, "lines": lines[k], "words": words[k]} for k, n in files.items()]
    return {"types": sorted(rows, key=lambda row: -row["lines"]), "unread": unread}
