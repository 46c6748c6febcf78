"""Scripts that tools run: `ToolContext.program`.

Such a script is not a run of its own. Its calls are calls of the tool, made through the context of
the tool's call, and so have its allow-list, budget, approvals, record and events.

Rule 1: the script reaches the tools of its caller only, under the caller's rules.
    tests/core/runs/test_nested_programs.py::test_script_of_a_tool_has_the_tools_of_its_caller
Rule 2: when the tool starts again, its script makes the same calls and receives their recorded
    results: clock and random numbers are part of the record.
    tests/core/runs/test_nested_programs.py::test_script_of_a_tool_is_repeated_with_recorded_results
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from .._core._deferred import copy_with
from .._records._limits import Limits
from .._records._result import RunResult
from .._tools._context import ToolContext
from .._tools._table import ToolTable
from .._tools._tool import Tool
from ._program import reject_unsendable
from ._programs import ProgramBuilder, typed_result
from ._runs import Executor

__all__ = ["NestedPrograms"]

_STEP = "program"
"""Name of the step that records the clock and the seed of the script."""


class NestedPrograms:
    """Runs scripts for the tools of a session."""

    def __init__(self, programs: ProgramBuilder, executor: Executor) -> None:
        """Prepare to run scripts; nothing is started.

        Args:
            programs: Builds the programs.
            executor: Executes them.
        """
        self._programs = programs
        self._executor = executor

    async def run(self, call: ToolContext, limits: Limits, options: Mapping[str, Any]) -> RunResult:
        """Run a script with the tools of a call, as `ToolContext.program`.

        Args:
            call: Context of the call.
            limits: Limits of the run that the call belongs to; the script's are clamped to them.
            options: Arguments of `ToolContext.program`.
        """
        table = ToolTable({name: _forward(tool, call) for name, tool in call.tools.items()})
        program = self._programs.for_tool(table, limits, **options)
        early = reject_unsendable(program)
        if early is not None:
            return early
        digest = sha256(program.source.encode()).hexdigest()
        start = await call.step(_STEP, _draw_start, source_sha256=digest)
        program = replace(program, clock=start["clock"], seed=start["seed"])
        result = await self._executor.execute(program)
        return typed_result(replace(result, calls=()), program.schema)


async def _draw_start() -> dict[str, Any]:
    return {"clock": time.time(), "seed": random.getrandbits(48)}


def _forward(tool: Tool, call: ToolContext) -> Tool:
    """Return a tool that passes its calls on: validation and all else happen there, once."""

    async def forward(arguments: dict[str, Any]) -> Any:
        return await call.call_tool(tool.name, **arguments)

    return copy_with(
        tool,
        function=forward,
        validate=dict,
        spread=False,
        context_parameter=None,
        side_effect=False,
        idempotent=True,
        uses_key=False,
        needs_approval=False,
        max_executions_per_run=None,
        cache=None,
        retry=None,
        timeout_ms=None,
        env=None,
        env_values={},
        revert=None,
    )
