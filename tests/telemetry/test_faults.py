"""Faulty processors, exporters and subscribers harm no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from ptc import Session, UsageError, tool

from .recorded import Recorded

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SOURCE = "def run(ctx):\n    return [ctx.double(n=n) for n in range(3)]"


@tool
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


class Faulty(SpanProcessor):
    """Raises at the start or the end of spans."""

    def __init__(self, when: str) -> None:
        self._when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._when == "start" or (self._when == "call" and span.name.startswith("execute")):
            raise RuntimeError("on_start")

    def on_end(self, span: Any) -> None:
        if self._when == "end":
            raise RuntimeError("on_end")


@pytest.mark.parametrize("when", ["start", "call", "end"])
async def test_processor_that_raises_fails_no_run(
    when: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorded = Recorded()
    recorded.tracers.add_span_processor(Faulty(when))
    async with Session(
        tmp_path, tools=[double], toolsets=(), workers=1, telemetry=recorded.telemetry
    ) as made:
        result = await made.program(source=SOURCE)
    assert result.value == [0, 2, 4]
    assert not result.warnings
    assert "telemetry" in caplog.text


async def test_subscriber_that_raises_ends_no_telemetry(tmp_path: Path) -> None:
    recorded = Recorded()

    def fail(event: Any) -> None:
        raise RuntimeError("subscriber")

    async with Session(
        tmp_path, tools=[double], toolsets=(), workers=1, telemetry=recorded.telemetry
    ) as made:
        result = await made.program(source=SOURCE, on_event=fail)
    assert [warning.code for warning in result.warnings] == ["on_event_failed"]
    assert len(recorded.spans("execute_tool")) == 3
    assert result.ok


def test_wrong_option_is_refused() -> None:
    with pytest.raises(UsageError, match="telemetry must be"):
        Session(telemetry="yes")  # type: ignore[arg-type]  # what is tested
