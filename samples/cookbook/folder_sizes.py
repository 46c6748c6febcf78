"""Add up the sizes of the folders of a tree, without reading a file.

    ptc run samples/cookbook/folder_sizes.py --allow ls --input path=samples

Inputs: `path`, a folder.
"""

import asyncio
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """List each level of the tree concurrently."""
    sizes: dict[str, int] = {}

    async def visit(folder: str) -> int:
        entries = await ctx.ls(folder)
        below = await asyncio.gather(*(visit(e.path) for e in entries if e.kind == "dir"))
        sizes[folder] = sum(below) + sum(e.size_bytes or 0 for e in entries)
        return sizes[folder]

    total = await visit(inputs.get("path", "."))
    largest = sorted(sizes, key=lambda folder: -sizes[folder])[:10]
    return {"total": total, "largest": {folder: sizes[folder] for folder in largest}}
