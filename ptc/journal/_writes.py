"""Writes of a journal: what is to be stored, in values that any store can bind."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ._journal import CallEnd, CallRow, DecisionRow, Entry, EventRow, RevertRow, RunRow, Tick
from ._journal import UsedDecision as Used
from ._lease import Lease

__all__ = [
    "Kind",
    "Write",
    "call_digest",
    "decision_values",
    "entry_write",
    "run_number",
    "run_values",
    "size_of",
    "stored_size",
]

Kind: TypeAlias = Literal[
    "start_run",
    "end_run",
    "release",
    "call",
    "tick",
    "pending",
    "decision",
    "used",
    "revert",
    "event",
]

RUN_COLUMNS: Final = (
    "run_id, source, filename, inputs, options, seed, clock, created_ms, status, result, ended_ms,"
    " rolled_back_ms, revision, attempts, tenant, size_bytes, engine"
)
"""After the number of the run, the values of ``start_run``: see `run_values`."""
START_STATUS: Final = 9
"""Index of the status among the values of ``start_run``; the result and the end time follow."""
SIZE_BYTES: Final = 16
"""Index of the size among the values of ``start_run``."""
CALL_COLUMNS: Final = (
    "run, path, tool, arguments, key, side_effect, line, attempt, started_ms, making,"
    " status, ok, body, body_sha256, ended_ms, place, elapsed, usage"
)
"""The values of ``call``."""
EVENT_COLUMNS: Final = "run, number, kind, at_ms, body"
"""The values of ``event``."""
_CALL_STATUS: Final = 10
"""Index of the status among the values of ``call``."""
_STARTED: Final = "started"
_ROW_BYTES: Final = 100
"""Size of a row beside its bodies and texts, with its part of the indexes."""
ENDS: Final = ("end_run", "release")
"""Kinds of writes that give a lease up, and add the size of the rows to the run."""


class Write(NamedTuple):
    """One write, with the lease that permits it."""

    lease: Lease
    kind: Kind
    values: tuple[Any, ...]
    size_bytes: int
    """Approximate size: bodies and texts only."""


def run_number(run_id: str) -> int:
    """Derive the run's number in the tables from its id, so that no write has to return it."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7])


def size_of(values: tuple[Any, ...]) -> int:
    """Return the bytes of the bodies and texts among `values`."""
    return sum([len(value) for value in values if type(value) in _SIZED])


_SIZED: Final = frozenset({bytes, str})


def stored_size(kind: Kind, values: tuple[Any, ...], size_bytes: int) -> int:
    """Return the size by which a write lets the record of its run grow.

    Args:
        kind: Kind of the write.
        values: Its values.
        size_bytes: Their `size_of`.
    """
    # The row of the outcome replaces that of the start.
    is_replaced = kind == "call" and values[_CALL_STATUS] == _STARTED
    return 0 if is_replaced else size_bytes + _ROW_BYTES


def entry_write(lease: Lease, entry: Entry) -> tuple[Kind, tuple[Any, ...]]:
    """Return the kind of write that stores an entry, and its values."""
    run = lease.number
    if isinstance(entry, CallRow):
        return "call", (run, *entry[:-2], *_end_values(entry, entry.end, lease))
    if isinstance(entry, Tick):
        return "tick", (run, next(lease.positions), entry.elapsed)
    if isinstance(entry, EventRow):
        return "event", (run, entry.number, entry.kind, entry.at_ms, entry.body)
    if isinstance(entry, DecisionRow):
        return "decision", (run, *decision_values(entry))
    if isinstance(entry, RevertRow):
        values = (entry.path, entry.status, entry.attempt, entry.error, entry.at_ms)
        return "revert", (run, *values)
    if isinstance(entry, Used):
        return "used", (f"unknown {entry.attempt}", run, entry.path)
    request = (entry.kind, entry.tool, entry.fingerprint, entry.details, entry.at_ms)
    return "pending", (run, entry.path, *request)


def _end_values(call: CallRow, end: CallEnd | None, lease: Lease) -> tuple[Any, ...]:
    if end is None:
        nothing = (None,) * 4
        digest = call_digest(call, "started", None, call.partial)
        return ("started", None, call.partial or None, digest, *nothing)
    position = None if end.elapsed is None else next(lease.positions)
    digest = call_digest(call, end.status, end.ok, end.body)
    usage = end.usage or None
    return (end.status, end.ok, end.body, digest, end.at_ms, position, end.elapsed, usage)


def call_digest(call: CallRow, status: str, ok: object, body: bytes) -> bytes:
    """Return the digest of a call and its outcome; the body is empty if it has none."""
    digest = hashlib.sha256(body)
    names = f"\0{status}\0{1 if ok else 0}\0{call.path}\0{call.tool}\0{call.key}\0{call.making}\0"
    # A lone surrogate, which no store can hold, is reported by the store.
    digest.update(names.encode(errors="surrogatepass"))
    digest.update(call.arguments)
    return digest.digest()


def run_values(run: RunRow) -> tuple[Any, ...]:
    """Return the values of `RUN_COLUMNS`."""
    return (
        run.run_id,
        run.source,
        run.filename,
        run.inputs,
        run.options,
        run.seed,
        run.clock,
        run.created_ms,
        run.status,
        run.result,
        run.ended_ms,
        run.rolled_back_ms,
        run.revision,
        run.attempts,
        run.tenant,
        run.size_bytes,
        run.engine,
    )


def decision_values(decision: DecisionRow) -> tuple[Any, ...]:
    """Return the values of ``decision`` after the run's number."""
    return (
        decision.path,
        decision.kind,
        decision.action,
        decision.value,
        decision.by,
        decision.comment,
        decision.at_ms,
    )
