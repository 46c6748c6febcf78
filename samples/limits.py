"""You learn: what is left of a run that hits a limit. Run: python samples/limits.py"""

import anyio

from ptc import Limits, Session, tool


@tool
async def page(number: int) -> list[int]:
    """One page of a long list."""
    return [10 * number + n for n in range(10)]


# A spent call limit is an error at the call, so that a script can return what it has.
GREEDY = """async def run(ctx, inputs):
    rows = []
    try:
        for number in range(1000):
            rows += await ctx.page(number)
    except ToolError as error:
        return {"rows": len(rows), "stopped_by": error.code}
"""
# A time-out is not: the process is killed. What was emitted and printed is kept.
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
