"""Tools of the workers: a bank whose payments need approval, and are lines of a file."""

import os
from pathlib import Path

from ptc import ToolContext, tool

LEDGER = Path(os.environ.get("LEDGER", "ledger.txt")).absolute()


@tool(
    side_effect=True,
    idempotent=True,
    needs_approval=True,
    approval_prompt=lambda arguments: f"Pay {arguments['cents']} cents?",
)
def pay(account: str, cents: int, ctx: ToolContext) -> str:
    """Pay an amount to an account."""
    text = LEDGER.read_text() if LEDGER.exists() else ""
    if f"{ctx.idempotency_key} " not in text:
        with LEDGER.open("a") as ledger:
            ledger.write(f"{ctx.idempotency_key} {account} {cents}\n")
    return f"{account}: paid {cents}"
