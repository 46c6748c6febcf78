"""Limits of a child agent, and the account of what it and its own children have used.

Rule 1: a child is stopped by its own limits and by those of every agent above it, whichever is
    reached first. Each request and each token counts for all of them.
    tests/core/agents/test_limits.py::test_child_cannot_use_more_than_its_parent_has_left
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, fields
from typing import Any

from .._core._arguments import nearest
from .._dataclass import dataclass
from ..errors import ToolError, UsageError
from ._outcome import TaskUsage

__all__ = ["Account", "TaskLimits", "current_account"]

_MAXIMA: Mapping[str, float] = {
    "max_steps": 1_000,
    "max_tokens": 1_000_000_000,
    "max_cost_usd": 1_000_000,
    "max_tool_calls": 10_000,
    "timeout_ms": 86_400_000,
}


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of one child agent. They have defaults, and cannot be switched off.

    The lowest of the kind's limits, the caller's and those of the agents above applies.
    """

    max_steps: int = 50
    """Requests to the model, those of its own children included."""
    max_tokens: int = 2_000_000
    """Input and output tokens of all requests. Known after each response, so the last one may
    exceed it."""
    max_cost_usd: float | None = None
    """Price of all requests in US dollars, as far as the price of the model is known. None: the
    limit on tokens alone applies."""
    max_tool_calls: int = 200
    """Tool calls, with the calls that its tools make. Those after the last fail with code
    ``limit_exceeded``, which the agent reads; calls of a run count against the run's limit, too."""
    timeout_ms: int = 600_000
    """Wall time in milliseconds, tools included. It starts again when a suspended or interrupted
    child is resumed."""

    def __post_init__(self) -> None:
        for name, most in _MAXIMA.items():
            _check_number(name, getattr(self, name), most)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> TaskLimits:
        """Create limits from their names; a missing one has its default.

        Raises:
            UsageError: If a name is unknown or a value is wrong.
        """
        known = [item.name for item in fields(cls)]
        for name in values:
            if name not in known:
                msg = f"unknown limit {name!r:.80}{nearest(name, known)}; limits: "
                raise UsageError(msg + ", ".join(known))
        return cls(**values)

    def lower(self, values: Mapping[str, Any]) -> TaskLimits:
        """Return these limits, lowered to `values` where those are lower; None changes nothing."""
        lowered = {}
        for name in _MAXIMA:
            numbers = [n for n in (getattr(self, name), values.get(name)) if n is not None]
            lowered[name] = min(numbers) if numbers else None
        return TaskLimits(**lowered)  # type: ignore[arg-type]  # each has the type of its field


def _check_number(name: str, value: object, most: float) -> None:
    if name == "max_cost_usd":
        if value is None:
            return
        if type(value) in (int, float) and 0 < value <= most:  # type: ignore[operator]  # a number
            return
        msg = f"{name} must be a number above 0 and up to {most:,.0f}, not {value!r:.80}"
        raise UsageError(msg)
    if type(value) is not int or not 1 <= value <= most:
        msg = f"{name} must be an integer from 1 to {most:,.0f}, not {value!r:.80}"
        raise UsageError(msg)


@dataclass(slots=True, eq=False)
class Account:
    """Usage of one child agent and of the agents below it."""

    limits: TaskLimits
    parent: Account | None = None
    """Account of the agent that started this one; None: no agent did."""
    steps: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Responses whose price is unknown."""
    children: set[str] = field(default_factory=set)
    """Calls of children that charged this account themselves."""

    def chain(self) -> Iterator[Account]:
        """Yield this account and those above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    def reserve_step(self) -> None:
        """Count a request that is about to be sent, in every account of the chain.

        Raises:
            ToolError: ``limit_exceeded``, if one of them has nothing left; then none is charged.
        """
        for account in self.chain():
            spent = account.spent_limit()
            if spent is not None:
                raise _exceeded(spent, getattr(account.limits, spent), own=account is self)
        for account in self.chain():
            account.steps += 1

    def charge(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        """Charge a response to every account of the chain."""
        for account in self.chain():
            account.input_tokens += input_tokens
            account.output_tokens += output_tokens
            account.cost_usd += cost_usd or 0.0
            account.unpriced += cost_usd is None

    def charge_recorded(self, usage: TaskUsage) -> None:
        """Charge a child whose whole result was recorded before, and who therefore did not run."""
        for account in self.chain():
            account.steps += usage.steps
        self.charge(usage.input_tokens, usage.output_tokens, usage.cost_usd)

    @property
    def usage(self) -> TaskUsage:
        """Usage so far."""
        return TaskUsage(
            steps=self.steps,
            tool_calls=self.tool_calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=None if self.unpriced else round(self.cost_usd, 6),
        )

    def spent_limit(self) -> str | None:
        """Return the name of a limit that is used up; None: another request may be sent."""
        limits = self.limits
        if self.steps >= limits.max_steps:
            return "max_steps"
        if self.input_tokens + self.output_tokens >= limits.max_tokens:
            return "max_tokens"
        if limits.max_cost_usd is not None and self.cost_usd >= limits.max_cost_usd:
            return "max_cost_usd"
        return None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make this account the parent of those that the code of the block creates."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


def _exceeded(limit: str, most: float, own: bool) -> ToolError:
    whose = "the agent" if own else "the agent above it"
    msg = f"{limit} of {whose} is {most:,}, and it has used all of it"
    details: dict[str, object] = {"limit": limit, "most": most}
    return ToolError(msg, code="limit_exceeded", details=details)


_current: ContextVar[Account | None] = ContextVar("ptc_agent_account", default=None)
"""Account of the agent whose tool is executing."""


def current_account() -> Account | None:
    """Return the account of the agent whose tool call the running code is part of."""
    return _current.get()
