"""Defects that `durable.py` must find: each is a promise that the code under test breaks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ptc.errors import JournalError
from ptc.journal._journal import CallRow, UsedDecision

__all__ = ["MUTANTS"]


def _no_barrier() -> None:
    """Start effects before their start is durable."""
    for journal in _journals():

        async def barrier(self: Any, lease: Any) -> None:
            return

        journal.barrier = barrier


def _no_intent() -> None:
    """Do not record the start of an effect."""
    for journal in _journals():
        inner = journal.append

        def append(self: Any, lease: Any, entry: Any, inner: Any = inner) -> None:
            if not (isinstance(entry, CallRow) and entry.side_effect and entry.end is None):
                inner(self, lease, entry)

        journal.append = append


def _no_results() -> None:
    """Do not record the outcome of effects."""
    for journal in _journals():
        inner = journal.append

        def append(self: Any, lease: Any, entry: Any, inner: Any = inner) -> None:
            if not (isinstance(entry, CallRow) and entry.side_effect and entry.end is not None):
                inner(self, lease, entry)

        journal.append = append


def _no_fence() -> None:
    """Let a host that lost its lease continue."""
    from ptc.journal import _leases

    def lose(self: Any, lease: Any) -> None:
        return

    _leases.Leases.lose = lose  # type: ignore[method-assign]  # this process is a mutant


def _no_lease() -> None:
    """Ignore that another host holds a run."""
    from ptc.journal._workers import Workers

    def find(self: Any, worker: str) -> None:
        return

    Workers.find = find  # type: ignore[method-assign]  # as above


def _reused_decision() -> None:
    """Use the decision to repeat a call more than once."""
    for journal in _journals():
        inner = journal.append

        def append(self: Any, lease: Any, entry: Any, inner: Any = inner) -> None:
            if not isinstance(entry, UsedDecision):
                inner(self, lease, entry)

        journal.append = append


def _unknown_is_repeated() -> None:
    """Repeat an interrupted call that must not be repeated."""
    from ptc._calls._recorder import RunRecorder

    def resolve(self: Any, tool: Any, call: Any) -> None:
        return

    RunRecorder._resolve_unknown = resolve  # type: ignore[method-assign]  # as above


def _other_key() -> None:
    """Give a repeated call another idempotency key."""
    from ptc._calls._call import OpenCall

    def adopt_key(self: Any, key: str) -> None:
        self._key = f"{key[:-1]}x"

    OpenCall.adopt_key = adopt_key  # type: ignore[method-assign]  # as above


def _ignored_failure() -> None:
    """Make the effect although its start could not be recorded."""
    for journal in _journals():
        inner = journal.barrier

        async def barrier(self: Any, lease: Any, inner: Any = inner) -> None:
            with suppress(JournalError):
                await inner(self, lease)

        journal.barrier = barrier


def _journals() -> list[Any]:
    from ptc.journal._sqlite import SqliteJournal

    found: list[Any] = [SqliteJournal]
    with suppress(ImportError):
        from ptc.journal._postgres._journal import PostgresJournal

        found.append(PostgresJournal)
    return found


MUTANTS: dict[str, Callable[[], None]] = {
    "no-barrier": _no_barrier,
    "no-intent": _no_intent,
    "no-results": _no_results,
    "no-fence": _no_fence,
    "no-lease": _no_lease,
    "reused-decision": _reused_decision,
    "unknown-is-repeated": _unknown_is_repeated,
    "other-key": _other_key,
    "ignored-failure": _ignored_failure,
}
