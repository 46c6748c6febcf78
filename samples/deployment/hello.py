"""Count words: the first run to submit to a worker.

    ptc submit hello.py --input text='three short words'

Inputs: `text`.
"""

from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> Any:
    return {"words": await ctx.word_count(text=inputs["text"])}
