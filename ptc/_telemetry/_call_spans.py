"""Spans of the calls of one run, from its events.

Events of a call arrive in the task that executes its tool, so the span of the call is the active
one while the tool executes: instrumented clients in it, also those of MCP, pass it on.

Rule 1: a call whose start was not seen, as in a replay, has no span.
    tests/telemetry/test_spans.py::test_resumed_run_is_linked_and_repeats_no_span
Rule 2: texts are attributes only if their content was opted in.
    tests/telemetry/test_content.py
"""

from __future__ import annotations

from collections.abc import Container
from contextvars import Token
from typing import Any, Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from .._records._result import CallRecord, RunEvent
from . import _text
from ._context import Place, place
from ._generation import usage_attributes
from ._names import Attribute, Operation

__all__ = ["CallSpans"]

_TEXT_EVENTS: Final = ("stdout", "stderr", "log")


class _OpenSpan:
    """Span of a call that executes."""

    __slots__ = ("approval", "context", "place", "span", "token")

    def __init__(
        self, span: Span, context: Context, token: Token[Context], place: Token[Place | None]
    ) -> None:
        self.span = span
        self.context = context
        self.token = token
        self.place = place
        self.approval: Span | None = None


class CallSpans:
    """Receives the events of a run, and makes spans of them."""

    def __init__(
        self, tracer: Tracer, run: Span, run_id: str, known: Container[str], *, content: bool
    ) -> None:
        """Prepare to receive events.

        Args:
            tracer: Creates the spans.
            run: Span of the run.
            run_id: The run.
            known: Tools of the run. Other names are chosen by a script.
            content: True: texts are attributes.
        """
        self._tracer = tracer
        self._run = run
        self._context = set_span_in_context(run)
        self._run_id = run_id
        self._known = known
        self._content = content
        self._open: dict[str, _OpenSpan] = {}

    def receive(self, event: RunEvent) -> None:
        """Process an event."""
        kind, call = event.kind, event.call
        if call is None:
            self._receive_of_run(event)
        elif kind == "tool_started":
            self._start(call)
        elif kind == "tool_finished":
            self._finish(call)
        elif kind == "approval_pending":
            self._start_approval(call)
        elif kind == "approval_decided":
            self._finish_approval(call, event.value)

    def close(self) -> None:
        """End the spans of calls whose end was not seen."""
        while self._open:
            _, found = self._open.popitem()
            self._end(found)

    def _receive_of_run(self, event: RunEvent) -> None:
        if event.kind == "warning":
            self._run.add_event("ptc.warning", {"ptc.warning.code": event.value.code})
        elif event.kind == "violation":
            call = {"ptc.violation.syscall": _text.name(event.value.syscall)}
            self._run.add_event("ptc.violation", {Attribute.ERROR: event.value.code, **call})
        elif self._content and event.kind in _TEXT_EVENTS:
            self._run.add_event(f"ptc.{event.kind}", {"ptc.text": _text.content(event.text)})

    def _start(self, call: CallRecord) -> None:
        path = _path_of(call)
        tool = _text.name(call.tool)
        attributes: dict[str, Any] = {
            Attribute.OPERATION: Operation.CALL,
            Attribute.TOOL: tool,
            Attribute.TOOL_TYPE: "function",
            Attribute.CALL_ID: f"{self._run_id}.{path}",
            Attribute.RUN_ID: self._run_id,
            Attribute.CALL: path,
        }
        if call.line is not None:
            attributes[Attribute.LINE] = call.line
        if self._content:
            attributes[Attribute.ARGUMENTS] = _text.content(call.arguments)
        parent = self._open.get(call.parent or "")
        known = call.parent is not None or call.tool in self._known
        span = self._tracer.start_span(
            f"{Operation.CALL} {tool}" if known else Operation.CALL,
            context=self._context if parent is None else parent.context,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
        )
        context = set_span_in_context(span)
        entered = place.set(Place(self._tracer, self._run_id, path))
        self._open[path] = _OpenSpan(span, context, attach(context), entered)

    def _finish(self, call: CallRecord) -> None:
        found = self._open.pop(_path_of(call), None)
        if found is None:
            return
        detach(found.token)
        place.reset(found.place)
        attributes: dict[str, Any] = {
            Attribute.CALL_STATUS: call.status,
            Attribute.CALL_ATTEMPTS: call.attempts,
            Attribute.CALL_RESULT_BYTES: call.result_bytes,
        }
        if call.cached:
            attributes[Attribute.CALL_CACHED] = True
        if call.exit_code is not None:
            attributes[Attribute.CALL_EXIT_CODE] = call.exit_code
        if call.usage is not None:
            attributes |= usage_attributes(call.usage)
        if call.error_code is not None:
            attributes[Attribute.ERROR] = _text.name(call.error_code)
            why = _text.content(call.error or "") if self._content else None
            found.span.set_status(StatusCode.ERROR, why)
        found.span.set_attributes(attributes)
        self._end(found)

    def _start_approval(self, call: CallRecord) -> None:
        found = self._open.get(_path_of(call))
        if found is not None:
            found.approval = self._tracer.start_span(
                "ptc.approval",
                context=found.context,
                attributes={Attribute.RUN_ID: self._run_id, Attribute.CALL: _path_of(call)},
            )

    def _finish_approval(self, call: CallRecord, decision: Any) -> None:
        found = self._open.get(_path_of(call))
        if found is None:
            return
        if found.approval is None:
            # Decided while no process executed the run: its wait is between two spans of the run.
            self._start_approval(call)
        span, found.approval = found.approval, None
        if span is None:
            return
        span.set_attribute(Attribute.APPROVED, bool(decision.approved))
        if self._content and decision.by:
            span.set_attribute(Attribute.APPROVED_BY, _text.content(decision.by))
        span.end()

    def _end(self, found: _OpenSpan) -> None:
        if found.approval is not None:
            found.approval.end()
        found.span.end()


def _path_of(call: CallRecord) -> str:
    return str(call.seq) if call.parent is None else f"{call.parent}.{call.seq}"
