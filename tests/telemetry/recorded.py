"""Sessions whose spans and metrics are kept in memory, and queries of them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from ptc import Telemetry


def _value_of(point: Any) -> Any:
    """Value of a point of a counter, or the number of values of a histogram."""
    return point.value if hasattr(point, "value") else point.count


class Recorded:
    """Providers in memory."""

    def __init__(self, sampler: Sampler | None = None, *, content: bool = False) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(self.tracers, meters, content=content)

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans whose names start with `name`, in the order of their starts."""
        found = [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        """Return the only span of this name."""
        (found,) = self.spans(name)
        return found

    def text(self) -> str:
        """Return everything that was exported."""
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return attributes and value of each point of a metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            (dict(point.attributes or {}), _value_of(point))
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


def parent_id(span: ReadableSpan) -> int | None:
    """Return the id of the parent of a span."""
    return span.parent.span_id if span.parent is not None else None


def span_id(span: ReadableSpan) -> int:
    """Return the id of a span."""
    assert span.context is not None
    return int(span.context.span_id)
