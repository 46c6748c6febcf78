"""Record of the partial values of running calls: the last one of each, for pages elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .._core import _json
from .._core._reactor import Stop, current_reactor
from ._call import OpenCall

__all__ = ["PartialLog"]

_SECONDS: Final = 0.3
_MAX_BYTES: Final = 65_536
"""Larger values are not recorded: the last smaller one stays until the call ends."""


class PartialLog:
    """Passes on the last value of each call after 0.3 s, however many there were."""

    def __init__(self, record: Callable[[OpenCall, bytes], None]) -> None:
        """Pass on nothing yet.

        Args:
            record: Receives a call and the JSON of its value.
        """
        self._record = record
        self._values: dict[str, tuple[OpenCall, Any]] = {}
        self._stop: Stop | None = None

    def add(self, call: OpenCall, value: Any) -> None:
        """Add a value of a call, which replaces its earlier ones. The event loop must call it."""
        self._values[call.path] = (call, value)
        if self._stop is None:
            self._stop = current_reactor().call_later(_SECONDS, self._flush)

    def forget(self, call: OpenCall) -> None:
        """Drop the value of a call that has ended."""
        self._values.pop(call.path, None)

    def close(self) -> None:
        """Drop all values: the run is over."""
        self._values.clear()
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _flush(self) -> None:
        self._stop = None
        values, self._values = self._values, {}
        for call, value in values.values():
            try:
                body = _json.dumps(value, what="partial value")
            except _json.JsonError:
                continue  # Subscribers of this process receive any object.
            if len(body) <= _MAX_BYTES:
                self._record(call, body)
