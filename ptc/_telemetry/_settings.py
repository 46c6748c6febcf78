"""The option `telemetry` of a session: providers, and the decision to use them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from .._dataclass import dataclass
from ..errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["Telemetry", "TelemetryOption", "find_providers", "validate_telemetry"]

_REMEDY: Final = "install the extra: pip install 'ptc-host[otel]'"


@dataclass(frozen=True, slots=True)
class Telemetry:
    """OpenTelemetry providers of a session, and the content that they may receive."""

    tracer_provider: TracerProvider | None = None
    """Receives the spans. None: the global provider."""
    meter_provider: MeterProvider | None = None
    """Receives the metrics. None: the global provider."""
    content: bool = False
    """True: spans have the source, inputs and value of runs, the arguments of calls as the journal
    records them, the texts of errors and the names of approvers. All are truncated."""


TelemetryOption: TypeAlias = Telemetry | bool | None
"""``None``: use the global providers of OpenTelemetry if the application has configured any.
``True``: use them in any case. ``False``: never. A `Telemetry` has its own providers."""


def validate_telemetry(option: object) -> None:
    """Raise `UsageError` if `option` is not a value of `telemetry`, or its package is missing."""
    if option is not None and not isinstance(option, bool | Telemetry):
        msg = f"telemetry must be a Telemetry, True, False or None, not {option!r:.80}"
        raise UsageError(msg)
    if option:
        try:
            import opentelemetry.trace  # noqa: F401  # optional
        except ImportError:
            msg = f"telemetry={option!r:.40} needs OpenTelemetry, which is not installed"
            raise UsageError(f"{msg}; {_REMEDY}") from None


def find_providers(option: TelemetryOption) -> Telemetry | None:
    """Return the providers to use; None: telemetry is off.

    For ``None``, nothing is imported: an application that has configured a provider has imported
    OpenTelemetry. A provider may be configured after the session was created.
    """
    if option is False:
        return None
    if option is not None:
        return Telemetry() if option is True else option
    traces = sys.modules.get("opentelemetry.trace")
    metrics = sys.modules.get("opentelemetry.metrics")
    if traces is not None and not isinstance(
        traces.get_tracer_provider(), traces.ProxyTracerProvider | traces.NoOpTracerProvider
    ):
        return Telemetry()
    if metrics is not None:
        # The class of the placeholder is private; a provider of an SDK has another module.
        module = type(metrics.get_meter_provider()).__module__
        if not module.startswith("opentelemetry.metrics"):
            return Telemetry()
    return None
