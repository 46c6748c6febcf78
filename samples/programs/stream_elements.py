"""Handle each object of a long list while the model still writes the rest. Runs offline."""

import sys

import anyio
from pydantic import BaseModel

from ptc import Session
from ptc.testing import ScriptedModel

TEXT = "We need 3 chairs at 49.50, 1 desk at 310 and 12 pens at 1.20."


class Item(BaseModel):
    name: str
    count: int
    price: float


ANSWER = {
    "elements": [
        {"name": "chair", "count": 3, "price": 49.5},
        {"name": "desk", "count": 1, "price": 310.0},
        {"name": "pen", "count": 12, "price": 1.2},
    ]
}


async def main() -> None:
    # For a real model: python samples/programs/stream_elements.py openai:gpt-5
    model = sys.argv[1] if len(sys.argv) > 1 else ScriptedModel(ANSWER, chunk_chars=4)
    async with Session(model=model, toolsets=()) as session:
        async with session.stream_elements(Item, f"List what is ordered: {TEXT}") as items:
            async for item in items:
                print(f"{item.count} x {item.name}: {item.count * item.price:.2f}")
        print("attempts:", len(items.result.attempts))


anyio.run(main)
