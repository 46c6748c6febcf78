"""Gauges: states that a meter reads when it exports, in its own thread.

A provider has one instrument of a name, however many sessions a process has, and never forgets it.
So each instrument asks the sources of all sessions, and a source that is gone is left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry.metrics import Observation, get_meter_provider

from .._dataclass import dataclass
from ._names import Metric

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

__all__ = ["Gauges", "gauges_of"]


@dataclass(frozen=True, slots=True)
class _Gauge:
    name: str
    unit: str
    text: str
    combine: Callable[[Iterable[float]], float]
    """Makes one value of those of several sources."""


_GAUGES: Final = (
    _Gauge(Metric.POOL_SIZE, "{worker}", "Workers that are kept ready.", sum),
    _Gauge(Metric.POOL_WORKERS, "{worker}", "Worker processes, by state.", sum),
    _Gauge(Metric.QUEUE_DEPTH, "{run}", "Runs that wait in the queue, of all workers.", max),
    _Gauge(Metric.QUEUE_AGE, "s", "Age of the run that waits longest in the queue.", max),
    _Gauge(Metric.LEASE_AGE, "s", "Time since the store confirmed the lease of a worker.", max),
)
_Reading: TypeAlias = tuple[str, float, Mapping[str, str]]
"""Name of a gauge, value and attributes."""
_Source: TypeAlias = Callable[[], Iterable[_Reading]]


class Gauges:
    """The gauges of one meter."""

    def __init__(self, meter: Meter) -> None:
        """Create the instruments."""
        self._sources: list[weakref.WeakMethod[_Source]] = []
        for gauge in _GAUGES:
            meter.create_observable_gauge(
                gauge.name, [partial(self._observe, gauge)], gauge.unit, gauge.text
            )

    def add(self, source: _Source) -> None:
        """Read a bound method at each export, as long as its object exists.

        It is called in any thread, and must return at once.
        """
        self._sources = [one for one in self._sources if one() is not None]
        self._sources.append(weakref.WeakMethod(source))

    def _observe(self, gauge: _Gauge, _: CallbackOptions) -> Iterator[Observation]:
        found: dict[tuple[tuple[str, str], ...], list[float]] = {}
        for reference in self._sources:
            source = reference()
            for name, value, attributes in () if source is None else source():
                if name == gauge.name:
                    found.setdefault(tuple(attributes.items()), []).append(value)
        for attributes_of, values in found.items():
            yield Observation(gauge.combine(values), dict(attributes_of))


_BY_PROVIDER: Final[weakref.WeakKeyDictionary[Any, Gauges]] = weakref.WeakKeyDictionary()


def gauges_of(provider: MeterProvider | None, meter: Meter) -> Gauges:
    """Return the gauges of a provider, created with `meter` if they are new.

    Args:
        provider: The provider. None: the global one.
        meter: A meter of it.
    """
    key = get_meter_provider() if provider is None else provider
    found = _BY_PROVIDER.get(key)
    if found is None:
        found = _BY_PROVIDER[key] = Gauges(meter)
    return found
