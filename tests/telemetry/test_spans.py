"""Spans of runs, calls, generations and approvals, and their links and context."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from ptc import Decision, Session, ToolContext, tool
from ptc._telemetry import _run_span
from ptc._telemetry._settings import find_providers
from ptc.errors import ToolError

from .recorded import Recorded, parent_id, span_id

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

TWICE = """
def run(ctx, inputs):
    for n in range(2):
        ctx.double(n=n)
    return 1
"""


@tool
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@tool
async def outer(n: int, ctx: ToolContext) -> int:
    """Call another tool."""
    found: int = await ctx.call_tool("double", n=n)
    return found


@tool
async def broken() -> int:
    """Fail."""
    raise ToolError("the price of card 4111 is secret", code="no_price")


def session(root: Path, recorded: Recorded, *tools: Any, **options: Any) -> Session:
    return Session(
        root,
        tools=tools or [double, outer, broken],
        toolsets=(),
        workers=1,
        telemetry=recorded.telemetry,
        **options,
    )


async def test_run_has_a_span_and_each_call_a_child(tmp_path: Path) -> None:
    recorded = Recorded()
    async with session(tmp_path, recorded) as made:
        result = await made.program(source=TWICE, filename="twice.py")
    run, calls = recorded.span("invoke_workflow twice.py"), recorded.spans("execute_tool double")
    assert [parent_id(call) for call in calls] == [span_id(run)] * 2
    attributes = dict(calls[1].attributes or {})
    assert attributes["gen_ai.tool.call.id"] == f"{result.run_id}.2"
    assert attributes["code.line.number"] == 4
    assert attributes["ptc.call.status"] == "succeeded"
    assert dict(run.attributes or {})["ptc.run.status"] == "completed"


async def test_nested_call_is_a_child_of_its_caller(tmp_path: Path) -> None:
    recorded = Recorded()
    async with session(tmp_path, recorded) as made:
        await made.program(source="def run(ctx): return ctx.outer(n=1)")
    outside, inside = recorded.span("execute_tool outer"), recorded.span("execute_tool double")
    assert parent_id(inside) == span_id(outside)
    assert dict(inside.attributes or {})["ptc.call"] == "1.1"


async def test_span_of_a_call_is_active_while_its_tool_executes(tmp_path: Path) -> None:
    recorded, seen = Recorded(), []

    @tool
    async def look() -> int:
        """Note the active span."""
        seen.append(trace.get_current_span().get_span_context().span_id)
        return 0

    @tool
    def look_in_thread() -> int:
        """Note the active span."""
        seen.append(trace.get_current_span().get_span_context().span_id)
        return 0

    source = """
import asyncio
async def run(ctx):
    await asyncio.gather(*[ctx.look() for _ in range(5)], *[ctx.look_in_thread() for _ in range(5)])
