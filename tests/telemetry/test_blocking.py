"""Context of runs without an event loop. Alone, since trio's runner marks the thread of a test."""

from __future__ import annotations

from pathlib import Path

from ptc import BlockingSession

from .recorded import Recorded, parent_id, span_id


def test_blocking_run_is_a_child_of_the_active_span(tmp_path: Path) -> None:
    recorded = Recorded()
    tracer = recorded.tracers.get_tracer("application")
    with (
        BlockingSession(tmp_path, toolsets=(), workers=1, telemetry=recorded.telemetry) as made,
        tracer.start_as_current_span("request"),
    ):
        made.program(source="1")
    assert parent_id(recorded.span("invoke_workflow")) == span_id(recorded.span("request"))
