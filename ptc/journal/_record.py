"""The record of a run, built from rows of the tables of any store and checked for damage.

Rule 1: a damaged row or a gap is an error that names it; nothing is skipped.
    tests/core/journal/test_journal.py::test_damaged_rows_are_reported_and_never_skipped
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, get_args

from .._core import _json
from .._dataclass import dataclass
from .._records._result import CallStatus
from ..errors import DamagedRunError
from ._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Delivery,
    EventCount,
    EventRow,
    PendingRow,
    RevertRow,
    RevertStatus,
    RunRecord,
    RunRow,
)
from ._run_lists import RunSummary
from ._writes import call_digest

__all__ = [
    "RecordRows",
    "build_events",
    "build_pending",
    "build_record",
    "build_run",
    "build_summary",
]

_Row = Sequence[Any]
_T = TypeVar("_T")
_Kind: TypeAlias = Callable[[Any], bool]
_STATUSES: Final = frozenset[Any](("started", *get_args(CallStatus)))
_ACTIONS: Final = frozenset[Any](("approve", "reject", "done", "failed", "again"))
_REVERTS: Final = frozenset[Any](get_args(RevertStatus))
_LAST_MS: Final = 253_402_300_800_000
"""End of the year 9999."""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _blob(value: Any) -> bool:
    return isinstance(value, bytes)


def _json_data(value: Any) -> bool:
    try:
        _json.loads(value)
    except (ValueError, TypeError):
        return False
    return isinstance(value, bytes)


def _json_object(value: Any) -> bool:
    return _json_data(value) and isinstance(_json.loads(value), dict)


def _count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 62


def _time_ms(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _LAST_MS


def _seconds(value: Any) -> bool:
    return isinstance(value, float) and 0 <= value < _LAST_MS


def _or_none(kind: _Kind) -> _Kind:
    return lambda value: value is None or kind(value)


_Columns: TypeAlias = Mapping[str, _Kind]
_RUN: Final[_Columns] = {
    **{
        "run_id": _text,
        "source": _text,
        "filename": _text,
        "inputs": _blob,
        "options": _json_object,
    },
    **{"seed": _count, "clock": _seconds, "created_ms": _time_ms, "status": _text},
    **{"result": _or_none(_blob), "ended_ms": _or_none(_time_ms)},
    **{"rolled_back_ms": _or_none(_time_ms), "revision": _count, "attempts": _count},
    **{"tenant": _text, "size_bytes": _count, "engine": _text},
}
_SUMMARY: Final[_Columns] = {
    **{"run_id": _text, "filename": _text, "status": _text, "created_ms": _time_ms},
    **{"ended_ms": _or_none(_time_ms), "rolled_back_ms": _or_none(_time_ms)},
    **{"revision": _count, "attempts": _count, "tenant": _text},
    **{"size_bytes": _count, "calls": _count, "cost_usd": _or_none(_seconds)},
}
_CALL: Final[_Columns] = {
    **{"run": _count, "path": _text, "tool": _text, "arguments": _blob, "key": _text},
    **{"side_effect": _count, "line": _or_none(_count), "attempt": _count},
    **{"started_ms": _time_ms, "making": _text, "status": _STATUSES.__contains__},
    **{"ok": _or_none(_count), "body": _or_none(_blob), "body_sha256": _or_none(_blob)},
    **{"ended_ms": _or_none(_time_ms), "place": _or_none(_count), "elapsed": _or_none(_seconds)},
    **{"usage": _or_none(_json_data)},
}
_TICK: Final[_Columns] = {"place": _count, "elapsed": _seconds}
_PENDING: Final[_Columns] = {
    **{"path": _text, "kind": _text, "tool": _text, "fingerprint": _text},
    **{"details": _json_object, "at_ms": _time_ms},
}
_DECISION: Final[_Columns] = {
    **{"path": _text, "kind": _text, "action": _ACTIONS.__contains__, "value": _json_data},
    **{"decided_by": _text, "comment": _text, "at_ms": _time_ms},
}
_EVENTS: Final[_Columns] = {"last": _count, "count": _count, "size": _count, "is_cut": _count}
_EVENT: Final[_Columns] = {
    **{"number": _count, "revision": _count, "kind": _text, "at_ms": _time_ms, "body": _json_data}
}
_REVERT: Final[_Columns] = {
    **{"path": _text, "status": _REVERTS.__contains__, "attempt": _count},
    **{"error": _or_none(_text), "at_ms": _time_ms},
}
"""Columns and their values: a file can be edited, and SQLite stores any type in any column."""


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Rows of one run, each table in its order."""

    run: _Row
    """`RUN_COLUMNS`."""
    calls: Iterable[_Row]
    """`CALL_COLUMNS`."""
    ticks: Iterable[_Row]
    pending: Iterable[_Row]
    decisions: Iterable[_Row]
    reverts: Iterable[_Row]
    events: Iterable[_Row]
    """One row: number of the last event, number of events, bytes of their bodies, and whether some
    were left out."""


class _Damage(Exception):  # becomes a DamagedRunError
    """Raised for a damaged row, with its problem."""


