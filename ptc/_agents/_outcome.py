"""Result of a child agent, as scripts, models and applications receive it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from .._core import _json
from .._dataclass import dataclass
from ..errors import ToolError

__all__ = [
    "ANSWER_CHARS",
    "TaskProblem",
    "TaskResult",
    "TaskStatus",
    "TaskUsage",
    "bound_text",
    "read_result",
    "render_result",
    "render_results",
    "result_in_error",
    "result_of_error",
    "results_in",
]

ANSWER_CHARS = 4_000
"""Characters of an answer. The whole answer is in the transcript."""

TaskStatus: TypeAlias = Literal["completed", "failed", "limit_exceeded"]


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """Usage of a child agent, that of its own children included."""

    steps: int = 0
    """Requests to models."""
    tool_calls: int = 0
    """Tool calls that the agent itself made."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """Price in US dollars; None if the price of the model is unknown."""


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """Reason why a child agent did not complete its task."""

    code: str
    """``limit_exceeded``, ``timeout``, ``model_failed``, ``not_conforming`` or another code."""
    message: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Result of a child agent."""

    agent: str
    """Kind of the agent."""
    status: TaskStatus
    answer: str = ""
    """The agent's last text, at most 4,000 characters. If it did not complete: the last text that
    it wrote, which may be an interim one."""
    object: Any = None
    """Structured answer, valid against the schema; None without a schema."""
    description: str = ""
    """As the caller passed it."""
    usage: TaskUsage = TaskUsage()  # frozen
    transcript: str | None = None
    """Id of the attachment with all messages as JSON; it is listed in the call's record."""
    error: TaskProblem | None = None
    """None if it completed."""
    warnings: tuple[str, ...] = ()
    """As that `max_cost_usd` could not be enforced."""
    call: str = ""
    """Id of the call, as in events."""

    @property
    def ok(self) -> bool:
        """True if the agent completed its task."""
        return self.status == "completed"

    def raise_if_failed(self) -> None:
        """Raise `ToolError` with this result as `details` unless the agent completed its task."""
        if self.ok:
            return
        assert self.error is not None  # noqa: S101  # every other status has one
        msg = f"the agent {self.agent!r} did not complete its task: {self.error.message}"
        data = {**asdict(self), "warnings": list(self.warnings)}
        raise ToolError(msg, code=self.error.code, details={"task": data})


def read_result(data: Any) -> TaskResult:
    """Return a result, also from its JSON form: a redacted value is plain data.

    Raises:
        TypeError: If `data` is neither.
        KeyError: If a key is missing.
    """
    if isinstance(data, TaskResult):
        return data
    more = {
        "usage": TaskUsage(**data["usage"]),
        "error": None if data["error"] is None else TaskProblem(**data["error"]),
        "warnings": tuple(data["warnings"]),
    }
    return TaskResult(**{**data, **more})


def results_in(tool: str, value: Any) -> list[TaskResult]:
    """Return the results in the value of a tool: of `task` or `tasks`."""
    if tool == "task":
        return [read_result(value)]
    return [read_result(item) for item in value] if tool == "tasks" else []


def result_in_error(error: ToolError) -> TaskResult | None:
    """Return the result of a failed task from the error of its call; None if it has none."""
    found = error.details.get("task")
    return read_result(found) if isinstance(found, dict) else None


def result_of_error(error: ToolError, agent: str, description: str) -> TaskResult:
    """Return the result of a task whose call raised `error`."""
    found = result_in_error(error)
    if found is not None:
        return found
    problem = TaskProblem(error.code, error.message)
    # The agent wrote nothing: the call was refused, or its time was over.
    exceeded = error.code in ("limit_exceeded", "timeout")
    status: TaskStatus = "limit_exceeded" if exceeded else "failed"
    return TaskResult(agent, status, description=description, error=problem)


def bound_text(text: str, most: int = ANSWER_CHARS) -> str:
    """Return the start of `text`, with a note of its size if it is longer than `most`."""
    if len(text) <= most:
        return text
    note = f"\n[truncated: the whole text has {len(text):,} characters and is in the transcript]"
    return text[: most - len(note)] + note


def render_result(result: TaskResult) -> str:
    """Format a result for a model."""
    lines = []
    if result.error is not None:
        lines.append(f"{result.status} [{result.error.code}]: {result.error.message}")
    if result.object is not None:
        lines.append(_json.dumps(result.object).decode())
    elif result.answer:
        lines.append(result.answer)
    lines += [f"Warning: {warning}" for warning in result.warnings]
    return "\n\n".join(lines)


def render_results(results: list[TaskResult]) -> str:
    """Format the results of several agents for a model."""
    done = sum(result.ok for result in results)
    parts = [f"{done} of {len(results)} tasks completed"]
    for number, result in enumerate(results, 1):
        label = f": {result.description}" if result.description else ""
        parts.append(f"=== {number} ({result.agent}{label})\n{render_result(result)}")
    return "\n\n".join(parts)
