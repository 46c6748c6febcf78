"""Get partial results of a run that reaches a limit. Run: python samples/programs/limits.py"""

import anyio

from ptc import Limits, Session, tool


@tool
async def page(number: int) -> list[int]:
    """One page of a long list."""
    return [10 * number + n for n in range(10)]


# At the call limit the call raises an error, so that a script can return partial results.
GREEDY = """async def run(ctx, inputs):
    rows = []
    try:
        for number in range(1000):
            rows += await ctx.page(number)
    except ToolError as error:
        return {"rows": len(rows), "stopped_by": error.code}
"""
# A time-out kills the process. Emitted values and printed text are preserved.
ENDLESS = """def run(ctx, inputs):
    ctx.emit({"first_page": ctx.page(0)})
    print("thinking")
    while True:
        pass
"""


async def main() -> None:
    limits = Limits(max_tool_calls=3, timeout_ms=1_000)
    async with Session(tools=[page], toolsets=(), limits=limits) as session:
        for source in (GREEDY, ENDLESS):
            result = await session.program(source=source)
            print(result.status, result.value, result.partial, repr(result.stdout))


anyio.run(main)
