"""Find relative links in Markdown files that lead nowhere.

    ptc run samples/cookbook/check_links.py --allow glob,read --input path=samples/skills

Inputs: `path`, a folder.
"""

import asyncio
import os.path
import re
from typing import Any

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)")


def resolve(page: str, target: str) -> str:
    """Return the path that a link of a page means."""
    return os.path.normpath(os.path.join(os.path.dirname(page), target))


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """List all files once, so that each link is checked without a call."""
    root = inputs.get("path", ".")
    existing = set(await ctx.glob("*", path=root))
    pages = sorted(path for path in existing if path.endswith(".md"))
    texts = await asyncio.gather(*(ctx.read(page) for page in pages))
    broken, links = [], 0
    for page, text in zip(pages, texts, strict=True):
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            path = resolve(page, target)
            if path not in existing and not any(name.startswith(path + "/") for name in existing):
                broken.append({"page": page, "link": target})
    return {"pages": len(pages), "links": links, "broken": broken}
