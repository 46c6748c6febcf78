"""A message of Claude calls one program. Run: python samples/frameworks/anthropic_messages.py"""

import anyio
from anthropic import AsyncAnthropic
from httpx2 import AsyncClient, MockTransport, Response
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.anthropic import ToolUses

CALL = {"type": "tool_use", "id": "1", "name": "program", "input": {"source": PROGRAM}}
MESSAGE = {"content": [CALL], "stop_reason": "tool_use"}
FAKE = AsyncClient(transport=MockTransport(lambda request: Response(200, json=MESSAGE)))


async def main() -> None:
    client = AsyncAnthropic(api_key="none", http_client=FAKE)  # with a key: AsyncAnthropic()
    async with Session(tools=TOOLS, toolsets=()) as session:
        uses = ToolUses(session)
        request = {"model": "m", "max_tokens": 999, "messages": [], "tools": uses.params}
        message = await client.messages.create(**request)
        print(await uses.answer(message))  # the next message of the user


anyio.run(main)
