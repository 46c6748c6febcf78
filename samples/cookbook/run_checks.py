"""Run several commands and report which of them failed, with the end of their output.

    ptc run samples/cookbook/run_checks.py --allow bash,verify_commands

The commands are checked by their exit status. Replace them by your tests and linters.
"""

from typing import Any

CHECKS = [
    {"id": "sorted", "command": ["sort", "-c", "samples/data/orders.csv"], "required": False},
    {"id": "has_errors", "command": ["grep", "-q", "ERROR", "samples/data/service.log"]},
]


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Run the checks in parallel; a failed one does not stop the others."""
    report = await ctx.verify_commands(subject="the data", checks=CHECKS, parallel=True)
    failed = [check for check in report.checks if check.status != "passed"]
    return {
        "status": report.status,
        "failed": {c.id: {"exit_code": c.exit_code, "tail": c.tail[-500:]} for c in failed},
    }
