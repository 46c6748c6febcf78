"""Subscribers of a session: functions that receive the events of all its runs and calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from .._records._result import RunEvent

__all__ = ["EventSink", "SessionSubscriber", "join_subscribers", "without_last"]

EventSink: TypeAlias = Callable[[RunEvent], None]
"""Receives each event in the event loop; must return at once."""

_log = logging.getLogger("ptc")


class SessionSubscriber:
    """The session's `on_event` function, isolated from runs and calls.

    If it raises, it is logged and disconnected: no run and no call fails by its subscriber.
    """

    def __init__(self, on_event: EventSink) -> None:
        self._on_event: EventSink | None = on_event

    def __call__(self, event: RunEvent) -> None:
        """Deliver an event."""
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:  # noqa: BLE001  # the application's own code
            self._on_event = None
            _log.exception("on_event of the session failed; it receives no further events")


class _Pair:
    """Two subscribers, of which the first never raises."""

    __slots__ = ("first", "second")

    def __init__(self, first: EventSink, second: EventSink) -> None:
        self.first = first
        self.second = second

    def __call__(self, event: RunEvent) -> None:
        self.first(event)
        self.second(event)


def join_subscribers(first: EventSink | None, second: EventSink | None) -> EventSink | None:
    """Return a function that passes each event to both; None if there is none."""
    if first is None or second is None:
        return first or second
    return _Pair(first, second)


def without_last(sink: EventSink) -> EventSink | None:
    """Return a joined subscriber without the last one, which raised; None if it was alone."""
    return sink.first if isinstance(sink, _Pair) else None
