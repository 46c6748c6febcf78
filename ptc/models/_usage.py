"""Usage of the models that tools call, collected for the code that started the calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .._core._call_usage import usage_of_call
from .._facts import ModelUsage
from ._prices import price_of

__all__ = ["UsageMeter", "measure_usage", "report_usage"]


class UsageMeter:
    """Sum of the usage that was reported to it."""

    def __init__(self, outer: UsageMeter | None = None) -> None:
        self.total: ModelUsage = ModelUsage()
        self._outer = outer

    def add(self, usage: ModelUsage) -> None:
        """Add usage, also to the meter around this one."""
        self.total += usage
        if self._outer is not None:
            self._outer.add(usage)


_meter: ContextVar[UsageMeter | None] = ContextVar("ptc_usage_meter", default=None)


@contextmanager
def measure_usage() -> Iterator[UsageMeter]:
    """Measure the usage of models by the code of the ``with`` block and the tasks it starts."""
    meter = UsageMeter(_meter.get())
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def report_usage(usage: ModelUsage, *, model: str = "", cost: float | None = None) -> None:
    """Report the usage of a model to the meter of the calling code and to its tool call, if any.

    Args:
        usage: The tokens.
        model: Name of the model, as ``provider:name``; ``""``: unknown.
        cost: Price in US dollars, if the provider has reported it. None: it is looked up.
    """
    meter = _meter.get()
    if meter is not None:
        meter.add(usage)
    add_to_call = usage_of_call.get()
    if add_to_call is not None:
        add_to_call(usage, price_of(model, usage) if cost is None else cost)
