"""Span of one run, and the entry point of the runs of a session.

Rule 1: nothing here fails a run. The first error is logged, and ends the telemetry of that run.
    tests/telemetry/test_faults.py
Rule 2: a run whose span is not recorded has no subscriber, so its calls cost nothing.
    tests/telemetry/test_spans.py::test_unsampled_run_has_no_subscriber
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from weakref import WeakMethod

from .._core._clock import now_ms
from .._dataclass import dataclass
from .._records._result import CallRecord, RunEvent, RunResult
from . import _text
from ._context import Place, place
from ._names import Attribute, Operation
from ._settings import Telemetry, TelemetryOption, find_providers

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.trace import Link, Span, Tracer

    from ._call_spans import CallSpans
    from ._gauges import Gauges
    from ._metrics import RunMetrics

__all__ = ["GaugeSource", "RunDescription", "RunSpan", "SessionTelemetry"]

_log = logging.getLogger("ptc")
GaugeSource: TypeAlias = Callable[[], Iterable[tuple[str, float, Mapping[str, str]]]]
"""Returns readings of gauges: name, value and attributes."""
_SCOPE: Final = "ptc"
_TRACE: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run, as its span describes it."""

    run_id: str
    filename: str
    source: str
    inputs: bytes
    tools: Mapping[str, Any]
    revision: int
    resumed: bool
    """True: its record existed before."""
    trace: str = ""
    """Context that was recorded with it, in the format of ``traceparent``."""


class SessionTelemetry:
    """Creates the spans of a session's runs."""

    def __init__(self, option: TelemetryOption) -> None:
        """Prepare to create spans.

        Args:
            option: The option `telemetry` of the session, validated.
        """
        self._option = option
        self._providers: Telemetry | None = None
        self._tracer: Tracer | None = None
        self._metrics: RunMetrics | None = None
        self._gauges: Gauges | None = None
        self._sources: list[WeakMethod[GaugeSource]] = []

    def observe(self, source: GaugeSource) -> bool:
        """Read a bound method for the gauges at each export, as long as its object exists.

        Args:
            source: Returns names of gauges, values and attributes. It is called in any thread.

        Returns:
            False if telemetry is off. If a provider is configured later, the first run after that
            adds the method.
        """
        self._sources.append(WeakMethod(source))
        try:
            if self._gauges is not None:
                self._gauges.add(source)
            elif not self._connect():
                return False
        except Exception:  # noqa: BLE001  # providers are the application's code
            _log.exception("telemetry failed to create the gauges")
            return False
        return True

    def open_run(self, describe: Callable[[], RunDescription]) -> RunSpan | None:
        """Start the span of a run; None if telemetry is off."""
        try:
            if self._providers is None and not self._connect():
                return None
            assert self._tracer is not None  # noqa: S101  # set by `_connect`
            assert self._metrics is not None  # noqa: S101
            content = self._providers is not None and self._providers.content
            return RunSpan(self._tracer, self._metrics, describe(), content=content)
        except Exception:  # noqa: BLE001  # providers are the application's code
            _log.exception("telemetry failed to start the span of a run")
            return None

    def current_context(self) -> str:
        """Return the active context, for a run that another process executes; ``""``: none."""
        try:
            if self._providers is None and not self._connect():
                return ""
            from opentelemetry.trace import get_current_span  # optional

            return _context_text(get_current_span())
        except Exception:  # noqa: BLE001  # providers are the application's code
            _log.exception("telemetry failed to read the active context")
            return ""

    def _connect(self) -> bool:
        providers = find_providers(self._option)
        if providers is None:
            return False
        from opentelemetry.metrics import get_meter  # optional
        from opentelemetry.trace import get_tracer  # optional

        from ._gauges import gauges_of  # used with OpenTelemetry only
        from ._metrics import RunMetrics

        version = _own_version()
        self._tracer = get_tracer(_SCOPE, version, providers.tracer_provider)
        meter = get_meter(_SCOPE, version, providers.meter_provider)
        self._metrics = RunMetrics(meter)
        self._gauges = gauges_of(providers.meter_provider, meter)
        for reference in self._sources:
            if (source := reference()) is not None:
                self._gauges.add(source)
        self._providers = providers
        return True


def _own_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("ptc-host")
    except metadata.PackageNotFoundError:
        return ""


