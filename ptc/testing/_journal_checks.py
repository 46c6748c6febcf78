"""The promises of a journal, as checks that any store can run.

Each check opens the store again with the function that it receives, as another process would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread

from ..errors import BusyRunError, EndedRunError, JournalError, LeaseLostError, UnknownRunError
from ..journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Delivery,
    Document,
    Documents,
    EventRow,
    Journal,
    Lease,
    PendingRow,
    RevertRow,
    RunQuery,
    RunRow,
    Tick,
    UsedDecision,
)

__all__ = ["STORE_CHECKS", "OpenJournal", "opened", "raised", "require"]

OpenJournal: TypeAlias = Callable[[], Journal]
"""Opens the store under test, which is empty at first."""


def require(condition: bool, promise: str) -> None:
    """Raise `AssertionError` unless a promise is kept."""
    if not condition:
        raise AssertionError(promise)


def _run(run_id: str = "r1", created_ms: int = 1, **changes: Any) -> RunRow:
    values: dict[str, Any] = {
        "source": "pass",
        "filename": "s.py",
        "inputs": b"{}",
        "options": b"{}",
        "seed": 7,
        "clock": 1.5,
        **changes,
    }
    return RunRow(run_id, created_ms=created_ms, **values)


def _call(path: str, end: CallEnd | None = None) -> CallRow:
    return CallRow(path, "tool", b'{"a":1}', "key", True, 3, 1, 100, "", end)


def _end(body: bytes = b"1", elapsed: float | None = 0.25) -> CallEnd:
    return CallEnd("succeeded", True, body, 200, elapsed)


def _pending(path: str, at_ms: int = 1) -> PendingRow:
    return PendingRow(path, "approval", "tool", "digest", b"{}", at_ms)


def _decision(path: str, by: str) -> DecisionRow:
    return DecisionRow(path, "approval", "approve", b"null", by, "fine", 2)


@asynccontextmanager
async def opened(open_store: OpenJournal) -> AsyncIterator[Journal]:
    """Open the store, and close it after the block."""
    journal = await anyio.to_thread.run_sync(open_store)
    try:
        yield journal
    finally:
        await journal.close()


async def raised(kind: type[Exception], work: Awaitable[Any], promise: str) -> None:
    """Raise `AssertionError` unless `work` raises an error of a class."""
    try:
        await work
    except kind:
        return
    except JournalError as error:
        msg = f"{promise}: expected {kind.__name__}, not {type(error).__name__}: {error}"
        raise AssertionError(msg) from error
    raise AssertionError(promise)


async def _paused(journal: Journal, run_id: str = "r1", created_ms: int = 1) -> Lease:
    """Record a paused run with two calls and a tick."""
    lease = journal.start_run(_run(run_id, created_ms))
    journal.append(lease, _call("1"))
    journal.append(lease, _call("2", _end(b"[2]", 0.125)))
    journal.append(lease, Tick(0.2))
    journal.append(lease, _call("1", _end()))
    journal.append(lease, _call("10"))
    journal.append(lease, _pending("10", created_ms))
    journal.end_run(lease, "paused", b"{}", 5)
    await journal.barrier(lease)
    return lease


async def entries_are_read_back_in_order(open_store: OpenJournal) -> None:
    """Read calls by path, messages in the order of `append`, from any process."""
    async with opened(open_store) as journal, opened(open_store) as other:
        await _paused(journal)
        for reader in (journal, other):
            found = await reader.load("r1")
            calls = [_call("1", _end()), _call("2", _end(b"[2]", 0.125)), _call("10")]
            require(list(found.calls) == calls, "calls are read back as written")
            messages = (Delivery("2", 0.125), Delivery(None, 0.2), Delivery("1", 0.25))
            require(found.deliveries == messages, "messages are read back in their order")
            require(found.pending == (_pending("10"),), "pending calls are read back")
            require(found.run.status == "paused", "the status is read back")


async def reads_see_earlier_entries(open_store: OpenJournal) -> None:
    """Read, without a barrier, what was appended through the same object."""
    async with opened(open_store) as journal:
        lease = journal.start_run(_run())
        journal.append(lease, Tick(0.5))
        require(len((await journal.load("r1")).deliveries) == 1, "a read sees earlier entries")
        require(await journal.find("r1") is not None, "a read sees a new run")


async def any_value_is_read_back(open_store: OpenJournal) -> None:
    """Store any source, sizes, and the ends of the ranges of numbers."""
    source = "# \x00 \U0001f600\r\n" + "x" * 100_000
    run = _run("-_z", 2**45, source=source, seed=2**48 - 1, clock=4e9, inputs=b"")
    big = _end(bytes(range(256)) * 4_096, 1e-9)._replace(usage=b'{"requests":2}')
    async with opened(open_store) as journal:
        lease = journal.start_run(run)
        journal.append(lease, _call("1.1.1", big)._replace(line=None, making="tool 1"))
        journal.append(lease, RevertRow("1", "failed", 2, "because", 3))
        await journal.barrier(lease)
        found = await journal.load("-_z")
        require(found.run == run, "the request of a run is read back as written")
        require(found.calls[0].end == big, "a large value is read back as written")
        require(found.reverts[0].error == "because", "a revert is read back")


async def running_call_has_its_last_partial_value(open_store: OpenJournal) -> None:
    """Read the last partial value of a call until it ends, from any process."""
    async with opened(open_store) as journal, opened(open_store) as other:
        lease = journal.start_run(_run())
        for body in (b"[1]", b"[1,2]"):
            journal.append(lease, _call("1")._replace(partial=body))
        await journal.barrier(lease)
        [call] = (await other.load("r1")).calls
        require(call == _call("1")._replace(partial=b"[1,2]"), "the last value is read back")
        journal.append(lease, _call("1", _end()))
        await journal.barrier(lease)
        require((await other.load("r1")).calls == (_call("1", _end()),), "the end replaces it")


async def run_has_one_holder(open_store: OpenJournal) -> None:
    """Give a lease to one process; refuse a run that is busy, ended or unknown."""
    async with opened(open_store) as journal, opened(open_store) as other:
        lease = journal.start_run(_run())
        await journal.barrier(lease)
        for each in (journal, other):
            await raised(BusyRunError, each.acquire("r1"), "a run has one holder")
        await raised(UnknownRunError, other.acquire("r2"), "an unknown run cannot be acquired")
        journal.release(lease)
        await journal.barrier(lease)
        again = await other.acquire("r1")
        require(again.epoch == lease.epoch + 1, "each acquisition has the next epoch")
        other.end_run(again, "completed", b'{"a":1}', 6)
        await other.barrier(again)
        await raised(EndedRunError, journal.acquire("r1"), "a run that ended cannot be resumed")
        row = await journal.find("r1")
        ended = row is not None and (row.status, row.result, row.ended_ms)
        require(ended == ("completed", b'{"a":1}', 6), "the result of a run is stored")


async def one_of_many_acquires(open_store: OpenJournal) -> None:
    """Give a paused run to exactly one of many that acquire it at once."""
    async with opened(open_store) as journal:
        await _paused(journal)
    won: list[Lease] = []

    async def acquire(mine: Journal) -> None:
        with suppress(BusyRunError):
            won.append(await mine.acquire("r1"))

    async with AsyncExitStack() as stack:
        rivals = [await stack.enter_async_context(opened(open_store)) for _ in range(4)]
        async with anyio.create_task_group() as tasks:
            for rival in rivals:
                tasks.start_soon(acquire, rival)
        require(len(won) == 1, "one of many acquires a run")


async def lost_lease_writes_nothing(open_store: OpenJournal) -> None:
    """Refuse every write of a holder after another process acquired its run."""
    async with opened(open_store) as journal, opened(open_store) as other:
        lease = journal.start_run(_run())
        journal.append(lease, Tick(0.5))
        journal.release(lease)
        await journal.barrier(lease)
        fresh = await other.acquire("r1")
        journal.append(lease, Tick(9.0))
        journal.append(lease, _call("1", _end()))
        journal.append(lease, _pending("1"))
        journal.end_run(lease, "completed", b"{}", 9)
        await raised(LeaseLostError, journal.barrier(lease), "a lost lease is reported")
        other.append(fresh, Tick(0.75))
        await other.barrier(fresh)
        found = await other.load("r1")
        require((found.calls, found.pending) == ((), ()), "a lost lease writes nothing")
        ticks = [delivery.elapsed for delivery in found.deliveries]
        require(ticks == [0.5, 0.75], "messages continue after those of the earlier holder")
        require(found.run.status == "running", "a lost lease ends no run")


async def id_is_used_once(open_store: OpenJournal) -> None:
    """Record the first of two runs with one id, and report the second."""
    async with opened(open_store) as journal, opened(open_store) as other:
        lease = journal.start_run(_run(seed=1))
        await journal.barrier(lease)
        rival = other.start_run(_run(seed=2))
        other.append(rival, Tick(0.5))
        other.append(rival, _pending("10"))
        await raised(LeaseLostError, other.barrier(rival), "the second run is reported")
        # Both leases have the same epoch, so only the store object knows the difference.
        other.append(rival, Tick(0.5))
        other.end_run(rival, "failed", b"{}", 300)
        await raised(LeaseLostError, other.barrier(rival), "the second run is reported again")
        found = await journal.load("r1")
        require(found.run.status == "running", "the first run has not ended")
        require((found.run.seed, found.deliveries) == (1, ()), "the first run is unchanged")
        require(found.pending == (), "it has no request of the second")


async def first_decision_counts(open_store: OpenJournal) -> None:
    """Store the first decision about a call, from any process."""
    async with opened(open_store) as journal, opened(open_store) as other:
        await _paused(journal, "r2", 2)
        await _paused(journal, "r1", 1)
        waiting = [(run_id, row.path) for run_id, row in await other.pending()]
        require(waiting == [("r1", "10"), ("r2", "10")], "pending calls are listed, oldest first")
        require(await other.decide("r1", _decision("10", "ann")), "the first decision counts")
        second = await journal.decide("r1", _decision("10", "bob"))
        require(not second, "the second decision does not count")
        require((await journal.load("r1")).decisions[0].by == "ann", "the first one is stored")
        require([run_id for run_id, _ in await journal.pending()] == ["r2"], "it waits no more")
        decide = journal.decide("r3", _decision("1", "ann"))
        await raised(UnknownRunError, decide, "a decision needs its run")


async def used_decision_is_asked_again(open_store: OpenJournal) -> None:
    """Forget a decision to repeat a call once it was used."""
    async with opened(open_store) as journal:
        lease = await _paused(journal)
        lease = await journal.acquire("r1")
        unknown = PendingRow("10", "unknown", "tool", "digest", b"{}", 1)
        again = DecisionRow("10", "unknown", "again", b"null", "ann", "", 2)
        for attempt in (1, 2):
            journal.append(lease, unknown)
            await journal.barrier(lease)
            require(await journal.decide("r1", again), "each interruption needs a decision")
            journal.append(lease, UsedDecision("10", attempt))
            await journal.barrier(lease)
        found = await journal.load("r1")
        require([row.kind for row in found.pending] == ["approval"], "the used one is not pending")
        require(found.decisions == (), "the used decision is not read back")


async def rollback_takes_any_run(open_store: OpenJournal) -> None:
    """Acquire a run for its rollback, whatever its status; it is never resumed."""
    async with opened(open_store) as journal:
        await _paused(journal)
        lease = await journal.acquire_for_rollback("r1", 50)
        row = await journal.find("r1")
        state = row is not None and (row.status, row.rolled_back_ms, row.ended_ms)
        require(state == ("cancelled", 50, 50), "a paused run becomes cancelled")
        await raised(BusyRunError, journal.acquire_for_rollback("r1", 55), "it has a holder")
        journal.release(lease)
        await journal.barrier(lease)
        await raised(EndedRunError, journal.acquire("r1"), "it is never resumed")
        again = await journal.acquire_for_rollback("r1", 60)
        row = await journal.find("r1")
        require(row is not None and row.rolled_back_ms == 50, "the start of a rollback stays")
        journal.release(again)


async def runs_are_listed_and_deleted(open_store: OpenJournal) -> None:
    """List the newest runs first, find ids by prefix, delete those that ended."""
    async with opened(open_store) as journal:
        for number, name in enumerate(("a_1", "a_2", "ab3", "b_4"), 1):
            lease = journal.start_run(_run(name, number))
            journal.append(lease, _call("1", _end()))
            if number != 2:
                journal.end_run(lease, "completed", b"{}", number * 1_000)
            await journal.barrier(lease)
        listed = [run.run_id for run in await journal.runs(RunQuery(limit=3))]
        require(listed == ["b_4", "ab3", "a_2"], "the newest runs are listed first")
        require(await journal.find_ids("a_", 9) == ["a_1", "a_2"], "a prefix is no pattern")
        require(await journal.delete_ended(3_500, 1) == 1, "a limit is kept")
        require(await journal.delete_ended(3_500) == 1, "runs that ended before are deleted")
        left = sorted(run.run_id for run in await journal.runs())
        require(left == ["a_2", "b_4"], "other runs stay")
        require(len((await journal.load("b_4")).calls) == 1, "their calls stay")


async def events_are_stored_once(open_store: OpenJournal) -> None:
    """List events by number; a repeated number changes nothing; revisions have their own."""
    async with opened(open_store) as journal, opened(open_store) as other:
        lease = journal.start_run(_run())
        for number, kind in ((3, "stdout"), (4, "emitted"), (9, "progress"), (4, "log")):
            journal.append(lease, EventRow(number, 1, kind, number * 10, b"[%d]" % number))
        await journal.barrier(lease)
        found = [(row.number, row.kind, row.body) for row in await other.events("r1")]
        first = [(3, "stdout", b"[3]"), (4, "emitted", b"[4]"), (9, "progress", b"[9]")]
        require(found == first, "events are read back by number, and the first of each counts")
        page = [row.number for row in await other.events("r1", 3, 1)]
        require(page == [4], "events are listed after a number, up to a limit")
        record = await other.load("r1")
        require(record.events == (9, 3, 9, True), "the record counts its events")
        await raised(UnknownRunError, other.events("r2"), "an unknown run has no events")
        journal.end_run(lease, "failed", b"{}", 5)
        await journal.barrier(lease)
        lease = await journal.revise(record.run)
        journal.append(lease, EventRow(1, 2, "log", 50, b'"a"'))
        journal.end_run(lease, "completed", b"{}", 60)
        await journal.barrier(lease)
        require([row.revision for row in await other.events("r1")] == [2], "a revision has its own")
        archived = [(row.number, row.revision) for row in await other.events("r1.1")]
        require(archived == [(3, 1), (4, 1), (9, 1)], "an archived revision keeps its events")
        await journal.delete_ended(1_000)
        await raised(UnknownRunError, journal.events("r1.1"), "events are deleted with their run")


def _added(number: int, document: Document | None) -> list[int]:
    return [*(document.data if document is not None else []), number]


async def documents_change_once(open_store: OpenJournal) -> None:
    """Apply each change of a document once, one after the other."""
    async with opened(open_store) as journal, opened(open_store) as other:
        in_thread = anyio.to_thread.run_sync

        def change(documents: Documents, number: int) -> Document:
            return documents.change("list", partial(_added, number), key=f"k{number}")

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                documents = (journal if number % 2 else other).documents
                tasks.start_soon(in_thread, change, documents, number)
        found = await in_thread(other.documents.read, "list")
        require(found is not None and sorted(found.data) == list(range(8)), "no change is lost")
        own = await in_thread(change, journal.documents, 3)
        require(own.version <= 8 and 3 in own.data, "a repeated change returns its own version")
        require(await in_thread(journal.documents.names) == ["list"], "documents have names")


async def unstorable_value_costs_one_run(open_store: OpenJournal) -> None:
    """Report to the run that has a value which cannot be stored, and record the others."""
    async with opened(open_store) as journal:
        bad, good = journal.start_run(_run("bad")), journal.start_run(_run("good"))
        journal.append(bad, RevertRow("1", "failed", 1, "\ud800", 3))
        journal.append(good, Tick(0.5))
        with anyio.fail_after(20):
            await journal.barrier(good)
            await raised(
                JournalError, journal.barrier(bad), "a value that is not stored is reported"
            )
        require(len((await journal.load("good")).deliveries) == 1, "other runs are recorded")


async def closed_journal_refuses(open_store: OpenJournal) -> None:
    """Raise an error, and never hang, after `close`; closing again does nothing."""
    journal = await anyio.to_thread.run_sync(open_store)
    await journal.close()
    await journal.close()
    with anyio.fail_after(5):
        await raised(JournalError, journal.runs(), "a closed journal refuses")


STORE_CHECKS: Final = (
    any_value_is_read_back,
    closed_journal_refuses,
    documents_change_once,
    entries_are_read_back_in_order,
    events_are_stored_once,
    first_decision_counts,
    id_is_used_once,
    lost_lease_writes_nothing,
    one_of_many_acquires,
    reads_see_earlier_entries,
    rollback_takes_any_run,
    run_has_one_holder,
    running_call_has_its_last_partial_value,
    runs_are_listed_and_deleted,
    unstorable_value_costs_one_run,
    used_decision_is_asked_again,
)
"""Part of `JOURNAL_CHECKS`."""