def build_run(row: _Row, label: str) -> RunRow:
    """Return the row of a run. Raises `DamagedRunError`."""
    try:
        return RunRow(*_valid("run", row, _RUN))
    except _Damage as damage:
        raise _error(str(row[0]), label, damage) from None


def build_events(run_id: str, rows: Iterable[_Row], label: str) -> list[EventRow]:
    """Return the events of a run. Raises `DamagedRunError`."""
    try:
        return [EventRow(*_valid("event", row, _EVENT)) for row in rows]
    except _Damage as damage:
        raise _error(run_id, label, damage) from None


def build_pending(run_id: object, row: _Row, label: str) -> tuple[str, PendingRow]:
    """Return the id of a run and the row of its pending call. Raises `DamagedRunError`."""
    try:
        return str(run_id), PendingRow(*_valid("pending call", row, _PENDING))
    except _Damage as damage:
        raise _error(str(run_id), label, damage) from None


def build_summary(row: _Row, label: str) -> RunSummary:
    """Return the row of a list of runs. Raises `DamagedRunError`."""
    try:
        return RunSummary(*_valid("run", row, _SUMMARY))
    except _Damage as damage:
        raise _error(str(row[0]), label, damage) from None


def build_record(rows: RecordRows, label: str) -> RunRecord:
    """Build the record of a run.

    Args:
        rows: The rows as they are stored.
        label: Name of the store in errors.

    Raises:
        DamagedRunError: If a value has another type or digest than it was written with, or a
            message to the worker is missing.
    """
    run = build_run(rows.run, label)
    try:
        if run.inputs and not _json_data(run.inputs):
            msg = "its inputs are not JSON"
            raise _Damage(msg)
        calls = sorted(map(_call, rows.calls), key=lambda each: _order(each[0].path))
        return RunRecord(
            run,
            calls=tuple(call for call, _ in calls),
            deliveries=tuple(_deliveries(calls, rows.ticks)),
            pending=_all(PendingRow, "pending call", rows.pending, _PENDING),
            decisions=_all(DecisionRow, "decision", rows.decisions, _DECISION),
            reverts=_all(RevertRow, "revert", rows.reverts, _REVERT),
            events=_count_events(rows.events),
        )
    except _Damage as damage:
        raise _error(run.run_id, label, damage) from None


def _error(run_id: str, label: str, damage: _Damage) -> DamagedRunError:
    return DamagedRunError(f"{label} is damaged: run {run_id!r}: {damage}")


def _valid(what: str, row: _Row, columns: _Columns) -> _Row:
    for (name, is_valid), value in zip(columns.items(), row, strict=True):
        if not is_valid(value):
            msg = f"{name} of a {what} is {value!r:.80}"
            raise _Damage(msg)
    return row


def _all(
    make: Callable[..., _T], what: str, rows: Iterable[_Row], columns: _Columns
) -> tuple[_T, ...]:
    return tuple(make(*_valid(what, row, columns)) for row in rows)


def _count_events(rows: Iterable[_Row]) -> EventCount:
    ((last, count, size, is_cut),) = (_valid("number of an event", row, _EVENTS) for row in rows)
    return EventCount(last, count, size, not is_cut)


def _order(path: str) -> list[int]:
    try:
        return [int(part) for part in path.split(".")]
    except ValueError:
        msg = f"{path!r:.80} is not the path of a call"
        raise _Damage(msg) from None


def _call(row: _Row) -> tuple[CallRow, int | None]:
    """Return a call and the position of its outcome among the deliveries."""
    _, path, tool, arguments, key, side_effect, *rest = _valid("call", row, _CALL)[:10]
    call = CallRow(path, tool, arguments, key, bool(side_effect), *rest)
    status, ok, body, digest, ended, position, elapsed, usage = row[10:]
    # Calls of earlier versions have a digest of the body, or none if they have no outcome.
    old = None if body is None else hashlib.sha256(body).digest()
    if digest not in (old, call_digest(call, status, ok, body or b"")):
        msg = f"call {path} does not match its digest"
        raise _Damage(msg)
    if status == "started":
        return call._replace(partial=body or b""), None
    if body is None or ok is None or ended is None or (position is None) != (elapsed is None):
        msg = f"the outcome of call {path} is incomplete"
        raise _Damage(msg)
    return call._replace(
        end=CallEnd(status, bool(ok), body, ended, elapsed, usage or b"")
    ), position


def _deliveries(
    calls: Sequence[tuple[CallRow, int | None]], ticks: Iterable[_Row]
) -> Iterator[Delivery]:
    found: dict[int, Delivery] = {}
    for row, position in calls:
        if position is not None and row.end is not None:
            found[position] = Delivery(row.path, row.end.elapsed or 0.0)
    for position, elapsed in (_valid("tick", row, _TICK) for row in ticks):
        found[position] = Delivery(None, elapsed)
    if 0 in found:
        msg = "message 0 does not exist"
        raise _Damage(msg)
    for position in range(1, max(found, default=0) + 1):
        if position not in found:
            msg = f"message {position} is missing"
            raise _Damage(msg)
        yield found[position]
