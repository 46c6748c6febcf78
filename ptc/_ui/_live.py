"""Server-sent events: the list of runs, and one run, as they change in the journal.

The journal is read, and nothing else, so that runs of other processes and machines are live as well
as those of this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from .._core import _json
from .._runs._run_query import create_query
from .._runs._watch import UNFINISHED, watch_run
from ..errors import PtcError
from ._views import bounded, call_row, event_row, record_head, summary_row

if TYPE_CHECKING:
    from .._runs._history import History
    from ._bench import Bench

__all__ = ["encode_event", "follow_list", "follow_one", "follow_state"]

_LIST_SECONDS: Final = 1.0
_LIST_ROWS: Final = 60
_MOST_EVENTS: Final = 2_000
"""Rows of output that the page receives at once; older ones are counted."""
_BEAT_SECONDS: Final = 15.0
_SHARE: Final = 4
"""A record or state is read again after so many times the time that reading it took."""
_ALARM_MS: Final = 24 * 3_600_000


def encode_event(kind: str, data: Any) -> bytes:
    """Encode one server-sent event. JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _json.dumps_unchecked(data))


async def follow_state(kind: str, read: Callable[[], Awaitable[Any]]) -> AsyncIterator[bytes]:
    """Yield a state as an event when it changes, ``failed`` while it cannot be read, and beats.

    Args:
        kind: Kind of the events.
        read: Reads the state, once in a second or less often.
    """
    last, beat = b"", anyio.current_time()
    while True:
        started = anyio.current_time()
        try:
            data = encode_event(kind, await read())
        except PtcError as error:
            data = encode_event("failed", {"error": str(error)})
        if data != last:
            yield data
            last, beat = data, anyio.current_time()
        elif anyio.current_time() - beat > _BEAT_SECONDS:
            yield b": beat\n\n"
            beat = anyio.current_time()
        await anyio.sleep(_LIST_SECONDS + (anyio.current_time() - started) * _SHARE)


def follow_list(history: History) -> AsyncIterator[bytes]:
    """Yield the newest runs, the number of pending calls and the alarms, when they change."""
    return follow_state("runs", partial(_read_list, history))


async def _read_list(history: History) -> dict[str, Any]:
    from datetime import timedelta

    journal = await history.open()
    await history.viewers.renew()
    newest = await journal.runs(create_query((), None, None, None, None, _LIST_ROWS, None))
    day = timedelta(milliseconds=_ALARM_MS)
    alarms = await history.runs(20, statuses=["violation"], since=day)
    pending = await journal.pending()
    return {
        "runs": [summary_row(run) for run in newest],
        "pending": len(pending),
        "alarms": [summary_row(run) for run in alarms],
    }


async def follow_one(history: History, bench: Bench, run_id: str) -> AsyncIterator[bytes]:
    """Yield a run, and then its changes until it has ended."""
    state = _RunState(run_id)
    journal = await history.open()
    beat = anyio.current_time()
    with watch_run(journal, run_id) as watch:
        while True:
            started = anyio.current_time()
            await history.viewers.renew()
            try:
                change = await state.read(history, bench)
            except PtcError as error:
                yield encode_event("failed", {"error": str(error)})
                return
            if change is not None:
                yield encode_event("run", change)
                beat = anyio.current_time()
            elif anyio.current_time() - beat > _BEAT_SECONDS:
                yield b": beat\n\n"
                beat = anyio.current_time()
            if state.is_over:
                yield encode_event("over", {})
                return
            await anyio.sleep((anyio.current_time() - started) * _SHARE)
            await watch.wait(1.0)


class _RunState:
    """The parts of a run that a page has."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._calls: dict[str, list[Any]] = {}
        self._head: Any = None
        self._event = 0
        self.is_over = False
        """True if the run has ended, and will not continue by itself."""

    async def read(self, history: History, bench: Bench) -> dict[str, Any] | None:
        """Return the parts that changed since the last call; None if none did."""
        record = await history.recorded(self._run_id)
        calls = []
        for row in record.calls:
            data = call_row(row)
            if self._calls.get(row.path) != data:
                self._calls[row.path] = data
                calls.append(data)
        head = record_head(record)
        head["note"] = bench.notes.get(self._run_id, "")
        is_live = record.run.status in UNFINISHED
        head["partials"] = {
            row.path: bounded(row.partial) for row in record.calls if is_live and row.partial
        }
        change: dict[str, Any] = {}
        if head != self._head:
            change["head"] = self._head = head
        if calls:
            change["calls"] = calls
        events, skipped = await self._events(history)
        if events:
            change |= {"events": events, "skipped": skipped}
        self.is_over = record.run.status not in (*UNFINISHED, "paused")
        return change or None

    async def _events(self, history: History) -> tuple[list[dict[str, Any]], int]:
        found: list[dict[str, Any]] = []
        skipped = 0
        while True:
            page = await history.events(self._run_id, self._event)
            if not page:
                break
            self._event = page[-1].number
            found += [event_row(self._run_id, row) for row in page]
            if len(found) > _MOST_EVENTS:
                skipped += len(found) - _MOST_EVENTS
                found = found[-_MOST_EVENTS:]
        return found, skipped
