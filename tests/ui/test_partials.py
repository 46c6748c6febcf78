"""Partial values of calls, for the page."""

from __future__ import annotations

from ptc import CallRecord, RunEvent
from ptc._records._result import EventKind
from ptc._ui._partials import Partials


def event(kind: EventKind, number: int, value: object = None) -> RunEvent:
    call = CallRecord(number, "generate_object", "succeeded", "{}", "", 0.0, 0)
    return RunEvent(kind, "r", call, value=value)


def test_value_of_a_call_is_replaced_and_dropped_at_its_end() -> None:
    partials = Partials()
    for value in ({"a": 1}, {"a": 1, "b": 2}):
        partials.note("r", event("tool_output_delta", 1, value))
    partials.note("r", event("tool_output_delta", 2, 5))
    assert partials.of("r") == {"1": {"a": 1, "b": 2}, "2": 5}
    partials.note("r", event("tool_finished", 1))
    assert partials.of("r") == {"2": 5}
    partials.forget("r")
    assert partials.of("r") == {}


def test_calls_and_runs_are_bounded() -> None:
    partials = Partials()
    for number in range(1_000):
        partials.note("r", event("tool_output_delta", number))
        partials.note(f"r{number}", event("tool_output_delta", 1))
    assert len(partials.of("r999")) == 1
    assert len(partials.of("r0")) == 0
    assert len(partials.of("r")) <= 64
