"""Three payments that need approval, requested at once by a script that workers execute.

In one terminal:

    ptc worker --embedded --tools samples/workers/bank.py --allow pay

In another one:

    ptc submit samples/scripts/payments.py --store embedded: \
        --tools samples/workers/bank.py --allow pay --wait

The run pauses. Stop the worker, if you like: the run waits in the store. Then decide in any folder,
without the tools, as many people as there are calls:

    ptc approvals --store embedded:
    ptc approve RUN 1 --store embedded: --as ada
    ptc approve RUN 2 --store embedded: --as grace --arguments '{"account": "rent", "cents": 90000}'
    ptc reject RUN 3 --store embedded: --as linus --reason 'paid last week'
    ptc wait RUN --store embedded: --through-pauses
"""

import asyncio
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> list[str]:
    async def pay(account: str, cents: int) -> Any:
        try:
            return await ctx.pay(account=account, cents=cents)
        except ToolError as error:  # type: ignore[name-defined]  # noqa: F821  # a built-in
            return f"{account}: not paid: {error}"

    print("asking for three payments")
    paid: list[str] = await asyncio.gather(
        pay("power", 12_000), pay("rent", 95_000), pay("phone", 3_000)
    )
    return paid
