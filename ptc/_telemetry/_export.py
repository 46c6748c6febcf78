"""Export of a process of ours, as the variables ``OTEL_*`` configure it.

A library leaves providers to its application. The command line and the workers of a queue are
applications, so they create providers. The SDK reads most variables itself: the service, resource,
sampler, batches, endpoint, headers and time-outs.

Rule 1: an exporter that hangs delays the end of the process by `_FLUSH_SECONDS` at most.
    tests/telemetry/test_export.py::test_collector_that_hangs_does_not_delay_the_end
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Final

from ..errors import SetupError, UsageError
from ._settings import Telemetry, TelemetryOption

__all__ = ["export_from_environment"]

_FLUSH_SECONDS: Final = 5.0
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable by which the instrumentations of OpenTelemetry opt content in."""
_done: list[Telemetry] = []


def export_from_environment() -> TelemetryOption:
    """Configure the global providers to export by OTLP over HTTP, once, and return the option.

    Raises:
        SetupError: If the extra is missing.
        UsageError: If a variable names another exporter.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if not _done:
        try:
            _configure()
        except ImportError as error:
            msg = f"telemetry needs {error.name}, which is not installed"
            raise SetupError(f"{msg}; install the extra: pip install 'ptc-host[otel]'") from None
        content = os.environ.get(_CONTENT, "").strip().lower()
        _done.append(Telemetry(content=content not in ("", "false", "no_content")))
    return _done[0]


def _configure() -> None:
    from opentelemetry import metrics, trace  # optional
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    os.environ.setdefault("OTEL_SERVICE_NAME", "ptc")
    ends: list[Callable[[], object]] = []
    if _is_exported("OTEL_TRACES_EXPORTER"):
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(tracers)
        ends.append(tracers.shutdown)
    if _is_exported("OTEL_METRICS_EXPORTER"):
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meters = MeterProvider([reader], shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        ends.append(meters.shutdown)
    atexit.register(_end, ends)


def _is_exported(variable: str) -> bool:
    name = os.environ.get(variable, "").strip() or "otlp"
    if name not in ("otlp", "none"):
        raise UsageError(f"{variable} must be otlp or none, not {name!r:.80}")
    return name == "otlp"


def _end(ends: list[Callable[[], object]]) -> None:
    """Flush and close the providers side by side, for a bounded time."""
    threads = [threading.Thread(target=end, daemon=True) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_FLUSH_SECONDS / len(threads))
