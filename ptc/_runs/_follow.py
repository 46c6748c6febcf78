"""Events of a run, from its record: for a process that does not execute the run.

Rule 1: a follower that passes the number of the last event that it received misses none and repeats
    none; only a call that is still running is announced again.
    tests/core/journal/test_watch.py::test_follower_that_reconnects_misses_and_repeats_nothing
Rule 2: a follower reads the store and nothing else, so a slow one costs the run nothing.
    tests/core/journal/test_watch.py::test_slow_follower_does_not_slow_the_run
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio

from .._calls._rows import read_call
from .._core import _json
from .._dataclass import dataclass
from .._records._result import CallRecord, EventKind, RunEvent
from ..errors import UsageError
from ..journal._journal import CallRow, EventRow, Journal, RunRecord
from ._decided import find_edits
from ._watch import UNFINISHED, find_run, result_of, watch_run

__all__ = ["follow_run"]

_POLL_SECONDS: Final = 1.0
_READ_SHARE: Final = 10
"""A follower reads a tenth of the time at most: the record of a long run takes a while."""
_PAGE: Final = 1_000
_BITS: Final = 24
_MASK: Final = (1 << _BITS) - 1
_KINDS: Final[dict[str, EventKind]] = {
    "stdout": "stdout",
    "stderr": "stderr",
    "log": "log",
    "emitted": "emitted",
    "progress": "progress",
}


@dataclass(slots=True)
class _Position:
    """Position of a follower in the record of a run."""

    revision: int = 1
    event: int = 0
    """Number of the last recorded output."""
    delivery: int = 0
    """Number of messages to the worker before it; after the end, of further calls too."""
    started: bool = False
    """True if the start of the run was reported."""

    @classmethod
    def decode(cls, number: int) -> _Position:
        """Return the position after the event with this number."""
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            msg = f"after must be the number of an event, or 0 for all, not {number!r:.80}"
            raise UsageError(msg)
        rest, delivery = number >> _BITS, number & _MASK
        # Counted from 1, so that the position after the start is not 0.
        return cls((rest >> _BITS) + 1, rest & _MASK, max(0, delivery - 1), delivery > 0)

    def encode(self) -> int:
        """Return the number of the last event before this position; it grows with each event."""
        delivery = self.delivery + 1 if self.started else 0
        return ((self.revision - 1) << _BITS | self.event) << _BITS | delivery


async def follow_run(
    journal: Journal, run_id: str, after: int, *, through_pauses: bool
) -> AsyncGenerator[RunEvent, None]:
    """Iterate over the events of a run until it ends; see `Session.follow`."""
    follower = _Follower(run_id, _Position.decode(after))
    with watch_run(journal, run_id) as watch:
        while True:
            started = time.perf_counter()
            # The state first: events that are written after it are read again, or were before it.
            row = await find_run(journal, run_id)
            result = result_of(row, through_pauses=through_pauses)
            if row.status != "queued":
                events = await _all_events(journal, run_id, follower.first_event(row.revision))
                record = await journal.load(run_id)
                ended = result is not None and row.status not in (*UNFINISHED, "paused")
                for event in follower.events(record, events, ended=ended):
                    yield event
            if result is not None:
                number = follower.position.encode()
                yield RunEvent("finished", run_id, None, "", result, number, row.revision)
                return
            await anyio.sleep(_READ_SHARE * (time.perf_counter() - started))
            await watch.wait(_POLL_SECONDS)


async def _all_events(journal: Journal, run_id: str, after: int) -> Sequence[EventRow]:
    found: list[EventRow] = []
    while True:
        page = await journal.events(run_id, found[-1].number if found else after, _PAGE)
        found += page
        if len(page) < _PAGE:
            return found


class _Follower:
    """Finds the events that are new in the record of a run."""

    def __init__(self, run_id: str, position: _Position) -> None:
        self.position = position
        self._run_id = run_id
        self._announced: set[str] = set()
        """Calls whose start was reported."""
        self._reported: set[str] = set()
        """Calls whose end was reported."""
        self._edits: dict[str, bytes] = {}
        """Arguments of approvers, by call."""

    def first_event(self, revision: int) -> int:
        """Return the number of the last output that is known of a revision."""
        if revision != self.position.revision:
            # A corrected script started from the beginning, with numbers of its own.
            self.position = _Position(revision)
            self._announced.clear()
            self._reported.clear()
        return self.position.event

    def events(
        self, record: RunRecord, outputs: Sequence[EventRow], *, ended: bool
    ) -> Iterator[RunEvent]:
        """Iterate over the new events, in the order of their times.

        Args:
            record: The whole record.
            outputs: Outputs after the position.
            ended: True: no further call can end.
        """
        self._edits = find_edits(record)
        if not self.position.started:
            self.position.started = True
            yield self._event("started")
        ends = self._ended(record, with_undelivered=ended)
        waiting = list(outputs)
        for delivery, call in ends:
            assert call.end is not None  # noqa: S101  # checked by `_ended`
            while waiting and waiting[0].at_ms <= call.end.at_ms:
                yield from self._output(waiting.pop(0))
            yield from self._start(call)
            self._reported.add(call.path)
            self.position.delivery = max(delivery, self.position.delivery)
            yield self._event("tool_finished", call=self._describe(call))
        for output in waiting:
            yield from self._output(output)
        for call in record.calls:
            if call.end is None:
                yield from self._start(call)

    def _ended(self, record: RunRecord, *, with_undelivered: bool) -> list[tuple[int, CallRow]]:
        """Return the calls that ended after the position, each with its own."""
        calls = {call.path: call for call in record.calls if call.end is not None}
        ended: list[tuple[int, CallRow]] = []
        delivered: set[str] = set()
        for index, delivery in enumerate(record.deliveries, 1):
            if delivery.path in calls:
                delivered.add(delivery.path)
                ended.append((index, calls[delivery.path]))
        if with_undelivered:
            rest = [c for path, c in calls.items() if "." not in path and path not in delivered]
            ended += enumerate(rest, len(record.deliveries) + 1)
        found = []
        for index, call in ended:
            if index <= self.position.delivery or call.path in self._reported:
                continue
            # The calls that its tool made are reported with it: they have no position of their own.
            nested = [c for path, c in calls.items() if path.startswith(f"{call.path}.")]
            found += [(self.position.delivery, each) for each in nested]
            found.append((index, call))
        return found

    def _start(self, call: CallRow) -> Iterator[RunEvent]:
        if call.path not in self._announced:
            self._announced.add(call.path)
            yield self._event("tool_started", call=self._describe(call._replace(end=None)))

    def _output(self, row: EventRow) -> Iterator[RunEvent]:
        self.position.event = row.number
        kind = _KINDS.get(row.kind)
        if kind is None:
            return
        data = _json.loads(row.body)
        if kind in ("emitted", "progress"):
            yield self._event(kind, value=data)
        else:
            yield self._event(kind, text=data)

    def _event(
        self, kind: EventKind, *, call: CallRecord | None = None, text: str = "", value: Any = None
    ) -> RunEvent:
        number = self.position.encode()
        return RunEvent(kind, self._run_id, call, text, value, number, self.position.revision)

    def _describe(self, row: CallRow) -> CallRecord:
        call = read_call(row, self._run_id)
        if row.path in self._edits:
            call.note_edit(_json.loads(self._edits[row.path]))
        record, end = call.record(), row.end
        if end is None:
            return replace(record, line=row.line)
        took = float(max(0, end.at_ms - row.at_ms))
        return replace(record, line=row.line, duration_ms=took, result_bytes=len(end.body))
