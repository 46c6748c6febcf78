"""Extract data from many short notes with a model, concurrently and validated.

    ptc run samples/cookbook/extract_people.py --allow read,generate_object --model openai:gpt-5 \
        --input path=samples/data/people/notes.jsonl --input schema=samples/data/people/schema.json

Inputs: `path`, `schema`; `most`, the number of notes (default: 10). For thousands of documents,
use `ptc extract`.
"""

import asyncio
import json
from typing import Any


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Ask for every note at once; a note that fails does not stop the others."""
    text, schema = await asyncio.gather(ctx.read(inputs["path"]), ctx.read(inputs["schema"]))
    notes = [json.loads(line) for line in text.splitlines()[: inputs.get("most", 10)]]
    schema = json.loads(schema)
    found = await asyncio.gather(
        *(ctx.generate_object(schema=schema, prompt=f"Extract: {n['text']}") for n in notes),
        return_exceptions=True,
    )
    pairs = list(zip(notes, found, strict=True))
    return {
        "people": [row.object for _, row in pairs if not isinstance(row, BaseException)],
        "failed": {note["id"]: str(row) for note, row in pairs if isinstance(row, BaseException)},
    }
