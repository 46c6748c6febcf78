"""Show each kind of error in a log once, with the lines around its first occurrence.

    ptc run samples/cookbook/errors_in_context.py --allow grep --input path=samples/data/service.log

Inputs: `path`; `context`, lines before and after (default: 2).
"""

import re
from collections import Counter
from typing import Any

VARYING = re.compile(r"\b(?=\w*\d)[\w.:-]+\b")


async def run(ctx: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Group errors that differ only in their numbers."""
    context = inputs.get("context", 2)
    hits = await ctx.grep(r" (ERROR|CRITICAL) ", path=inputs["path"], context=context)
    kinds: Counter[str] = Counter()
    first: dict[str, Any] = {}
    for hit in hits:
        kind = VARYING.sub("#", hit.text.split("]", 1)[-1].strip())
        kinds[kind] += 1
        first.setdefault(kind, hit)
    return [
        {
            "kind": kind,
            "count": count,
            "line": first[kind].line,
            "context": [*first[kind].before, first[kind].text, *first[kind].after],
        }
        for kind, count in kinds.most_common(10)
    ]
