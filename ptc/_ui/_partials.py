"""Objects of `generate_object` that grow in runs of this process.

The journal does not have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .._records._result import RunEvent

__all__ = ["Partials"]

_MOST_CALLS: Final = 64
_MOST_RUNS: Final = 256


class Partials:
    """The last partial value of each call, by run."""

    def __init__(self) -> None:
        """Start without any."""
        self._runs: dict[str, dict[str, Any]] = {}

    def note(self, run_id: str, event: RunEvent) -> None:
        """Store the value of an event, if it has one."""
        if event.call is None:
            return
        call = event.call
        path = f"{call.parent}.{call.seq}" if call.parent else str(call.seq)
        if event.kind == "tool_output_delta":
            calls = self._runs.setdefault(run_id, {})
            calls[path] = event.value
            _bound(calls, _MOST_CALLS)
            _bound(self._runs, _MOST_RUNS)
        elif event.kind == "tool_finished":
            self._runs.get(run_id, {}).pop(path, None)

    def forget(self, run_id: str) -> None:
        """Drop the values of a run that has ended."""
        self._runs.pop(run_id, None)

    def of(self, run_id: str) -> Mapping[str, Any]:
        """Return the values of a run, by the paths of its calls."""
        return self._runs.get(run_id, {})


def _bound(values: dict[str, Any], most: int) -> None:
    while len(values) > most:
        del values[next(iter(values))]
