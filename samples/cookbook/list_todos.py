"""List the TODO and FIXME comments of a code base, and the files with most of them.

    ptc run samples/cookbook/list_todos.py --allow grep --input path=samples

Inputs: `path`, a folder; `words`, a regular expression (default: TODO or FIXME).
"""

from collections import Counter
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Search once, and group the lines by file."""
    words = inputs.get("words", r"\b(TODO|FIXME)\b")
    hits = await ctx.grep(words, path=inputs.get("path", "."), limit=2_000)
    by_file = Counter(hit.path for hit in hits)
    first = [{"path": hit.path, "line": hit.line, "text": hit.text.strip()[:120]} for hit in hits]
    return {"total": len(hits), "files": dict(by_file.most_common(20)), "first": first[:20]}
