"""Rows out of a folder of documents, each held to a schema, by any model.

    python samples/extract_invoices.py                    with a model that is a list of answers
    python samples/extract_invoices.py openai:gpt-5       a real one: pip install 'ptc-host[models]'

Three things that go wrong with models go wrong here, and are put right: JSON that is no JSON
(mended here, without another request), a value that the schema does not have and a sum that does
not come out (both told to the model, which answers again).
"""

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Literal

import anyio
from pydantic import BaseModel

from ptc import Generated, Session
from ptc.models import ModelRequest, ModelSource
from ptc.testing import ScriptedModel

FOLDER = Path(__file__).parent / "data" / "invoices"


class Line(BaseModel):
    text: str
    amount: Decimal


class Invoice(BaseModel):
    number: str
    seller: str
    day: date
    currency: Literal["EUR", "GBP", "SEK"]
    lines: list[Line]
    total: Decimal


def adds_up(invoice: Invoice) -> str | None:
    """What a schema cannot say: the model is told this, too."""
    found = sum(line.amount for line in invoice.lines)
    return None if found == invoice.total else f"the lines add up to {found}, total says otherwise"


ANSWERS = {
    "harbour": [  # single quotes, a comma too many, a fence: one meaning all the same
        "Here is the invoice:\n```json\n{'number': '2025-0417', 'seller': 'Harbour Supply Co.',"
        " 'day': '2025-04-17', 'currency': 'EUR', 'lines': ["
        "{'text': 'mooring line, 12 m', 'amount': '102.00'},"
        "{'text': 'fender, large', 'amount': '61.25'},], 'total': '163.25'}\n```",
    ],
    "lindgren": [  # a currency that is not in the list
        '{"number": "L-88213", "seller": "Lindgren Tryckeri AB", "day": "2025-05-02",'
        f' "currency": "{currency}", "lines": [{{"text": "500 flyers A5", "amount": "1450.00"}},'
        ' {"text": "50 posters A2", "amount": "2300.00"}], "total": "3750.00"}'
        for currency in ("kronor", "SEK")
    ],
    "okafor": [  # one hour of work, where there were two
        '{"number": "31", "seller": "Okafor & Sons", "day": "2025-05-09", "currency": "GBP",'
        ' "lines": [{"text": "pump", "amount": "620.00"},'
        f' {{"text": "work", "amount": "{work}"}}], "total": "790.00"}}'
        for work in ("85.00", "170.00")
    ],
}


def answer(request: ModelRequest) -> str:
    """What the model without a model says: its second answer once it was told of a mistake."""
    question = request.turns[0].text.lower()
    name = next(name for name in ANSWERS if name in question)
    return ANSWERS[name][1 if request.turns[-1].role == "error" else 0]


async def main(model: ModelSource) -> None:
    invoices: dict[str, Generated[Invoice]] = {}

    async def extract(path: anyio.Path) -> None:
        prompt = f"Extract the invoice from this document.\n\n{await path.read_text()}"
        invoices[path.stem] = await session.generate_object(
            Invoice, prompt, schema_name="invoice", validators=[adds_up]
        )

    async with Session(model=model) as session, anyio.create_task_group() as group:
        for path in sorted(FOLDER.glob("*.txt")):
            group.start_soon(extract, anyio.Path(path))

    for name, found in sorted(invoices.items()):
        invoice = found.object
        print(f"{name}: {invoice.day} {invoice.seller}: {invoice.total} {invoice.currency}")
        if found.repairs:
            print(f"  mended here: {', '.join(sorted({repair.kind for repair in found.repairs}))}")
        for number, attempt in enumerate(found.attempts, 1):
            for violation in attempt.violations:
                print(f"  answer {number} went back: {violation}")
    spent = sum((found.usage.requests for found in invoices.values()), 0)
    print(f"{len(invoices)} invoices, {spent} requests")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else ScriptedModel.of(answer))
