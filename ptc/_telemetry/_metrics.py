"""Metrics of runs, recorded when a run ends: nothing is counted while it executes."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Final

from .._records._result import CallRecord, RunResult
from ._names import Attribute, Metric, Operation

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

__all__ = ["RunMetrics"]

_OTHER: Final = "_OTHER"
"""Stands for names that only a script has chosen: they would make endless series."""


class RunMetrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        """Create the instruments. Those of an equal meter share their values."""
        self._runs = meter.create_counter(Metric.RUNS, "{run}", "Runs, by status.")
        self._violations = meter.create_counter(
            Metric.VIOLATIONS, "{violation}", "Runs that the kernel layer or the protocol stopped."
        )
        self._duration = meter.create_histogram(Metric.RUN_DURATION, "s", "Duration of runs.")
        self._queued = meter.create_histogram(
            Metric.RUN_QUEUED, "s", "Time that runs waited for their turn and for a worker."
        )
        self._calls = meter.create_counter(
            Metric.CALLS, "{call}", "Calls of tools, by tool and status."
        )
        self._call_duration = meter.create_histogram(
            Metric.CALL_DURATION, "s", "Duration of tool calls."
        )
        self._tokens = meter.create_histogram(Metric.TOKENS, "{token}", "Tokens of generations.")
        self._cost = meter.create_counter(
            Metric.COST, "{USD}", "Price of the models that tools used, as far as it is known."
        )
        self._active = meter.create_up_down_counter(
            Metric.ACTIVE, "{run}", "Runs that wait for a worker or execute."
        )

    def start_run(self) -> None:
        """Count a run that was requested."""
        self._active.add(1)

    def leave_run(self) -> None:
        """Count the end of a run, with or without a result."""
        self._active.add(-1)

    def end_run(
        self, result: RunResult, calls: Iterable[CallRecord], known: Container[str]
    ) -> None:
        """Record a run.

        Args:
            result: Its result.
            calls: The calls that this host made, without those of an earlier one.
            known: Tools of the run.
        """
        status = {Attribute.RUN_STATUS: result.status}
        self._runs.add(1, status)
        self._duration.record(result.usage.duration_ms / 1000, status)
        self._queued.record(result.usage.queued_ms / 1000)
        if result.status == "violation":
            code = result.error.code if result.error is not None else "violation"
            self._violations.add(1, {Attribute.ERROR: code})
        self._add_calls(calls, known)

    def _add_calls(self, calls: Iterable[CallRecord], known: Container[str]) -> None:
        counts: dict[tuple[str, str], int] = {}
        tokens, cost = [0, 0], 0.0
        record = self._call_duration.record
        labels: dict[tuple[str, str | None], dict[str, str]] = {}
        for call in calls:
            tool = call.tool if call.tool in known else _OTHER
            counts[tool, call.status] = counts.get((tool, call.status), 0) + 1
            label = labels.get((tool, call.error_code))
            if label is None:
                label = {Attribute.OPERATION: Operation.CALL, Attribute.TOOL: tool}
                if call.error_code:
                    label[Attribute.ERROR] = call.error_code
                labels[tool, call.error_code] = label
            if call.attempts:
                record(call.duration_ms / 1000, label)
            if call.usage is not None:
                tokens[0] += call.usage.input_tokens
                tokens[1] += call.usage.output_tokens
                cost += call.cost_usd or 0.0
        for (tool, status), number in counts.items():
            self._calls.add(number, {Attribute.TOOL: tool, Attribute.CALL_STATUS: status})
        if cost:
            self._cost.add(cost)
        for kind, number in zip(("input", "output"), tokens, strict=True):
            if number:
                names = {Attribute.OPERATION: Operation.GENERATION, Attribute.TOKEN_TYPE: kind}
                self._tokens.record(number, names)
