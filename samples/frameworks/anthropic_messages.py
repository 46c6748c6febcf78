# A message of Claude calls one script over tools of a session. Runs offline.
import anyio
from anthropic import AsyncAnthropic
from httpx2 import AsyncClient, MockTransport, Response

from ptc import Session, define_tool
from ptc_bindings.anthropic import ToolUses

SHOP = {"tea": (3.20, 12), "coffee": (5.75, 0), "sugar": (0.90, 40)}
ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
price = define_tool("price", "Look up a price.", ITEM, lambda row: SHOP[row["item"]][0])
stock = define_tool("stock", "Count the items.", ITEM, lambda row: SHOP[row["item"]][1])
CODE = "sorted([(i, await ctx.price(i)) for i in inputs if await ctx.stock(i)], key=lambda r: r[1])"
CALL = {"type": "tool_use", "id": "a", "name": "program", "input": {"source": CODE, "inputs": SHOP}}
CLAUDE = MockTransport(lambda _: Response(200, json={"content": [CALL], "stop_reason": "tool_use"}))


async def main() -> None:
    async with Session(tools=[price, stock], toolsets=()) as session:
        uses, http = ToolUses(session), AsyncClient(transport=CLAUDE)
        ask = AsyncAnthropic(api_key="none", http_client=http).messages.create
        print(await uses.answer(await ask(model="m", max_tokens=9, messages=[], tools=uses.params)))


anyio.run(main)