class RunSpan:
    """The span of one run, as a context in which the run executes."""

    def __init__(
        self, tracer: Tracer, metrics: RunMetrics, run: RunDescription, *, content: bool
    ) -> None:
        """Start the span.

        Args:
            tracer: Creates it, and those of the calls.
            metrics: Receives the result.
            run: The run.
            content: True: texts are attributes.
        """
        self._metrics = metrics
        self._run = run
        self._content = content
        self._failed = False
        self._tokens: tuple[Any, Any] | None = None
        self._span = _start_span(tracer, run)
        self.context = _context_text(self._span)
        """Context of the span, in the format of ``traceparent``; ``""`` if it has none."""
        self._calls: CallSpans | None = None
        self._tracer = tracer
        self._started_ms = now_ms()
        if self._span.is_recording():
            self._describe()
            from ._call_spans import CallSpans  # imports OpenTelemetry

            self._calls = CallSpans(tracer, self._span, run.run_id, run.tools, content=content)
        metrics.start_run()

    @property
    def on_event(self) -> Callable[[RunEvent], None] | None:
        """Receives the events of the run; None if no span is recorded."""
        return None if self._calls is None else self._receive

    def _describe(self) -> None:
        run = self._run
        attributes: dict[str, Any] = {
            Attribute.OPERATION: Operation.RUN,
            Attribute.WORKFLOW: _text.name(run.filename),
            Attribute.RUN_ID: run.run_id,
            Attribute.RUN_RESUMED: run.resumed,
            Attribute.RUN_REVISION: run.revision,
        }
        if self._content:
            attributes[Attribute.RUN_SOURCE] = _text.content(run.source)
            attributes[Attribute.RUN_INPUTS] = _text.content(run.inputs.decode())
        self._span.set_attributes(attributes)

    def __enter__(self) -> Self:
        from opentelemetry.context import attach  # optional
        from opentelemetry.trace import set_span_in_context

        entered = place.set(Place(self._tracer, self._run.run_id)) if self._calls else None
        self._tokens = attach(set_span_in_context(self._span)), entered
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from opentelemetry.context import detach  # optional

        if self._tokens is not None:
            detach(self._tokens[0])
            if self._tokens[1] is not None:
                place.reset(self._tokens[1])
        self._guard(self._leave, kind)

    def _leave(self, kind: type[BaseException] | None) -> None:
        self._metrics.leave_run()
        if self._calls is not None:
            self._calls.close()
        if kind is not None:
            self._set_error(kind.__qualname__, "")
        self._span.end()

    def finish(self, result: RunResult) -> None:
        """Add the result of the run."""
        self._guard(self._add_result, result)

    def _add_result(self, result: RunResult) -> None:
        self._metrics.end_run(result, self._own_calls(result), self._run.tools)
        if self._calls is None:
            return
        attributes: dict[str, Any] = {
            Attribute.RUN_STATUS: result.status,
            Attribute.RUN_QUEUED_MS: result.usage.queued_ms,
            Attribute.RUN_CALLS: result.usage.tool_calls,
        }
        if self._content and result.ok:
            attributes[Attribute.RUN_VALUE] = _text.encode(result.value)
        self._span.set_attributes(attributes)
        if result.error is not None:
            self._set_error(result.error.code, result.error.message)

    def _own_calls(self, result: RunResult) -> list[CallRecord] | tuple[CallRecord, ...]:
        """Return the calls without those that an earlier host made."""
        if not self._run.resumed:
            return result.calls
        return [call for call in result.calls if call.started_ms >= self._started_ms]

    def _set_error(self, code: str, message: str) -> None:
        from opentelemetry.trace import StatusCode  # optional

        self._span.set_attribute(Attribute.ERROR, _text.name(code))
        text = _text.content(message) if self._content and message else None
        self._span.set_status(StatusCode.ERROR, text)

    def _receive(self, event: RunEvent) -> None:
        if self._calls is not None:
            self._guard(self._calls.receive, event)

    def _guard(self, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function. After its first error, no event is processed any more."""
        if self._failed and function != self._leave:
            return
        try:
            function(argument)
        except Exception:  # noqa: BLE001  # processors and exporters are not ours
            if not self._failed:
                _log.exception("telemetry of run %s failed and is incomplete", self._run.run_id)
            self._failed = True


def _start_span(tracer: Tracer, run: RunDescription) -> Span:
    from opentelemetry.trace import SpanKind  # optional

    return tracer.start_span(
        f"{Operation.RUN} {_text.name(run.filename)}", kind=SpanKind.INTERNAL, links=_links(run)
    )


def _links(run: RunDescription) -> list[Link]:
    """Return a link to the span in which the run was started or submitted."""
    from opentelemetry.trace import Link, SpanContext, TraceFlags  # optional

    found = _TRACE.fullmatch(run.trace)
    if found is None:
        return []
    trace, span, flags = (int(part, 16) for part in found.groups())
    context = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags))
    return [Link(context)] if context.is_valid else []


def _context_text(span: Span) -> str:
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
