"""Remaining limits of a run, as far as the script can know them: ``ctx.budget``.

Rule 1: the budget depends only on the script's actions and on the messages it received.
    tests/worker/test_budget.py::test_budget_apart_from_time_is_the_same_in_every_run
Rule 2: the budget enforces nothing: the host counts for itself.
    tests/core/runs/test_hostile_worker.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..errors import ToolError
from ._clock import Clock
from ._record import Record

__all__ = ["Budget", "LimitError"]

_NOT_COUNTED = {"unknown_tool", "not_allowed", "invalid_arguments", "arguments_too_large"}
"""Codes of calls that the host rejects before it counts them."""
COUNTED_LIMITS = {"max_tool_calls", "max_calls_by_tool"}


class LimitError(RuntimeError):
    """The script exceeded a limit that its own side of the wire counts."""

    __module__ = "builtins"  # reprs and errors show it

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class Budget:
    """Counts the actions of one run."""

    __slots__ = ("_calls", "_clock", "_emit_bytes", "_emits", "_limits", "_messages", "_stdout")

    def __init__(self, limits: Mapping[str, Any], clock: Clock) -> None:
        """Start at zero.

        Args:
            limits: The run's `Limits` by name.
            clock: The run's logical clock.
        """
        self._limits = limits
        self._clock = clock
        self._calls: Counter[str] = Counter()
        self._emit_bytes = self._emits = self._messages = self._stdout = 0

    def limit(self, name: str) -> int:
        """Return one of the limits."""
        number: int = self._limits[name]
        return number

    def count_call(self, tool: str) -> None:
        """Count a call."""
        self._calls[tool] += 1

    def refund_call(self, tool: str, error: ToolError) -> None:
        """Subtract a failed call if the host did not count it."""
        limit = error.details.get("limit") if error.code == "limit_exceeded" else None
        if error.code in _NOT_COUNTED or limit in COUNTED_LIMITS:
            self._calls[tool] -= 1

    def count_text(self, text: str) -> None:
        """Count a piece of text that was printed or logged."""
        self._messages += 1
        self._stdout += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))

    def count_emit(self, size: int) -> None:
        """Count an emitted partial value of `size` bytes."""
        self._emits += 1
        self._emit_bytes += size

    def remaining(self) -> Record:
        """Return the remaining amounts by name, in a new dict each time."""
        limits = self._limits
        by_tool = limits["max_calls_by_tool"].items()
        spent = {
            "tool_calls": limits["max_tool_calls"] - self._calls.total(),
            "time_ms": limits["timeout_ms"] - int(self._clock.elapsed * 1000),
            "stdout_bytes": limits["max_stdout_bytes"] - self._stdout,
            "messages": limits["max_messages"] - self._messages,
            "emits": limits["max_emits"] - self._emits,
            "emit_bytes": limits["max_emit_bytes"] - self._emit_bytes,
        }
        left = Record({name: max(0, number) for name, number in spent.items()})
        left["calls_by_tool"] = Record(
            {tool: max(0, most - self._calls[tool]) for tool, most in by_tool}
        )
        return left
