"""Delivery of a run's events to the caller's `on_event` function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from .._calls._call import OpenCall
from .._calls._subscribers import without_last
from .._core import _json
from .._core._redact import safe_text
from .._records._result import EventKind, RunEvent, RunWarning
from .._schema._copy import copy_data
from ._event_log import EventLog

__all__ = ["Subscriber"]

_log = logging.getLogger("ptc")
_MESSAGE_CHARS: Final = 500


class Subscriber:
    """The caller's `on_event` function, isolated from the run."""

    __slots__ = (
        *("_calls", "_number", "_on_event", "_revision", "_run_id", "_warnings"),
        *("log", "muted"),
    )

    def __init__(
        self,
        on_event: Callable[[RunEvent], None] | None,
        run_id: str,
        warnings: list[RunWarning],
        revision: int = 1,
    ) -> None:
        """Deliver events of one run.

        Args:
            on_event: Called with each event; None: nobody subscribed.
            run_id: The run.
            warnings: Receives a warning if `on_event` raises.
            revision: Number of its script.
        """
        self._on_event = on_event
        self._run_id = run_id
        self._warnings = warnings
        self._revision = revision
        # A script repeats its messages in the same order when it is replayed, so that its messages
        # are counted, and not the events: when a call starts or ends depends on the machine.
        self._number = 0
        self._calls: list[int] = []
        self.log: EventLog | None = None
        """Records the events; None: the run is not recorded."""
        self.muted = False
        """True during a replay: these events were delivered when they first happened."""

    @property
    def active(self) -> bool:
        """True if somebody subscribed."""
        return self._on_event is not None

    def note_call(self) -> None:
        """Count a message of the script that requests its next call."""
        self._number += 1
        self._calls.append(self._number)

    def emit(
        self, kind: EventKind, *, text: str = "", value: Any = None, counted: bool = True
    ) -> None:
        """Deliver an event of the run.

        Args:
            kind: Kind of the event.
            text: Text of the event.
            value: Data of the event.
            counted: True: a message of the script caused it.
        """
        self._number += counted
        if counted and self.log is not None:
            # Also in a replay: a host that died may not have recorded all that it delivered.
            self.log.add(kind, self._number, text, value)
        if self._on_event is not None and not self.muted:
            number = self._number if counted else 0
            # The record and the result have the value: the subscriber may modify its own.
            value = copy_data(value)
            self._deliver(RunEvent(kind, self._run_id, None, text, value, number, self._revision))

    def emit_call(self, kind: EventKind, call: OpenCall, data: Any) -> None:
        """Deliver an event of one call."""
        if self._on_event is not None and not self.muted:
            number = self._calls[call.position[0] - 1]
            self._deliver(
                RunEvent(kind, self._run_id, call.record(), "", data, number, self._revision)
            )

    def _deliver(self, event: RunEvent) -> None:
        assert self._on_event is not None  # noqa: S101  # both callers have checked
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001  # the caller's own code
            # A faulty subscriber must not cost the run its result, so it is only disconnected.
            self._on_event = without_last(self._on_event)
            _log.exception("run %s: on_event failed", self._run_id)
            why = _json.plain_text(safe_text(str(error)), _MESSAGE_CHARS)
            what = f"on_event raised {type(error).__name__}: {why}"
            warning = RunWarning("on_event_failed", f"{what}; it received no further events")
            self._warnings.append(warning)
