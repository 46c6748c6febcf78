"""Rename fields of a JSONL file, and write the result to another file.

    ptc run samples/cookbook/rename_fields.py --allow read,write \
        --input path=samples/data/people/notes.jsonl --input to=notes.jsonl \
        --input 'names={"text": "note"}'

Inputs: `path`, `to`; `names`, an object of old and new names.
"""

import json
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read, rename, and write once; an existing file is an error."""
    names = inputs["names"]
    lines, renamed = [], 0
    for line in (await ctx.read(inputs["path"])).splitlines():
        row = json.loads(line)
        renamed += len(row.keys() & names.keys())
        lines.append(json.dumps({names.get(k, k): v for k, v in row.items()}, ensure_ascii=False))
    change = await ctx.write(inputs["to"], "\n".join(lines) + "\n", mode="create")
    return {"path": change.path, "rows": len(lines), "renamed": renamed}
