"""The tools `task` and `tasks`, for scripts, agents and applications.

`tasks` calls `task` once for each task: a rule on `task`, such as ``task(agent="explore")``, also
applies to it, and each child is a call of its own in journal, events and `RunResult.calls`.

Rule 1: neither has a tool that its caller lacks.
    tests/core/agents/test_delegate.py::test_child_has_no_tool_that_its_caller_lacks
Rule 2: `tasks` returns one result for each task, whatever becomes of the others.
    tests/core/agents/test_tasks.py::test_failed_task_does_not_lose_the_finished_ones
"""

# Annotations are evaluated here, not later: the names of the agents are part of the schema.
from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any

import anyio
from pydantic import Field

from .._dataclass import dataclass
from .._tools._allow_text import parse_allow
from .._tools._context import ToolContext
from .._tools._tool import Tool, tool
from ..errors import ToolError, UsageError
from ._delegate import run_child
from ._kinds import AgentKinds
from ._outcome import (
    TaskResult,
    read_result,
    render_result,
    render_results,
    result_of_error,
)

__all__ = ["MAX_TASKS", "TASK", "TASKS", "TaskRequest", "request_arguments", "task_tools"]

TASK = "task"
TASKS = "tasks"
MAX_TASKS = 32
"""Maximum number of tasks in one call of `tasks`."""
_MAX_CONCURRENCY = 16

_ABOUT_TASK = """\
Delegate a task to a child agent: it works on its own, with tools of yours, and returns its answer.

Use it for work with many steps whose details you need not read. The child knows nothing but the
prompt. It cannot use a tool that you cannot use, and its calls and tokens count as yours.

Agents:
"""
_ABOUT_TASKS = """\
Delegate several independent tasks to child agents at once. Returns one result for each task, in
order; a task that fails does not affect the others.

Agents:
"""

Steps = Annotated[int, Field(ge=1)] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """A task for a child agent, as one of several."""

    agent: str
    """Kind of the agent."""
    prompt: str
    """The task, with everything that the agent needs to know."""
    description: str = ""
    """A few words for people who watch."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of a structured answer."""
    allowed_tools: list[str] | None = None
    """Tools of the agent, among yours: names, patterns and rules."""
    max_steps: Steps = None
    """Most requests to the model."""
    max_tokens: Steps = None
    """Most tokens."""
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Most US dollars."""
    max_tool_calls: Steps = None
    """Most tool calls."""
    timeout_ms: Steps = None
    """Time in milliseconds."""


def request_arguments(request: TaskRequest) -> dict[str, Any]:
    """Return a task as arguments of the tool `task`."""
    values = {item.name: getattr(request, item.name) for item in fields(request)}
    return {name: value for name, value in values.items() if value not in (None, "")}


def task_tools(kinds: AgentKinds) -> tuple[Tool, ...]:
    """Create the tools `task` and `tasks` for a session.

    Args:
        kinds: Kinds of agents.
    """
    return _make_tools(kinds) if kinds.folders else _builtin_tools()


@lru_cache(1)
def _builtin_tools() -> tuple[Tool, ...]:
    # To derive their schemas takes 9 ms, and most sessions have no kinds of their own.
    return _make_tools(AgentKinds())


def _make_tools(kinds: AgentKinds) -> tuple[Tool, ...]:
    listed = "\n".join(f"- {kind.name}: {kind.description}" for kind in kinds)
    names: list[Any] = [kind.name for kind in kinds]
    return _task_tool(kinds, names, _ABOUT_TASK + listed), _tasks_tool(_ABOUT_TASKS + listed)


def _task_tool(kinds: AgentKinds, names: list[Any], description: str) -> Tool:
    # All that it does is to make nested calls and steps: to start it again is safe.
    @tool(name=TASK, description=description, idempotent=True, render=render_result)
    async def task(
        ctx: ToolContext,
        agent: Annotated[str, Field(json_schema_extra={"enum": names})],
        prompt: Annotated[str, Field(min_length=1)],
        description: Annotated[str, Field(max_length=500)] = "",
        output_schema: dict[str, Any] | None = None,
        allowed_tools: list[str] | None = None,
        max_steps: Steps = None,
        max_tokens: Steps = None,
        max_cost_usd: Annotated[float, Field(gt=0)] | None = None,
        max_tool_calls: Steps = None,
        timeout_ms: Steps = None,
    ) -> TaskResult:
        """Delegate a task.

        Args:
            ctx: The call.
            agent: Kind of the agent.
            prompt: The task, with everything that the agent needs to know.
            description: A few words for people who watch.
            output_schema: JSON Schema of a structured answer, in `object`.
            allowed_tools: Tools of the agent, among yours. Default: those of its kind.
            max_steps: Most requests to the model.
            max_tokens: Most tokens.
            max_cost_usd: Most US dollars.
            max_tool_calls: Most tool calls.
            timeout_ms: Time in milliseconds.
        """
        try:
            kind = kinds.find(agent)
            allowed = None if allowed_tools is None else [parse_allow(t) for t in allowed_tools]
        except UsageError as error:
            raise ToolError(str(error), code="invalid_arguments") from None
        result = await run_child(
            ctx,
            kind,
            prompt,
            description=description,
            output_schema=output_schema,
            allowed_tools=allowed,
            limits={
                "max_steps": max_steps,
                "max_tokens": max_tokens,
                "max_cost_usd": max_cost_usd,
                "max_tool_calls": max_tool_calls,
                "timeout_ms": timeout_ms,
            },
        )
        result.raise_if_failed()
        return result

    return task


def _tasks_tool(description: str) -> Tool:
    @tool(name=TASKS, description=description, idempotent=True, render=render_results)
    async def tasks(
        ctx: ToolContext,
        tasks: Annotated[list[TaskRequest], Field(min_length=1, max_length=MAX_TASKS)],
        max_concurrency: Annotated[int, Field(ge=1, le=_MAX_CONCURRENCY)] = 4,
    ) -> list[TaskResult]:
        """Delegate several tasks.

        Args:
            ctx: The call.
            tasks: The tasks: [{"agent": "explore", "prompt": "..."}, ...].
            max_concurrency: Tasks at once; further ones wait.
        """
        if TASK not in ctx.tools:
            msg = f"{TASKS} calls {TASK} for each task: allow {TASK}, too"
            raise ToolError(msg, code="not_allowed")
        return await _run_all(ctx, tasks, anyio.Semaphore(max_concurrency))

    return tasks


async def _run_all(
    ctx: ToolContext, requests: Iterable[TaskRequest], slots: anyio.Semaphore
) -> list[TaskResult]:
    results: dict[int, TaskResult] = {}

    async def one(number: int, request: TaskRequest) -> None:
        async with slots:
            try:
                value = await ctx.call_tool(TASK, **request_arguments(request))
                results[number] = read_result(value)
            except ToolError as error:
                results[number] = result_of_error(error, request.agent, request.description)
        ctx.progress(len(results), total, request.description)

    listed = list(enumerate(requests))
    total = len(listed)
    async with anyio.create_task_group() as group:
        for number, request in listed:
            group.start_soon(one, number, request)
    return [results[number] for number, _ in listed]
