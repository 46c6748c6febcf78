"""Run a script as a step of a DBOS workflow. Needs: pip install dbos

An order is charged once, even if you kill this program and start it again with the same folder.
Run: python samples/frameworks/dbos_workflow.py FOLDER
"""

import sys
import time
from pathlib import Path

from dbos import DBOS, SetWorkflowID

from ptc import BlockingSession, ToolContext, tool

FOLDER = Path(sys.argv[1])
SCRIPT = "[ctx.charge(order=number) for number in inputs['orders']]"


@tool(side_effect=True, uses_key=True)
def charge(order: int, ctx: ToolContext) -> int:
    """Charge an order; a repeated call has the same key, and writes the same file."""
    (FOLDER / f"{ctx.idempotency_key}.charge").write_text(str(order))
    time.sleep(0.2)  # The time in which a crash is worst: charged, and not yet recorded.
    return order


@DBOS.step()
def charge_all(orders: list[int]) -> list[int]:
    with BlockingSession(FOLDER, tools=[charge], toolsets=()) as session:
        return session.program(
            source=SCRIPT,
            inputs={"orders": orders},
            allowed_tools=["charge"],
            run_id=f"{DBOS.workflow_id}-{DBOS.step_id}",  # the same when the step is repeated
        ).unwrap()


@DBOS.workflow()
def bill(orders: list[int]) -> list[int]:
    return charge_all(orders)


DBOS(config={"name": "bill", "system_database_url": f"sqlite:///{FOLDER}/dbos.db"})
DBOS.launch()
with SetWorkflowID("bill-2026-11"):
    print("charged:", bill([1, 2, 3]))
DBOS.destroy()
