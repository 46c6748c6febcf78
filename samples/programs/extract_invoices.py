"""Extract rows from a folder of documents with any model, validated by a schema.

    python samples/programs/extract_invoices.py                  with scripted answers, no model
    python samples/programs/extract_invoices.py openai:gpt-5     needs: pip install '.[models]'

Three typical failures of models occur here and are corrected: invalid JSON (repaired without
another request), a value that the schema does not allow, and a wrong sum (both are reported to the
model, which answers again).
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

FOLDER = Path(__file__).parents[1] / "data" / "invoices"


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
    """Check a rule that a schema cannot express; the model receives the error."""
    found = sum(line.amount for line in invoice.lines)
    return None if found == invoice.total else f"the lines add up to {found}, total says otherwise"


ANSWERS = {
    "harbour": [  # single quotes, a trailing comma, a Markdown code block
        "Here is the invoice:\n```json\n{'number': '2025-0417', 'seller': 'Harbour Supply Co.',"
        " 'day': '2025-04-17', 'currency': 'EUR', 'lines': ["
        "{'text': 'mooring line, 12 m', 'amount': '102.00'},"
        "{'text': 'fender, large', 'amount': '61.25'},], 'total': '163.25'}\n```",
    ],
    "lindgren": [  # a currency that the schema does not allow
        '{"number": "L-88213", "seller": "Lindgren Tryckeri AB", "day": "2025-05-02",'
        f' "currency": "{currency}", "lines": [{{"text": "500 flyers A5", "amount": "1450.00"}},'
        ' {"text": "50 posters A2", "amount": "2300.00"}], "total": "3750.00"}'
        for currency in ("kronor", "SEK")
    ],
    "okafor": [  # the amount of one hour of work instead of two
        '{"number": "31", "seller": "Okafor & Sons", "day": "2025-05-09", "currency": "GBP",'
        ' "lines": [{"text": "pump", "amount": "620.00"},'
        f' {{"text": "work", "amount": "{work}"}}], "total": "790.00"}}'
        for work in ("85.00", "170.00")
    ],
}


def answer(request: ModelRequest) -> str:
    """Answer a request; after an error, with the second answer."""
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
            print(f"  repaired: {', '.join(sorted({repair.kind for repair in found.repairs}))}")
        for number, attempt in enumerate(found.attempts, 1):
            for violation in attempt.violations:
                print(f"  answer {number} rejected: {violation}")
    spent = sum((found.usage.requests for found in invoices.values()), 0)
    print(f"{len(invoices)} invoices, {spent} requests")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else ScriptedModel.of(answer))
