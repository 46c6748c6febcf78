"""The run and the call in which code executes, for log records and generations."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["Place", "place"]


class Place:
    """A run, or one of its calls, and the tracer of its spans."""

    __slots__ = ("call", "run_id", "tracer")

    def __init__(self, tracer: Tracer, run_id: str, call: str = "") -> None:
        self.tracer = tracer
        self.run_id = run_id
        self.call = call


place: Final[ContextVar[Place | None]] = ContextVar("ptc_place", default=None)
"""None outside of a run whose spans are recorded."""


class _AddIds(logging.Filter):
    """Adds the ids of run and call to records of the logger ``ptc``.

    Handlers of OpenTelemetry export the fields of a record as attributes.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        found = place.get()
        if found is not None:
            setattr(record, "ptc.run.id", found.run_id)
            if found.call:
                setattr(record, "ptc.call", found.call)
        return True


logging.getLogger("ptc").addFilter(_AddIds())
