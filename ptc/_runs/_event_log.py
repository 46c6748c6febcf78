"""Record of a script's output with its time: text, emitted values and progress.

Rule 1: after a row is stored, no message up to its number is recorded again, and none is missing;
    so a resumed run records each message once, however its messages were grouped before.
    tests/core/runs/test_event_log.py::test_resumed_run_records_each_message_once
Rule 2: a script that floods its output costs a bounded record, which says that it is incomplete.
    tests/core/runs/test_event_log.py::test_flood_is_bounded_and_the_record_says_so
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from .._calls._recorder import RunRecorder
from .._core import _json
from .._core._clock import now_ms
from .._core._reactor import Reactor, Stop
from .._dataclass import dataclass
from .._records._result import EventKind
from ..journal._journal import EventRow

__all__ = ["EventLog"]

_TEXTS: Final = ("stdout", "stderr", "log")
_RECORDED: Final = (*_TEXTS, "emitted", "progress")
_FLUSH_SECONDS: Final = 0.1
"""Time in which text is joined to one row, and progress reduced to its last report."""
_FLUSH_CHARS: Final = 16_384
MOST_ROWS: Final = 20_000
"""Rows of one run; a run of an hour that prints all the time has more."""
MOST_BYTES: Final = 4 << 20
"""Bytes of their bodies: four times what a run may print by default."""


@dataclass(slots=True)
class _Group:
    """Messages that will be one row."""

    kind: str
    number: int
    at_ms: int
    value: Any
    texts: list[str] = field(default_factory=list)
    left_out: int = 0
    """Reports of progress that this one replaces."""


class EventLog:
    """Records the output of one run."""

    def __init__(
        self, recorder: Callable[[], RunRecorder | None], reactor: Reactor, revision: int
    ) -> None:
        """Record nothing yet.

        Args:
            recorder: Returns the recorder of the run; None before its record was started.
            reactor: Event loop of the run.
            revision: Number of its script.
        """
        self._recorder = recorder
        self._reactor = reactor
        self._revision = revision
        self._groups: list[_Group] = []
        self._chars = 0
        self._stop: Stop | None = None

    def add(self, kind: EventKind, number: int, text: str, value: Any) -> None:
        """Add the message of a script with this number, unless it was recorded before."""
        recorder = self._recorder()
        if kind not in _RECORDED or recorder is None:
            return
        if number <= recorder.events.last or not recorder.events.complete:
            return
        if kind == "progress":
            self._add_progress(number, value)
        elif kind in _TEXTS:
            self._add_text(kind, number, text)
        else:
            self._groups.append(_Group(kind, number, now_ms(), value))
        if self._chars > _FLUSH_CHARS:
            self.flush()
        elif self._stop is None:
            self._stop = self._reactor.call_later(_FLUSH_SECONDS, self.flush)

    def _add_text(self, kind: str, number: int, text: str) -> None:
        self._chars += len(text)
        last = self._groups[-1] if self._groups else None
        if last is None or last.kind != kind:
            self._groups.append(_Group(kind, number, now_ms(), None, [text]))
            return
        last.texts.append(text)
        last.number = number

    def _add_progress(self, number: int, value: Any) -> None:
        group = _Group("progress", number, now_ms(), value)
        for index, other in enumerate(self._groups):
            if other.kind == "progress":
                group.left_out = other.left_out + 1
                del self._groups[index]
                self._join(index)
                break
        self._groups.append(group)

    def _join(self, index: int) -> None:
        """Join the groups before and at `index` if both are text of one kind."""
        around = self._groups[max(index - 1, 0) : index + 1]
        if len(around) == 2 and around[0].kind == around[1].kind and around[0].texts:
            around[0].texts += around[1].texts
            around[0].number = around[1].number
            del self._groups[index]

    def flush(self) -> None:
        """Write all that was added to the journal, in the order of the numbers."""
        if self._stop is not None:
            self._stop()
            self._stop = None
        groups, self._groups, self._chars = self._groups, [], 0
        recorder = self._recorder()
        if recorder is None:
            return
        for group in groups:
            row = EventRow(
                group.number, self._revision, group.kind, group.at_ms, _encode_body(group)
            )
            reason = _find_excess(recorder, len(row.body))
            if reason:
                body = _json.dumps({"reason": reason})
                recorder.record_event(row._replace(kind="left_out", body=body))
                return
            recorder.record_event(row)


def _encode_body(group: _Group) -> bytes:
    if group.texts:
        return _json.dumps_unchecked("".join(group.texts))
    if group.left_out:
        return _json.dumps_unchecked({**group.value, "left_out": group.left_out})
    # Arrived over the wire, so it is JSON data already.
    return _json.dumps_unchecked(group.value)


def _find_excess(recorder: RunRecorder, size: int) -> str:
    """Return the reason that an event of this size is left out; ``""`` if it is recorded."""
    count = recorder.events
    if count.rows >= MOST_ROWS:
        return f"the run has {MOST_ROWS:,} recorded events, the maximum"
    if count.bytes + size > MOST_BYTES:
        return f"the recorded events of the run would exceed {MOST_BYTES:,} bytes"
    return ""
