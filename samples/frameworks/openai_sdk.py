"""A response of the OpenAI API calls one program, sent as plain text. Runs without a network."""

import anyio
from openai.types.responses import Response
from shop import PROGRAM, TOOLS

from ptc import Session
from ptc_bindings.openai import as_tools

CALL = {"type": "custom_tool_call", "call_id": "1", "name": "program", "input": PROGRAM}


async def main() -> None:
    async with Session(tools=TOOLS, toolsets=()) as session:
        tools = as_tools(session, text=True)
        # With a key: response = await client.responses.create(model=..., input=..., tools=tools)
        response = Response.construct(output=[CALL])
        items = await tools.run_calls(response)  # what the next request needs
        print(items[-1]["output"])


anyio.run(main)
