"""Each check of a store can fail: for each there is a store that breaks one promise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ptc.errors import JournalError, LeaseLostError
from ptc.journal import (
    DecisionRow,
    Document,
    Entry,
    EventRow,
    Lease,
    RunPage,
    RunQuery,
    RunRecord,
    RunRow,
    UsedDecision,
)
from ptc.journal._run_lists import NEWEST_RUNS
from ptc.journal._sqlite import SqliteJournal
from ptc.testing import JOURNAL_CHECKS, JOURNAL_PROCESS_CHECKS

pytestmark = pytest.mark.anyio


class ChangesText(SqliteJournal):
    def start_run(self, run: RunRow) -> Lease:
        return super().start_run(replace(run, source=run.source.replace("\r\n", "\n")))


class AnswersAfterClose(SqliteJournal):
    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        try:
            return await super().runs(query)
        except JournalError:
            return RunPage((), None)


class Keyless:
    def __init__(self, documents: Any) -> None:
        self._documents = documents
        self.read, self.names = documents.read, documents.names

    def change(self, name: str, function: Any, *, key: str = "") -> Document:
        changed: Document = self._documents.change(name, function)
        return changed


class RepeatsChanges(SqliteJournal):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.documents = Keyless(self.documents)  # type: ignore[assignment]  # a wrong store


class ForgetsOrder(SqliteJournal):
    async def load(self, run_id: str) -> RunRecord:
        found = await super().load(run_id)
        return replace(found, deliveries=found.deliveries[::-1])


class KeepsFirstValues(SqliteJournal):
    async def load(self, run_id: str) -> RunRecord:
        found = await super().load(run_id)
        return replace(found, calls=tuple(call._replace(partial=b"[1]") for call in found.calls))


class CountsEachDecision(SqliteJournal):
    async def decide(self, run_id: str, decision: DecisionRow) -> bool:
        await super().decide(run_id, decision)
        return True


class HidesLosses(SqliteJournal):
    async def barrier(self, lease: Lease) -> None:
        try:
            await super().barrier(lease)
        except LeaseLostError:
            return


class HidesFailures(SqliteJournal):
    async def barrier(self, lease: Lease) -> None:
        try:
            await super().barrier(lease)
        except LeaseLostError:
            raise
        except JournalError:
            return


class GivesLeasesAway(SqliteJournal):
    def _find_holder(self, run: Any) -> str | None:
        return None


class WritesLate(SqliteJournal):
    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.late: list[tuple[Lease, Entry]] = []

    def append(self, lease: Lease, entry: Entry) -> None:
        self.late.append((lease, entry))

    def end_run(self, lease: Lease, status: str, result: bytes, at_ms: int) -> None:
        self.flush()
        super().end_run(lease, status, result, at_ms)

    def release(self, lease: Lease) -> None:
        self.flush()
        super().release(lease)

    async def barrier(self, lease: Lease) -> None:
        self.flush()
        await super().barrier(lease)

    def flush(self) -> None:
        for lease, entry in self.late:
            super().append(lease, entry)
        self.late.clear()


class ResumesAfterRollback(SqliteJournal):
    async def acquire_for_rollback(self, run_id: str, at_ms: int) -> Lease:
        return await self.acquire(run_id)


class ListsOldestFirst(SqliteJournal):
    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        page = await super().runs(query)
        return RunPage(page.rows[::-1], page.next_cursor)


class KeepsUsedDecisions(SqliteJournal):
    def append(self, lease: Lease, entry: Entry) -> None:
        if not isinstance(entry, UsedDecision):
            super().append(lease, entry)


class NeverTires(SqliteJournal):
    async def acquire(
        self,
        run_id: str,
        *,
        max_attempts: int | None = None,
        options: bytes | None = None,
        engine: str = "",
    ) -> Lease:
        return await super().acquire(run_id, options=options, engine=engine)


class ForgetsTheLimit(SqliteJournal):
    async def failed_runs(self, since_ms: int, limit: int) -> Sequence[str]:
        return await super().failed_runs(since_ms, 1_000)


class FindsRecentRunsOnly(SqliteJournal):
    async def repeated_effects(
        self, run_id: str, since_ms: int, limit: int
    ) -> Sequence[tuple[str, str]]:
        return (await super().repeated_effects(run_id, since_ms, limit))[:1]


class RevisesStaleRevisions(SqliteJournal):
    async def revise(self, run: RunRow) -> Lease:
        found = await self.find(run.run_id)
        return await super().revise(replace(run, revision=found.revision if found else 1))


class ForgetsTenants(SqliteJournal):
    def start_run(self, run: RunRow) -> Lease:
        return super().start_run(replace(run, tenant=""))


class WritesWithoutLease(SqliteJournal):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._writer._store._is_valid = lambda lease: True  # type: ignore[attr-defined]  # a wrong store


class RepeatsEvents(SqliteJournal):
    async def events(self, run_id: str, after: int = 0, limit: int = 1_000) -> Sequence[EventRow]:
        found = await super().events(run_id, after, limit)
        return [*found, *found]


class RepeatsTies(SqliteJournal):
    """Continues a list by the time alone."""

    async def runs(self, query: RunQuery = NEWEST_RUNS) -> RunPage:
        if query.after is not None:
            at, _ = query.after.split("-")
            query = replace(query, after=f"{at}-{10**17}")
        return await super().runs(query)


class CountsNoSizes(SqliteJournal):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._writer.take_size = lambda lease: 0  # type: ignore[method-assign]  # a wrong store


MUTANTS: dict[str, type[SqliteJournal]] = {
    "any_value_is_read_back": ChangesText,
    "attempts_are_counted": NeverTires,
    "closed_journal_refuses": AnswersAfterClose,
    "documents_change_once": RepeatsChanges,
    "entries_are_read_back_in_order": ForgetsOrder,
    "events_are_stored_once": RepeatsEvents,
    "failed_runs_are_listed": ForgetsTheLimit,
    "first_decision_counts": CountsEachDecision,
    "id_is_used_once": HidesLosses,
    "lost_lease_writes_nothing": WritesWithoutLease,
    "one_of_many_acquires": GivesLeasesAway,
    "reads_see_earlier_entries": WritesLate,
    "repeated_effects_are_found": FindsRecentRunsOnly,
    "revise_archives_the_record": RevisesStaleRevisions,
    "rollback_takes_any_run": ResumesAfterRollback,
    "run_has_one_holder": GivesLeasesAway,
    "running_call_has_its_last_partial_value": KeepsFirstValues,
    "runs_are_listed_and_deleted": ListsOldestFirst,
    "runs_are_filtered_in_pages": RepeatsTies,
    "sizes_are_counted": CountsNoSizes,
    "tenants_are_stored": ForgetsTenants,
    "unstorable_value_costs_one_run": HidesFailures,
    "used_decision_is_asked_again": KeepsUsedDecisions,
}


@pytest.mark.parametrize("check", JOURNAL_CHECKS, ids=lambda check: check.__name__)
async def test_check_finds_the_store_that_breaks_its_promise(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    wrong = MUTANTS[check.__name__]
    with pytest.raises(AssertionError):
        await check(partial(wrong, tmp_path / "journal.sqlite3"))


# --- stores that break promises to other processes ----------------------------------------------


class ConfirmsEarly(SqliteJournal):
    """Passes a barrier before the entries are written."""

    async def barrier(self, lease: Lease) -> None:
        self._leases.check(lease)


class UsesWallClock(SqliteJournal):
    """Expires leases by the clock of each machine."""

    def _find_holder(self, run: Any) -> str | None:
        holder = super()._find_holder(run)
        return None if time.time() - os.stat(self._db.label).st_mtime > 60 else holder


class NeverBeats(SqliteJournal):
    """Sends no heartbeat while a run is idle, and trusts no process to be alive."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self._workers.is_due = lambda: self._workers._beat_at is None  # type: ignore[method-assign]  # a wrong store


PROCESS_MUTANTS: dict[str, type[SqliteJournal]] = {
    "clock_of_a_process_expires_nothing": UsesWallClock,
    "frozen_holder_is_fenced": HidesLosses,
    "killed_holder_loses_nothing_confirmed": ConfirmsEarly,
    "live_holder_keeps_its_lease": NeverBeats,
    "one_of_two_processes_acquires": GivesLeasesAway,
}


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the loop does not matter
@pytest.mark.parametrize("check", JOURNAL_PROCESS_CHECKS, ids=lambda check: check.__name__)
async def test_check_with_processes_finds_the_wrong_store(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    wrong = PROCESS_MUTANTS[check.__name__]
    with pytest.raises(AssertionError):
        await check(partial(wrong, tmp_path / "journal.sqlite3", lease_seconds=1))


async def test_store_that_other_processes_cannot_open_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be picklable, such as a function of a module"):
        await JOURNAL_PROCESS_CHECKS[0](lambda: SqliteJournal(tmp_path / "journal.sqlite3"))
