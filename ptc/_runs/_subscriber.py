"""Delivery of a run's events to the caller's `on_event` function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from .._calls._call import OpenCall
from .._core import _json
from .._core._redact import safe_text
from .._records._result import EventKind, RunEvent, RunWarning

__all__ = ["Subscriber"]

_log = logging.getLogger("ptc")
_MESSAGE_CHARS: Final = 500


class Subscriber:
    """The caller's `on_event` function, isolated from the run."""

    __slots__ = ("_on_event", "_run_id", "_warnings", "muted")

    def __init__(
        self,
        on_event: Callable[[RunEvent], None] | None,
        run_id: str,
        warnings: list[RunWarning],
    ) -> None:
        """Deliver events of one run.

        Args:
            on_event: Called with each event; None: nobody subscribed.
            run_id: The run.
            warnings: Receives a warning if `on_event` raises.
        """
        self._on_event = on_event
        self._run_id = run_id
        self._warnings = warnings
        self.muted = False
        """True during a replay: these events were delivered when they first happened."""

    @property
    def active(self) -> bool:
        """True if somebody subscribed."""
        return self._on_event is not None

    def emit(self, kind: EventKind, *, text: str = "", value: Any = None) -> None:
        """Deliver an event of the run."""
        if self._on_event is not None and not self.muted:
            self._deliver(RunEvent(kind, self._run_id, text=text, value=value))

    def emit_call(self, kind: EventKind, call: OpenCall, data: Any) -> None:
        """Deliver an event of one call."""
        if self._on_event is not None and not self.muted:
            self._deliver(RunEvent(kind, self._run_id, call=call.record(), value=data))

    def _deliver(self, event: RunEvent) -> None:
        assert self._on_event is not None  # noqa: S101  # both callers have checked
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001  # the caller's own code
            # A faulty subscriber must not cost the run its result, so it is only disconnected.
            self._on_event = None
            _log.exception("run %s: on_event failed", self._run_id)
            why = _json.plain_text(safe_text(str(error)), _MESSAGE_CHARS)
            what = f"on_event raised {type(error).__name__}: {why}"
            warning = RunWarning("on_event_failed", f"{what}; it received no further events")
            self._warnings.append(warning)
