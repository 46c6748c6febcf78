"""Read as many files as the limits allow, and say where to continue.

    ptc run samples/cookbook/read_within_budget.py --allow glob,read --max-tool-calls 5 \
        --input path=samples/data

Inputs: `path`; `after`, the value `next` of the run before.
"""

from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Stop before a limit does; emitted values survive even then."""
    paths = await ctx.glob("*", path=inputs["path"], after=inputs.get("after"))
    longest: dict[str, int] = {}
    for number, path in enumerate(paths):
        if ctx.budget.tool_calls == 0 or ctx.budget.time_ms < 1_000:
            return {"longest": longest, "next": paths[number - 1]}
        text = await ctx.read(path)
        longest[path] = max((len(line) for line in text.splitlines()), default=0)
        ctx.emit({path: longest[path]})
        ctx.progress(number + 1, len(paths), path)
    return {"longest": longest, "next": None}
