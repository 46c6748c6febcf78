"""Check that the lines of text invoices add up to their totals; list those it cannot read.

    ptc run samples/cookbook/check_invoices.py --allow glob,read --input path=samples/data/invoices

Inputs: `path`, a folder of text files.
"""

import asyncio
import re
from decimal import Decimal
from typing import Any

AMOUNT = re.compile(r"(?<!\d)(\d{1,3}(?:[ ,]?\d{3})*\.\d\d)(?: ?[A-Z]{3})?\s*$")


def check(text: str) -> dict[str, Any]:
    """Compare the sum of the lines with the line of the total."""
    amounts, total = [], None
    for line in text.splitlines():
        if found := AMOUNT.search(line):
            amount = Decimal(found[1].replace(" ", "").replace(",", ""))
            if re.search("total|to pay", line, re.IGNORECASE):
                total = amount
            else:
                amounts.append(amount)
    if total is None or not amounts:
        return {"status": "unclear"}
    status = "right" if sum(amounts) == total else "wrong"
    return {"status": status, "lines": len(amounts), "sum": sum(amounts), "total": total}


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Read the invoices concurrently."""
    paths = await ctx.glob("*.txt", path=inputs["path"])
    texts = await asyncio.gather(*(ctx.read(path) for path in paths))
    return {path: check(text) for path, text in zip(paths, texts, strict=True)}