"""
    async with session(tmp_path, recorded, look, look_in_thread) as made:
        assert (await made.program(source=source)).ok
    assert sorted(seen) == sorted(span_id(span) for span in recorded.spans("execute_tool"))
    assert not trace.get_current_span().get_span_context().is_valid


async def test_run_is_a_child_of_the_active_span(tmp_path: Path) -> None:
    recorded = Recorded()
    tracer = recorded.tracers.get_tracer("application")
    async with session(tmp_path, recorded) as made:
        with tracer.start_as_current_span("request"):
            await made.program(source="1")
    assert parent_id(recorded.span("invoke_workflow")) == span_id(recorded.span("request"))


async def test_resumed_run_is_linked_and_repeats_no_span(tmp_path: Path) -> None:
    @tool(needs_approval=True, side_effect=True, idempotent=True)
    async def pay(n: int) -> int:
        """Pay."""
        return n

    source = "def run(ctx):\n    ctx.double(n=1)\n    return ctx.pay(n=2)"
    journal = tmp_path / "journal.sqlite3"
    options: dict[str, Any] = {"journal": journal, "journal_in_root": True}
    first, second = Recorded(), Recorded()
    async with session(tmp_path, first, double, pay, **options) as made:
        paused = await made.program(source=source, allowed_tools=["double", "pay"], run_id="r")
        assert paused.status == "paused"
    async with session(tmp_path, second, double, pay, **options) as made:
        await made.approve("r", by="ann")
        assert (await made.resume("r")).ok
    earlier, later = first.span("invoke_workflow"), second.span("invoke_workflow")
    assert [link.context.span_id for link in later.links] == [span_id(earlier)]
    assert earlier.context is not None
    assert [link.context.trace_id for link in later.links] == [earlier.context.trace_id]
    assert [span.name for span in second.spans("execute_tool")] == ["execute_tool pay"]
    assert parent_id(first.span("ptc.approval")) == span_id(first.span("execute_tool pay"))
    assert dict(second.span("ptc.approval").attributes or {})["ptc.approval.approved"] is True
    assert "ann" not in second.text()
    assert sum(n for _, n in second.points("ptc.calls")) == 1


async def test_approval_wait_is_a_span(tmp_path: Path) -> None:
    async def approve(request: Any) -> Decision:
        return Decision(approved=False, by="ann", comment="no")

    @tool(needs_approval=True, side_effect=True, idempotent=True)
    async def pay(n: int) -> int:
        """Pay."""
        return n

    recorded = Recorded()
    async with session(tmp_path, recorded, pay, approver=approve) as made:
        await made.program(source="def run(ctx): ctx.pay(n=1)", allowed_tools=["pay"])
    wait, call = recorded.span("ptc.approval"), recorded.span("execute_tool pay")
    assert parent_id(wait) == span_id(call)
    assert dict(wait.attributes or {})["ptc.approval.approved"] is False
    assert dict(call.attributes or {})["error.type"] == "rejected"


async def test_generation_is_a_child_with_model_and_tokens(tmp_path: Path) -> None:
    async def answer(request: Any) -> str:
        return '{"n": 1}'

    recorded = Recorded()
    schema = "{'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n']}"
    source = f"def run(ctx): return ctx.generate_object(schema={schema}, prompt='a number')"
    async with session(tmp_path, recorded, double, model=answer) as made:
        result = await made.program(source=source, allowed_tools=["generate_object"])
        assert result.ok, result.error
    span = recorded.span("chat")
    assert parent_id(span) == span_id(recorded.span("execute_tool generate_object"))
    assert {"gen_ai.request.model", "gen_ai.provider.name", "gen_ai.usage.input_tokens"} <= set(
        span.attributes or {}
    )


async def test_failed_call_and_run_have_their_codes(tmp_path: Path) -> None:
    recorded = Recorded()
    async with session(tmp_path, recorded) as made:
        await made.program(source="def run(ctx): ctx.broken()")
    for name, code in (("execute_tool", "no_price"), ("invoke_workflow", "tool_error")):
        span = recorded.span(name)
        assert (dict(span.attributes or {})["error.type"], span.status.is_ok) == (code, False)
    assert "4111" not in recorded.text()


async def test_unsampled_run_has_no_subscriber(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(ALWAYS_OFF)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(_run_span.RunSpan, "_receive", refuse)
    async with session(tmp_path, recorded) as made:
        assert (await made.program(source=TWICE)).ok
    assert not recorded.exporter.get_finished_spans()
    assert recorded.points("ptc.calls") == [
        ({"gen_ai.tool.name": "double", "ptc.call.status": "succeeded"}, 2)
    ]


async def test_metrics_have_no_names_that_a_script_chose(tmp_path: Path) -> None:
    recorded = Recorded()
    source = """
def run(ctx):
    for n in range(20):
        try:
            getattr(ctx, f"tool_{n}")()
        except Exception:
            pass
    ctx.double(n=1)
"""
    async with session(tmp_path, recorded) as made:
        await made.program(source=source)
    tools = {attributes["gen_ai.tool.name"] for attributes, _ in recorded.points("ptc.calls")}
    assert tools <= {"double", "_OTHER"}
    assert not [span for span in recorded.spans("execute_tool") if "tool_" in span.name[12:]]
    assert recorded.points("ptc.runs")[0][1] == 1
    assert recorded.points("ptc.runs.active") == [({}, 0)]


async def test_log_records_have_the_ids_of_run_and_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def warn() -> int:
        """Log."""
        logging.getLogger("ptc").warning("from a tool")
        return 0

    recorded = Recorded()
    async with session(tmp_path, recorded, warn) as made:
        await made.program(source="def run(ctx): ctx.warn()", run_id="r9")
        logging.getLogger("ptc").warning("outside")
    inside, outside = (r.__dict__ for r in caplog.records if r.name == "ptc")
    assert (inside["ptc.run.id"], inside["ptc.call"]) == ("r9", "1")
    assert "ptc.run.id" not in outside


async def test_calls_of_a_run_that_times_out_end_their_spans_and_contexts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def stall() -> int:
        """Wait."""
        await anyio.sleep_forever()
        return 0

    @tool
    async def call_stall(ctx: ToolContext) -> int:
        """Wait for a nested call."""
        await ctx.call_tool("stall")
        return 0

    recorded = Recorded()
    source = """
import asyncio
async def run(ctx):
    await asyncio.gather(*[ctx.stall() for _ in range(4)], *[ctx.call_stall() for _ in range(4)])
"""
    async with session(tmp_path, recorded, stall, call_stall) as made:
        result = await made.program(source=source, limits={"timeout_ms": 500})
    assert result.status == "timed_out"
    assert dict(recorded.span("invoke_workflow").attributes or {})["error.type"] == "timeout"
    assert len(recorded.spans("execute_tool")) == 12
    assert "detach" not in caplog.text
    assert not trace.get_current_span().get_span_context().is_valid


def test_telemetry_is_off_until_a_provider_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_providers(None) is None
    assert find_providers(False) is None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Recorded().tracers)
    assert find_providers(None) is not None
    assert find_providers(False) is None
