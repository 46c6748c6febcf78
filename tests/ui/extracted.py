"""Extractions in a journal, with documents of every outcome and hostile texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ptc import Session
from ptc._extraction._record import PREFIX, record_name
from ptc._facts import ModelUsage
from ptc.models._model import ModelReply, ModelRequest

SCHEMA = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "total": {"type": "integer"}},
    "required": ["customer", "total"],
    "additionalProperties": False,
}
FILLER = "\n\n".join("Goods were delivered as agreed." for _ in range(60))


def documents(mark: str, count: int) -> list[dict[str, str]]:
    """Texts: one whose parts disagree, one of which the model makes nothing, and ordinary ones."""
    found = [{"id": f"invoice-{n}", "text": f"Customer: c{n}\nTotal: {n}"} for n in range(count)]
    return [
        *found,
        {"id": mark, "text": f"Customer: {mark}\nTotal: 7"},
        {"id": "long", "text": f"Customer: {mark}\nTotal: 10\n\n{FILLER}\n\nTotal: 12"},
        {"id": "bad", "text": f"Total: none {mark}"},
    ]


def answer(shift: int = 0) -> Any:
    """A model that copies customer and total, with `shift` added to the total of invoice 1."""

    async def complete(request: ModelRequest) -> ModelReply:
        text = request.turns[0].text
        total = re.search(r"Total: (\d+)", text)
        customer = re.search(r"Customer: (.*)", text)
        value: dict[str, Any] = {"customer": customer[1] if customer else None}
        if total is not None:
            value["total"] = int(total[1]) + (shift if total[1] == "1" else 0)
        return ModelReply(json.dumps(value), usage=ModelUsage(1, 120, 12))

    return complete


async def extract(
    journal: Path | str, root: Path, mark: str, *, shift: int = 0, count: int = 6
) -> str:
    """Extract into a file of `root`, and return the id that the page has for it."""
    output = root / f"rows-{shift}.jsonl"
    async with (
        Session(root, toolsets=(), journal=journal, model=answer(shift)) as session,
        session.extract_many(
            documents(mark, count),
            SCHEMA,
            output=output,
            split_chars=1_000,
            overlap_chars=0,
            max_repair_attempts=0,
            prices=(2.5, 10.0),
        ) as rows,
    ):
        _ = [row async for row in rows]
    return record_name(output).removeprefix(PREFIX)
